//! Scopes: which actions a search tries, and the contract that makes a sequence of them a legal use of the
//! pmap ([`super::facts`] holds it against the world).
//!
//! The contract, by who acts:
//! 1. A program runs only while its space is current. It fetches only through a mapping entered with
//!    execute permission (ARMv5 cannot forbid it; the kernel relies on knowing). An access that faults is
//!    no action: the VM's answer to it is the `enter` action.
//! 2. `pmap_enter`, `pmap_remove` and `pmap_protect` of a user space are called while it is current.
//! 3. A buffer is mapped by `pmap_qenter` and belongs to a writer at once (`getblk`). A new buffer may be
//!    filled by a device only before anybody else maps its page: the page is invalid until then.
//! 4. The kernel loads from a buffer only while it is acquired, stores only while it is acquired by a writer
//!    who said so, each between `will` and `did`; nothing runs in between. A device reads from a buffer only
//!    while it is acquired.
//! 5. A buffer is unmapped only when it is released. A frame changes hands only when nothing maps it.
//! 6. The VM and the page daemon (`paging` scopes) take marks, rights or mappings away only from pages that no
//!    acquired buffer holds; `pmap_remove_all` only where no buffer does, for a buffer's pages are wired.
//! 7. A program syncs a page that its space maps once: a sync at one address does not reach the lines of another.
//! 8. Instructions are fetched ahead only from pages mapped to be executed, except in scope `wild`.

use crate::op::{Event, Op, Page, Rights, Space, Use, Va};

/// The value that a search stores, in no byte equal to one of a restored state; every witness replaces it by
/// values of its own.
pub const FRESH: u32 = 0xfefe_fefe;

/// Which lines the hardware fetches without being asked.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Speculation {
    /// None.
    Off,
    /// Data lines of any mapped page, instruction lines of pages that are mapped to be executed.
    On,
    /// Instruction lines of any mapped page as well: no ARMv5 descriptor forbids it.
    Wild,
}

/// What a search tries.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Scope {
    /// Its name, as `--scope` takes it.
    pub name: &'static str,
    /// What is in it, in words.
    pub about: &'static str,
    /// Pages of a user space that are used, the same in both spaces.
    pub user_pages: u32,
    /// Rights of mappings.
    pub rights: &'static [Rights],
    /// Processes.
    pub spaces: u8,
    /// A buffer, its events, the kernel's loads and stores through it.
    pub buffer: bool,
    /// Devices fill and read the buffer.
    pub dma: bool,
    /// The hardware may fetch lines that nobody asked for.
    pub speculation: Speculation,
    /// `pmap_clear_modify`, as the VM calls it before it cleans a page.
    pub modify: bool,
    /// The page daemon's other verbs.
    pub paging: bool,
    /// `pmap_zero_page` and `pmap_copy_page`.
    pub windows: bool,
    /// The program's sync.
    pub sync: bool,
}

const BASE: Scope = Scope {
    name: "default",
    about: "2 processes with 1 page each at the same address (r-x, rw-), 2 frames, 1 lingering buffer, \
DMA, program syncs, a kernel thread, and an adversary that evicts, prefetches, drops TLB copies and drains",
    user_pages: 1,
    rights: &[Rights::Rx, Rights::Rw],
    spaces: 2,
    buffer: true,
    dma: true,
    speculation: Speculation::On,
    modify: false,
    paging: false,
    windows: false,
    sync: true,
};

const SCOPES: &[Scope] = &[
    BASE,
    Scope {
        name: "small",
        about: "default with 1 process",
        spaces: 1,
        ..BASE
    },
    Scope {
        name: "calm",
        about: "default without prefetches that nobody asked for",
        speculation: Speculation::Off,
        ..BASE
    },
    Scope {
        name: "wild",
        about: "default, with instruction prefetches from pages that are not mapped to be executed",
        speculation: Speculation::Wild,
        ..BASE
    },
    Scope {
        name: "tiny",
        about: "1 process with 1 page (r-x, rw-), 2 frames, 1 lingering buffer, evictions",
        spaces: 1,
        dma: false,
        speculation: Speculation::Off,
        sync: false,
        ..BASE
    },
    Scope {
        name: "user",
        about: "default without the buffer and DMA",
        buffer: false,
        dma: false,
        ..BASE
    },
    Scope {
        name: "alias",
        about: "1 process with 2 addresses (r-x, rw-), otherwise as default",
        user_pages: 2,
        spaces: 1,
        ..BASE
    },
    Scope {
        name: "modify",
        about: "default and pmap_clear_modify",
        modify: true,
        ..BASE
    },
    Scope {
        name: "small-modify",
        about: "small and pmap_clear_modify",
        spaces: 1,
        modify: true,
        ..BASE
    },
    Scope {
        name: "paging",
        about: "modify and pmap_remove_all, remove_write and ts_referenced",
        modify: true,
        paging: true,
        ..BASE
    },
    Scope {
        name: "windows",
        about: "default and pmap_zero_page and pmap_copy_page",
        windows: true,
        ..BASE
    },
];

/// What no scope on a machine with flat tables holds; for what this one leaves out besides see
/// [`Scope::left_out`].
const LEFT_OUT: &str = "page tables in memory (PTE sync, walks, L1 slots), a second CPU, interrupts \
inside an operation, accesses between the parts of a DMA transfer or of a kernel store, more than one word of \
a page, process exit and exec, fetch buffers of several words, pmap_enter_quick, \
remove_pages and kenter, a page in two buffers, PIO and debuggers";

impl Scope {
    /// The scope of that name.
    pub fn by_name(name: &str) -> Option<Self> {
        SCOPES.iter().find(|s| s.name == name).cloned()
    }

    /// What it does not hold, in words.
    pub fn left_out(&self) -> String {
        let wild = self.speculation == Speculation::Wild;
        let parts = [
            (self.spaces > 1, "a second process"),
            (self.user_pages > 1, "a second address in a process"),
            (self.buffer, "buffers"),
            (self.dma, "DMA"),
            (self.sync, "program syncs"),
            (
                self.speculation > Speculation::Off,
                "prefetches that nobody asked for",
            ),
            (
                wild,
                "instruction prefetches from pages not mapped to be executed",
            ),
            (self.modify, "pmap_clear_modify"),
            (
                self.paging,
                "pmap_remove_all, remove_write and ts_referenced",
            ),
            (self.windows, "pmap_zero_page and copy_page"),
        ];
        let missing = parts
            .iter()
            .filter(|(held, _)| !held)
            .map(|(_, what)| *what);
        missing.chain([LEFT_OUT]).collect::<Vec<_>>().join(", ")
    }

    /// All of them.
    pub fn all() -> impl Iterator<Item = &'static Scope> {
        SCOPES.iter()
    }
}

/// What the buffer's owner is doing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Phase {
    /// There is no buffer.
    #[default]
    None,
    /// Mapped, released: the mapping lingers.
    Idle,
    /// Acquired by a reader.
    Reading,
    /// Acquired by a writer.
    Writing,
    /// Just mapped, nothing done yet.
    New,
}

impl Phase {
    /// The phase of that number.
    pub fn from_number(n: u8) -> Self {
        [
            Phase::None,
            Phase::Idle,
            Phase::Reading,
            Phase::Writing,
            Phase::New,
        ][usize::from(n).min(4)]
    }

    pub(super) fn acquired(self) -> bool {
        self >= Phase::Reading
    }
}

/// One action.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Act {
    /// The space's program, or the VM for it, at an address.
    User(Space, Va),
    /// A fetch.
    Fetch(Space, Va),
    /// `pmap_enter` of a page.
    Enter(Space, Va, Page),
    /// `pmap_remove`: where there is a mapping.
    Mapped(Space, Va),
    /// The program's sync: where there is a mapping, the only one of its page.
    Sync(Space, Va),
    /// `pmap_protect`: where there is a writable mapping.
    Protect(Space, Va),
    /// A switch to the space.
    Switch(Space),
    /// A switch to a kernel thread.
    Kernel,
    /// The buffer is mapped.
    Map(Page),
    /// The device fills it.
    Fill,
    /// It is acquired or unmapped: while released; what comes after.
    Idle(Phase),
    /// The kernel or a device reads it, or it is released: while acquired; what comes after, if it changes.
    Held(Option<Phase>),
    /// The kernel stores.
    Store,
    /// The frame changes hands, or is zeroed: nothing maps it.
    Unmapped(Page),
    /// The first page is copied to the second, which nothing maps.
    Copy(Page, Page),
    /// The page daemon; whether a buffer's page is exempt.
    Paging(Page, bool),
    /// The write buffer drains.
    Drain,
    /// The TLB forgets a page.
    Forget(Va),
    /// The hardware loads a data line ahead.
    Prefetch(Va),
    /// The hardware fetches instructions ahead.
    Ahead(Va),
    /// The hardware evicts a data line.
    Evict(Va),
    /// The hardware evicts an instruction line.
    EvictInstruction(Va),
}

/// An action with what it does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Move {
    /// Who and when.
    pub act: Act,
    /// The operations, in order; one that faults makes the whole impossible.
    pub ops: Vec<Op>,
}

/// Where a scope's addresses are on a machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    /// User pages.
    pub user: Vec<Va>,
    /// The buffer.
    pub buffer: Va,
    /// Frames.
    pub frames: u8,
    /// Bytes of a page.
    pub page: u32,
}

impl Place {
    /// The addresses of a scope under a layout.
    pub fn new(scope: &Scope, layout: &pmap::Layout) -> Self {
        let user = (0..scope.user_pages).map(|n| Va(n * layout.page)).collect();
        Self {
            user,
            buffer: Va(layout.buffer_map.0.0),
            frames: 2,
            page: layout.page,
        }
    }

    fn pages(&self) -> impl Iterator<Item = Page> {
        (0..self.frames).map(Page)
    }
}

/// The moves of a scope; for the live space only (which canonical states call A), or for every space.
pub fn moves(scope: &Scope, place: &Place, live_only: bool) -> Vec<Move> {
    let mut out = Vec::new();
    let mut add = |act, ops: &[Op]| {
        let ops = ops.to_vec();
        out.push(Move { act, ops });
    };
    let actors = if live_only { 1 } else { scope.spaces };
    for space in (1..=actors).map(Space) {
        for va in &place.user {
            user_moves(scope, place, space, *va, &mut add);
        }
    }
    for space in (1..=scope.spaces).map(Space) {
        add(Act::Switch(space), &[Op::Switch(space)]);
    }
    add(Act::Kernel, &[Op::SwitchKernel]);
    for page in place.pages() {
        add(Act::Unmapped(page), &[Op::Recycle(page)]);
    }
    if scope.buffer {
        buffer_moves(scope, place, &mut add);
    }
    for page in place.pages().filter(|_| scope.modify) {
        add(Act::Paging(page, false), &[Op::ClearModify(page)]);
    }
    if scope.paging {
        paging_moves(place, &mut add);
    }
    if scope.windows {
        window_moves(place, &mut add);
    }
    hardware_moves(scope, place, &mut add);
    out
}

fn user_moves(
    scope: &Scope,
    place: &Place,
    space: Space,
    va: Va,
    add: &mut impl FnMut(Act, &[Op]),
) {
    for page in place.pages() {
        for rights in scope.rights {
            let op = Op::Enter(space, va, page, *rights);
            add(Act::Enter(space, va, page), &[op]);
        }
    }
    add(Act::Mapped(space, va), &[Op::Remove(space, va, 1)]);
    let protect = Op::Protect(space, va, 1, Rights::Rx);
    add(Act::Protect(space, va), &[protect]);
    add(Act::Fetch(space, va), &[Op::Fetch(space, va)]);
    add(Act::User(space, va), &[Op::Load(space, va)]);
    add(Act::User(space, va), &[Op::Store(space, va, FRESH)]);
    if scope.sync {
        add(Act::Sync(space, va), &[Op::Sync(space, va, 4)]);
    }
}

fn buffer_moves(scope: &Scope, place: &Place, add: &mut impl FnMut(Act, &[Op])) {
    let va = place.buffer;
    for page in place.pages() {
        // The page of a buffer event is the one that is mapped; the model fills it in.
        let acquired = Op::Buffer(Event::AcquiredWrite, va, page, 1);
        add(Act::Map(page), &[Op::Qenter(va, page, 1), acquired]);
    }
    let event = |event| Op::Buffer(event, va, Page(0), 1);
    if scope.dma {
        let fill = [Op::DmaRead(va, FRESH), event(Event::IoDoneRead)];
        add(Act::Fill, &fill);
        add(Act::Held(None), &[Op::DmaWrite(va)]);
    }
    add(Act::Idle(Phase::Reading), &[event(Event::AcquiredRead)]);
    add(Act::Idle(Phase::Writing), &[event(Event::AcquiredWrite)]);
    add(Act::Idle(Phase::None), &[Op::Qremove(va, 1)]);
    add(Act::Held(Some(Phase::Idle)), &[event(Event::Released)]);
    let used = |what, access| {
        [
            Op::Use(false, what, va, 4),
            access,
            Op::Use(true, what, va, 4),
        ]
    };
    add(Act::Held(None), &used(Use::Read, Op::KernelLoad(va)));
    let [will, store, did] = used(Use::Write, Op::KernelStore(va, FRESH));
    add(Act::Store, &[will, store, did, event(Event::CopiedWrite)]);
}

fn paging_moves(place: &Place, add: &mut impl FnMut(Act, &[Op])) {
    for page in place.pages() {
        add(Act::Paging(page, true), &[Op::RemoveAll(page)]);
        for op in [Op::RemoveWrite(page), Op::ClearReference(page)] {
            add(Act::Paging(page, false), &[op]);
        }
    }
}

fn window_moves(place: &Place, add: &mut impl FnMut(Act, &[Op])) {
    for page in place.pages() {
        add(Act::Unmapped(page), &[Op::Recycle(page), Op::Zero(page)]);
        for from in place.pages().filter(|from| *from != page) {
            let ops = [Op::Recycle(page), Op::Copy(from, page)];
            add(Act::Copy(from, page), &ops);
        }
    }
}

fn hardware_moves(scope: &Scope, place: &Place, add: &mut impl FnMut(Act, &[Op])) {
    let kernel = scope.buffer.then_some(place.buffer);
    for va in place.user.iter().copied().chain(kernel) {
        add(Act::Evict(va), &[Op::Evict(va)]);
        add(Act::Forget(va), &[Op::TlbDrop(va)]);
        if scope.speculation > Speculation::Off {
            add(Act::Prefetch(va), &[Op::Prefetch(va)]);
        }
    }
    for va in &place.user {
        add(Act::EvictInstruction(*va), &[Op::EvictInstruction(*va)]);
        let ahead = [Op::PrefetchInstruction(*va)];
        match scope.speculation {
            Speculation::Off => {}
            Speculation::On => add(Act::Ahead(*va), &ahead),
            Speculation::Wild => add(Act::Prefetch(*va), &ahead),
        }
    }
    add(Act::Drain, &[Op::Drain]);
}

impl Act {
    /// The buffer's phase after the action.
    pub fn after(self, phase: Phase) -> Phase {
        match self {
            Act::Map(_) => Phase::New,
            Act::Fill => Phase::Writing,
            Act::Idle(after) | Act::Held(Some(after)) => after,
            Act::Store => Phase::Writing,
            Act::Held(None) if phase == Phase::New => Phase::Writing,
            _ => phase,
        }
    }
}

/// The operation with a value of its own, if it stores the search's.
pub fn with_value(op: Op, value: u32) -> Op {
    match op {
        Op::Store(s, va, FRESH) => Op::Store(s, va, value),
        Op::KernelStore(va, FRESH) => Op::KernelStore(va, value),
        Op::DmaRead(va, FRESH) => Op::DmaRead(va, value),
        other => other,
    }
}
