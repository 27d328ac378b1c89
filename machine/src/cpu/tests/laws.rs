//! Laws of the arithmetic, checked by quickcheck against wider integers.

use super::{Bench, nzcv};
use crate::cpu::alu::{Shift, add_carry, rotated_immediate, saturate};
use crate::cpu::alu::{shift_by_immediate, shift_by_register};
use quickcheck::quickcheck;

/// N, Z, C, V and the value of `a + b + c`, from 64-bit sums.
fn wide_sum(a: u32, b: u32, c: bool) -> (u32, u32) {
    let unsigned = u64::from(a) + u64::from(b) + u64::from(c);
    let signed = i64::from(a as i32) + i64::from(b as i32) + i64::from(c);
    let value = unsigned as u32;
    let overflow = i64::from(value as i32) != signed;
    (
        value,
        nzcv(value >> 31 == 1, value == 0, unsigned >> 32 == 1, overflow),
    )
}

/// As [`wide_sum`] for `a - b - !c`, whose carry means that nothing was borrowed.
fn wide_difference(a: u32, b: u32, c: bool) -> (u32, u32) {
    let borrow = i64::from(!c);
    let unsigned = i64::from(a) - i64::from(b) - borrow;
    let signed = i64::from(a as i32) - i64::from(b as i32) - borrow;
    let value = unsigned as u32;
    let overflow = i64::from(value as i32) != signed;
    (
        value,
        nzcv(value >> 31 == 1, value == 0, unsigned >= 0, overflow),
    )
}

/// Executes `op s r2, r0, r1` with C = `c` and V clear.
fn arm_op(opcode: u32, a: u32, b: u32, c: bool) -> (u32, u32) {
    let word = 0xe010_2001 | opcode << 21;
    let bench = Bench::arm(&[word])
        .with(&[a, b])
        .flags(nzcv(false, false, c, false))
        .run(1);
    (bench.r(2), bench.nzcv())
}

/// Executes a Thumb two-register operation on r0 and r1.
fn thumb_op(opcode: u16, a: u32, b: u32, c: bool) -> (u32, u32) {
    let half = 0x4008 | opcode << 6;
    let bench = Bench::thumb(&[half])
        .with(&[a, b])
        .flags(nzcv(false, false, c, false))
        .run(1);
    (bench.r(0), bench.nzcv())
}

/// A shift of any distance by one bit at a time.
fn slow_shift(kind: Shift, amount: u32, value: u32, carry: bool) -> (u32, bool) {
    (0..amount).fold((value, carry), |(value, _), _| match kind {
        Shift::Lsl => (value << 1, value >> 31 == 1),
        Shift::Lsr => (value >> 1, value & 1 == 1),
        Shift::Asr => ((value as i32 >> 1) as u32, value & 1 == 1),
        Shift::Ror => (value.rotate_right(1), value & 1 == 1),
    })
}

quickcheck! {
    fn add_carry_is_the_wide_sum(a: u32, b: u32, c: bool) -> bool {
        let sum = add_carry(a, b, c);
        let flags = nzcv(sum.value >> 31 == 1, sum.value == 0, sum.carry, sum.overflow);
        (sum.value, flags) == wide_sum(a, b, c)
    }

    fn additions_set_flags_by_the_wide_sum(a: u32, b: u32, c: bool) -> bool {
        arm_op(0b0100, a, b, c) == wide_sum(a, b, false)
            && arm_op(0b0101, a, b, c) == wide_sum(a, b, c)
            && arm_op(0b1011, a, b, c).1 == wide_sum(a, b, false).1
    }

    fn subtractions_set_flags_by_the_wide_difference(a: u32, b: u32, c: bool) -> bool {
        arm_op(0b0010, a, b, c) == wide_difference(a, b, true)
            && arm_op(0b0011, a, b, c) == wide_difference(b, a, true)
            && arm_op(0b0110, a, b, c) == wide_difference(a, b, c)
            && arm_op(0b0111, a, b, c) == wide_difference(b, a, c)
            && arm_op(0b1010, a, b, c).1 == wide_difference(a, b, true).1
    }

    fn equal_operands_compare_equal(a: u32, c: bool) -> bool {
        arm_op(0b1010, a, a, c).1 == nzcv(false, true, true, false)
    }

    fn logic_leaves_v_and_takes_the_shifters_carry(a: u32, b: u32, c: bool) -> bool {
        let expect = |value: u32| (value, nzcv(value >> 31 == 1, value == 0, c, false));
        arm_op(0b0000, a, b, c) == expect(a & b)
            && arm_op(0b0001, a, b, c) == expect(a ^ b)
            && arm_op(0b1100, a, b, c) == expect(a | b)
            && arm_op(0b1101, a, b, c) == expect(b)
            && arm_op(0b1110, a, b, c) == expect(a & !b)
            && arm_op(0b1111, a, b, c) == expect(!b)
            && arm_op(0b1000, a, b, c).1 == expect(a & b).1
            && arm_op(0b1001, a, b, c).1 == expect(a ^ b).1
    }

    fn thumb_agrees_with_the_same_laws(a: u32, b: u32, c: bool) -> bool {
        thumb_op(5, a, b, c) == wide_sum(a, b, c)
            && thumb_op(6, a, b, c) == wide_difference(a, b, c)
            && thumb_op(9, a, b, c) == wide_difference(0, b, true)
            && thumb_op(10, a, b, c).1 == wide_difference(a, b, true).1
            && thumb_op(11, a, b, c).1 == wide_sum(a, b, false).1
            && thumb_op(13, a, b, c).0 == a.wrapping_mul(b)
    }

    fn shifts_by_register_go_bit_by_bit(kind: u32, amount: u32, value: u32, c: bool) -> bool {
        let kind = Shift::from_bits(kind);
        [amount, amount & 63, 31, 32, 33].into_iter().all(|amount| {
            let shifted = shift_by_register(kind, amount, value, c);
            (shifted.value, shifted.carry) == slow_shift(kind, amount & 0xff, value, c)
        })
    }

    fn shifts_by_immediate_take_zero_for_32_or_rrx(kind: u32, value: u32, c: bool) -> bool {
        let kind = Shift::from_bits(kind);
        let shifted = shift_by_immediate(kind, 0, value, c);
        let expected = match kind {
            Shift::Lsl => (value, c),
            Shift::Ror => (u32::from(c) << 31 | value >> 1, value & 1 == 1),
            _ => slow_shift(kind, 32, value, c),
        };
        (shifted.value, shifted.carry) == expected
            && (1..32).all(|amount| {
                let shifted = shift_by_immediate(kind, amount, value, c);
                (shifted.value, shifted.carry) == slow_shift(kind, amount, value, c)
            })
    }

    fn rotated_immediates_carry_their_top_bit_if_rotated(word: u32, c: bool) -> bool {
        let second = rotated_immediate(word, c);
        let value = (word & 0xff).rotate_right(2 * (word >> 8 & 15));
        let carry = if word >> 8 & 15 == 0 { c } else { value >> 31 == 1 };
        (second.value, second.carry) == (value, carry)
    }

    fn saturation_is_nearest(value: i64) -> bool {
        let (near, is_other) = saturate(value);
        let near = i64::from(near as i32);
        is_other == (near != value) && (!is_other || near == if value < 0 { -1 << 31 } else { (1 << 31) - 1 })
    }

    fn long_multiplies_are_64_bit(a: u32, b: u32, high: u32, low: u32) -> bool {
        let accumulator = u64::from(high) << 32 | u64::from(low);
        let unsigned = u64::from(a) * u64::from(b);
        let signed = (i64::from(a as i32) * i64::from(b as i32)) as u64;
        // umull, umlal, smull, smlal r2, r3, r0, r1; all with flags.
        [
            (0xe093_2190, unsigned),
            (0xe0b3_2190, unsigned.wrapping_add(accumulator)),
            (0xe0d3_2190, signed),
            (0xe0f3_2190, signed.wrapping_add(accumulator)),
        ]
        .into_iter()
        .all(|(word, expected)| {
            let bench = Bench::arm(&[word]).with(&[a, b, low, high]).flags(3).run(1);
            let flags = nzcv(expected >> 63 == 1, expected == 0, true, true);
            u64::from(bench.r(3)) << 32 | u64::from(bench.r(2)) == expected && bench.nzcv() == flags
        })
    }

    fn saturating_additions_saturate_and_remember(a: i32, b: i32) -> bool {
        let expect = |exact: i64| saturate(exact);
        let doubled = expect(2 * i64::from(b));
        let (a64, d64) = (i64::from(a), i64::from(doubled.0 as i32));
        // qadd, qsub, qdadd, qdsub r2, r0, r1.
        [
            (0xe101_2050, expect(a64 + i64::from(b)), false),
            (0xe121_2050, expect(a64 - i64::from(b)), false),
            (0xe141_2050, expect(a64 + d64), doubled.1),
            (0xe161_2050, expect(a64 - d64), doubled.1),
        ]
        .into_iter()
        .all(|(word, (value, saturated), first)| {
            let bench = Bench::arm(&[word]).with(&[a as u32, b as u32]).run(1);
            bench.r(2) == value && bench.regs.q == (saturated || first)
        })
    }

    fn halfword_products_are_exact(a: u32, b: u32, c: u32) -> bool {
        let half = |value: u32, top: u32| i64::from((value >> (16 * top)) as i16);
        (0..4).all(|xy| {
            let (x, y) = (xy & 1, xy >> 1);
            let select = x << 5 | y << 6;
            let product = half(a, x) * half(b, y);
            let sum = product + i64::from(c as i32);
            // smulxy r3, r0, r1; smlaxy r3, r0, r1, r2.
            let multiplied = Bench::arm(&[0xe163_0180 | select]).with(&[a, b, c]).run(1);
            let added = Bench::arm(&[0xe103_2180 | select]).with(&[a, b, c]).run(1);
            multiplied.r(3) == product as u32
                && added.r(3) == sum as u32
                && added.regs.q == (sum != i64::from(sum as i32))
        })
    }

    fn conditions_are_those_of_a_comparison(a: u32, b: u32) -> bool {
        let flags = wide_difference(a, b, true).1;
        let (s, t) = (a as i32, b as i32);
        let holds = [a == b, a != b, a >= b, a < b];
        let unsigned = [a > b, a <= b, s >= t, s < t, s > t, s <= t];
        (0..4).zip(holds).chain((8..14).zip(unsigned)).all(|(cond, expected)| {
            // mov<cond> r0, #1
            let bench = Bench::arm(&[0x03a0_0001 | cond << 28]).flags(flags).run(1);
            (bench.r(0) == 1) == expected
        })
    }

    fn clz_counts(a: u32) -> bool {
        Bench::arm(&[0xe16f_1f10]).with(&[a]).run(1).r(1) == a.leading_zeros()
    }
}
