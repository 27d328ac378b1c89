//! Instruction classes: how a word of one is drawn, and under which name it is counted.

use crate::random::Random;

/// A class: the words whose bits under `mask` are `bits`. The first that fits names a word.
pub struct Class {
    /// Its name in the table.
    pub name: &'static str,
    mask: u32,
    bits: u32,
}

const fn class(name: &'static str, mask: u32, bits: u32) -> Class {
    Class { name, mask, bits }
}

/// Conditional classes have condition bits outside their mask; a drawn word gets a random one.
pub const ARM: &[Class] = &[
    class("arm blx offset", 0xfe00_0000, 0xfa00_0000),
    class("arm pld", 0xfd70_f000, 0xf550_f000),
    class("arm clrex", 0xffff_ffff, 0xf57f_f01f),
    class("arm unconditional rest", 0xf000_0000, 0xf000_0000),
    class("arm svc", 0x0f00_0000, 0x0f00_0000),
    class("arm mcr barriers", 0x0fff_0f90, 0x0e07_0f90),
    class("arm mrc thread register", 0x0fff_0fff, 0x0e1d_0f70),
    class("arm coprocessor", 0x0c00_0000, 0x0c00_0000),
    class("arm b, bl", 0x0e00_0000, 0x0a00_0000),
    class("arm ldm, stm", 0x0e00_0000, 0x0800_0000),
    class("arm extend", 0x0f80_03f0, 0x0680_0070),
    class("arm rev, rev16", 0x0fff_0f70, 0x06bf_0f30),
    class("arm revsh", 0x0fff_0ff0, 0x06ff_0fb0),
    class("arm media rest", 0x0e00_0010, 0x0600_0010),
    class("arm ldr, str register", 0x0e00_0010, 0x0600_0000),
    class("arm ldr, str immediate", 0x0e00_0000, 0x0400_0000),
    class("arm mul", 0x0fe0_f0f0, 0x0000_0090),
    class("arm mla", 0x0fe0_00f0, 0x0020_0090),
    class("arm umaal", 0x0ff0_00f0, 0x0040_0090),
    class("arm multiply long", 0x0f80_00f0, 0x0080_0090),
    class("arm multiply rest", 0x0f00_00f0, 0x0000_0090),
    class("arm swp", 0x0fb0_0ff0, 0x0100_0090),
    class("arm ldrex", 0x0f90_0fff, 0x0190_0f9f),
    class("arm strex", 0x0f90_0ff0, 0x0180_0f90),
    class("arm swap space rest", 0x0f00_00f0, 0x0100_0090),
    class("arm halfword immediate", 0x0e40_0090, 0x0040_0090),
    class("arm halfword register", 0x0e40_0f90, 0x0000_0090),
    class("arm halfword rest", 0x0e00_0090, 0x0000_0090),
    class("arm bx, blx register", 0x0fff_ffd0, 0x012f_ff10),
    class("arm clz", 0x0fff_0ff0, 0x016f_0f10),
    class("arm qadd ...", 0x0f90_0ff0, 0x0100_0050),
    class("arm smulwy", 0x0ff0_f0b0, 0x0120_00a0),
    class("arm smulxy", 0x0ff0_f090, 0x0160_0080),
    class("arm smlaxy ...", 0x0f90_0090, 0x0100_0080),
    class("arm bkpt", 0xfff0_00f0, 0xe120_0070),
    class("arm mrs", 0x0fbf_0fff, 0x010f_0000),
    class("arm msr register", 0x0fb0_fff0, 0x0120_f000),
    class("arm msr immediate", 0x0fb0_f000, 0x0320_f000),
    class("arm gap rest", 0x0d90_0000, 0x0100_0000),
    class("arm mov, mvn immediate", 0x0faf_0000, 0x03a0_0000),
    class("arm mov, mvn register", 0x0faf_0010, 0x01a0_0000),
    class("arm compare immediate", 0x0f90_f000, 0x0310_0000),
    class("arm compare register", 0x0f90_f010, 0x0110_0000),
    class("arm data immediate", 0x0e00_0000, 0x0200_0000),
    class("arm data register shift", 0x0e00_0090, 0x0000_0010),
    class("arm data immediate shift", 0x0e00_0010, 0x0000_0000),
];

/// Thumb classes; halfwords are drawn evenly, for there are few enough.
pub const THUMB: &[Class] = &[
    class("thumb add, sub", 0xf800, 0x1800),
    class("thumb shift immediate", 0xe000, 0x0000),
    class("thumb immediate", 0xe000, 0x2000),
    class("thumb alu", 0xfc00, 0x4000),
    class("thumb bx, blx", 0xff00, 0x4700),
    class("thumb high registers", 0xfc00, 0x4400),
    class("thumb ldr literal", 0xf800, 0x4800),
    class("thumb ldr, str register", 0xf000, 0x5000),
    class("thumb ldr, str immediate", 0xe000, 0x6000),
    class("thumb ldrh, strh", 0xf000, 0x8000),
    class("thumb ldr, str sp", 0xf000, 0x9000),
    class("thumb add pc, sp", 0xf000, 0xa000),
    class("thumb push, pop", 0xf600, 0xb400),
    class("thumb sp, bkpt, v6", 0xf000, 0xb000),
    class("thumb ldmia, stmia", 0xf000, 0xc000),
    class("thumb b<cond>, svc", 0xf000, 0xd000),
    class("thumb b", 0xf800, 0xe000),
    class("thumb blx suffix", 0xf800, 0xe800),
    class("thumb bl prefix", 0xf800, 0xf000),
    class("thumb bl suffix", 0xf800, 0xf800),
];

/// The class of a word.
pub fn of(word: u32, thumb: bool) -> &'static Class {
    let classes = if thumb { THUMB } else { ARM };
    let fits = |class: &&Class| word & class.mask == class.bits;
    classes
        .iter()
        .find(fits)
        .expect("the last classes cover everything")
}

/// Draws a word: evenly, or of an evenly drawn class.
pub fn draw(random: &mut Random, thumb: bool) -> u32 {
    if thumb {
        return random.below(0x1_0000);
    }
    if random.below(8) == 0 {
        return random.word();
    }
    let class = &ARM[random.below(ARM.len() as u32) as usize];
    let mut word = random.word() & !class.mask | class.bits;
    if class.mask >> 28 == 0 {
        let cond = if random.below(2) == 0 {
            14
        } else {
            random.below(15)
        };
        word = word & 0x0fff_ffff | cond << 28;
    }
    if class.name == "arm mcr barriers" {
        let operation: u32 = [0x85, 0x8a, 0xaa][random.below(3) as usize];
        word = word & !0xef | operation;
    }
    word
}

/// Where a reserved field lies: of the words with `bits` under `mask`, those with something else
/// than `value` under `field` have no meaning of their own.
struct Reserved {
    mask: u32,
    bits: u32,
    field: u32,
    value: u32,
}

const fn reserved(mask: u32, bits: u32, field: u32, value: u32) -> Reserved {
    Reserved {
        mask,
        bits,
        field,
        value,
    }
}

const RESERVED: &[Reserved] = &[
    reserved(0x0fa0_0000, 0x03a0_0000, 0x000f_0000, 0),
    reserved(0x0fa0_0010, 0x01a0_0000, 0x000f_0000, 0),
    reserved(0x0fa0_0090, 0x01a0_0010, 0x000f_0000, 0),
    reserved(0x0f90_0000, 0x0310_0000, 0x0000_f000, 0),
    reserved(0x0f90_0010, 0x0110_0000, 0x0000_f000, 0),
    reserved(0x0f90_0090, 0x0110_0010, 0x0000_f000, 0),
    reserved(0x0fe0_00f0, 0x0000_0090, 0x0000_f000, 0),
    reserved(0x0fb0_00f0, 0x0100_0090, 0x0000_0f00, 0),
    reserved(0x0f80_00f0, 0x0180_0090, 0x0000_0f00, 0xf00),
    reserved(0x0f90_00f0, 0x0190_0090, 0x0000_000f, 0xf),
    reserved(0x0e40_0090, 0x0000_0090, 0x0000_0f00, 0),
    reserved(0x0ff0_00d0, 0x0120_0010, 0x000f_ff00, 0x000f_ff00),
    reserved(0x0ff0_00f0, 0x0160_0010, 0x000f_0f00, 0x000f_0f00),
    reserved(0x0f90_00f0, 0x0100_0050, 0x0000_0f00, 0),
    reserved(0x0ff0_00b0, 0x0120_00a0, 0x0000_f000, 0),
    reserved(0x0ff0_0090, 0x0160_0080, 0x0000_f000, 0),
    reserved(0x0fb0_00f0, 0x0100_0000, 0x000f_0f0f, 0x000f_0000),
    reserved(0x0fb0_00f0, 0x0120_0000, 0x0000_ff00, 0x0000_f000),
    reserved(0x0fb0_0000, 0x0320_0000, 0x0000_f000, 0x0000_f000),
    reserved(0x0fb0_0070, 0x06b0_0030, 0x000f_0f00, 0x000f_0f00),
    reserved(0x0f80_00f0, 0x0680_0070, 0x0000_0300, 0),
];

/// Whether an ARM word is YIELD, WFE or WFI (MSR of an immediate to no field).
pub fn is_waiting_hint(word: u32) -> bool {
    word & 0x0fff_f000 == 0x0320_f000 && matches!(word & 0xff, 1..=3)
}

/// Whether an ARM word writes the GE flags (MSR to the status field).
pub fn writes_ge(word: u32) -> bool {
    let is_msr = word & 0x0fb0_0000 == 0x0320_0000 || word & 0x0fb0_00f0 == 0x0120_0000;
    is_msr && word & 1 << 18 != 0
}

/// Whether a reserved field is not as it should be. Hardware, and our interpreter, do not look at
/// it; QEMU decodes some such words as undefined.
pub fn misuses_reserved(word: u32, thumb: bool) -> bool {
    if thumb {
        return word & 0xff00 == 0x4700 && word & 7 != 0;
    }
    let conditional = word >> 28 != 15;
    let misuses = |r: &Reserved| word & r.mask == r.bits && word & r.field != r.value;
    conditional && RESERVED.iter().any(misuses)
}
