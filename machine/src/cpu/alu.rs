//! The arithmetic of the processor: pure functions of values and flags.
//!
//! Source: ARM ARM (DDI 0100), "Addressing Mode 1 - Data-processing operands" for the shifter, and
//! the glossary's CarryFrom, BorrowFrom, OverflowFrom and SignedSat.
//!
//! Absent on purpose: anything that reads a register or reaches the bus.

/// A result with the carry and overflow it produced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Sum {
    /// The low 32 bits.
    pub(super) value: u32,
    /// Flag C.
    pub(super) carry: bool,
    /// Flag V.
    pub(super) overflow: bool,
}

/// `a + b + carry`. A subtraction `a - b` is `a + !b + 1`, whose carry means "no borrow".
#[inline(always)]
pub(super) fn add_carry(a: u32, b: u32, carry: bool) -> Sum {
    let (partial, first) = a.overflowing_add(b);
    let (value, second) = partial.overflowing_add(u32::from(carry));
    let overflow = (a ^ value) & (b ^ value) & 1 << 31 != 0;
    Sum {
        value,
        carry: first | second,
        overflow,
    }
}

/// A shifted operand with the shifter's carry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Shifted {
    /// The operand.
    pub(super) value: u32,
    /// The last bit shifted out, or the old C.
    pub(super) carry: bool,
}

/// The four kinds of shift, by the two bits that encode them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Shift {
    Lsl,
    Lsr,
    Asr,
    Ror,
}

impl Shift {
    /// Decodes the low two bits of `bits`.
    #[inline(always)]
    pub(super) fn from_bits(bits: u32) -> Self {
        match bits & 3 {
            0 => Shift::Lsl,
            1 => Shift::Lsr,
            2 => Shift::Asr,
            _ => Shift::Ror,
        }
    }
}

/// Shifts by a five-bit immediate, where 0 means 32 for LSR and ASR, and RRX for ROR.
#[inline(always)]
pub(super) fn shift_by_immediate(kind: Shift, amount: u32, value: u32, carry: bool) -> Shifted {
    match (kind, amount) {
        (Shift::Lsl, 0) => Shifted { value, carry },
        (Shift::Ror, 0) => Shifted {
            value: u32::from(carry) << 31 | value >> 1,
            carry: value & 1 == 1,
        },
        (_, 0) => shift_by_register(kind, 32, value, carry),
        _ => shift_below_32(kind, amount, value),
    }
}

/// Shifts by a register's low byte; 0 leaves value and carry alone.
#[inline(always)]
pub(super) fn shift_by_register(kind: Shift, amount: u32, value: u32, carry: bool) -> Shifted {
    match (kind, amount & 0xff) {
        (_, 0) => Shifted { value, carry },
        (_, amount @ 1..=31) => shift_below_32(kind, amount, value),
        (Shift::Lsl, amount) => Shifted {
            value: 0,
            carry: amount == 32 && value & 1 == 1,
        },
        (Shift::Lsr, amount) => Shifted {
            value: 0,
            carry: amount == 32 && value >> 31 == 1,
        },
        (Shift::Asr, _) => Shifted {
            value: ((value as i32) >> 31) as u32,
            carry: value >> 31 == 1,
        },
        (Shift::Ror, amount) => {
            let value = value.rotate_right(amount & 31);
            Shifted {
                value,
                carry: value >> 31 == 1,
            }
        }
    }
}

/// Shifts by 1 to 31.
#[inline(always)]
fn shift_below_32(kind: Shift, amount: u32, value: u32) -> Shifted {
    let last_right = value >> (amount - 1) & 1 == 1;
    match kind {
        Shift::Lsl => Shifted {
            value: value << amount,
            carry: value >> (32 - amount) & 1 == 1,
        },
        Shift::Lsr => Shifted {
            value: value >> amount,
            carry: last_right,
        },
        Shift::Asr => Shifted {
            value: (value as i32 >> amount) as u32,
            carry: last_right,
        },
        Shift::Ror => Shifted {
            value: value.rotate_right(amount),
            carry: last_right,
        },
    }
}

/// The immediate of a data-processing instruction: eight bits rotated right by twice four bits.
#[inline(always)]
pub(super) fn rotated_immediate(word: u32, carry: bool) -> Shifted {
    let amount = word >> 7 & 0x1e;
    let value = (word & 0xff).rotate_right(amount);
    Shifted {
        value,
        carry: if amount == 0 { carry } else { value >> 31 == 1 },
    }
}

/// The nearest signed 32-bit value, and whether it is another one.
pub(super) fn saturate(value: i64) -> (u32, bool) {
    let near = value.clamp(i64::from(i32::MIN), i64::from(i32::MAX));
    (near as u32, near != value)
}

/// The signed bottom (`top == false`) or top half of a word.
pub(super) fn signed_half(value: u32, top: bool) -> i64 {
    i64::from((if top { value >> 16 } else { value }) as i16)
}
