//! What domains and regions do.
#![expect(unsafe_code, reason = "calls functions of a C interface")]

use std::ptr::null_mut;

use ndk_abi::status::NTSTATUS;
use simkernel::Mdl;

use super::{
    super::{Request, Waiter, call::call, waiter},
    Cq, Mr, Mw, Pd, Qp, Srq, made, number,
};

/// The sizes of a queue pair.
#[derive(Clone, Copy)]
pub(crate) struct QpSizes {
    pub(crate) receives: u32,
    pub(crate) requests: u32,
    pub(crate) receive_sges: u32,
    pub(crate) request_sges: u32,
    pub(crate) inline: u32,
}

impl Default for QpSizes {
    fn default() -> Self {
        Self { receives: 64, requests: 64, receive_sges: 16, request_sges: 16, inline: 1024 }
    }
}

impl Pd {
    pub(crate) fn create_mr(&self, fast: bool) -> Result<Mr, NTSTATUS> {
        let completion = Waiter::new("create completion of an MR");
        let mut out = null_mut();
        let returned =
            call!(self.raw, NdkCreateMr(u8::from(fast), waiter::created, completion.context(), &raw mut out));
        let mr = Mr { raw: made(returned, out, completion)? };
        mr.check_header();
        Ok(mr)
    }

    pub(crate) fn create_mw(&self) -> Result<Mw, NTSTATUS> {
        let completion = Waiter::new("create completion of an MW");
        let mut out = null_mut();
        let returned = call!(self.raw, NdkCreateMw(waiter::created, completion.context(), &raw mut out));
        let mw = Mw { raw: made(returned, out, completion)? };
        mw.check_header();
        Ok(mw)
    }

    pub(crate) fn create_srq(&self, depth: u32, sges: u32, threshold: u32) -> Result<Srq, NTSTATUS> {
        let notified = Waiter::notification("SRQ notification");
        let completion = Waiter::new("create completion of an SRQ");
        let mut out = null_mut();
        let returned = call!(
            self.raw,
            NdkCreateSrq(
                depth,
                sges,
                threshold,
                Some(waiter::completed),
                notified.context(),
                null_mut(),
                waiter::created,
                completion.context(),
                &raw mut out,
            )
        );
        let srq = Srq { raw: made(returned, out, completion)?, notified };
        srq.check_header();
        Ok(srq)
    }

    pub(crate) fn create_qp(&self, receive: &Cq, initiator: &Cq, tag: usize, sizes: QpSizes) -> Result<Qp, NTSTATUS> {
        let completion = Waiter::new("create completion of a QP");
        let mut out = null_mut();
        let returned = call!(
            self.raw,
            NdkCreateQp(
                receive.raw.as_ptr(),
                initiator.raw.as_ptr(),
                number(tag),
                sizes.receives,
                sizes.requests,
                sizes.receive_sges,
                sizes.request_sges,
                sizes.inline,
                waiter::created,
                completion.context(),
                &raw mut out,
            )
        );
        let qp = Qp { raw: made(returned, out, completion)? };
        qp.check_header();
        Ok(qp)
    }

    pub(crate) fn create_qp_with_srq(
        &self,
        receive: &Cq,
        initiator: &Cq,
        srq: &Srq,
        tag: usize,
        sizes: QpSizes,
    ) -> Result<Qp, NTSTATUS> {
        let completion = Waiter::new("create completion of a QP");
        let mut out = null_mut();
        let returned = call!(
            self.raw,
            NdkCreateQpWithSrq(
                receive.raw.as_ptr(),
                initiator.raw.as_ptr(),
                srq.raw.as_ptr(),
                number(tag),
                sizes.requests,
                sizes.request_sges,
                sizes.inline,
                waiter::created,
                completion.context(),
                &raw mut out,
            )
        );
        let qp = Qp { raw: made(returned, out, completion)? };
        qp.check_header();
        Ok(qp)
    }

    pub(crate) fn privileged_token(&self) -> u32 {
        let mut token = u32::MAX;
        call!(self.raw, NdkGetPrivilegedMemoryRegionToken(&raw mut token));
        token
    }
}

impl Mr {
    pub(crate) fn register(&self, mdl: &Mdl, length: usize, flags: u32) -> Request {
        let completion = Waiter::new("completion of NdkRegisterMr");
        let returned =
            call!(self.raw, NdkRegisterMr(mdl.as_ptr(), length, flags, waiter::completed, completion.context()));
        Request { returned, completion }
    }

    pub(crate) fn deregister(&self) -> Request {
        let completion = Waiter::new("completion of NdkDeregisterMr");
        let returned = call!(self.raw, NdkDeregisterMr(waiter::completed, completion.context()));
        Request { returned, completion }
    }

    pub(crate) fn initialize_fast(&self, pages: u32, remote_access: bool) -> Request {
        let completion = Waiter::new("completion of NdkInitializeFastRegisterMr");
        let remote_access = u8::from(remote_access);
        let returned =
            call!(self.raw, NdkInitializeFastRegisterMr(pages, remote_access, waiter::completed, completion.context()));
        Request { returned, completion }
    }

    /// The local token, which is the remote one too.
    pub(crate) fn token(&self) -> u32 {
        let local = call!(self.raw, NdkGetLocalTokenFromMr());
        assert_eq!(call!(self.raw, NdkGetRemoteTokenFromMr()), local);
        local
    }
}

impl Mw {
    /// The remote token.
    pub(crate) fn token(&self) -> u32 {
        call!(self.raw, NdkGetRemoteTokenFromMw())
    }
}
