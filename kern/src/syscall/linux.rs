//! Linux EABI's table. (To follow.)

use super::Service;
use crate::ctx::KernCtx;

/// The service of a number, and its name.
pub(crate) fn service<C: KernCtx + ?Sized>(_number: u32) -> Option<(&'static str, Service<C>)> {
    None
}
