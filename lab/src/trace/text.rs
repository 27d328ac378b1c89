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

use super::record::{Kind, NO_RECORD, Ref};

/// Longest line that is sure to be taken, bytes.
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

/// What is wrong with a line. Small, because every line might be: messages are made when needed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    Label,
    DinLabel,
    NoBlank,
    Address,
    Comma,
    Size,
    Decimal,
    Lackey,
    /// The record itself is impossible.
    Record,
}

impl Fault {
    fn text(self, record: Ref) -> String {
        let hex = "expected a hexadecimal number of up to 64 bits";
        match self {
            Fault::Label => "no label; expected one of r w i m c v".to_owned(),
            Fault::DinLabel => "no label; expected 0 to 5 and a blank".to_owned(),
            Fault::NoBlank => "no blank after the label; expected `LABEL ADDRESS SIZE`".to_owned(),
            Fault::Address => format!("no address; {hex}"),
            Fault::Comma => format!("no address; {hex} and a comma"),
            Fault::Size => format!("no size; {hex}"),
            Fault::Decimal => "no size; expected a decimal number after the comma".to_owned(),
            Fault::Lackey => {
                let expected = "expected `I  `, ` L `, ` S ` or ` M ` and `ADDRESS,SIZE`";
                format!("no record of lackey; {expected}")
            }
            Fault::Record => record.fault(),
        }
    }
}

/// Runs a line parser over `text`. The parser fills a record in and says whether the line is one.
#[inline(always)]
fn lines(
    text: &[u8],
    out: &mut Vec<Ref>,
    most: usize,
    line: impl Fn(&mut Line<'_>, &mut Ref) -> Result<bool, Fault>,
) -> Parsed {
    let mut done = Parsed {
        bytes: 0,
        lines: 0,
        wrong: None,
    };
    let mut at = Line { text, at: 0 };
    let mut have = out.len();
    out.resize(most, NO_RECORD);
    while have < most && at.at < text.len() {
        match line(&mut at, &mut out[have]) {
            Ok(is_record) => have += usize::from(is_record),
            Err(fault) => {
                let what = fault.text(out[have]);
                done.wrong = Some(format!("{what}, in `{}`", shown(&text[done.bytes..])));
                break;
            }
        }
        at.skip_rest();
        done.bytes = at.at;
        done.lines += 1;
    }
    out.truncate(have);
    done
}

/// A cursor in text that has a newline ahead.
struct Line<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Line<'a> {
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

    /// The next bytes, of which any can be looked at without asking whether it is there.
    #[inline]
    fn window(&self) -> Option<&'a [u8; 32]> {
        self.text[self.at..].first_chunk()
    }

    /// Address and size as they mostly are: digits at `START`, `SEPARATOR`, one or two digits to the
    /// base `RADIX`, newline. If so, puts them in and goes to the newline; otherwise does nothing.
    ///
    /// Digit by digit: most lines are as long as the one before, so the processor guesses the end and
    /// goes on with the next line, which finding the end by arithmetic would make it wait for.
    #[inline]
    fn plain_fields<const START: usize, const SEPARATOR: u8, const RADIX: u8>(
        &mut self,
        window: &[u8; 32],
        out: &mut Ref,
    ) -> bool {
        let at = |n: usize| window[n & 31];
        let digit = |n: usize| HEX[usize::from(at(n))];
        let mut n = START;
        let mut va = 0_u64;
        while digit(n) < 16 && n < START + 16 {
            va = va << 4 | u64::from(digit(n));
            n += 1;
        }
        let (first, second) = (digit(n + 1), digit(n + 2));
        let (size, end) = if at(n + 2) == b'\n' {
            (u32::from(first), n + 2)
        } else {
            (
                u32::from(first) * u32::from(RADIX) + u32::from(second),
                n + 3,
            )
        };
        let digits = first < RADIX && (end == n + 2 || second < RADIX);
        if n == START || at(n) != SEPARATOR || !digits || at(end) != b'\n' {
            return false;
        }
        let kind = out.kind;
        if !(Ref { va, size, kind }).is_possible() {
            return false;
        }
        (out.va, out.size) = (va, size);
        self.at += end;
        true
    }

    /// A hexadecimal number that ends where `ends` says.
    #[inline]
    fn hex(&mut self, fault: Fault, ends: impl Fn(u8) -> bool) -> Result<u64, Fault> {
        let from = self.at;
        let mut value = 0_u64;
        loop {
            let digit = HEX[usize::from(self.peek())];
            if digit > 15 {
                break;
            }
            value = value << 4 | u64::from(digit);
            self.at += 1;
        }
        let digits = self.at - from;
        if (1..=16).contains(&digits) && ends(self.peek()) {
            return Ok(value);
        }
        self.odd_hex(from, fault, ends)
    }

    /// A number from `from` on that is long, or starts with `0x`, or is none.
    #[cold]
    fn odd_hex(
        &mut self,
        from: usize,
        fault: Fault,
        ends: impl Fn(u8) -> bool,
    ) -> Result<u64, Fault> {
        let text = &self.text[from..];
        let prefix = text.starts_with(b"0x") || text.starts_with(b"0X");
        let from = if prefix { from + 2 } else { from };
        self.at = from;
        while self.peek().is_ascii_hexdigit() {
            self.at += 1;
        }
        let digits = std::str::from_utf8(&self.text[from..self.at]).unwrap_or_default();
        let value = u64::from_str_radix(digits, 16).map_err(|_| fault)?;
        if ends(self.peek()) {
            Ok(value)
        } else {
            Err(fault)
        }
    }

    #[inline]
    fn decimal(&mut self) -> Result<u64, Fault> {
        let from = self.at;
        let mut value = 0_u64;
        while self.peek().is_ascii_digit() {
            let digit = u64::from(self.peek() - b'0');
            value = value.saturating_mul(10).saturating_add(digit);
            self.at += 1;
        }
        if self.at == from || !ends_field(self.peek()) {
            return Err(Fault::Decimal);
        }
        Ok(value)
    }
}

#[inline]
fn xdin_line(line: &mut Line, out: &mut Ref) -> Result<bool, Fault> {
    if let Some(window) = line.window() {
        let kind = Kind::from_code(XDIN_KIND[usize::from(window[0])]);
        if let (Some(kind), b' ') = (kind, window[1]) {
            out.kind = kind;
            if line.plain_fields::<2, b' ', 16>(window, out) {
                return Ok(true);
            }
        }
    }
    line.skip_blanks();
    let kind = XDIN_KIND[usize::from(line.peek())];
    out.kind = Kind::from_code(kind).ok_or(Fault::Label)?;
    line.at += 1;
    if !is_blank(line.peek()) {
        return Err(Fault::NoBlank);
    }
    line.skip_blanks();
    out.va = line.hex(Fault::Address, ends_field)?;
    line.skip_blanks();
    let size = line.hex(Fault::Size, ends_field)?;
    finish(out, size)
}

#[inline]
fn din_line(line: &mut Line, out: &mut Ref) -> Result<bool, Fault> {
    line.skip_blanks();
    out.kind = match line.hex(Fault::DinLabel, is_blank)? {
        0 => Kind::Read,
        1 => Kind::Write,
        2 => Kind::Fetch,
        3 => Kind::Modify,
        4 => Kind::Clean,
        5 => Kind::Invalidate,
        _ => return Err(Fault::DinLabel),
    };
    line.skip_blanks();
    out.va = line.hex(Fault::Address, ends_field)? & !3;
    finish(out, 4)
}

#[inline]
fn lackey_line(line: &mut Line, out: &mut Ref) -> Result<bool, Fault> {
    let head = &line.text[line.at..];
    out.kind = match head {
        [b'I', b' ', b' ', ..] => Kind::Fetch,
        [b' ', b'L', b' ', ..] => Kind::Read,
        [b' ', b'S', b' ', ..] => Kind::Write,
        [b' ', b'M', b' ', ..] => Kind::Modify,
        [b'=', b'=', ..] | [b'-', b'-', ..] | [b'S', b'B', b' ', ..] => return Ok(false),
        [b'\n', ..] | [b'\r', b'\n', ..] => return Ok(false),
        _ => return Err(Fault::Lackey),
    };
    if let Some(window) = line.window()
        && line.plain_fields::<3, b',', 10>(window, out)
    {
        return Ok(true);
    }
    line.at += 3;
    out.va = line.hex(Fault::Comma, |b| b == b',')?;
    line.at += 1;
    let size = line.decimal()?;
    finish(out, size)
}

/// Puts the size in, if the record is possible with it.
#[inline]
fn finish(out: &mut Ref, size: u64) -> Result<bool, Fault> {
    // What does not fit is too large in any case.
    out.size = u32::try_from(size).unwrap_or(u32::MAX);
    let (va, size, kind) = (out.va, out.size, out.kind);
    if !(Ref { va, size, kind }).is_possible() {
        return Err(Fault::Record);
    }
    Ok(true)
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

/// Code of a kind by its label in xdin; no kind's code for everything else.
const XDIN_KIND: [u8; 256] = {
    let mut table = [0xff; 256];
    let kinds = [
        (b'r', Kind::Read),
        (b'w', Kind::Write),
        (b'i', Kind::Fetch),
        (b'm', Kind::Modify),
        (b'c', Kind::Clean),
        (b'v', Kind::Invalidate),
    ];
    let mut n = 0;
    while n < kinds.len() {
        let (label, kind) = kinds[n];
        table[label as usize] = kind as u8;
        table[label.to_ascii_uppercase() as usize] = kind as u8;
        n += 1;
    }
    table
};
