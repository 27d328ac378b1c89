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
const KINDS: u8 = 30;

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
            0..=9 => self.mapping(u, kind),
            10..=17 => self.user(u, kind),
            18..=24 => self.kernel(u, kind),
            _ => self.rest(u, kind),
        }
    }

    fn mapping(&mut self, u: &mut Unstructured<'_>, kind: u8) -> Result<()> {
        let (space, va, page) = (space(u)?, self.user_va(u)?, self.page(u)?);
        match kind {
            0..=2 => self.push(Op::Enter(space, va, page, u.arbitrary()?)),
            3 => self.push(Op::EnterQuick(space, va, page, u.arbitrary()?)),
            4 => self.push(Op::Remove(space, va, u.int_in_range(1..=4)?)),
            5 => self.push(Op::Protect(
                space,
                va,
                u.int_in_range(1..=2)?,
                u.arbitrary()?,
            )),
            6 => self.push(Op::RemoveAll(page)),
            7 => self.push(Op::RemoveWrite(page)),
            8 => self.push(Op::ClearModify(page)),
            _ => self.push(Op::ClearReference(page)),
        };
        Ok(())
    }

    /// A program's accesses, at an address that is mapped; a fault is handled first, as the VM does.
    fn user(&mut self, u: &mut Unstructured<'_>, kind: u8) -> Result<()> {
        let Some((space, va)) = self.mapped(u)? else {
            return Ok(());
        };
        let base = Va(va.0 & !(self.legal.ground.page - 1));
        match kind {
            10..=11 => self.push(Op::Fetch(space, va)),
            12..=13 => self.push(Op::Load(space, va)),
            14..=15 => {
                let Some(m) = self.legal.user(space, va) else {
                    return Ok(());
                };
                let may = matches!(m.rights, Rights::Rw | Rights::Rwx);
                if may && !m.write {
                    self.push(Op::Enter(space, base, Page(m.page), m.rights));
                }
                let value = self.value();
                self.push(Op::Store(space, va, value))
            }
            16 => self.push(Op::Sync(space, va, 4)),
            _ => self.push(Op::Sync(space, base, self.legal.ground.page)),
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
        let va = Va(va.0 & !(self.legal.ground.page - 1));
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

    /// exec and exit: everything goes, and exec activates the new space.
    fn end_of_process(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
        if let Some(running) = self.legal.running {
            self.push(Op::RemovePages(Space(running)));
            if u.arbitrary()? {
                self.push(Op::Activate(Space(running)));
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
        Ok(u32::from(u.arbitrary::<u8>()? % 4) * (self.legal.ground.page / 4))
    }
}

fn space(u: &mut Unstructured<'_>) -> Result<Space> {
    Ok(Space(1 + u.arbitrary::<u8>()? % 2))
}
