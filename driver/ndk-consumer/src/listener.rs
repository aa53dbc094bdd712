//! NDK_LISTENER.

use core::ffi::c_void;
use core::net::SocketAddr;
use core::ptr::NonNull;

use ndk_abi::describe::ZeroInit;
use ndk_abi::ndkpi::{NDK_CONNECTOR, NDK_LISTENER};
use ndk_abi::sockaddr::SOCKADDR_INET;
use ndk_abi::status::NTSTATUS;
use platform::{Arc, Passive, Platform};

use crate::connector::{checked, sockaddr};
use crate::{Adapter, Owned, check, request};

/// The receiver of a listener's connection requests.
pub trait ConnectRequested<P: Platform>: Send + Sync + 'static {
    /// The context of the connector of a request.
    type Link: Send + Sync + 'static;

    /// Makes the context of a new connector. `None` if there is no memory: the request is then refused.
    fn link(&self) -> Option<Arc<Self::Link, P>>;

    /// A peer asks for a connection; dropping the connector refuses it. IRQL <= DISPATCH.
    fn requested(&self, connector: Owned<NDK_CONNECTOR, Self::Link, P>);
}

impl<K: ConnectRequested<P>, P: Platform> Owned<NDK_LISTENER, K, P> {
    /// NdkCreateListener.
    pub fn create_listener(adapter: &Adapter<P>, events: Arc<K, P>, passive: &Passive<'_>) -> Result<Self, NTSTATUS> {
        let create = adapter.table().NdkCreateListener;
        let callback_context = Arc::as_ptr(&events).cast_mut().cast();
        let call = |completion, context, out| {
            // SAFETY: an open adapter; the callback's context is the object's.
            unsafe { create(adapter.as_ptr(), requested::<K, P>, callback_context, completion, context, out) }
        };
        // SAFETY: NdkCreateListener makes a listener.
        unsafe { Self::create(events, passive, call) }
    }

    /// NdkListen.
    pub fn listen(&self, address: &SocketAddr, passive: &Passive<'_>) -> Result<(), NTSTATUS> {
        let listen = self.table().NdkListen;
        let (address, length) = sockaddr(address);
        check(request::<P>(passive, |completion, context| {
            // SAFETY: an open listener; the address outlives the request, which is waited for.
            unsafe { listen(self.as_ptr(), (&raw const address).cast(), length, completion, context) }
        }))
    }

    /// NdkGetLocalAddress.
    pub fn local_address(&self) -> Result<SOCKADDR_INET, NTSTATUS> {
        let mut address = SOCKADDR_INET::ZERO;
        let mut length = size_of::<SOCKADDR_INET>() as u32;
        let get = self.table().NdkGetLocalAddress;
        // SAFETY: an open listener; `address` has `length` bytes.
        check(unsafe { get(self.as_ptr(), (&raw mut address).cast(), &raw mut length) })?;
        checked(address)
    }
}

/// NDK_FN_CONNECT_EVENT_CALLBACK.
unsafe extern "system" fn requested<K: ConnectRequested<P>, P: Platform>(
    context: *mut c_void,
    connector: *mut NDK_CONNECTOR,
) {
    let Some(connector) = NonNull::new(connector) else { return };
    // SAFETY: the context of the listener, which lives until its close has completed: after the last event.
    let events = unsafe { &*context.cast_const().cast::<K>() };
    match events.link() {
        Some(link) => {
            // SAFETY: an open connector, which the event gives to its consumer.
            events.requested(unsafe { Owned::adopt(connector, link) });
        }
        // SAFETY: as above; the connector is closed at once, and `events` never sees it.
        None => unsafe { refuse(connector) },
    }
}

/// Closes the connector of a request for which `link` had no memory.
///
/// # Safety
/// `connector` is open and belongs to the caller.
unsafe fn refuse(connector: NonNull<NDK_CONNECTOR>) {
    // SAFETY: open, by the caller's promise.
    let object = unsafe { connector.as_ref() };
    // SAFETY: an open object has a dispatch table.
    let table = unsafe { &*object.Dispatch };
    // SAFETY: closed once; the completion needs no context.
    unsafe { (table.NdkCloseConnector)(connector.as_ptr().cast(), refused, core::ptr::null_mut()) };
}

/// NDK_FN_CLOSE_COMPLETION of [`refuse`].
unsafe extern "system" fn refused(_context: *mut c_void) {}
