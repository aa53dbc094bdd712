//! NDK_CONNECTOR.

use core::ffi::c_void;
use core::net::SocketAddr;

use ndk_abi::ndkpi::{NDK_CONNECTOR, NDK_FN_GET_LOCAL_ADDRESS, NDK_FN_REQUEST_COMPLETION, NDK_QP};
use ndk_abi::sockaddr::{AF_INET, SOCKADDR_IN, SOCKADDR_IN6, SOCKADDR_INET};
use ndk_abi::status::{NTSTATUS, STATUS_INTERNAL_ERROR, STATUS_PENDING};
use platform::{Arc, Passive, Platform};

use crate::{Adapter, Owned, check};
use ndk_abi::describe::ZeroInit;

/// The receiver of the completions of connect, complete-connect, accept and disconnect. One of these operations is under way at a time.
pub trait Completed<P: Platform>: Send + Sync + Sized + 'static {
    /// The operation has completed with `status`. IRQL <= DISPATCH, possibly before the call that started the operation
    /// has returned.
    fn completed(this: &Arc<Self, P>, status: NTSTATUS);
}

/// The receiver of the peer's disconnect.
pub trait Disconnected: Send + Sync + 'static {
    /// The peer has disconnected. IRQL <= DISPATCH, at most once.
    fn disconnected(&self);
}

/// The parameters that a connect or an accept offers.
pub struct Offer<'a> {
    /// The most reads that the peer has under way; the provider caps the number.
    pub inbound_reads: u32,
    /// The most reads that this side has under way; the provider caps the number.
    pub outbound_reads: u32,
    /// Private data for the peer's consumer.
    pub private_data: &'a [u8],
}

impl<K: Completed<P> + Disconnected, P: Platform> Owned<NDK_CONNECTOR, K, P> {
    /// NdkCreateConnector.
    pub fn create_connector(adapter: &Adapter<P>, events: Arc<K, P>, passive: &Passive<'_>) -> Result<Self, NTSTATUS> {
        let create = adapter.table().NdkCreateConnector;
        // SAFETY: an open adapter; the arguments belong together.
        let call = |completion, context, out| unsafe { create(adapter.as_ptr(), completion, context, out) };
        // SAFETY: NdkCreateConnector makes a connector, whose callbacks get the object context only.
        unsafe { Self::create(events, passive, call) }
    }

    /// Starts an asynchronous operation. STATUS_PENDING: [`Completed::completed`] is called; any other status is the
    /// result.
    fn start(&self, call: impl FnOnce(NDK_FN_REQUEST_COMPLETION, *mut c_void) -> NTSTATUS) -> NTSTATUS {
        let context = Arc::into_raw(self.context().clone());
        let status = call(completed::<K, P>, context.cast_mut().cast());
        if status != STATUS_PENDING {
            // SAFETY: a request that did not return STATUS_PENDING calls no completion (NDK_FN_REQUEST_COMPLETION).
            drop(unsafe { Arc::<K, P>::from_raw(context) });
        }
        status
    }

    /// NdkConnect.
    pub fn connect<Q: Send + Sync>(
        &self,
        qp: &Owned<NDK_QP, Q, P>,
        source: &SocketAddr,
        destination: &SocketAddr,
        offer: &Offer<'_>,
    ) -> NTSTATUS {
        let connect = self.table().NdkConnect;
        let (source, source_length) = sockaddr(source);
        let (destination, destination_length) = sockaddr(destination);
        let (data, data_length) = private_data(offer.private_data);
        self.start(|completion, context| {
            // SAFETY: an open connector and QP; the addresses and the data are readable during the call, in which the
            // provider copies them.
            unsafe {
                connect(
                    self.as_ptr(),
                    qp.as_ptr(),
                    (&raw const source).cast(),
                    source_length,
                    (&raw const destination).cast(),
                    destination_length,
                    offer.inbound_reads,
                    offer.outbound_reads,
                    data,
                    data_length,
                    completion,
                    context,
                )
            }
        })
    }

    /// NdkCompleteConnect.
    pub fn complete_connect(&self) -> NTSTATUS {
        let complete = self.table().NdkCompleteConnect;
        let events = Arc::as_ptr(self.context()).cast_mut().cast();
        self.start(|completion, context| {
            // SAFETY: an open connector; the event's context is the object's.
            unsafe { complete(self.as_ptr(), Some(disconnected::<K>), events, completion, context) }
        })
    }

    /// NdkAccept.
    pub fn accept<Q: Send + Sync>(&self, qp: &Owned<NDK_QP, Q, P>, offer: &Offer<'_>) -> NTSTATUS {
        let accept = self.table().NdkAccept;
        let events = Arc::as_ptr(self.context()).cast_mut().cast();
        let (data, data_length) = private_data(offer.private_data);
        self.start(|completion, context| {
            // SAFETY: an open connector and QP; the event's context is the object's; the data is copied during the call.
            unsafe {
                accept(
                    self.as_ptr(),
                    qp.as_ptr(),
                    offer.inbound_reads,
                    offer.outbound_reads,
                    data,
                    data_length,
                    Some(disconnected::<K>),
                    events,
                    completion,
                    context,
                )
            }
        })
    }

    /// NdkDisconnect.
    pub fn disconnect(&self) -> NTSTATUS {
        let disconnect = self.table().NdkDisconnect;
        // SAFETY: an open connector; the completion and its context belong together.
        self.start(|completion, context| unsafe { disconnect(self.as_ptr(), completion, context) })
    }

    /// NdkReject.
    pub fn reject(&self, data: &[u8]) -> Result<(), NTSTATUS> {
        let (data, length) = private_data(data);
        // SAFETY: an open connector and `length` readable bytes.
        check(unsafe { (self.table().NdkReject)(self.as_ptr(), data, length) })
    }

    /// NdkGetConnectionData: the inbound and outbound read limits.
    pub fn read_limits(&self) -> Result<(u32, u32), NTSTATUS> {
        let (mut inbound, mut outbound, mut length) = (0, 0, 0);
        let get = self.table().NdkGetConnectionData;
        let (inbound_out, outbound_out, length_out) = (&raw mut inbound, &raw mut outbound, &raw mut length);
        // SAFETY: an open connector; no room for private data.
        check(unsafe { get(self.as_ptr(), inbound_out, outbound_out, core::ptr::null_mut(), length_out) })?;
        Ok((inbound, outbound))
    }

    /// NdkGetConnectionData: copies the peer's private data, as much as `buffer` holds, and returns its whole length.
    pub fn private_data(&self, buffer: &mut [u8]) -> Result<usize, NTSTATUS> {
        let mut length = u32::try_from(buffer.len()).unwrap_or(u32::MAX);
        let data = if buffer.is_empty() { core::ptr::null_mut() } else { buffer.as_mut_ptr().cast() };
        let get = self.table().NdkGetConnectionData;
        let none = core::ptr::null_mut();
        // SAFETY: an open connector; `data` has `length` bytes, or is null and `length` 0.
        let status = unsafe { get(self.as_ptr(), none, none, data, &raw mut length) };
        if status == ndk_abi::status::STATUS_BUFFER_TOO_SMALL {
            return Ok(length as usize);
        }
        check(status)?;
        Ok(length as usize)
    }

    /// NdkGetLocalAddress.
    pub fn local_address(&self) -> Result<SOCKADDR_INET, NTSTATUS> {
        let get = self.table().NdkGetLocalAddress;
        // SAFETY: an open connector and a function of its table, which is called with room for an address.
        unsafe { address(self.as_ptr(), get) }
    }

    /// NdkGetPeerAddress.
    pub fn peer_address(&self) -> Result<SOCKADDR_INET, NTSTATUS> {
        let get = self.table().NdkGetPeerAddress;
        // SAFETY: as for local_address; both functions have one type.
        unsafe { address(self.as_ptr(), get) }
    }
}

impl<K: Send + Sync, P: Platform> Owned<NDK_CONNECTOR, K, P> {
    /// # Safety
    /// `object` is the open connector of a connect event, and belongs to the caller.
    pub(crate) unsafe fn adopt(object: core::ptr::NonNull<NDK_CONNECTOR>, object_context: Arc<K, P>) -> Self {
        Self { object, context: object_context }
    }
}

/// A socket address as bytes with its real length.
pub(crate) fn sockaddr(address: &SocketAddr) -> (SOCKADDR_INET, u32) {
    let length = if address.is_ipv4() { size_of::<SOCKADDR_IN>() } else { size_of::<SOCKADDR_IN6>() };
    (SOCKADDR_INET::new(*address), length as u32)
}

/// The data as pointer and length; the pointer is null if there is none.
fn private_data(data: &[u8]) -> (*const c_void, u32) {
    let pointer = if data.is_empty() { core::ptr::null() } else { data.as_ptr().cast() };
    (pointer, u32::try_from(data.len()).unwrap_or(u32::MAX))
}

/// # Safety
/// `get` is a function of `connector`'s table, and the connector is open.
unsafe fn address(connector: *mut NDK_CONNECTOR, get: NDK_FN_GET_LOCAL_ADDRESS) -> Result<SOCKADDR_INET, NTSTATUS> {
    let mut address = SOCKADDR_INET::ZERO;
    let mut length = size_of::<SOCKADDR_INET>() as u32;
    // SAFETY: the caller's promise; `address` has `length` bytes.
    check(unsafe { get(connector, (&raw mut address).cast(), &raw mut length) })?;
    checked(address)
}

/// Zeroes the bytes behind an IPv4 address. STATUS_INTERNAL_ERROR if the provider wrote neither IPv4 nor IPv6.
pub(crate) fn checked(address: SOCKADDR_INET) -> Result<SOCKADDR_INET, NTSTATUS> {
    if address.si_family() == AF_INET {
        return Ok(SOCKADDR_INET::from_ipv4(address.Ipv4()));
    }
    address.socket_addr().map(|_| address).ok_or(STATUS_INTERNAL_ERROR)
}

/// NDK_FN_REQUEST_COMPLETION.
unsafe extern "system" fn completed<K: Completed<P>, P: Platform>(context: *mut c_void, status: NTSTATUS) {
    // SAFETY: `start` left one reference for this one call.
    let events = unsafe { Arc::<K, P>::from_raw(context.cast_const().cast()) };
    K::completed(&events, status);
}

/// NDK_FN_DISCONNECT_EVENT_CALLBACK.
unsafe extern "system" fn disconnected<K: Disconnected>(context: *mut c_void) {
    // SAFETY: the context of the connector, which lives until its close has completed: after the last callback.
    let events = unsafe { &*context.cast_const().cast::<K>() };
    events.disconnected();
}
