//! Equal, different for a listed reason, or different.

use crate::cases::Case;
use crate::class;
use crate::guest::{CODE, Ending, Guest, PAGE_BYTES};
use crate::reference::Reference;
use machine::cpu::Arch;
use unicorn_engine::unicorn_const::uc_error;

/// What a comparison comes to.
pub enum Verdict {
    /// Same ending, and unless it was an abort the same registers, flags and memory.
    Equal,
    /// Different or not comparable, for this reason.
    Explained(&'static str),
    /// A bug on one side.
    Unexplained(String),
}

/// Runs `case` on both sides.
pub fn judge(case: &Case, arch: Arch, reference: &mut Reference) -> Result<Verdict, uc_error> {
    let (mut ours, mut theirs) = (case.guest.clone(), case.guest.clone());
    let our_end = ours.run(arch, case.count);
    if let Ending::Unpredictable(why) = our_end {
        return Ok(Verdict::Explained(why));
    }
    let our_end = look_ahead(&ours, our_end);
    let their_end = reference.run(&mut theirs, case.reference_count)?;
    if our_end == their_end && (our_end == Ending::Data || same(&ours, &theirs)) {
        return Ok(Verdict::Equal);
    }
    Ok(match reason(case, arch, our_end, their_end) {
        Some(reason) => Verdict::Explained(reason),
        None => Verdict::Unexplained(describe(&ours, our_end, &theirs, their_end)),
    })
}

/// Unicorn fetches once more before it stops, and so reports a branch to nowhere at once.
fn look_ahead(guest: &Guest, end: Ending) -> Ending {
    let leaves = !(CODE..CODE + PAGE_BYTES).contains(&guest.regs.r[15]);
    if end == Ending::Done && leaves {
        Ending::Fetch
    } else {
        end
    }
}

fn same(ours: &Guest, theirs: &Guest) -> bool {
    let (a, b) = (&ours.regs, &theirs.regs);
    a.r == b.r && a.cpsr() == b.cpsr() && ours.data == theirs.data
}

/// The listed reasons, for single instructions. A sequence has one only if it loaded from code that
/// was drawn after it, and so takes another course than when it was found.
fn reason(case: &Case, arch: Arch, ours: Ending, theirs: Ending) -> Option<&'static str> {
    let thumb = case.guest.regs.t;
    if case.guest.misaligns(arch, case.count) {
        return Some("misaligned: QEMU accesses as ARMv6 does, we rotate or abort");
    }
    if theirs == Ending::Undefined && class::misuses_reserved(case.word, thumb) {
        return Some("reserved field misused: QEMU says undefined, we and hardware ignore it");
    }
    if ours == Ending::Undefined {
        return reason_undefined(case, arch);
    }
    if !thumb && class::is_waiting_hint(case.word) {
        return Some("YIELD, WFE or WFI: unicorn stops there, to us they are nothing");
    }
    match class::of(case.word, thumb).name {
        "arm mcr barriers" if arch == Arch::V5te => {
            Some("barrier in user mode, before ARMv6 an implementation's choice: we allow it")
        }
        "thumb bl suffix" if case.guest.regs.r[14] & 1 == 1 => {
            Some("second half of BL with an odd r14: QEMU goes to ARM state, we ignore bit 0")
        }
        _ => None,
    }
}

/// What we leave undefined and QEMU executes.
fn reason_undefined(case: &Case, arch: Arch) -> Option<&'static str> {
    const COMPARE_AND_BRANCH: u32 = 0xb100;
    const IF_THEN: u32 = 0xbf00;
    match class::of(case.word, case.guest.regs.t).name {
        "arm coprocessor" => Some("CP15 registers that we leave out"),
        "arm media rest" if arch == Arch::V6k => Some("ARMv6 media that we leave out"),
        "thumb blx suffix" => {
            Some("second half of BLX with bit 0 set: undefined, QEMU executes it")
        }
        "thumb sp, bkpt, v6" if case.word & 0xff00 == 0xb600 => {
            Some("SETEND and CPS, which we leave out")
        }
        "thumb sp, bkpt, v6"
            if case.word & 0xf500 == COMPARE_AND_BRANCH || case.word & 0xff00 == IF_THEN =>
        {
            Some("Thumb-2 CBZ, CBNZ, IT and hints: QEMU executes them on every core")
        }
        _ => None,
    }
}

fn describe(ours: &Guest, our_end: Ending, theirs: &Guest, their_end: Ending) -> String {
    let mut text = format!("ours {our_end:?}, theirs {their_end:?}");
    for (register, (a, b)) in ours.regs.r.iter().zip(&theirs.regs.r).enumerate() {
        if a != b {
            text += &format!("; r{register} {a:#010x}, {b:#010x}");
        }
    }
    if ours.regs.cpsr() != theirs.regs.cpsr() {
        text += &format!(
            "; cpsr {:#010x}, {:#010x}",
            ours.regs.cpsr(),
            theirs.regs.cpsr()
        );
    }
    if ours.data != theirs.data {
        text += "; data differs";
    }
    text
}
