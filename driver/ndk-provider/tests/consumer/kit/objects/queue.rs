//! What queues and queue pairs do.
#![expect(unsafe_code, reason = "calls functions of a C interface")]

use std::time::Instant;

use ndk_abi::{
    describe::ZeroInit,
    ndkpi::*,
    status::{NTSTATUS, STATUS_SUCCESS},
};

use super::{
    super::{LIMIT, Lam, Request, Waiter, call::call, waiter},
    Cq, Mr, Mw, Qp, Srq, number,
};

impl Cq {
    pub(crate) fn arm(&self, notify: u32) {
        call!(self.raw, NdkArmCq(notify));
    }

    pub(crate) fn resize(&self, depth: u32) -> Request {
        let completion = Waiter::new("completion of NdkResizeCq");
        let returned = call!(self.raw, NdkResizeCq(depth, waiter::completed, completion.context()));
        Request { returned, completion }
    }

    pub(crate) fn moderate(&self, interval: u32, count: u32) -> NTSTATUS {
        call!(self.raw, NdkControlCqInterruptModeration(interval, count))
    }

    /// NdkGetCqResults.
    pub(crate) fn results(&self, count: usize) -> Vec<NDK_RESULT> {
        let mut results = vec![NDK_RESULT::ZERO; count];
        let taken = call!(self.raw, NdkGetCqResults(results.as_mut_ptr(), count as u32));
        results.truncate(taken as usize);
        results
    }

    /// NdkGetCqResultsEx.
    pub(crate) fn poll(&self, count: usize) -> Vec<NDK_RESULT_EX> {
        let mut results = vec![NDK_RESULT_EX::ZERO; count];
        let taken = call!(self.raw, NdkGetCqResultsEx(results.as_mut_ptr(), count as u32));
        assert!(taken as usize <= count);
        results.truncate(taken as usize);
        for result in &results {
            assert!(result.Status != STATUS_SUCCESS || result.ProviderErrorCode == 0);
        }
        results
    }

    /// Polls until there have been `count` completions.
    #[track_caller]
    pub(crate) fn wait(&self, count: usize) -> Vec<NDK_RESULT_EX> {
        let deadline = Instant::now() + LIMIT;
        let mut results = Vec::new();
        while results.len() < count {
            assert!(Instant::now() < deadline, "{} of {count} completions: {results:?}", results.len());
            results.extend(self.poll(count - results.len()));
            simkernel::pause();
        }
        results
    }

    #[track_caller]
    pub(crate) fn wait_one(&self) -> NDK_RESULT_EX {
        self.wait(1)[0]
    }
}

impl Srq {
    pub(crate) fn modify(&self, depth: u32, threshold: u32) -> Request {
        let completion = Waiter::new("completion of NdkModifySrq");
        let returned = call!(self.raw, NdkModifySrq(depth, threshold, waiter::completed, completion.context()));
        Request { returned, completion }
    }

    pub(crate) fn receive(&self, context: usize, sges: &[NDK_SGE]) -> NTSTATUS {
        call!(self.raw, NdkSrqReceive(number(context), sges.as_ptr(), sges.len() as u32))
    }
}

impl Qp {
    pub(crate) fn flush(&self) {
        call!(self.raw, NdkFlush());
    }

    pub(crate) fn send(&self, context: usize, sges: &[NDK_SGE], flags: u32) -> NTSTATUS {
        call!(self.raw, NdkSend(number(context), sges.as_ptr(), sges.len() as u32, flags))
    }

    pub(crate) fn send_and_invalidate(&self, context: usize, sges: &[NDK_SGE], flags: u32, token: u32) -> NTSTATUS {
        call!(self.raw, NdkSendAndInvalidate(number(context), sges.as_ptr(), sges.len() as u32, flags, token))
    }

    pub(crate) fn receive(&self, context: usize, sges: &[NDK_SGE]) -> NTSTATUS {
        call!(self.raw, NdkReceive(number(context), sges.as_ptr(), sges.len() as u32))
    }

    pub(crate) fn read(&self, context: usize, sges: &[NDK_SGE], address: u64, token: u32, flags: u32) -> NTSTATUS {
        call!(self.raw, NdkRead(number(context), sges.as_ptr(), sges.len() as u32, address, token, flags))
    }

    pub(crate) fn write(&self, context: usize, sges: &[NDK_SGE], address: u64, token: u32, flags: u32) -> NTSTATUS {
        call!(self.raw, NdkWrite(number(context), sges.as_ptr(), sges.len() as u32, address, token, flags))
    }

    pub(crate) fn fast_register(
        &self,
        context: usize,
        mr: &Mr,
        lam: &Lam,
        length: usize,
        base: u64,
        flags: u32,
    ) -> NTSTATUS {
        call!(
            self.raw,
            NdkFastRegister(
                number(context),
                mr.raw.as_ptr(),
                lam.pages.len() as u32,
                lam.pages.as_ptr(),
                lam.first_byte_offset,
                length,
                number(base as usize),
                flags,
            )
        )
    }

    pub(crate) fn invalidate(&self, context: usize, mr: &Mr, flags: u32) -> NTSTATUS {
        call!(self.raw, NdkInvalidate(number(context), mr.raw.as_ptr().cast(), flags))
    }

    pub(crate) fn invalidate_window(&self, context: usize, mw: &Mw, flags: u32) -> NTSTATUS {
        call!(self.raw, NdkInvalidate(number(context), mw.raw.as_ptr().cast(), flags))
    }

    /// NdkBind of `part`, address and length.
    pub(crate) fn bind(&self, context: usize, mw: &Mw, mr: &Mr, part: (u64, usize), flags: u32) -> NTSTATUS {
        let address = number(part.0 as usize);
        call!(self.raw, NdkBind(number(context), mr.raw.as_ptr(), mw.raw.as_ptr(), address, part.1, flags))
    }
}
