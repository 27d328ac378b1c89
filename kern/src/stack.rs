//! The first stack of an image: arguments, environment, auxiliary vector, and at its top what the
//! family puts there.
//!
//! FreeBSD, from the top: ps_strings, sigcode, strings, vectors (`sys/kern/kern_exec.c`,
//! exec_copyout_strings). Linux: the executable's name, strings, platform, random bytes, vectors
//! (`fs/binfmt_elf.c`, create_elf_tables). Layouts: `guest-and-crates.md` 3 and 6.
//!
//! Pure: computes bytes and addresses; exec copies them out.
//!
//! Absent on purpose: stack gaps and canaries; the same program gets the same stack every time.

use crate::elf::{Abi, ExecError, Image};
use crate::limits::ARGUMENT_BYTES_MAX;

/// What is put on the stack, and the registers that point into it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stack {
    /// Runs of bytes with their address, to be copied out in this order.
    pub pieces: Vec<(u32, Vec<u8>)>,
    /// The stack pointer, a multiple of 8; it points at argc.
    pub sp: u32,
    /// `ps_strings` (FreeBSD), else 0.
    pub ps_strings: u32,
    /// Where sigcode is (FreeBSD), else 0.
    pub sigcode: u32,
}

/// What the stack is made from.
pub struct Inputs<'a> {
    /// The image, its addresses final.
    pub image: &'a Image,
    /// Entry address of the program itself, not of its interpreter.
    pub entry: u32,
    /// Where its program headers are.
    pub phdr: u32,
    /// Where the interpreter is, or 0.
    pub base: u32,
    /// Path of the executable.
    pub path: &'a [u8],
    /// Arguments.
    pub args: &'a [Vec<u8>],
    /// Environment.
    pub environment: &'a [Vec<u8>],
    /// First address behind the stack.
    pub top: u32,
    /// Page size.
    pub page: u32,
    /// 16 bytes for AT_RANDOM.
    pub random: [u8; 16],
}

/// FreeBSD's signal trampoline; our own code of the same effect. At entry sp points at the frame.
pub const SIGCODE: [u32; 8] = [
    0xe28d_0000 | crate::sendsig::UCONTEXT_OFFSET, // add r0, sp, #offset
    0xe3a0_7e1a,                                   // mov r7, #416
    0xe287_7001,                                   // add r7, r7, #1: sigreturn
    0xef00_0000,                                   // swi 0
    0xe3a0_7001,                                   // mov r7, #1: exit
    0xef00_0000,                                   // swi 0
    0xeaff_fffc,                                   // b back to the exit
    0xe7f0_00f0,                                   // undefined
];

/// Strings packed upwards, with the address of each.
struct Strings {
    bytes: Vec<u8>,
    lengths: Vec<u32>,
}

impl Strings {
    fn pack<'a>(all: impl Iterator<Item = &'a Vec<u8>>) -> Result<Self, ExecError> {
        let mut out = Strings {
            bytes: Vec::new(),
            lengths: Vec::new(),
        };
        for text in all {
            out.bytes.extend_from_slice(text);
            out.bytes.push(0);
            out.lengths.push(text.len() as u32 + 1);
            if out.bytes.len() > ARGUMENT_BYTES_MAX as usize {
                let max = ARGUMENT_BYTES_MAX;
                return Err(ExecError::Arguments { max });
            }
        }
        Ok(out)
    }

    fn addresses(&self, start: u32) -> Vec<u32> {
        let ends = self.lengths.iter().scan(start, |at, len| {
            let here = *at;
            *at += len;
            Some(here)
        });
        ends.collect()
    }
}

/// Lays the stack out.
///
/// # Errors
/// [`ExecError::Arguments`].
pub fn build(inputs: &Inputs<'_>) -> Result<Stack, ExecError> {
    let strings = Strings::pack(inputs.args.iter().chain(inputs.environment))?;
    match inputs.image.abi {
        Abi::FreeBsd => Ok(freebsd(inputs, &strings)),
        Abi::Linux => Ok(linux(inputs, &strings)),
    }
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}

/// argc, argv, NULL, envp, NULL, auxv.
fn vectors(inputs: &Inputs<'_>, addresses: &[u32], aux: &[(u32, u32)]) -> Vec<u32> {
    let argc = inputs.args.len();
    let mut out = vec![argc as u32];
    out.extend_from_slice(&addresses[..argc]);
    out.push(0);
    out.extend_from_slice(&addresses[argc..]);
    out.push(0);
    out.extend(aux.iter().flat_map(|(tag, value)| [*tag, *value]));
    out
}

/// The entries that both families number alike.
fn common_aux(inputs: &Inputs<'_>) -> Vec<(u32, u32)> {
    vec![
        (3, inputs.phdr),
        (4, 32),
        (5, inputs.image.phnum),
        (6, inputs.page),
        (7, inputs.base),
        (8, 0),
        (9, inputs.entry),
        (11, 0),
        (12, 0),
        (13, 0),
        (14, 0),
    ]
}

fn freebsd(inputs: &Inputs<'_>, strings: &Strings) -> Stack {
    let ps_strings = inputs.top - 16;
    let sigcode = ps_strings - 4 * SIGCODE.len() as u32;
    let at = (sigcode - strings.bytes.len() as u32) & !3;
    let addresses = strings.addresses(at);
    let mut aux = common_aux(inputs);
    aux.extend([(18, 900_044), (19, 1), (23, 7), (0, 0)]);
    let vectors = vectors(inputs, &addresses, &aux);
    let sp = (at - 4 * vectors.len() as u32) & !7;
    let argc = inputs.args.len() as u32;
    let environment = sp + 4 * (argc + 2);
    let ps = [sp + 4, argc, environment, inputs.environment.len() as u32];
    Stack {
        pieces: vec![
            (sigcode, words(&SIGCODE)),
            (at, strings.bytes.clone()),
            (ps_strings, words(&ps)),
            (sp, words(&vectors)),
        ],
        sp,
        ps_strings,
        sigcode,
    }
}

fn linux(inputs: &Inputs<'_>, strings: &Strings) -> Stack {
    let mut name = inputs.path.to_vec();
    name.extend_from_slice(&[0; 5]);
    let execfn = inputs.top - name.len() as u32;
    let at = execfn - strings.bytes.len() as u32;
    let addresses = strings.addresses(at);
    let platform = (at - 4) & !3;
    let random = (platform - 16) & !15;
    let mut aux = vec![(16, 0x97), (17, 100)];
    aux.extend(common_aux(inputs));
    aux.extend([(23, 0), (25, random), (31, execfn), (15, platform), (0, 0)]);
    let vectors = vectors(inputs, &addresses, &aux);
    let sp = (random - 4 * vectors.len() as u32) & !15;
    Stack {
        pieces: vec![
            (execfn, name),
            (at, strings.bytes.clone()),
            (platform, b"v5l\0".to_vec()),
            (random, inputs.random.to_vec()),
            (sp, words(&vectors)),
        ],
        sp,
        ps_strings: 0,
        sigcode: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(abi: Abi) -> Image {
        Image {
            abi,
            relocatable: false,
            entry: 0x8000,
            phdr: 0x8034,
            phnum: 3,
            segments: Vec::new(),
            interpreter: None,
        }
    }

    fn read(stack: &Stack, at: u32) -> u32 {
        let (start, bytes) = stack
            .pieces
            .iter()
            .find(|(start, bytes)| *start <= at && at - start < bytes.len() as u32)
            .expect("the address is in a piece");
        let n = (at - start) as usize;
        u32::from_le_bytes(bytes[n..n + 4].try_into().expect("four bytes"))
    }

    fn built(abi: Abi) -> Stack {
        let args = [b"prog".to_vec(), b"x".to_vec()];
        build(&Inputs {
            image: &image(abi),
            entry: 0x8000,
            phdr: 0x8034,
            base: 0,
            path: b"/bin/prog",
            args: &args,
            environment: &[b"A=b".to_vec()],
            top: 0xc000_0000,
            page: 4096,
            random: [7; 16],
        })
        .expect("it fits")
    }

    #[test]
    fn pieces_lie_apart_and_under_the_top() {
        for abi in [Abi::FreeBsd, Abi::Linux] {
            let mut pieces = built(abi).pieces;
            pieces.sort();
            for pair in pieces.windows(2) {
                assert!(pair[0].0 + pair[0].1.len() as u32 <= pair[1].0, "{abi:?}");
            }
            let (at, bytes) = pieces.last().expect("there are pieces");
            assert!(at + bytes.len() as u32 <= 0xc000_0000);
        }
    }

    #[test]
    fn vectors_name_the_strings() {
        for abi in [Abi::FreeBsd, Abi::Linux] {
            let stack = built(abi);
            assert_eq!(stack.sp % 8, 0);
            assert_eq!(read(&stack, stack.sp), 2);
            let argv0 = read(&stack, stack.sp + 4);
            assert_eq!(read(&stack, argv0), u32::from_le_bytes(*b"prog"));
            assert_eq!(read(&stack, stack.sp + 12), 0, "argv ends");
            let env = read(&stack, stack.sp + 16);
            assert_eq!(read(&stack, env), u32::from_le_bytes(*b"A=b\0"));
            assert_eq!(read(&stack, stack.sp + 20), 0, "envp ends");
        }
    }

    #[test]
    fn ps_strings_name_argv_and_envp() {
        let stack = built(Abi::FreeBsd);
        assert_eq!(read(&stack, stack.ps_strings), stack.sp + 4);
        assert_eq!(read(&stack, stack.ps_strings + 4), 2);
        assert_eq!(read(&stack, stack.ps_strings + 8), stack.sp + 16);
        assert_eq!(read(&stack, stack.ps_strings + 12), 1);
    }

    #[test]
    fn too_many_arguments_are_refused() {
        let args = vec![vec![b'x'; 1000]; 200];
        let result = Strings::pack(args.iter());
        assert!(matches!(result, Err(ExecError::Arguments { .. })));
    }
}
