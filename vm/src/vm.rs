//! State of the VM: pages, objects, spaces, and which space each CPU's process has.
//!
//! Source: FreeBSD's globals of `vm/`. A value: equal inputs give equal states, and a clone goes its
//! own way. Absent: locks (an operation of another CPU runs whole, at a micro-step).

use machine::memory::mix;
use machine::{CpuId, Frame, Mark, VirtAddr};
use pmap::Prot;

use crate::ctx::VmCtx;
use crate::map::Vmspace;
use crate::object::Object;
use crate::page::{Page, Pages, Queue};
use crate::types::{FreeOrder, ObjectId, VmConfig, VmspaceId};

/// Most CPUs.
const CPUS: usize = 8;

/// All of the VM's state.
#[derive(Clone, Debug)]
pub struct Vm {
    /// Tunables.
    pub config: VmConfig,
    page_bytes: u32,
    pub(crate) pages: Pages,
    pub(crate) objects: Vec<Object>,
    pub(crate) spaces: Vec<Vmspace>,
    pub(crate) current: [Option<VmspaceId>; CPUS],
}

impl Vm {
    /// An empty VM that owns the frames `first..end`, with FreeBSD's tunables for pages of 4096
    /// bytes; on a machine with small pages the caller sets the user's address range.
    pub fn new(first: Frame, end: Frame, page_bytes: u32) -> Self {
        let config = VmConfig {
            free_order: FreeOrder::Lifo,
            prefault: true,
            prefault_pages: 4,
            read_ahead: 8,
            read_behind: 7,
            user_start: VirtAddr(page_bytes),
            user_end: VirtAddr(0xc000_0000),
            mmap_start: VirtAddr(0x2000_0000),
            entries_max: 4096,
            tables_max: 65536,
        };
        Self {
            config,
            page_bytes,
            pages: Pages::new(first, end),
            objects: Vec::new(),
            spaces: Vec::new(),
            current: [None; CPUS],
        }
    }

    /// An empty VM for a pmap's layout of memory and addresses.
    pub fn for_layout(layout: &pmap::Layout) -> Self {
        let mut vm = Self::new(
            Frame(layout.first_frame),
            Frame(layout.end_frame),
            layout.page,
        );
        vm.config.user_end = layout.user_end;
        if layout.user_end <= vm.config.mmap_start {
            let pages = layout.user_end.0 / layout.page;
            vm.config.mmap_start = VirtAddr(pages / 2 * layout.page);
            vm.config.user_start = VirtAddr(0);
        }
        vm
    }

    /// Page size, bytes.
    pub fn page_bytes(&self) -> u32 {
        self.page_bytes
    }

    /// The first address of the page that holds `va`.
    pub fn trunc(&self, va: VirtAddr) -> VirtAddr {
        VirtAddr(va.0 & !(self.page_bytes - 1))
    }

    /// `len` bytes in whole pages, or `None` where that is no 32-bit number.
    pub fn round(&self, len: u32) -> Option<u32> {
        len.checked_next_multiple_of(self.page_bytes)
    }

    /// An object.
    pub fn object(&self, object: ObjectId) -> &Object {
        &self.objects[object.0 as usize]
    }

    /// An object, to change.
    pub fn object_mut(&mut self, object: ObjectId) -> &mut Object {
        &mut self.objects[object.0 as usize]
    }

    /// A page of this VM.
    pub fn page(&self, frame: Frame) -> &Page {
        self.pages.get(frame)
    }

    /// A page of this VM, to change its flags.
    pub fn page_mut(&mut self, frame: Frame) -> &mut Page {
        self.pages.get_mut(frame)
    }

    /// Whether this VM gave the frame out at some time.
    pub fn owns(&self, frame: Frame) -> bool {
        self.pages.known(frame)
    }

    /// Whether a frame holds program text of a file (VV_TEXT).
    pub fn is_text(&self, frame: Frame) -> bool {
        self.owns(frame) && self.page(frame).object.is_some_and(|o| self.object(o).text)
    }

    /// The resident page of an object at an index.
    pub fn lookup(&self, object: ObjectId, pindex: u32) -> Option<Frame> {
        self.pages.lookup(object, pindex)
    }

    /// The resident pages of an object, the newest first.
    pub fn object_pages(&self, object: ObjectId) -> impl Iterator<Item = Frame> + '_ {
        self.pages.listed(self.object(object).head)
    }

    /// Free frames.
    pub fn free_pages(&self) -> u32 {
        self.pages.free_count()
    }

    /// The pages of a queue, the oldest first.
    pub fn queued(&self, queue: Queue) -> impl Iterator<Item = Frame> + '_ {
        self.pages.queued(queue)
    }

    /// Moves a page to the tail of a queue; a wired one stays on none.
    pub fn requeue(&mut self, frame: Frame, queue: Queue) {
        self.pages.requeue(frame, queue);
    }

    /// A space.
    pub fn space(&self, space: VmspaceId) -> &Vmspace {
        &self.spaces[space.0 as usize]
    }

    pub(crate) fn space_mut(&mut self, space: VmspaceId) -> &mut Vmspace {
        &mut self.spaces[space.0 as usize]
    }

    /// The pmap of a space.
    pub fn pmap_of(&self, space: VmspaceId) -> pmap::SpaceId {
        self.space(space).pmap
    }

    /// The current space of a CPU: its process's, `None` for a kernel thread.
    pub fn current(&self, cpu: CpuId) -> Option<VmspaceId> {
        self.current[usize::from(cpu.0) % CPUS]
    }

    /// What is mapped at `va`: start, end, protection.
    pub fn mapping_at(&self, space: VmspaceId, va: VirtAddr) -> Option<(VirtAddr, VirtAddr, Prot)> {
        let space = self.space(space);
        let entry = &space.entries[space.find(va.0)?];
        Some((VirtAddr(entry.start), VirtAddr(entry.end), entry.prot))
    }

    pub(crate) fn take_page(&mut self, object: Option<ObjectId>, pindex: u32) -> Option<Frame> {
        let frame = self.pages.take(self.config.free_order)?;
        match object {
            Some(object) => self.link(frame, object, pindex),
            None => self.page_mut(frame).wired = 1,
        }
        Some(frame)
    }

    fn link(&mut self, frame: Frame, object: ObjectId, pindex: u32) {
        let record = &mut self.objects[object.0 as usize];
        record.head = self.pages.insert(frame, object, pindex, record.head);
        record.resident += 1;
    }

    fn unlink(&mut self, frame: Frame) {
        let Some(object) = self.page(frame).object else {
            return;
        };
        let record = &mut self.objects[object.0 as usize];
        record.head = self.pages.remove(frame, record.head);
        record.resident -= 1;
    }

    /// Moves a page to another object or index; its mappings stay.
    pub(crate) fn page_rename(&mut self, frame: Frame, object: ObjectId, pindex: u32) {
        self.unlink(frame);
        self.link(frame, object, pindex);
    }

    pub(crate) fn give_page(&mut self, frame: Frame) {
        self.unlink(frame);
        self.pages.give(frame);
    }

    /// A hash of everything that decides future behaviour.
    pub fn fingerprint(&self) -> u64 {
        let mut h = self.pages.fingerprint(1);
        h = self.objects.iter().fold(h, |h, o| o.hash(h));
        h = self.spaces.iter().fold(h, |h, s| s.hash(h));
        h = self.current.iter().fold(h, |h, c| {
            mix(h, c.map_or(u64::from(u32::MAX), |c| u64::from(c.0)))
        });
        let c = &self.config;
        let switches = [
            c.free_order as u32 | u32::from(c.prefault) << 1,
            c.prefault_pages,
            c.read_ahead,
            c.read_behind,
            c.user_start.0,
            c.user_end.0,
            c.mmap_start.0,
        ];
        switches.iter().fold(h, |h, s| mix(h, u64::from(*s)))
    }

    /// Checks the tables against each other.
    ///
    /// # Errors
    /// What does not hold.
    pub fn check(&self) -> Result<(), String> {
        self.pages.check()?;
        for (n, space) in self.spaces.iter().enumerate().filter(|(_, s)| s.live) {
            space
                .check(&self.config, self.page_bytes)
                .map_err(|e| format!("space {n}: {e}"))?;
        }
        for n in 0..self.objects.len() {
            self.check_object(ObjectId(n as u32))?;
        }
        Ok(())
    }

    fn check_object(&self, id: ObjectId) -> Result<(), String> {
        let object = self.object(id);
        let backs = |o: &&Object| o.live && o.backing == Some(id);
        let shadows = self.objects.iter().filter(backs).count() as u32;
        let entries = self
            .spaces
            .iter()
            .filter(|s| s.live)
            .flat_map(|s| &s.entries);
        let mapped = entries.filter(|e| e.object == Some(id)).count() as u32;
        if !object.live {
            return match shadows + mapped + object.resident {
                0 => Ok(()),
                _ => Err(format!("{id:?} is gone and still used")),
            };
        }
        if shadows != object.shadows {
            return Err(format!(
                "{id:?} counts {} shadows, has {shadows}",
                object.shadows
            ));
        }
        if shadows + mapped > object.refs {
            let refs = object.refs;
            return Err(format!(
                "{id:?} has {refs} references, {shadows}+{mapped} users"
            ));
        }
        let listed = self.object_pages(id).take(object.resident as usize + 1);
        match listed.count() as u32 == object.resident {
            true => Ok(()),
            false => Err(format!(
                "{id:?} does not list its {} pages",
                object.resident
            )),
        }
    }
}

/// Runs the body of a kernel function: its begin and end are marked, its footprint is charged, and while
/// it runs, logged events lie in its span.
pub fn operation<C: VmCtx + ?Sized, T>(
    c: &mut C,
    cpu: CpuId,
    name: &'static str,
    body: impl FnOnce(&mut C) -> T,
) -> T {
    let _span = tracing::debug_span!("operation", name, cpu = cpu.0).entered();
    c.mark(cpu, Mark::Begin(name));
    c.charge(cpu, name);
    let result = body(c);
    c.mark(cpu, Mark::End);
    result
}
