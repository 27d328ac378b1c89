//! Progress of long work, with its rate, on a terminal only.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::source::Position;

/// A bar over the bytes of the files.
pub struct Progress {
    bar: ProgressBar,
    position: Position,
    records: u64,
}

impl Progress {
    /// A bar for so many bytes, if they are known. Nothing is drawn where standard error is no
    /// terminal.
    pub fn new(bytes: Option<u64>, position: Position) -> Self {
        let target = ProgressDrawTarget::stderr_with_hz(5);
        let bar = ProgressBar::with_draw_target(bytes, target);
        let template = match bytes {
            Some(_) => "{bar:30} {bytes}/{total_bytes} {msg}",
            None => "{spinner} {bytes} {msg}",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        let records = 0;
        Self {
            bar,
            position,
            records,
        }
    }

    /// Counts records as done.
    pub fn advance(&mut self, records: usize) {
        let before = self.records >> 18;
        self.records += records as u64;
        if self.records >> 18 != before && !self.bar.is_hidden() {
            let seconds = self.bar.elapsed().as_secs_f64().max(1e-3);
            let rate = self.records as f64 / seconds / 1e6;
            self.bar.set_position(self.position.bytes());
            self.bar.set_message(format!("{rate:.1} M references/s"));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
