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

use super::{adapter::Opened, memory_window::Invalidations, overlapped::overlapped};
use crate::{
    arguments::{hresult, places, with},
    core::{completion_queue, lock},
    hold::Hold,
};

/// A completion queue.
#[implement(INDCompletionQueue, Agile = false)]
pub(crate) struct CompletionQueue {
    core: Arc<completion_queue::CompletionQueue>,
    opened: Arc<Opened>,
    results: Arc<Results>,
    _hold: Hold,
}

impl CompletionQueue {
    pub(super) fn new(core: Arc<completion_queue::CompletionQueue>, opened: Arc<Opened>) -> Self {
        Self { core, opened, results: Arc::default(), _hold: Hold::new() }
    }

    pub(super) fn core(&self) -> &Arc<completion_queue::CompletionQueue> {
        &self.core
    }

    pub(super) fn results(&self) -> &Arc<Results> {
        &self.results
    }
}

/// Whose results a completion queue gives, and the one that found no room yet.
#[derive(Default)]
pub(super) struct Results(Mutex<State>);

#[derive(Default)]
struct State {
    endpoints: HashSet<u64>,
    /// The second result of a completion that gave two, the one of its request; and its endpoint.
    left_over: Option<(u64, usize)>,
}

impl Results {
    /// Requests of an endpoint will complete here.
    pub(super) fn add(&self, endpoint: u64) {
        lock(&self.0).endpoints.insert(endpoint);
    }

    /// An endpoint is being released. Its program may reuse the memory for its results when that is done, as it cannot know
    /// which of them would still come; so none do.
    pub(super) fn remove(&self, endpoint: u64) {
        let mut state = lock(&self.0);
        state.endpoints.remove(&endpoint);
        state.left_over.take_if(|(of, _)| *of == endpoint);
    }
}

/// Fills in the results of a completion, and gives each to `give`.
fn fill_in(completion: &SOFTNDK_COMPLETION, invalidations: &Invalidations, mut give: impl FnMut(usize)) {
    if completion.Type == NdkOperationTypeReceiveAndInvalidate.0.cast_unsigned() {
        invalidations.tell(completion.Output, |result| {
            write(result, STATUS_SUCCESS, 0);
            give(result);
        });
    }
    // What its request was posted with.
    let result = completion.RequestContext as usize;
    write(result, completion.Status, completion.BytesTransferred);
    give(result);
}

/// Writes a result to where a program wants it: a program keeps that valid until it has got the result.
fn write(result: usize, status: NTSTATUS, transferred: u32) {
    let value = ND_RESULT { Status: from_nt(status), BytesTransferred: transferred as usize };
    // SAFETY: not null, as posts and windows check; valid, as the program has to see to.
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
        // SAFETY: the caller's, valid until the request is over.
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
            // One completion may give two results. If but one finds room it is that of a window, whose memory may not be there later:
            // nobody knows when the program releases the window.
            let most = room.div_ceil(2);
            let taken = self.core.poll(most, |completion| {
                let endpoint = completion.QueuePairContext;
                if !endpoints.contains(&endpoint) {
                    return;
                }
                fill_in(&completion, &self.opened.invalidations, |result| match places.get_mut(given) {
                    Some(place) => {
                        place.write(pointer(result));
                        given += 1;
                    }
                    None => *left_over = Some((endpoint, result)),
                });
            });
            // Less than asked for says that there are no more.
            if taken < most || room == 0 {
                return given;
            }
        }
    }
}
