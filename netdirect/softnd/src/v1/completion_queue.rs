//! INDCompletionQueue.
#![expect(unsafe_code, reason = "COM")]

use std::{
    collections::HashSet,
    mem::MaybeUninit,
    ptr,
    sync::{Arc, Mutex},
};

use nd_com::{
    status::{ND_INVALID_PARAMETER, from_nt},
    v1::{INDCompletionQueue, INDCompletionQueue_Impl, ND_RESULT},
};
use ndk_abi::{
    ndkpi::NdkOperationTypeReceiveAndInvalidate,
    softndk_ring::SOFTNDK_COMPLETION,
    status::{NTSTATUS, STATUS_SUCCESS},
};
use windows_core::{HRESULT, implement};
use windows_sys::Win32::System::IO::OVERLAPPED;

use super::{adapter::AdapterInner, memory_window::Invalidations, overlapped::overlapped};
use crate::{
    arguments::{hresult, places, with},
    core::{completion_queue, lock},
    hold::Hold,
};

#[implement(INDCompletionQueue, Agile = false)]
pub(crate) struct CompletionQueue {
    core: Arc<completion_queue::CompletionQueue>,
    adapter: Arc<AdapterInner>,
    results: Arc<Results>,
    _hold: Hold,
}

impl CompletionQueue {
    pub(super) fn new(core: Arc<completion_queue::CompletionQueue>, adapter: Arc<AdapterInner>) -> Self {
        Self { core, adapter, results: Arc::default(), _hold: Hold::new() }
    }

    pub(super) fn core(&self) -> &Arc<completion_queue::CompletionQueue> {
        &self.core
    }

    pub(super) fn results(&self) -> &Arc<Results> {
        &self.results
    }
}

/// The endpoints whose results a completion queue returns, and a result that GetResults had no room for.
#[derive(Default)]
pub(super) struct Results(Mutex<State>);

#[derive(Default)]
struct State {
    endpoints: HashSet<u64>,
    /// If a completion has two results and the last GetResults had room for the window's only: the request's result,
    /// and its endpoint.
    left_over: Option<(u64, usize)>,
}

impl Results {
    /// Adds an endpoint whose requests complete to this queue.
    pub(super) fn add(&self, endpoint: u64) {
        lock(&self.0).endpoints.insert(endpoint);
    }

    /// Removes a released endpoint. Its later results are not written: the program cannot know which results are still
    /// to come, and may free its ND_RESULTs after the release.
    pub(super) fn remove(&self, endpoint: u64) {
        let mut state = lock(&self.0);
        state.endpoints.remove(&endpoint);
        state.left_over.take_if(|(of, _)| *of == endpoint);
    }
}

/// Writes the results of a completion, and passes the address of each result to `give`: first the result of an
/// invalidated window, then the request's.
fn fill_in(completion: &SOFTNDK_COMPLETION, invalidations: &Invalidations, mut give: impl FnMut(usize)) {
    if completion.Type == NdkOperationTypeReceiveAndInvalidate.0.cast_unsigned() {
        invalidations.write_result(completion.Output, |result| {
            write(result, STATUS_SUCCESS, 0);
            give(result);
        });
    }
    // The request was posted with the address of its ND_RESULT.
    let result = completion.RequestContext as usize;
    write(result, completion.Status, completion.BytesTransferred);
    give(result);
}

/// Writes an ND_RESULT of the program, which keeps the ND_RESULT valid until GetResults has returned it.
fn write(result: usize, status: NTSTATUS, transferred: u32) {
    let value = ND_RESULT { Status: from_nt(status), BytesTransferred: transferred as usize };
    // SAFETY: not null, as posts and windows check; the program keeps the ND_RESULT valid.
    unsafe { pointer(result).write(value) };
}

fn pointer(result: usize) -> *mut ND_RESULT {
    ptr::with_exposed_provenance_mut(result)
}

overlapped!(CompletionQueue_Impl);

impl INDCompletionQueue_Impl for CompletionQueue_Impl {
    unsafe fn Resize(&self, depth: usize) -> HRESULT {
        match u32::try_from(depth) {
            Ok(depth @ 1..) if depth <= self.core.adapter().info().MaxCompletionQueueDepth => {
                hresult(self.core.resize(depth))
            }
            _ => ND_INVALID_PARAMETER,
        }
    }

    unsafe fn Notify(&self, kind: u32, overlapped: *mut OVERLAPPED) -> HRESULT {
        // SAFETY: the caller's OVERLAPPED, valid until the request has ended.
        unsafe { with(overlapped, |overlapped| self.core.notify(kind, overlapped)) }
    }

    unsafe fn GetResults(&self, results: *mut *mut ND_RESULT, count: usize) -> usize {
        // SAFETY: the caller's array.
        let places: &mut [MaybeUninit<*mut ND_RESULT>] = unsafe { places(results, count) };
        let mut state = lock(&self.results.0);
        let State { endpoints, left_over } = &mut *state;
        let mut given = 0;
        if let Some(place) = places.first_mut()
            && let Some((_, result)) = left_over.take()
        {
            place.write(pointer(result));
            given += 1;
        }
        loop {
            let room = places.len() - given;
            // A completion may have two results. If there is room for one, the window's result is returned: its
            // ND_RESULT may not exist later, as the program may release the window at any time.
            let most = room.div_ceil(2);
            let taken = self.core.poll(most, |completion| {
                let endpoint = completion.QueuePairContext;
                if !endpoints.contains(&endpoint) {
                    return;
                }
                fill_in(&completion, &self.adapter.invalidations, |result| match places.get_mut(given) {
                    Some(place) => {
                        place.write(pointer(result));
                        given += 1;
                    }
                    None => *left_over = Some((endpoint, result)),
                });
            });
            // Fewer completions than asked for: there are no more.
            if taken < most || room == 0 {
                return given;
            }
        }
    }
}
