//! SVG pictures of a run: misses over time, reuse distance, sweep curve.

use std::fmt::Display;
use std::path::Path;

use plotters::chart::ChartContext;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;

use super::record::TraceError;
use super::reuse::Histogram;
use super::timeline::Step;

const SIZE: (u32, u32) = (900, 500);
const COLOURS: [RGBColor; 5] = [BLUE, RED, GREEN, MAGENTA, BLACK];

/// A named line.
pub struct Series {
    /// What the legend calls it.
    pub name: &'static str,
    /// Points, from left to right.
    pub points: Vec<(f64, f64)>,
}

/// Titles of a picture and its axes.
struct Titles<'a> {
    picture: &'a str,
    x: &'a str,
    y: &'a str,
}

/// Misses over time, in misses per thousand references.
///
/// # Errors
/// The file cannot be written.
pub fn misses(file: &Path, steps: &[Step]) -> Result<(), TraceError> {
    let line = |name, of: fn(&Step) -> u64| {
        let mut before = 0.0;
        let point = |step: &Step| {
            let middle = before + step.references as f64 / 2.0;
            before += step.references as f64;
            (
                middle,
                of(step) as f64 * 1000.0 / step.references.max(1) as f64,
            )
        };
        let points = steps.iter().map(point).collect();
        Series { name, points }
    };
    let series = [line("l1i", |s| s.l1i), line("l1d", |s| s.l1d)];
    let titles = Titles {
        picture: "Misses over time",
        x: "references",
        y: "misses per 1000 references",
    };
    written(file, lines(file, &titles, &series, &|x| count(*x)))
}

/// Share of the references whose distance is at most that on the axis: the hits of a fully
/// associative LRU cache of so many lines.
///
/// # Errors
/// The file cannot be written.
pub fn reuse(file: &Path, histogram: &Histogram) -> Result<(), TraceError> {
    let all = histogram.buckets.iter().sum::<u64>() + histogram.cold;
    let mut sum = 0;
    let point = |(n, bucket): (usize, &u64)| {
        sum += bucket;
        (n as f64, sum as f64 * 100.0 / all.max(1) as f64)
    };
    // The last bucket has no upper end.
    let known = &histogram.buckets[..histogram.buckets.len() - 1];
    let points = known.iter().enumerate().map(point).collect();
    let series = [Series {
        name: "hits",
        points,
    }];
    let titles = Titles {
        picture: "Reuse distance",
        x: "lines of a fully associative LRU cache",
        y: "hits, % of references",
    };
    written(file, lines(file, &titles, &series, &|x| count(x.exp2())))
}

/// Miss rates over the setups of a sweep, `labels` being theirs.
///
/// # Errors
/// The file cannot be written.
pub fn sweep(file: &Path, labels: &[String], series: &[Series]) -> Result<(), TraceError> {
    let titles = Titles {
        picture: "Sweep",
        x: "setup",
        y: "misses, % of accesses",
    };
    let label = |x: &f64| {
        let near = x.round();
        let label = labels
            .get(near as usize)
            .filter(|_| (x - near).abs() < 0.01);
        label.cloned().unwrap_or_default()
    };
    written(file, lines(file, &titles, series, &label))
}

fn written<E: Display>(file: &Path, result: Result<(), E>) -> Result<(), TraceError> {
    let name = file.display().to_string();
    result.map_err(|e| TraceError::file(&name, std::io::Error::other(e.to_string())))
}

fn count(x: f64) -> String {
    match x {
        x if x >= 1e6 => format!("{:.4}M", x / 1e6),
        x => format!("{x:.0}"),
    }
    .replace(".0000", "")
}

fn lines(
    file: &Path,
    titles: &Titles,
    series: &[Series],
    x_label: &dyn Fn(&f64) -> String,
) -> Result<(), Box<dyn std::error::Error>> {
    // Plotters writes when dropped and would not say that it cannot.
    std::fs::write(file, "")?;
    let root = SVGBackend::new(file, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let points = || series.iter().flat_map(|s| &s.points);
    let right = points().map(|p| p.0).fold(1.0, f64::max);
    let top = points().map(|p| p.1).fold(1e-3, f64::max) * 1.05;
    let mut chart = ChartBuilder::on(&root)
        .caption(titles.picture, ("sans-serif", 22))
        .margin(12)
        .x_label_area_size(45)
        .y_label_area_size(65)
        .build_cartesian_2d(0.0..right, 0.0..top)?;
    chart
        .configure_mesh()
        .x_desc(titles.x)
        .y_desc(titles.y)
        .x_label_formatter(x_label)
        .draw()?;
    for (one, colour) in series.iter().zip(COLOURS.iter().cycle()) {
        curve(&mut chart, one, *colour)?;
    }
    let mut legend = chart.configure_series_labels();
    legend.background_style(WHITE).border_style(BLACK).draw()?;
    root.present()?;
    Ok(())
}

fn curve(
    chart: &mut ChartContext<SVGBackend, Cartesian2d<RangedCoordf64, RangedCoordf64>>,
    series: &Series,
    colour: RGBColor,
) -> Result<(), Box<dyn std::error::Error>> {
    let points = series.points.iter().copied();
    let drawn = chart.draw_series(LineSeries::new(points, colour).point_size(2))?;
    drawn
        .label(series.name)
        .legend(move |(x, y)| PathElement::new([(x, y), (x + 15, y)], colour));
    Ok(())
}
