//! ND_RESULT: memory of the program's that a request names, and that is given back when the request is over.
//!
//! The client keeps all of it from the request to the end of the case: it detects a provider that returns an ND_RESULT of no request, or
//! one twice, or that writes to one that it has returned. The memory is never freed, as such a provider would write to it later, too.
#![expect(unsafe_code, reason = "memory that the provider writes")]

use std::{
    collections::BTreeMap,
    mem,
    sync::{Mutex, MutexGuard, PoisonError},
};

use anyhow::{Context as _, ensure};
use nd_com::v1::ND_RESULT;
use ndk_abi::status::NTSTATUS;
use windows_core::HRESULT;

use super::super::Completion;
use crate::error::Result;

/// The kind of a completion that tells of a window that the peer has invalidated.
pub(crate) const REMOTE_INVALIDATION: i32 = 100;

/// The content of an ND_RESULT before the provider writes to it, and after its request.
const UNTOUCHED: ND_RESULT = ND_RESULT { Status: HRESULT(0x7a7a_7a7a), BytesTransferred: 0x7a7a_7a7a_7a7a };

static RESULTS: Mutex<Results> = Mutex::new(Results { under_way: BTreeMap::new(), over: Vec::new() });

/// Addresses of ND_RESULTs.
struct Results {
    /// The provider's, each with the kind and the context of its request.
    under_way: BTreeMap<usize, (i32, usize)>,
    /// Ours again.
    over: Vec<usize>,
}

fn results() -> MutexGuard<'static, Results> {
    RESULTS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn read(address: usize) -> ND_RESULT {
    // SAFETY: allocated by post, and never freed.
    unsafe { std::ptr::with_exposed_provenance::<ND_RESULT>(address).read_volatile() }
}

impl Results {
    fn end(&mut self, address: usize) {
        // SAFETY: allocated by post, never freed, and the provider's no more.
        unsafe { std::ptr::with_exposed_provenance_mut::<ND_RESULT>(address).write_volatile(UNTOUCHED) };
        self.over.push(address);
    }
}

/// Issues a request, which gets an ND_RESULT.
pub(super) fn post<T>(kind: i32, context: usize, issue: impl FnOnce(*mut ND_RESULT) -> Result<T>) -> Result<T> {
    let result = Box::into_raw(Box::new(UNTOUCHED));
    let address = result.expose_provenance();
    // Before it is issued: another thread may take it at once.
    results().under_way.insert(address, (kind, context));
    let issued = issue(result);
    if issued.is_err() {
        let mut results = results();
        results.under_way.remove(&address);
        results.end(address);
    }
    issued
}

/// What GetResults has given back.
pub(super) fn taken(result: *mut ND_RESULT) -> anyhow::Result<Completion> {
    let mut results = results();
    let address = result.addr();
    let (kind, context) = results.under_way.get(&address).copied().with_context(|| {
        let why = if results.over.contains(&address) { "once more" } else { "which nobody gave it" };
        format!("GetResults gave back {address:#x}, {why}")
    })?;
    let ND_RESULT { Status: status, BytesTransferred: bytes } = read(address);
    // A window that is bound again may be invalidated again.
    if kind != REMOTE_INVALIDATION {
        results.under_way.remove(&address);
        results.end(address);
    }
    ensure!(status != UNTOUCHED.Status, "GetResults gave back an ND_RESULT without a status");
    let bytes = u32::try_from(bytes).context("more bytes than any request has")?;
    Ok(Completion { status: NTSTATUS(status.0), bytes, qp_context: 0, context, kind })
}

/// After a case: complaints about what was written to after it had been given back.
pub(in crate::nd) fn late_writes() -> Vec<String> {
    let mut results = results();
    results.under_way.clear();
    let is_untouched = |address: &usize| {
        let ND_RESULT { Status, BytesTransferred } = read(*address);
        (Status, BytesTransferred) == (UNTOUCHED.Status, UNTOUCHED.BytesTransferred)
    };
    let written = mem::take(&mut results.over).iter().filter(|address| !is_untouched(address)).count();
    if written == 0 {
        Vec::new()
    } else {
        vec![format!("{written} ND_RESULTs were written to after they had come back")]
    }
}
