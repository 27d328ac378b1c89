//! Function symbols of an ELF file, by address.

use object::{Object, ObjectSymbol, SymbolKind};

use super::record::TraceError;

/// Largest ELF file read, bytes.
const FILE_MAX: u64 = 1 << 30;

struct Symbol {
    start: u64,
    end: u64,
    name: String,
}

/// Functions in order of their addresses. A symbol without a size ends where the next begins.
pub struct Symbols(Vec<Symbol>);

impl Symbols {
    /// Reads the functions of a file that was loaded `base` bytes above its own addresses.
    ///
    /// # Errors
    /// It cannot be read, is no ELF file, or names no function.
    pub fn open(file: &str, base: u64) -> Result<Self, TraceError> {
        let failed = |e| TraceError::file(file, e);
        if std::fs::metadata(file).map_err(failed)?.len() > FILE_MAX {
            let what = format!("{file}: over {FILE_MAX} bytes; expected an ELF file");
            return Err(TraceError::Options(what));
        }
        let bytes = std::fs::read(file).map_err(failed)?;
        Self::parse(&bytes, base).map_err(|what| TraceError::Options(format!("{file}: {what}")))
    }

    /// The functions of an ELF file's bytes.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(bytes: &[u8], base: u64) -> Result<Self, String> {
        let elf = object::File::parse(bytes).map_err(|e| format!("{e}; expected an ELF file"))?;
        // ARM marks Thumb code in the lowest bit of a function's address.
        let arm = elf.architecture() == object::Architecture::Arm;
        let one = |s: object::Symbol| {
            let address = if arm { s.address() & !1 } else { s.address() };
            let start = address.wrapping_add(base);
            let end = start.saturating_add(s.size());
            let name = s.name().ok()?.to_owned();
            let function = s.kind() == SymbolKind::Text && s.is_definition();
            function.then_some(Symbol { start, end, name })
        };
        let mut all: Vec<Symbol> = elf.symbols().filter_map(one).collect();
        if all.is_empty() {
            all = elf.dynamic_symbols().filter_map(one).collect();
        }
        if all.is_empty() {
            return Err("no function symbols; expected a file that is not stripped".to_owned());
        }
        all.sort_by(|a, b| (a.start, &a.name).cmp(&(b.start, &b.name)));
        all.dedup_by_key(|s| s.start);
        for n in 0..all.len() - 1 {
            let next = all[n + 1].start;
            if all[n].end == all[n].start || all[n].end > next {
                all[n].end = next;
            }
        }
        Ok(Self(all))
    }

    /// Number of functions.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The function that holds an address.
    pub fn find(&self, va: u64) -> Option<usize> {
        let n = self.0.partition_point(|s| s.start <= va).checked_sub(1)?;
        self.holds(n, va).then_some(n)
    }

    /// Whether function `n` (which may be none) holds an address.
    #[inline]
    pub fn holds(&self, n: usize, va: u64) -> bool {
        self.0.get(n).is_some_and(|s| s.start <= va && va < s.end)
    }

    /// Name of function `n`.
    pub fn name(&self, n: usize) -> Option<&str> {
        self.0.get(n).map(|s| s.name.as_str())
    }
}
