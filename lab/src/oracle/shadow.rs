//! What every byte of memory ought to be: the value last stored, by whom, and what a fetch may still see.

use std::sync::Arc;

use machine::PhysAddr;

/// Truth of one page.
#[derive(Clone, Debug)]
pub struct Page {
    /// The value last stored.
    pub truth: Vec<u8>,
    /// The stamp of that store.
    pub stamp: Vec<u32>,
    /// The stamp of what memory holds.
    pub memory: Vec<u32>,
    /// Which bytes matter: they were stored since the page was given out.
    pub valid: Bits,
    /// Stores that a fetch need not see yet.
    pub undue: Option<Box<Undue>>,
    /// Bytes whose last store was found lost: told once.
    pub lost: Option<Box<Bits>>,
}

/// A program's own stores that no sync has named yet.
#[derive(Clone, Debug)]
pub struct Undue {
    /// Which bytes.
    pub mask: Bits,
    /// Which of them were stored twice or more with different values, or for the first time since their
    /// frame was given out: then any value passes.
    pub many: Bits,
    /// What a fetch had to see before.
    pub base: Vec<u8>,
}

/// One bit a byte of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bits(Vec<u64>);

impl Bits {
    fn new(bytes: u32) -> Self {
        Self(vec![0; (bytes as usize).div_ceil(64)])
    }

    /// Whether the bit of `offset` is set.
    #[inline]
    pub fn get(&self, offset: usize) -> bool {
        self.0[offset / 64] >> (offset % 64) & 1 == 1
    }

    /// The bits of up to four bytes in one word of the page.
    #[inline]
    pub fn word(&self, offset: usize, len: usize) -> u64 {
        self.0[offset / 64] >> (offset % 64) & ((1 << len) - 1)
    }

    /// Sets the bits of up to four bytes in one word of the page.
    #[inline]
    pub fn set(&mut self, offset: usize, len: usize) {
        self.0[offset / 64] |= ((1 << len) - 1) << (offset % 64);
    }

    /// Sets or clears the bits of bytes in one word of 64 bits; fewer than 64.
    pub fn put(&mut self, offset: usize, len: usize, on: bool) {
        let mask = ((1 << len) - 1) << (offset % 64);
        let word = &mut self.0[offset / 64];
        *word = if on { *word | mask } else { *word & !mask };
    }

    /// Sets some of the bits of up to four bytes in one word of the page.
    #[inline]
    fn add(&mut self, offset: usize, bits: u64) {
        self.0[offset / 64] |= bits << (offset % 64);
    }

    /// Clears one bit.
    pub fn clear(&mut self, offset: usize) {
        self.0[offset / 64] &= !(1 << (offset % 64));
    }

    /// Every bit set.
    pub fn full(bytes: u32) -> Self {
        let whole = [u64::MAX].repeat(bytes as usize / 64);
        let rest = (1 << (bytes % 64)) - 1;
        let rest = (rest != 0).then_some(rest);
        Self(whole.into_iter().chain(rest).collect())
    }

    /// Whether every bit of `others` is set here.
    fn all_of(&self, others: &Bits) -> bool {
        self.0
            .iter()
            .zip(&others.0)
            .all(|(mine, other)| other & !mine == 0)
    }

    /// Whether no bit is set.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|w| *w == 0)
    }
}

impl Page {
    fn new(bytes: u32) -> Self {
        let n = bytes as usize;
        Self {
            truth: vec![0; n],
            stamp: vec![0; n],
            memory: vec![0; n],
            valid: Bits::new(bytes),
            undue: None,
            lost: None,
        }
    }

    /// Stores one aligned value of up to four bytes. `due` says whether fetches must see it at once.
    #[inline]
    pub fn store(&mut self, offset: usize, bytes: &[u8], stamp: u32, due: bool) {
        let len = bytes.len();
        if !due {
            self.defer(offset, bytes);
        } else if self.undue.is_some() {
            self.settle(offset, len);
        }
        // The usual length is known to the compiler.
        if let Ok(word) = <&[u8; 4]>::try_from(bytes) {
            self.truth[offset..offset + 4].copy_from_slice(word);
            self.stamp[offset..offset + 4].copy_from_slice(&[stamp; 4]);
        } else {
            self.truth[offset..offset + len].copy_from_slice(bytes);
            self.stamp[offset..offset + len].fill(stamp);
        }
        self.valid.set(offset, len);
        self.found(offset, len);
    }

    /// Stores an aligned word that a fetch need not see yet: [`Page::store`], in the form that programs use
    /// most.
    #[inline]
    pub fn store_own_word(&mut self, offset: usize, value: u32, stamp: u32) {
        let bytes = value.to_le_bytes();
        let all = self
            .undue
            .as_ref()
            .is_some_and(|u| u.mask.word(offset, 4) == 0xf);
        let truth = &mut self.truth[offset..offset + 4];
        match &mut self.undue {
            Some(undue) if all => {
                let differs = u32::from_le_bytes([truth[0], truth[1], truth[2], truth[3]]) ^ value;
                let differs = |n: u32| u64::from(differs >> (8 * n) & 0xff != 0) << n;
                let bits = differs(0) | differs(1) | differs(2) | differs(3);
                undue.many.add(offset, bits);
            }
            _ => return self.store(offset, &bytes, stamp, false),
        }
        truth.copy_from_slice(&bytes);
        self.stamp[offset..offset + 4].copy_from_slice(&[stamp; 4]);
        self.valid.set(offset, 4);
        self.found(offset, 4);
    }

    /// A byte's last store is nowhere any more.
    pub fn lose(&mut self, offset: usize) {
        let n = self.truth.len() as u32;
        let lost = self.lost.get_or_insert_with(|| Box::new(Bits::new(n)));
        lost.set(offset, 1);
    }

    /// Whether that was found before.
    pub fn is_lost(&self, offset: usize) -> bool {
        self.lost.as_ref().is_some_and(|l| l.get(offset))
    }

    /// These bytes are not lost: they were stored anew, or do not matter.
    #[inline]
    fn found(&mut self, offset: usize, len: usize) {
        if let Some(lost) = &mut self.lost {
            (offset..offset + len).for_each(|n| lost.clear(n));
            if lost.is_empty() {
                self.lost = None;
            }
        }
    }

    /// What the bytes that matter are from now on, whoever should have stored them; calls `changed` for each
    /// one that is not that already.
    pub fn demand(
        &mut self,
        want: &[u8],
        matter: &Bits,
        stamp: u32,
        mut changed: impl FnMut(usize),
    ) {
        if self.truth == want && self.valid.all_of(matter) {
            return;
        }
        for (offset, byte) in want.iter().enumerate() {
            if matter.get(offset) && !(self.valid.get(offset) && self.truth[offset] == *byte) {
                self.store(offset, &[*byte], stamp, true);
                changed(offset);
            }
        }
    }

    /// Whether the truth of an aligned value of up to four bytes is `value`.
    #[inline]
    pub fn is(&self, offset: usize, len: usize, value: u32) -> bool {
        let bytes = value.to_le_bytes();
        match len {
            4 => self.truth[offset..offset + 4] == bytes,
            1 => self.truth[offset] == bytes[0],
            _ => self.truth[offset..offset + len] == bytes[..len],
        }
    }

    /// A store that a fetch need not see yet.
    fn defer(&mut self, offset: usize, bytes: &[u8]) {
        let len = bytes.len();
        let Self {
            truth,
            undue,
            valid,
            ..
        } = self;
        let pending = undue.get_or_insert_with(|| {
            let n = truth.len() as u32;
            Box::new(Undue {
                mask: Bits::new(n),
                many: Bits::new(n),
                base: truth.clone(),
            })
        });
        let before = pending.mask.word(offset, len);
        if before == (1 << len) - 1 {
            let other = (0..len).fold(0, |bits, n| {
                bits | u64::from(truth[offset + n] != bytes[n]) << n
            });
            pending.many.add(offset, other);
            return;
        }
        for n in (0..len).filter(|n| before >> n & 1 == 1) {
            if truth[offset + n] != bytes[n] {
                pending.many.set(offset + n, 1);
            }
        }
        for n in (0..len).filter(|n| before >> n & 1 == 0) {
            pending.base[offset + n] = truth[offset + n];
            if !valid.get(offset + n) {
                // Nothing was due: what the frame's last owner left passes, whatever it is.
                pending.many.set(offset + n, 1);
            }
        }
        pending.mask.set(offset, len);
    }

    /// Rebuilds what is undue from the first word's base and whether several stores are.
    pub fn restore_undue(&mut self, base: Option<u32>, many: bool) {
        let Some(base) = base else {
            self.undue = None;
            return;
        };
        let n = self.truth.len();
        let undue = self.undue.get_or_insert_with(|| {
            Box::new(Undue {
                mask: Bits::new(n as u32),
                many: Bits::new(n as u32),
                base: vec![0; n],
            })
        });
        undue.mask.put(0, n, false);
        undue.many.put(0, n, false);
        undue.mask.put(0, 4, true);
        undue.many.put(0, 4, many);
        undue.base[..4].copy_from_slice(&base.to_le_bytes());
    }

    /// From now on fetches must see what these bytes are.
    pub fn settle(&mut self, offset: usize, len: usize) {
        let Some(undue) = &mut self.undue else { return };
        for n in offset..offset + len {
            undue.mask.clear(n);
            undue.many.clear(n);
        }
        if undue.mask.is_empty() {
            self.undue = None;
        }
    }

    /// Whether a fetch may see `got` although the truth differs.
    pub fn permits(&self, offset: usize, got: u8) -> bool {
        self.undue
            .as_ref()
            .is_some_and(|u| u.mask.get(offset) && (u.base[offset] == got || u.many.get(offset)))
    }

    /// These bytes do not matter any more.
    pub fn kill(&mut self, offset: usize, len: usize) {
        (offset..offset + len).for_each(|n| self.valid.clear(n));
        self.settle(offset, len);
        self.found(offset, len);
    }
}

/// Truth of all memory; a page is made when it is first stored to.
#[derive(Clone, Debug)]
pub struct Shadow {
    page_bytes: u32,
    page_shift: u32,
    pages: Vec<Option<Arc<Page>>>,
}

impl Shadow {
    /// Nothing stored yet.
    pub fn new(page_bytes: u32) -> Self {
        Self {
            page_bytes,
            page_shift: page_bytes.trailing_zeros(),
            pages: Vec::new(),
        }
    }

    /// Page number and offset of an address.
    #[inline]
    pub fn split(&self, pa: PhysAddr) -> (usize, usize) {
        (
            (pa.0 >> self.page_shift) as usize,
            (pa.0 & (self.page_bytes - 1)) as usize,
        )
    }

    /// A page, if anything was ever stored in it.
    #[inline]
    pub fn page(&self, number: usize) -> Option<&Page> {
        self.pages.get(number)?.as_deref()
    }

    /// A page as it is now, to keep while others change.
    pub fn shared(&self, number: usize) -> Option<Arc<Page>> {
        self.pages.get(number)?.clone()
    }

    /// A page, to change.
    #[inline]
    pub fn page_mut(&mut self, number: usize) -> &mut Page {
        if number >= self.pages.len() {
            self.pages.resize(number + 1, None);
        }
        let bytes = self.page_bytes;
        let page = self.pages[number].get_or_insert_with(|| Arc::new(Page::new(bytes)));
        Arc::make_mut(page)
    }

    /// Calls `each` for the parts of a range that lie in one page: page number, offset, length.
    pub fn parts(&self, pa: PhysAddr, len: u32, mut each: impl FnMut(usize, usize, usize)) {
        let (mut at, mut left) = (pa, len);
        while left > 0 {
            let (number, offset) = self.split(at);
            let part = left.min(self.page_bytes - offset as u32);
            each(number, offset, part as usize);
            at = at.add(part);
            left -= part;
        }
    }

    /// The true word at `pa`; 0 where nothing was stored.
    pub fn word(&self, pa: PhysAddr) -> u32 {
        let (number, offset) = self.split(pa);
        self.page(number).map_or(0, |page| {
            let bytes = &page.truth[offset..offset + 4];
            u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
        })
    }

    /// A hash of the truth, what matters and what is undue.
    pub fn fingerprint(&self) -> u64 {
        use machine::memory::{hash_bytes, mix};
        let mut hash = 17;
        for (n, page) in self.pages.iter().enumerate() {
            let Some(page) = page.as_deref() else {
                continue;
            };
            for offset in 0..page.truth.len() {
                if page.valid.get(offset) {
                    hash = mix(hash, (n as u64) << 32 | offset as u64);
                    hash = mix(hash, u64::from(page.truth[offset]));
                    let in_memory = page.memory[offset] == page.stamp[offset];
                    hash = mix(hash, u64::from(in_memory));
                }
            }
            if let Some(undue) = &page.undue {
                hash = hash_bytes(hash, &undue.base);
                hash = undue
                    .mask
                    .0
                    .iter()
                    .chain(&undue.many.0)
                    .fold(hash, |h, w| mix(h, *w));
            }
            if let Some(lost) = &page.lost {
                hash = lost.0.iter().fold(hash, |h, w| mix(h, *w));
            }
        }
        hash
    }
}
