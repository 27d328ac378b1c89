//! The other side: unicorn-engine (QEMU's ARM translator) put into the same state.

use crate::guest::{CODE, DATA, Ending, Guest, PAGE_BYTES};
use machine::cpu::Arch;
use unicorn_engine::unicorn_const::{Arch as UcArch, Mode, Prot, uc_error};
use unicorn_engine::{RegisterARM, Unicorn};

const REGISTERS: [RegisterARM; 16] = [
    RegisterARM::R0,
    RegisterARM::R1,
    RegisterARM::R2,
    RegisterARM::R3,
    RegisterARM::R4,
    RegisterARM::R5,
    RegisterARM::R6,
    RegisterARM::R7,
    RegisterARM::R8,
    RegisterARM::R9,
    RegisterARM::R10,
    RegisterARM::R11,
    RegisterARM::R12,
    RegisterARM::R13,
    RegisterARM::R14,
    RegisterARM::R15,
];

/// Numbers of QEMU's `UC_CPU_ARM_*`.
const CPU_926: i32 = 0;
const CPU_11MPCORE: i32 = 6;
/// CLREX.
const CLEAR_EXCLUSIVE: u32 = 0xf57f_f01f;

/// One unicorn instance; its user data is the last exception number.
pub struct Reference {
    uc: Unicorn<'static, Option<u32>>,
    arch: Arch,
    code: Vec<u8>,
    data: Vec<u8>,
}

impl Reference {
    /// An ARM926 or, for ARMv6K, an ARM11 MPCore, with the two pages mapped.
    pub fn new(arch: Arch) -> Result<Self, uc_error> {
        let mut uc = Unicorn::new_with_data(UcArch::ARM, Mode::ARM, None)?;
        uc.ctl_set_cpu_model(if arch == Arch::V5te {
            CPU_926
        } else {
            CPU_11MPCORE
        })?;
        uc.mem_map(CODE.into(), PAGE_BYTES.into(), Prot::READ | Prot::EXEC)?;
        uc.mem_map(DATA.into(), PAGE_BYTES.into(), Prot::READ | Prot::WRITE)?;
        uc.add_intr_hook(|uc, number| {
            *uc.get_data_mut() = Some(number);
            let _ = uc.emu_stop();
        })?;
        let (code, data) = (vec![0; PAGE_BYTES as usize], vec![0; PAGE_BYTES as usize]);
        Ok(Self {
            uc,
            arch,
            code,
            data,
        })
    }

    /// Executes `count` instructions from `guest` and stores the result in it.
    pub fn run(&mut self, guest: &mut Guest, count: usize) -> Result<Ending, uc_error> {
        if self.arch == Arch::V6k {
            self.clear_exclusive()?;
        }
        self.load(guest)?;
        *self.uc.get_data_mut() = None;
        let start = guest.regs.r[15] | u32::from(guest.regs.t);
        let result = self.uc.emu_start(start.into(), u64::MAX, 0, count);
        self.unload(guest)?;
        Ok(ending(result, *self.uc.get_data()))
    }

    fn clear_exclusive(&mut self) -> Result<(), uc_error> {
        let mut code = self.code.clone();
        code[..4].copy_from_slice(&CLEAR_EXCLUSIVE.to_le_bytes());
        self.write_code(&code)?;
        self.uc.reg_write(RegisterARM::CPSR, 0x10)?;
        self.uc.emu_start(CODE.into(), u64::MAX, 0, 1)
    }

    /// Writes what differs from the code there, and drops its translation.
    fn write_code(&mut self, bytes: &[u8]) -> Result<(), uc_error> {
        let Some((first, last)) = difference(&self.code, bytes) else {
            return Ok(());
        };
        let va = u64::from(CODE) + first as u64;
        self.uc.mem_write(va, &bytes[first..=last])?;
        self.code.copy_from_slice(bytes);
        self.uc
            .ctl_remove_cache(CODE.into(), u64::from(CODE + PAGE_BYTES))
    }

    fn write_data(&mut self, bytes: &[u8]) -> Result<(), uc_error> {
        let Some((first, last)) = difference(&self.data, bytes) else {
            return Ok(());
        };
        self.uc
            .mem_write(u64::from(DATA) + first as u64, &bytes[first..=last])
    }

    fn load(&mut self, guest: &Guest) -> Result<(), uc_error> {
        self.write_code(&guest.code)?;
        self.write_data(&guest.data)?;
        self.uc
            .reg_write(RegisterARM::CPSR, guest.regs.cpsr().into())?;
        for (register, &value) in REGISTERS.into_iter().zip(&guest.regs.r).take(15) {
            self.uc.reg_write(register, value.into())?;
        }
        if self.arch == Arch::V6k {
            self.uc
                .reg_write(RegisterARM::C13_C0_3, guest.regs.tls.into())?;
        }
        Ok(())
    }

    fn unload(&mut self, guest: &mut Guest) -> Result<(), uc_error> {
        for (register, value) in REGISTERS.into_iter().zip(&mut guest.regs.r) {
            *value = self.uc.reg_read(register)? as u32;
        }
        let psr = self.uc.reg_read(RegisterARM::CPSR)? as u32;
        guest.regs.set_flags(psr);
        guest.regs.t = psr >> 5 & 1 == 1;
        self.uc.mem_read(DATA.into(), &mut guest.data)?;
        self.data.copy_from_slice(&guest.data);
        Ok(())
    }
}

/// The first and last place where two pages differ.
fn difference(a: &[u8], b: &[u8]) -> Option<(usize, usize)> {
    if a == b {
        return None;
    }
    let differs = |(x, y): (&u8, &u8)| x != y;
    let first = a.iter().zip(b).position(differs)?;
    let last = a.iter().zip(b).rposition(differs)?;
    Some((first, last))
}

fn ending(result: Result<(), uc_error>, exception: Option<u32>) -> Ending {
    match (result, exception) {
        (Ok(()), None) => Ending::Done,
        (_, Some(1)) | (Err(uc_error::INSN_INVALID), _) => Ending::Undefined,
        (_, Some(2)) => Ending::Svc,
        (_, Some(7)) => Ending::Breakpoint,
        (_, Some(4)) => Ending::Data,
        (Err(uc_error::READ_UNMAPPED | uc_error::WRITE_UNMAPPED | uc_error::WRITE_PROT), _) => {
            Ending::Data
        }
        (Err(uc_error::READ_PROT | uc_error::READ_UNALIGNED | uc_error::WRITE_UNALIGNED), _) => {
            Ending::Data
        }
        (Err(uc_error::FETCH_UNMAPPED | uc_error::FETCH_PROT), _) => Ending::Fetch,
        (Err(error), _) => Ending::Other(error as i32),
        (Ok(()), Some(number)) => Ending::Other(number as i32),
    }
}
