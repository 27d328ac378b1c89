//! What each verb does to pages, flags and entries, and the maintenance it asks for, in order.

use super::{BYTES, Flags, KERNEL, Mapping, Mask, Naive, Rights, Verb};

impl Naive {
    pub fn run(&mut self, verb: Verb) {
        self.done.clear();
        match verb {
            Verb::Enter(p, s, v, r) => self.enter(p, s, v, r),
            Verb::Kenter(p, v) => self.kenter(p, v),
            Verb::Kremove(v) => self.kremove(v),
            Verb::Qenter(p, v) => self.qenter(p, v),
            Verb::Qremove(v) => self.qremove(v),
            Verb::Remove(s, v, n) => self.remove(s, v, n),
            Verb::Protect(s, v, n) => self.protect(s, v, n),
            Verb::RemoveWrite(p) => self.remove_write(p),
            Verb::ClearModify(p) => self.clear_modify(p),
            Verb::ClearReference(p) => self.clearbit(p, Mask::Ref),
            Verb::RemoveAll(p) => self.remove_all(p),
            Verb::RemovePages(s) => self.remove_pages(s),
            Verb::Fault(s, v, store) => self.fault(s, v, store),
            Verb::Switch(s) => self.switch(Some(s)),
            Verb::SwitchKernel => self.switch(None),
        }
    }

    fn enter(&mut self, page: usize, space: u16, va: u32, rights: Rights) {
        let there = self.mapped(space, va);
        let p = &mut self.pages[page];
        p.writeable |= rights.write();
        let flags = Flags {
            referenced: true,
            write: rights.write(),
            modified: rights.write() || p.attr_modified,
            exec: rights.exec(),
            ..Flags::default()
        };
        if there == Some(page) {
            return self.enter_same(page, space, va, flags);
        }
        let old = there.and_then(|q| self.remove_pv(q, space, va));
        if let Some(old) = old.filter(|m| !m.flags.nc) {
            let data = if old.flags.write {
                "dcache_wbinv"
            } else {
                "dcache_inv"
            };
            self.cache(&old, data);
        }
        self.pages[page].enter_pv(Mapping {
            space,
            va,
            flags,
            pte_write: flags.write,
            pte_cached: true,
            pte_valid: true,
        });
        if let Some(old) = old {
            self.tlb(&old);
        }
        self.fix_cache(page, space, Some(va));
    }

    /// The page that is mapped there already. If the entry does not change, this is all about its flags.
    fn enter_same(&mut self, page: usize, space: u16, va: u32, flags: Flags) {
        let p = &mut self.pages[page];
        let Some(n) = p.find(space, va) else {
            // An untracked mapping, by a managed enter: only its entry can change.
            let kva = p.untracked_mut(space, va);
            let new = (flags.write, true, true);
            let same = (kva.pte_write, kva.pte_cached, kva.pte_valid) == new;
            let downgrade = kva.pte_valid && kva.pte_write && !flags.write;
            (kva.pte_write, kva.pte_cached, kva.pte_valid) = new;
            if downgrade {
                self.op("dcache_wb", space, va);
            }
            if !same {
                self.fix_cache(page, space, Some(va));
            }
            return;
        };
        let old = p.list[n];
        let f = &mut p.list[n].flags;
        *f = Flags {
            nc: f.nc,
            mwc: f.mwc,
            unman: f.unman,
            ..flags
        };
        p.attr_modified |= flags.modified;
        p.attr_referenced = true;
        if old.flags.write != flags.write {
            self.fix_cache(page, space, None);
        }
        // What is stored now is not what the first look at the entry found (B24).
        let downgrade = old.pte_valid && old.pte_write && !flags.write;
        if self.is_current(space) && !old.flags.nc && downgrade {
            self.op("dcache_wb", space, va);
        }
        let new = (flags.write, true, true);
        if (old.pte_write, old.pte_cached, old.pte_valid) != new {
            let m = &mut self.pages[page].list[n];
            (m.pte_write, m.pte_cached, m.pte_valid) = new;
            self.tlb(&old);
            self.fix_cache(page, space, Some(va));
        }
    }

    fn kenter(&mut self, page: usize, va: u32) {
        self.kremove(va);
        let m = Mapping {
            space: KERNEL,
            va,
            flags: Flags {
                write: true,
                unman: true,
                ..Flags::default()
            },
            pte_write: true,
            pte_cached: true,
            pte_valid: true,
        };
        let p = &mut self.pages[page];
        if p.list.is_empty() && p.kva.is_none() {
            p.kva = Some(m);
        } else {
            p.enter_pv(m);
            self.fix_cache(page, KERNEL, Some(va));
        }
    }

    fn kremove(&mut self, va: u32) {
        let Some(page) = self.mapped(KERNEL, va) else {
            return;
        };
        self.remove_pv(page, KERNEL, va);
        self.op("dcache_wbinv", KERNEL, va);
        self.op("tlb_flush_d", KERNEL, va);
    }

    fn qenter(&mut self, page: usize, va: u32) {
        for m in self.pages[page].list.clone() {
            if self.is_current(m.space) && m.flags.write {
                self.op("dcache_wb", m.space, m.va);
            }
        }
        self.kenter(page, va);
    }

    fn qremove(&mut self, va: u32) {
        let Some(page) = self.mapped(KERNEL, va) else {
            return;
        };
        for m in self.pages[page].list.clone() {
            if self.is_current(m.space) {
                self.op("dcache_inv", m.space, m.va);
            }
        }
        self.kremove(va);
    }

    /// So many pages; at the fourth that is there, everything goes.
    fn remove(&mut self, space: u16, va: u32, pages: u32) {
        let mut total = 0;
        for at in (0..pages).map(|n| va + n * BYTES) {
            let Some(page) = self.mapped(space, at) else {
                continue;
            };
            let gone = self.remove_pv(page, space, at);
            if !self.is_current(space) {
                continue;
            }
            total += 1;
            // What is on no list counts as referenced.
            let (refd, exec) = gone.map_or((true, false), |m| (m.flags.referenced, m.flags.exec));
            match total {
                1..=3 if refd && exec => {
                    self.op("idcache_wbinv", space, at);
                    self.op("tlb_flush_id", space, at);
                }
                1..=3 if refd => {
                    self.op("dcache_wbinv", space, at);
                    self.op("tlb_flush_d", space, at);
                }
                4 => self.op("idcache_wbinv_all", KERNEL, 0),
                _ => {}
            }
        }
        if total > 3 {
            self.op("tlb_flush_all", KERNEL, 0);
        }
    }

    /// So many pages to read-only.
    fn protect(&mut self, space: u16, va: u32, pages: u32) {
        if self.is_current(space) {
            self.op("dcache_wb", space, va);
        }
        let mut referenced = false;
        for at in (0..pages).map(|n| va + n * BYTES) {
            let Some(page) = self.mapped(space, at) else {
                continue;
            };
            let p = &mut self.pages[page];
            let Some(n) = p.find(space, at) else {
                p.untracked_mut(space, at).pte_write = false;
                continue;
            };
            let m = p.list[n];
            if !m.pte_write {
                continue;
            }
            p.list[n].pte_write = false;
            if m.flags.write {
                p.list[n].flags.write = false;
                self.fix_cache(page, space, None);
            }
            referenced |= m.flags.referenced;
            if pages < 4 {
                self.tlb(&m);
            }
        }
        if pages >= 4 && referenced && self.is_current(space) {
            self.op("tlb_flush_all", KERNEL, 0);
        }
    }

    fn clearbit(&mut self, page: usize, mask: Mask) {
        let p = &mut self.pages[page];
        match mask {
            Mask::Ref => p.attr_referenced = false,
            _ => p.attr_modified = false,
        }
        if p.list.is_empty() {
            return;
        }
        for n in 0..p.list.len() {
            self.clear_one(page, n, mask);
        }
        if mask == Mask::Write {
            self.pages[page].writeable = false;
        }
    }

    fn clear_one(&mut self, page: usize, n: usize, mask: Mask) {
        let old = self.pages[page].list[n];
        let mut new = old;
        let has = match mask {
            Mask::Write => old.flags.write || old.flags.modified,
            Mask::Mod => old.flags.modified,
            Mask::Ref => old.flags.referenced,
        };
        if mask == Mask::Write && old.flags.nc {
            new.pte_cached = true;
            (new.flags.nc, new.flags.mwc) = (false, false);
        }
        if !has {
            self.pages[page].list[n] = new;
            return;
        }
        match mask {
            Mask::Write => (new.flags.write, new.flags.modified) = (false, false),
            Mask::Mod => new.flags.modified = false,
            Mask::Ref => new.flags.referenced = false,
        }
        if mask == Mask::Ref {
            if !old.flags.nc && old.pte_write {
                self.cache(&old, "dcache_wbinv");
            } else if !old.flags.nc && old.pte_valid {
                self.cache(&old, "dcache_inv");
            }
            new.pte_valid = false;
        } else {
            if !old.flags.nc && old.pte_write {
                self.cache(&old, "dcache_wb");
            }
            new.pte_write = false;
        }
        self.pages[page].list[n] = new;
        let entry = |m: &Mapping| (m.pte_write, m.pte_cached, m.pte_valid);
        if entry(&old) != entry(&new) {
            self.tlb(&old);
        }
    }

    fn remove_write(&mut self, page: usize) {
        if self.pages[page].writeable {
            self.clearbit(page, Mask::Write);
        }
    }

    fn clear_modify(&mut self, page: usize) {
        if self.pages[page].writeable && self.pages[page].attr_modified {
            self.clearbit(page, Mask::Mod);
        }
    }

    fn remove_all(&mut self, page: usize) {
        if self.pages[page].list.is_empty() {
            return;
        }
        self.remove_write(page);
        let mut flush = false;
        while let Some(m) = self.pages[page].list.first().copied() {
            if self.is_current(m.space) {
                flush = true;
                self.op("dcache_inv", m.space, m.va);
            }
            if m.flags.unman {
                self.pages[page].keep(m);
            }
            self.nuke_pv(page, 0);
        }
        if flush {
            self.op("tlb_flush_all", KERNEL, 0);
        }
        self.pages[page].writeable = false;
    }

    fn remove_pages(&mut self, space: u16) {
        self.op("idcache_wbinv_all", KERNEL, 0);
        for page in 0..self.pages.len() {
            let mine = |m: &Mapping| m.space == space && !m.flags.unman;
            while let Some(n) = self.pages[page].list.iter().position(mine) {
                self.nuke_pv(page, n);
            }
        }
        self.op("tlb_flush_all", KERNEL, 0);
    }

    /// `pmap_fault_fixup` of a user's address.
    fn fault(&mut self, space: u16, va: u32, store: bool) {
        let Some(page) = self.mapped(space, va) else {
            return;
        };
        let p = &mut self.pages[page];
        let n = p.find(space, va).expect("user mappings are tracked");
        let m = &mut p.list[n];
        if store && !m.pte_write {
            if !m.flags.write {
                return;
            }
            (p.attr_referenced, p.attr_modified) = (true, true);
            (m.flags.referenced, m.flags.modified) = (true, true);
            (m.pte_write, m.pte_valid) = (true, true);
        } else if !m.pte_valid {
            p.attr_referenced = true;
            m.flags.referenced = true;
            m.pte_valid = true;
        }
        self.op("tlb_flush_id", space, va);
    }

    fn switch(&mut self, to: Option<u16>) {
        self.current = to;
        if let Some(space) = to
            && self.live != Some(space)
        {
            self.op("idcache_wbinv_all", KERNEL, 0);
            self.live = Some(space);
        }
    }
}
