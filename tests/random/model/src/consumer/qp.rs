//! What queue pairs do.
#![expect(unsafe_code, reason = "calls functions of a C interface, through pointers to objects")]

use std::ptr::null_mut;

use ndk_abi::{ndkpi::NDK_LOGICAL_ADDRESS, status::NTSTATUS};

use super::{Mr, Mw, Qp, call, list, number, pointer};
use crate::reference::{Sge, Work};

impl Qp {
    pub(crate) fn flush(self) {
        call!(self.0, NdkFlush());
    }

    pub(crate) fn receive(self, context: usize, sges: &[Sge]) -> NTSTATUS {
        let list = list(sges);
        call!(self.0, NdkReceive(number(context), pointer(&list), list.len() as u32))
    }

    /// Posts a request; what it names besides the queue pair is `named`.
    pub(crate) fn post(self, context: usize, work: &Work, sges: &[Sge], flags: u32, named: Named<'_>) -> NTSTATUS {
        let (list, context) = (list(sges), number(context));
        let (sgl, count) = (pointer(&list), list.len() as u32);
        match (work, named) {
            (Work::Send { invalidate: None }, _) => call!(self.0, NdkSend(context, sgl, count, flags)),
            (Work::Send { invalidate: Some(token) }, _) => {
                call!(self.0, NdkSendAndInvalidate(context, sgl, count, flags, *token))
            }
            (Work::Read { address, token }, _) => {
                call!(self.0, NdkRead(context, sgl, count, *address, *token, flags))
            }
            (Work::Write { address, token }, _) => {
                call!(self.0, NdkWrite(context, sgl, count, *address, *token, flags))
            }
            (Work::Invalidate { .. }, Named::Region(mr, _)) => {
                call!(self.0, NdkInvalidate(context, mr.0.as_ptr().cast(), flags))
            }
            (Work::FastRegister { registration, .. }, Named::Region(mr, pages)) => call!(
                self.0,
                NdkFastRegister(
                    context,
                    mr.0.as_ptr(),
                    pages.len() as u32,
                    pages.as_ptr(),
                    registration.first_byte_offset,
                    registration.length as usize,
                    number(registration.base as usize),
                    flags,
                )
            ),
            (Work::InvalidateWindow { .. }, Named::Window(mw, _)) => {
                call!(self.0, NdkInvalidate(context, mw.0.as_ptr().cast(), flags))
            }
            (Work::Bind(bind), Named::Window(mw, mr)) => call!(
                self.0,
                NdkBind(
                    context,
                    mr.map_or(null_mut(), |mr| mr.0.as_ptr()),
                    mw.0.as_ptr(),
                    number(bind.address as usize),
                    bind.length as usize,
                    flags,
                )
            ),
            (work, _) => unreachable!("what {work:?} names is not given"),
        }
    }
}

/// The objects that a request names.
#[derive(Clone, Copy)]
pub(crate) enum Named<'a> {
    Nothing,
    /// With the logical addresses of its pages.
    Region(Mr, &'a [NDK_LOGICAL_ADDRESS]),
    /// With the region to bind it to.
    Window(Mw, Option<Mr>),
}
