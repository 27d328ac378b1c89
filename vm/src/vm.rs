//! State of the VM. (Skeleton.)

use machine::VirtAddr;

use crate::types::{ObjectId, VmConfig, VmspaceId};

/// An object's record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Object {
    /// Program text.
    pub text: bool,
}

/// All of the VM's state.
#[derive(Clone, Debug)]
pub struct Vm {
    /// Tunables.
    pub config: VmConfig,
    objects: Vec<Object>,
}

impl Vm {
    /// An empty VM that owns the frames `first..end`.
    pub fn new(_first: machine::Frame, _end: machine::Frame, _page_bytes: u32) -> Self {
        todo!()
    }

    /// An object.
    pub fn object_mut(&mut self, object: ObjectId) -> &mut Object {
        &mut self.objects[object.0 as usize]
    }

    /// The pmap of a space.
    pub fn pmap_of(&self, _space: VmspaceId) -> pmap::SpaceId {
        todo!()
    }

    /// The current space of a CPU.
    pub fn current(&self, _cpu: machine::CpuId) -> Option<VmspaceId> {
        todo!()
    }

    /// What is mapped at `va`: start, end, protection.
    pub fn mapping_at(
        &self,
        _space: VmspaceId,
        _va: VirtAddr,
    ) -> Option<(VirtAddr, VirtAddr, pmap::Prot)> {
        todo!()
    }

    /// Free frames.
    pub fn free_pages(&self) -> u32 {
        todo!()
    }

    /// A hash of everything that decides future behaviour.
    pub fn fingerprint(&self) -> u64 {
        todo!()
    }

    /// Checks the tables against each other.
    ///
    /// # Errors
    /// What does not hold.
    pub fn check(&self) -> Result<(), String> {
        todo!()
    }
}
