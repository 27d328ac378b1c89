//! What both processors start from, and our side of the comparison.
//!
//! One page of code and one of data; everything else is unmapped.

use machine::cpu::{Arch, Bus, Exit, Regs, run};
use machine::{Abort, Access, Fault, VirtAddr, Width};

/// The code page.
pub const CODE: u32 = 0x0001_0000;
/// The data page.
pub const DATA: u32 = 0x0002_0000;
/// The size of each.
pub const PAGE_BYTES: u32 = 0x1000;

/// Registers and both pages.
#[derive(Clone, PartialEq, Eq)]
pub struct Guest {
    /// The registers.
    pub regs: Regs,
    /// The code page.
    pub code: Vec<u8>,
    /// The data page.
    pub data: Vec<u8>,
}

/// How an execution ended, on either side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// All instructions retired.
    Done,
    /// A supervisor call.
    Svc,
    /// Undefined.
    Undefined,
    /// UNPREDICTABLE, and why; only ours says so.
    Unpredictable(&'static str),
    /// A fetch from where there is no code.
    Fetch,
    /// A data access to where there is no data, or to code by a store, or misaligned.
    Data,
    /// BKPT.
    Breakpoint,
    /// Anything else that the reference does.
    Other(i32),
}

impl From<Exit> for Ending {
    fn from(exit: Exit) -> Self {
        match exit {
            Exit::Budget => Ending::Done,
            Exit::Svc { .. } => Ending::Svc,
            Exit::Undefined { .. } => Ending::Undefined,
            Exit::Unpredictable { why, .. } => Ending::Unpredictable(why),
            Exit::PrefetchAbort(_) => Ending::Fetch,
            Exit::DataAbort(_) => Ending::Data,
            Exit::Breakpoint => Ending::Breakpoint,
        }
    }
}

impl Guest {
    /// Executes `count` instructions with our interpreter.
    pub fn run(&mut self, arch: Arch, count: u64) -> Ending {
        self.run_checked(arch, count, false)
    }

    /// Whether the next `count` instructions make a misaligned access, wherever it goes.
    pub fn misaligns(&self, arch: Arch, count: u64) -> bool {
        let mut copy = self.clone();
        let mut regs = copy.regs;
        let mut bus = Memory {
            code: &mut copy.code,
            data: &mut copy.data,
            checked: true,
        };
        let (_, exit) = run(&mut regs, arch, &mut bus, count);
        matches!(
            exit,
            Exit::DataAbort(Abort {
                fault: Fault::Alignment,
                ..
            })
        )
    }

    fn run_checked(&mut self, arch: Arch, count: u64, checked: bool) -> Ending {
        let mut bus = Memory {
            code: &mut self.code,
            data: &mut self.data,
            checked,
        };
        run(&mut self.regs, arch, &mut bus, count).1.into()
    }

    /// Writes an instruction of `bytes` at `va` in the code page.
    pub fn put(&mut self, va: u32, bytes: u32, word: u32) {
        let start = (va - CODE) as usize;
        let bytes = bytes as usize;
        self.code[start..start + bytes].copy_from_slice(&word.to_le_bytes()[..bytes]);
    }
}

struct Memory<'a> {
    code: &'a mut [u8],
    data: &'a mut [u8],
    checked: bool,
}

impl Memory<'_> {
    fn bytes(&mut self, va: VirtAddr, width: Width, access: Access) -> Result<&mut [u8], Abort> {
        let offset = (va.0 % PAGE_BYTES) as usize;
        let page = match va.0 & !(PAGE_BYTES - 1) {
            CODE if access != Access::Store => &mut *self.code,
            DATA if access != Access::Fetch => &mut *self.data,
            _ => {
                return Err(Abort {
                    va,
                    access,
                    fault: Fault::TranslationPage,
                });
            }
        };
        Ok(&mut page[offset..offset + width.bytes() as usize])
    }

    fn read(&mut self, va: VirtAddr, width: Width, access: Access) -> Result<u32, Abort> {
        let bytes = self.bytes(va, width, access)?;
        Ok(bytes
            .iter()
            .rev()
            .fold(0, |value, &byte| value << 8 | u32::from(byte)))
    }
}

impl Bus for Memory<'_> {
    fn fetch(&mut self, va: VirtAddr, width: Width) -> Result<u32, Abort> {
        self.read(va, width, Access::Fetch)
    }

    fn load(&mut self, va: VirtAddr, width: Width) -> Result<u32, Abort> {
        self.read(va, width, Access::Load)
    }

    fn store(&mut self, va: VirtAddr, width: Width, value: u32) -> Result<(), Abort> {
        let bytes = self.bytes(va, width, Access::Store)?;
        let count = bytes.len();
        bytes.copy_from_slice(&value.to_le_bytes()[..count]);
        Ok(())
    }

    fn stall(&mut self, _cycles: u32) {}

    fn alignment_checked(&self) -> bool {
        self.checked
    }

    fn barrier(&mut self, _instruction_side: bool) {}
}
