//! The restatement: pages with lists of mappings, and how a page is cached (`pmap_fix_cache`). The verbs are
//! in `verbs`.

mod verbs;

use pmap::Prot;

/// Bytes of a page.
pub const BYTES: u32 = 4096;
/// The kernel's space.
pub const KERNEL: u16 = 0;

/// Whether something holds or not, by the names of the reference.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Flags {
    pub modified: bool,
    pub referenced: bool,
    pub write: bool,
    pub exec: bool,
    pub nc: bool,
    pub mwc: bool,
    pub unman: bool,
}

/// One mapping, with its entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mapping {
    pub space: u16,
    pub va: u32,
    pub flags: Flags,
    pub pte_write: bool,
    pub pte_cached: bool,
    pub pte_valid: bool,
}

#[derive(Clone, Debug, Default)]
pub struct Page {
    /// Newest first.
    pub list: Vec<Mapping>,
    /// The only mapping, if it is an untracked one.
    pub kva: Option<Mapping>,
    /// Mappings that no record is kept of any more (B27).
    forgotten: Vec<Mapping>,
    attr_modified: bool,
    attr_referenced: bool,
    writeable: bool,
}

/// The pages and who runs.
#[derive(Clone, Debug, Default)]
pub struct Naive {
    pub pages: [Page; 2],
    /// Whose process runs; none in a kernel thread.
    current: Option<u16>,
    /// Whose space the hardware holds.
    live: Option<u16>,
    pub done: Vec<(String, u16, u32)>,
}

/// What `pmap_clearbit` is to clear.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mask {
    /// Which implies MOD.
    Write,
    Mod,
    Ref,
}

impl Page {
    fn find(&self, space: u16, va: u32) -> Option<usize> {
        let here = |m: &Mapping| m.space == space && m.va == va;
        self.list.iter().position(here)
    }

    /// A mapping that is on no list.
    fn untracked(&self, space: u16, va: u32) -> Option<&Mapping> {
        let mut all = self.kva.iter().chain(&self.forgotten);
        all.find(|m| m.space == space && m.va == va)
    }

    fn untracked_mut(&mut self, space: u16, va: u32) -> &mut Mapping {
        let mut all = self.kva.iter_mut().chain(&mut self.forgotten);
        let found = all.find(|m| m.space == space && m.va == va);
        found.expect("it is mapped")
    }

    /// `pv_kva` holds one address; what it held before is forgotten.
    fn keep(&mut self, m: Mapping) {
        self.forgotten.extend(self.kva.replace(m));
    }

    fn no_writer_left(&mut self) {
        if self.list.iter().all(|m| !m.flags.write) {
            self.attr_modified = false;
            self.writeable = false;
        }
    }

    /// `pmap_enter_pv`.
    fn enter_pv(&mut self, m: Mapping) {
        if let Some(mut kva) = self.kva.take() {
            kva.flags = Flags {
                write: true,
                unman: true,
                ..Flags::default()
            };
            self.list.insert(0, kva);
        }
        self.list.insert(0, m);
        self.attr_modified |= m.flags.modified;
        self.attr_referenced |= m.flags.referenced;
    }
}

impl Naive {
    fn is_current(&self, space: u16) -> bool {
        space == KERNEL || self.current == Some(space)
    }

    fn op(&mut self, name: &str, space: u16, va: u32) {
        self.done.push((name.to_owned(), space, va));
    }

    /// The page mapped there.
    fn mapped(&self, space: u16, va: u32) -> Option<usize> {
        self.pages
            .iter()
            .position(|p| p.untracked(space, va).is_some() || p.find(space, va).is_some())
    }

    /// TLB single flush by the flags; every wrapper does nothing unless the pmap is current.
    fn tlb(&mut self, m: &Mapping) {
        if self.is_current(m.space) && m.flags.referenced {
            let name = if m.flags.exec {
                "tlb_flush_id"
            } else {
                "tlb_flush_d"
            };
            self.op(name, m.space, m.va);
        }
    }

    /// EXECD: both caches; else REFD: the data cache, by `data`.
    fn cache(&mut self, m: &Mapping, data: &str) {
        if self.is_current(m.space) && m.flags.referenced {
            let name = if m.flags.exec { "idcache_wbinv" } else { data };
            self.op(name, m.space, m.va);
        }
    }

    fn set_cache(&mut self, p: usize, n: usize, on: bool, entering: Option<(u16, u32)>) {
        let m = self.pages[p].list[n];
        if on {
            self.tlb(&m);
        } else if entering != Some((m.space, m.va)) {
            let data = if m.flags.write {
                "dcache_wbinv"
            } else {
                "dcache_inv"
            };
            self.cache(&m, data);
            self.tlb(&m);
        }
        self.pages[p].list[n].pte_cached = on;
    }

    /// 2.2.
    fn fix_cache(&mut self, page: usize, pm: u16, va: Option<u32>) {
        let user = pm != KERNEL;
        let (mut writable, mut kwritable, mut uwritable) = (0, 0, 0);
        let (mut kentries, mut entries, mut uentries) = (0, 0, 0);
        for m in &self.pages[page].list {
            let write = i32::from(m.flags.write);
            writable += write;
            if m.space == KERNEL {
                kwritable += write;
                kentries += 1;
            } else {
                entries += 1;
            }
            if user && m.space == pm {
                uwritable += write;
                uentries += 1;
            }
        }
        let udup = user && ((uentries > 1 && uwritable > 0) || uwritable > 1);
        let entering = va.map(|va| (pm, va));
        for n in 0..self.pages[page].list.len() {
            let p = &mut self.pages[page].list[n];
            let kernel = p.space == KERNEL;
            let near = user && (p.space == pm || kernel);
            if near && udup {
                p.flags.mwc |= !kernel;
            } else if near {
                p.flags.mwc = false;
            }
            let k = (kwritable > 0 && (entries > 0 || kentries > 1))
                || kwritable > 1
                || (kwritable != writable
                    && kentries > 0
                    && (kernel || p.flags.write || p.flags.mwc));
            if (near && udup) || k {
                if !p.flags.nc {
                    p.flags.nc = true;
                    self.set_cache(page, n, false, entering);
                }
            } else if !user && !p.flags.mwc && p.flags.nc {
                p.flags.nc = false;
                self.set_cache(page, n, true, entering);
            } else if user && near && p.flags.nc {
                (p.flags.nc, p.flags.mwc) = (false, false);
                self.set_cache(page, n, true, entering);
            }
        }
        self.pages[page].no_writer_left();
    }

    /// `pmap_nuke_pv`.
    fn nuke_pv(&mut self, page: usize, n: usize) -> Mapping {
        let p = &mut self.pages[page];
        let gone = p.list.remove(n);
        if p.list.is_empty() {
            p.attr_referenced = false;
        }
        let f = gone.flags;
        if f.nc && (gone.space == KERNEL || f.write || !f.mwc) {
            self.fix_cache(page, gone.space, None);
        } else if f.write {
            p.no_writer_left();
        }
        let p = &mut self.pages[page];
        if p.list.len() == 1 && p.list[0].flags.unman {
            let last = p.list.remove(0);
            p.keep(last);
            (p.attr_modified, p.attr_referenced) = (false, false);
            p.writeable = false;
        }
        gone
    }

    /// `pmap_remove_pv`: what was on the list.
    fn remove_pv(&mut self, page: usize, space: u16, va: u32) -> Option<Mapping> {
        if let Some(n) = self.pages[page].find(space, va) {
            return Some(self.nuke_pv(page, n));
        }
        let here = |m: &Mapping| m.space == space && m.va == va;
        let p = &mut self.pages[page];
        p.kva = p.kva.filter(|m| !here(m));
        p.forgotten.retain(|m| !here(m));
        None
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rights {
    R,
    Rx,
    Rw,
    Rwx,
}

impl Rights {
    fn write(self) -> bool {
        matches!(self, Rights::Rw | Rights::Rwx)
    }

    fn exec(self) -> bool {
        matches!(self, Rights::Rx | Rights::Rwx)
    }

    pub fn prot(self) -> Prot {
        let mut prot = Prot::READ;
        prot.set(Prot::WRITE, self.write());
        prot.set(Prot::EXEC, self.exec());
        prot
    }
}

#[derive(Clone, Copy, Debug)]
pub enum Verb {
    Enter(usize, u16, u32, Rights),
    Kenter(usize, u32),
    Kremove(u32),
    Qenter(usize, u32),
    Qremove(u32),
    Remove(u16, u32, u32),
    Protect(u16, u32, u32),
    RemoveWrite(usize),
    ClearModify(usize),
    ClearReference(usize),
    RemoveAll(usize),
    RemovePages(u16),
    Fault(u16, u32, bool),
    Switch(u16),
    SwitchKernel,
}
