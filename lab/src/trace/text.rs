//! The text forms: Valgrind's lackey, Dinero's `din` and `xdin`.
//!
//! | form | line | notes |
//! |---|---|---|
//! | lackey | `I  0401ab70,3`, ` L 1fff,8`, ` S …`, ` M …` | hexadecimal address, decimal size; lines of Valgrind itself (`==`, `--`) and `SB` lines are skipped |
//! | xdin | `r 1fff 8` | hexadecimal, `0x` allowed; `r w i m c v`; the rest of the line is a comment |
//! | din | `2 430d70` | as Dinero IV: 0 read, 1 write, 2 fetch, 3 misc, 4 copy back, 5 invalidate; the address is rounded down to a word, the size is 4; the rest of the line is a comment |
//!
//! Every line ends in a newline: a last line without one is taken for a truncated file, because a
//! cut address is an address too.

use super::record::{Kind, Ref};

/// Longest line, bytes.
pub const LINE_MAX: usize = 1 << 16;

/// A text form.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// `valgrind --tool=lackey --trace-mem=yes`.
    Lackey,
    /// Dinero's traditional form.
    Din,
    /// Dinero's extended form.
    Xdin,
}

/// What a parser did with a run of whole lines.
pub struct Parsed {
    /// Bytes used.
    pub bytes: usize,
    /// Lines used.
    pub lines: u64,
    /// What is wrong with the line after those, if anything.
    pub wrong: Option<String>,
}

impl Form {
    /// Guesses the form from the first line.
    pub fn guess(first: &[u8]) -> Option<Self> {
        let line = first.split(|b| *b == b'\n').next().unwrap_or_default();
        let valgrind = [&b"=="[..], b"--", b"SB "];
        if valgrind.iter().any(|p| line.starts_with(p)) || line.contains(&b',') {
            return Some(Form::Lackey);
        }
        let label = line.iter().find(|b| !is_blank(**b))?;
        match label.to_ascii_lowercase() {
            b'r' | b'w' | b'i' | b'm' | b'c' | b'v' => Some(Form::Xdin),
            b'0'..=b'9' => Some(Form::Din),
            _ => None,
        }
    }

    /// Parses whole lines of `text`, which ends in a newline, until `out` holds `most` records.
    pub fn parse(self, text: &[u8], out: &mut Vec<Ref>, most: usize) -> Parsed {
        match self {
            Form::Lackey => lines(text, out, most, lackey_line),
            Form::Din => lines(text, out, most, din_line),
            Form::Xdin => lines(text, out, most, xdin_line),
        }
    }
}

/// Runs a line parser. It gets the text from its line on and returns the record, if the line is
/// one, and where the line's newline was reached or passed over.
#[inline(always)]
fn lines(
    text: &[u8],
    out: &mut Vec<Ref>,
    most: usize,
    line: impl Fn(&mut Line) -> Result<Option<Ref>, String>,
) -> Parsed {
    let mut done = Parsed {
        bytes: 0,
        lines: 0,
        wrong: None,
    };
    let mut at = Line { text, at: 0 };
    while out.len() < most && at.at < text.len() {
        match line(&mut at) {
            Ok(Some(record)) => out.push(record),
            Ok(None) => {}
            Err(what) => {
                done.wrong = Some(format!("{what}, in `{}`", shown(&text[done.bytes..])));
                return done;
            }
        }
        at.skip_rest();
        done.bytes = at.at;
        done.lines += 1;
    }
    done
}

/// A cursor in text that ends in a newline.
struct Line<'a> {
    text: &'a [u8],
    at: usize,
}

impl Line<'_> {
    #[inline]
    fn peek(&self) -> u8 {
        self.text[self.at]
    }

    #[inline]
    fn skip_blanks(&mut self) {
        while is_blank(self.peek()) {
            self.at += 1;
        }
    }

    /// Goes past the newline.
    #[inline]
    fn skip_rest(&mut self) {
        while self.peek() != b'\n' {
            self.at += 1;
        }
        self.at += 1;
    }

    /// A hexadecimal number that ends where `ends` says.
    #[inline]
    fn hex(&mut self, what: &str, ends: impl Fn(u8) -> bool) -> Result<u64, String> {
        let from = self.at;
        let (mut value, mut lost) = (0_u64, 0);
        loop {
            let digit = HEX[usize::from(self.peek())];
            if digit > 15 {
                break;
            }
            lost |= value >> 60;
            value = value << 4 | u64::from(digit);
            self.at += 1;
        }
        if self.at != from && lost == 0 && ends(self.peek()) {
            return Ok(value);
        }
        self.hex_again(from, what, ends)
    }

    /// The rare forms: a leading `0x`, or a number that is none.
    #[cold]
    fn hex_again(
        &mut self,
        from: usize,
        what: &str,
        ends: impl Fn(u8) -> bool,
    ) -> Result<u64, String> {
        let prefixed = self.at == from + 1 && self.text[from] == b'0';
        if prefixed && self.peek().eq_ignore_ascii_case(&b'x') && HEX[self.next()] < 16 {
            self.at += 1;
            return self.hex(what, ends);
        }
        Err(format!(
            "no {what}; expected a hexadecimal number of up to 64 bits"
        ))
    }

    /// The byte after the next, as an index; a newline at the text's end.
    fn next(&self) -> usize {
        usize::from(self.text.get(self.at + 1).copied().unwrap_or(b'\n'))
    }

    fn decimal(&mut self) -> Result<u64, String> {
        let from = self.at;
        let mut value = 0_u64;
        while self.peek().is_ascii_digit() {
            value = value
                .saturating_mul(10)
                .saturating_add(u64::from(self.peek() - b'0'));
            self.at += 1;
        }
        if self.at == from || !ends_field(self.peek()) {
            return Err("no size; expected a decimal number after the comma".to_owned());
        }
        Ok(value)
    }
}

#[inline]
fn xdin_line(line: &mut Line) -> Result<Option<Ref>, String> {
    line.skip_blanks();
    let kind = match line.peek() | 0x20 {
        b'r' => Kind::Read,
        b'w' => Kind::Write,
        b'i' => Kind::Fetch,
        b'm' => Kind::Modify,
        b'c' => Kind::Clean,
        b'v' => Kind::Invalidate,
        _ => return Err("no label; expected one of r w i m c v".to_owned()),
    };
    line.at += 1;
    if !is_blank(line.peek()) {
        return Err("label is not followed by a blank; expected `LABEL ADDRESS SIZE`".to_owned());
    }
    line.skip_blanks();
    let va = line.hex("address", ends_field)?;
    line.skip_blanks();
    let size = line.hex("size", ends_field)?;
    Ref::checked(kind, va, size).map(Some)
}

#[inline]
fn din_line(line: &mut Line) -> Result<Option<Ref>, String> {
    line.skip_blanks();
    let kind = match line.hex("label", is_blank)? {
        0 => Kind::Read,
        1 => Kind::Write,
        2 => Kind::Fetch,
        3 => Kind::Modify,
        4 => Kind::Clean,
        5 => Kind::Invalidate,
        label => return Err(format!("label is {label:x}; expected 0 to 5")),
    };
    line.skip_blanks();
    let va = line.hex("address", ends_field)? & !3;
    Ref::checked(kind, va, 4).map(Some)
}

#[inline]
fn lackey_line(line: &mut Line) -> Result<Option<Ref>, String> {
    let head = &line.text[line.at..];
    let kind = match head {
        [b'I', b' ', b' ', ..] => Kind::Fetch,
        [b' ', b'L', b' ', ..] => Kind::Read,
        [b' ', b'S', b' ', ..] => Kind::Write,
        [b' ', b'M', b' ', ..] => Kind::Modify,
        [b'=', b'=', ..] | [b'-', b'-', ..] | [b'S', b'B', b' ', ..] => return Ok(None),
        [b'\n', ..] | [b'\r', b'\n', ..] => return Ok(None),
        _ => {
            let expected = "expected `I  `, ` L `, ` S ` or ` M ` and `ADDRESS,SIZE`";
            return Err(format!("no record of lackey; {expected}"));
        }
    };
    line.at += 3;
    let va = line.hex("address before a comma", |b| b == b',')?;
    line.at += 1;
    let size = line.decimal()?;
    Ref::checked(kind, va, size).map(Some)
}

#[inline]
fn is_blank(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

#[inline]
fn ends_field(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

/// The start of a line, for a message.
pub fn shown(text: &[u8]) -> String {
    let line = text.split(|b| *b == b'\n').next().unwrap_or_default();
    let cut = &line[..line.len().min(40)];
    cut.escape_ascii().to_string()
}

/// Value of a hexadecimal digit; above 15 for everything else.
const HEX: [u8; 256] = {
    let mut table = [0xff; 256];
    let mut n = 0;
    while n < 16 {
        table[b"0123456789abcdef"[n] as usize] = n as u8;
        table[b"0123456789ABCDEF"[n] as usize] = n as u8;
        n += 1;
    }
    table
};
