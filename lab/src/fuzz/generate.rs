//! Sequences of legal operations out of bytes.
//!
//! Each input first switches kinds of actions off at random (swarm testing: a sequence that cannot do
//! everything does the rest more often), then draws actions. An action is one operation, or the few that a
//! kernel never does apart: a buffer's use with its events, a transfer with its marks. What is not legal
//! where it would stand ([`Legal`]) is left out, so every input is a correct kernel's work.

use arbitrary::{Result, Unstructured};

use super::legal::{Caller, Ground, Held, Legal};
use crate::op::{Event, Op, Page, Rights, Space, Use, Va};

/// Kinds of actions.
const KINDS: u8 = 32;

/// Draws a sequence of at most `ops_max` operations.
///
/// # Errors
/// The bytes are too few for a swarm.
pub fn sequence(
    u: &mut Unstructured<'_>,
    ground: &Ground,
    caller: Caller,
    ops_max: usize,
) -> Result<Vec<Op>> {
    sequence_after(u, ground, caller, &[], ops_max)
}

/// The same with a beginning that is given, and legal.
///
/// # Errors
/// As [`sequence`].
pub fn sequence_after(
    u: &mut Unstructured<'_>,
    ground: &Ground,
    caller: Caller,
    beginning: &[Op],
    ops_max: usize,
) -> Result<Vec<Op>> {
    // Three kinds in four are on.
    let swarm = u.arbitrary::<u32>()? | u.arbitrary::<u32>()?;
    let mut maker = Maker {
        legal: Legal::new(ground, caller),
        ops: Vec::with_capacity(ops_max + 8),
        serial: 0,
    };
    for op in beginning {
        maker.push(*op);
    }
    maker.serial = beginning.len() as u8;
    while !u.is_empty() && maker.ops.len() < ops_max {
        let kind = u.arbitrary::<u8>()? % KINDS;
        if swarm >> kind & 1 == 1 {
            maker.action(u, kind)?;
        }
    }
    Ok(maker.ops)
}

struct Maker {
    legal: Legal,
    ops: Vec<Op>,
    serial: u8,
}

impl Maker {
    fn push(&mut self, op: Op) -> bool {
        let legal = self.legal.take(&op);
        if legal {
            self.ops.push(op);
        }
        legal
    }

    /// A value that no earlier store of the sequence had in any byte.
    fn value(&mut self) -> u32 {
        self.serial = self.serial % 255 + 1;
        u32::from(self.serial) * 0x0101_0101
    }

    fn action(&mut self, u: &mut Unstructured<'_>, kind: u8) -> Result<()> {
        match kind {
            0..=7 => self.mapping(u, kind),
            8..=17 => self.user(u, kind),
            18..=24 => self.kernel(u, kind),
            30 => self.page_in(u),
            31 => self.region(u),
            _ => self.rest(u, kind),
        }
    }

    fn mapping(&mut self, u: &mut Unstructured<'_>, kind: u8) -> Result<()> {
        match kind {
            0..=3 => {
                let (space, va, page) = (space(u)?, self.user_va(u)?, self.page(u)?);
                let rights = u.arbitrary()?;
                self.push(match kind {
                    3 => Op::EnterQuick(space, va, page, rights),
                    _ => Op::Enter(space, va, page, rights),
                });
            }
            4..=6 => {
                let Some((space, va)) = self.mapped(u)? else {
                    return Ok(());
                };
                let base = self.base(va);
                match kind {
                    4 => self.push(Op::Remove(space, base, u.int_in_range(1..=4)?)),
                    5 => self.push(Op::Protect(
                        space,
                        base,
                        u.int_in_range(1..=2)?,
                        u.arbitrary()?,
                    )),
                    // mprotect(2) that gives rights: the VM enters the page again.
                    _ => match self.legal.user(space, va) {
                        Some(m) => self.push(Op::Enter(space, base, Page(m.page), u.arbitrary()?)),
                        None => false,
                    },
                };
            }
            _ => {
                let page = self.page(u)?;
                self.push(match u.arbitrary::<u8>()? % 4 {
                    0 => Op::RemoveAll(page),
                    1 => Op::RemoveWrite(page),
                    2 => Op::ClearModify(page),
                    _ => Op::ClearReference(page),
                });
            }
        }
        Ok(())
    }

    fn base(&self, va: Va) -> Va {
        Va(va.0 & !(self.legal.ground.page - 1))
    }

    /// A program's accesses, at an address that is mapped; a fault is handled first, as the VM does.
    fn user(&mut self, u: &mut Unstructured<'_>, kind: u8) -> Result<()> {
        let Some((space, va)) = self.mapped(u)? else {
            return Ok(());
        };
        let base = self.base(va);
        match kind {
            8..=10 => self.push(Op::Fetch(space, va)),
            11..=13 => self.push(Op::Load(space, va)),
            14..=16 => {
                let Some(m) = self.legal.user(space, va) else {
                    return Ok(());
                };
                if !m.write {
                    let rights = match m.rights {
                        Rights::R => Rights::Rw,
                        Rights::Rx => Rights::Rwx,
                        may => may,
                    };
                    self.push(Op::Enter(space, base, Page(m.page), rights));
                }
                let value = self.value();
                self.push(Op::Store(space, va, value))
            }
            _ => match u.arbitrary()? {
                true => self.push(Op::Sync(space, va, 4)),
                false => self.push(Op::Sync(space, base, self.legal.ground.page)),
            },
        };
        Ok(())
    }

    fn kernel(&mut self, u: &mut Unstructured<'_>, kind: u8) -> Result<()> {
        match kind {
            18 => self.window(u),
            19..=20 => self.buffer(u),
            21 => self.hold(u),
            22 => self.read(u),
            23 => self.write(u),
            _ => self.transfer(u),
        }
    }

    /// kenter, or kremove of what is there.
    fn window(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
        let slots = self.legal.ground.windows;
        if slots == 0 {
            return Ok(());
        }
        let va = Va(self.legal.ground.kernel[usize::from(u.arbitrary::<u8>()?) % slots]);
        let page = self.page(u)?;
        if !self.push(Op::Kenter(va, page)) {
            self.push(Op::Kremove(va));
        }
        Ok(())
    }

    /// qenter, or qremove of the buffer there if nobody holds it.
    fn buffer(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
        let windows = self.legal.ground.windows;
        let slots = self.legal.ground.kernel.len() - windows;
        if slots == 0 {
            return Ok(());
        }
        let slot = windows + usize::from(u.arbitrary::<u8>()?) % slots;
        let va = Va(self.legal.ground.kernel[slot]);
        let page = self.page(u)?;
        match self.legal.at(va) {
            None => self.push(Op::Qenter(va, page, u.int_in_range(1..=2)?)),
            Some(m) => {
                let (first, count) = m.buffer.unwrap_or((slot as u8, 1));
                let va = Va(self.legal.ground.kernel[usize::from(first)]);
                self.push(Op::Qremove(va, count))
            }
        };
        Ok(())
    }

    /// Acquires a buffer, or releases it.
    fn hold(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
        let Some(va) = self.kernel_va(u)? else {
            return Ok(());
        };
        let write = u.arbitrary::<bool>()?;
        let Some((event, va, page, count)) = self.whole(va, |held| match (held, write) {
            (Held::No, true) => Event::AcquiredWrite,
            (Held::No, false) => Event::AcquiredRead,
            _ => Event::Released,
        }) else {
            return Ok(());
        };
        if !self.push(Op::Buffer(event, va, page, count)) {
            self.push(Op::Buffer(Event::AcquiredRead, va, page, count));
        }
        Ok(())
    }

    /// The buffer at an address, and an event for it.
    fn whole(&self, va: Va, event: impl Fn(Held) -> Event) -> Option<(Event, Va, Page, u8)> {
        let m = self.legal.at(va)?;
        let (first, count) = m.buffer?;
        let start = Va(self.legal.ground.kernel[usize::from(first)]);
        let page = Page(self.legal.at(start)?.page);
        Some((event(m.held), start, page, count))
    }

    fn read(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
        let Some(va) = self.kernel_va(u)? else {
            return Ok(());
        };
        if self.push(Op::Use(false, Use::Read, va, 4)) {
            self.push(Op::KernelLoad(va));
            self.push(Op::Use(true, Use::Read, va, 4));
            self.tell(Event::CopiedRead, va);
        }
        Ok(())
    }

    fn write(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
        let Some(va) = self.kernel_va(u)? else {
            return Ok(());
        };
        let what = match u.arbitrary::<u8>()? % 8 {
            0 => Use::Pio,
            1 => Use::Poke,
            _ => Use::Write,
        };
        if self.push(Op::Use(false, what, va, 4)) {
            let value = self.value();
            self.push(Op::KernelStore(va, value));
            self.push(Op::Use(true, what, va, 4));
            self.tell(Event::CopiedWrite, va);
        }
        Ok(())
    }

    fn tell(&mut self, event: Event, va: Va) {
        if let Some((event, va, page, count)) = self.whole(va, |_| event) {
            self.push(Op::Buffer(event, va, page, count));
        }
    }

    /// A device's transfer, with what the kernel does before it.
    fn transfer(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
        let Some(va) = self.kernel_va(u)? else {
            return Ok(());
        };
        let va = self.base(va);
        let Some(page) = self.legal.at(va).map(|m| Page(m.page)) else {
            return Ok(());
        };
        if u.arbitrary()? {
            self.push(Op::RemoveWrite(page));
            self.tell(Event::IoStartWrite, va);
            self.push(Op::DmaWrite(va));
            self.tell(Event::IoDoneWrite, va);
            return Ok(());
        }
        self.push(Op::Recycle(page));
        self.tell(Event::IoStartRead, va);
        let seed = self.value();
        self.push(Op::DmaRead(va, seed));
        self.tell(Event::IoDoneRead, va);
        Ok(())
    }

    /// A page comes in from a file: a device fills it through a window of its own.
    fn page_in(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
        let page = self.page(u)?;
        let ground = &self.legal.ground;
        let mut windows = ground.kernel[..ground.windows].iter().map(|va| Va(*va));
        let Some(va) = windows.find(|va| self.legal.at(*va).is_none()) else {
            return Ok(());
        };
        if self.push(Op::Recycle(page)) && self.push(Op::Kenter(va, page)) {
            let seed = self.value();
            self.push(Op::DmaRead(va, seed));
            self.push(Op::Kremove(va));
        }
        Ok(())
    }

    /// Every address of a space is mapped, or all of them are unmapped at once.
    fn region(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
        let space = space(u)?;
        let addresses = self.legal.ground.user.clone();
        if u.arbitrary()? {
            let all = addresses.len().min(4) as u8;
            self.push(Op::Remove(space, Va(addresses[0]), all));
            return Ok(());
        }
        for va in addresses {
            let page = self.page(u)?;
            self.push(Op::Enter(space, Va(va), page, u.arbitrary()?));
        }
        Ok(())
    }

    fn rest(&mut self, u: &mut Unstructured<'_>, kind: u8) -> Result<()> {
        match kind {
            25 => {
                let to = self.page(u)?;
                self.push(Op::Recycle(to));
                match u.arbitrary::<u8>()? % 8 {
                    n @ 0..4 if n != to.0 => self.push(Op::Copy(Page(n), to)),
                    _ => self.push(Op::Zero(to)),
                };
            }
            26 => {
                let space = space(u)?;
                self.push(Op::Switch(space));
            }
            27 => {
                self.push(Op::SwitchKernel);
            }
            28 => self.end_of_process(u)?,
            _ => self.hardware(u)?,
        }
        Ok(())
    }

    /// exec and exit: everything goes, or exec activates another space.
    fn end_of_process(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
        if let Some(running) = self.legal.running {
            if u.arbitrary()? {
                self.push(Op::RemovePages(Space(running)));
            }
            if u.arbitrary()? {
                let to = space(u)?;
                self.push(Op::Activate(to));
            }
        }
        Ok(())
    }

    fn hardware(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
        let kind = u.arbitrary::<u8>()? % 6;
        let user = self.user_va(u)?;
        let kernel = self.kernel_va(u)?.unwrap_or(user);
        let va = if u.arbitrary()? { kernel } else { user };
        self.push(match kind {
            0 => Op::EvictAll,
            1 => Op::EvictInstructions,
            2 => Op::Drain,
            3 => Op::Evict(va),
            4 => Op::EvictInstruction(user),
            _ => Op::TlbDrop(va),
        });
        Ok(())
    }

    fn page(&self, u: &mut Unstructured<'_>) -> Result<Page> {
        // The first page is drawn more often than all others, so that mappings share it.
        let n = u.arbitrary::<u8>()? % (2 * self.legal.ground.pages);
        Ok(Page(
            n % self.legal.ground.pages * (n / self.legal.ground.pages),
        ))
    }

    fn user_va(&self, u: &mut Unstructured<'_>) -> Result<Va> {
        let user = &self.legal.ground.user;
        Ok(Va(user[usize::from(u.arbitrary::<u8>()?) % user.len()]))
    }

    /// A word of some user mapping.
    fn mapped(&self, u: &mut Unstructured<'_>) -> Result<Option<(Space, Va)>> {
        let (n, word) = (u.arbitrary::<u8>()?, self.word(u)?);
        let users = &self.legal.users;
        let all = users.iter().enumerate().flat_map(|(s, maps)| {
            let made = maps.iter().enumerate().filter(|(_, m)| m.is_some());
            made.map(move |(slot, _)| (s, slot))
        });
        let count = all.clone().count().max(1);
        let chosen = all.clone().nth(usize::from(n) % count);
        let va = |slot: usize| Va(self.legal.ground.user[slot] + word);
        Ok(chosen.map(|(s, slot)| (Space(s as u8 + 1), va(slot))))
    }

    /// A word of some kernel mapping.
    fn kernel_va(&self, u: &mut Unstructured<'_>) -> Result<Option<Va>> {
        let (n, word) = (u.arbitrary::<u8>()?, self.word(u)?);
        let all = self.legal.kernel.iter().enumerate();
        let made = all.filter(|(_, m)| m.is_some()).map(|(slot, _)| slot);
        let count = made.clone().count().max(1);
        let chosen = made.clone().nth(usize::from(n) % count);
        Ok(chosen.map(|slot| Va(self.legal.ground.kernel[slot] + word)))
    }

    fn word(&self, u: &mut Unstructured<'_>) -> Result<u32> {
        Ok(self.legal.ground.word(u.arbitrary::<u8>()?))
    }
}

fn space(u: &mut Unstructured<'_>) -> Result<Space> {
    Ok(Space(1 + u.arbitrary::<u8>()? % 2))
}
