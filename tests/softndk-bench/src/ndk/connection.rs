//! Listeners and connections.

use std::{
    ffi::c_void,
    net::SocketAddr,
    ptr::{NonNull, null, null_mut},
    sync::atomic::{AtomicPtr, AtomicUsize, Ordering},
};

use ndk_abi::{
    describe::ZeroInit,
    ndkpi::*,
    sockaddr::{SOCKADDR_IN, SOCKADDR_INET},
    status::{STATUS_PENDING, STATUS_SUCCESS},
};

use super::{Adapter, Connector, Qp, closed, complete, created, made, succeeded};

/// A listener, and the connector of its last connect event.
#[derive(Debug)]
pub struct Listener {
    raw: NonNull<NDK_LISTENER>,
    event: Box<AtomicPtr<NDK_CONNECTOR>>,
    address: SocketAddr,
}

// SAFETY: NDK objects may be used on any thread.
unsafe impl Send for Listener {}
// SAFETY: as above.
unsafe impl Sync for Listener {}

impl Drop for Listener {
    fn drop(&mut self) {
        let status = call!(self.raw, NdkCloseListener(closed, null_mut()));
        debug_assert!(status == STATUS_SUCCESS || status == STATUS_PENDING);
    }
}

unsafe extern "system" fn connect_event(context: *mut c_void, connector: *mut NDK_CONNECTOR) {
    // SAFETY: the listener's context, which lives as long as it.
    unsafe { &*context.cast::<AtomicPtr<NDK_CONNECTOR>>() }.store(connector, Ordering::Release);
}

/// A connection that is being made, and whether the last request for it is over.
#[must_use]
struct Connecting {
    connector: Connector,
    done: Box<AtomicUsize>,
}

impl Connecting {
    fn begin(connector: NonNull<NDK_CONNECTOR>) -> (Self, *mut c_void) {
        let this = Self { connector: Connector(connector), done: Box::default() };
        let done = (&raw const *this.done).cast_mut().cast();
        (this, done)
    }

    /// Waits for the request's success.
    fn end(self) -> Connector {
        while self.done.load(Ordering::Acquire) == 0 {
            std::thread::yield_now();
        }
        self.connector
    }
}

impl Listener {
    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Refuses the last connect, if there is one that was neither accepted nor refused.
    #[must_use]
    pub fn refuse(&self) -> bool {
        let connector = NonNull::new(self.event.swap(null_mut(), Ordering::Acquire));
        connector.map(Connector).is_some()
    }

    /// Waits for the next connect, and accepts it for a queue pair.
    fn begin_accept(&self, passive: &Qp) -> Connecting {
        let connector = loop {
            match NonNull::new(self.event.swap(null_mut(), Ordering::Acquire)) {
                Some(connector) => break connector,
                None => std::thread::yield_now(),
            }
        };
        let (accepting, done) = Connecting::begin(connector);
        let status =
            call!(connector, NdkAcceptEx(passive.0.as_ptr(), 0, 0, null(), 0, None, null_mut(), succeeded, done));
        assert_eq!(status, STATUS_PENDING);
        accepting
    }

    /// Waits for the next connect, and accepts it for a queue pair.
    #[must_use]
    pub fn accept(&self, passive: &Qp) -> Connector {
        self.begin_accept(passive).end()
    }
}

impl Adapter {
    /// A listener on a port of its own.
    #[must_use]
    pub fn listener(&self) -> Listener {
        let event = Box::new(AtomicPtr::new(null_mut()));
        let mut out = null_mut();
        let context = (&raw const *event).cast_mut().cast();
        let status = call!(self.0, NdkCreateListener(connect_event, context, created, null_mut(), &raw mut out));
        let raw = made(status, out);
        let any = SOCKADDR_INET::new(SocketAddr::new(self.1, 0));
        let length = size_of::<SOCKADDR_IN>() as u32;
        complete(|done| call!(raw, NdkListen((&raw const any).cast(), length, succeeded, done)));
        let mut bound = SOCKADDR_INET::ZERO;
        let mut length = size_of::<SOCKADDR_INET>() as u32;
        assert_eq!(call!(raw, NdkGetLocalAddress((&raw mut bound).cast(), &raw mut length)), STATUS_SUCCESS);
        let address = bound.socket_addr().unwrap_or_else(|| unreachable!("the provider's address"));
        Listener { raw, event, address }
    }

    /// Connects a queue pair of this adapter with one of the listener's; the connectors of both sides.
    #[must_use]
    pub fn connect(&self, listener: &Listener, active: &Qp, passive: &Qp) -> [Connector; 2] {
        let ours = self.begin_connect(listener.address, active);
        let theirs = listener.begin_accept(passive);
        [Self::complete_connect(ours), theirs.end()]
    }

    /// Connects a queue pair of this adapter with one of another process.
    #[must_use]
    pub fn connect_to(&self, remote: SocketAddr, active: &Qp) -> Connector {
        Self::complete_connect(self.begin_connect(remote, active))
    }

    fn begin_connect(&self, remote: SocketAddr, active: &Qp) -> Connecting {
        let mut out = null_mut();
        let status = call!(self.0, NdkCreateConnector(created, null_mut(), &raw mut out));
        let connector = made(status, out);
        let local = SOCKADDR_INET::new(SocketAddr::new(self.1, 0));
        let remote = SOCKADDR_INET::new(remote);
        let length = size_of::<SOCKADDR_IN>() as u32;
        let (connecting, done) = Connecting::begin(connector);
        let status = call!(
            connector,
            NdkConnect(
                active.0.as_ptr(),
                (&raw const local).cast(),
                length,
                (&raw const remote).cast(),
                length,
                0,
                0,
                null(),
                0,
                succeeded,
                done,
            )
        );
        assert_eq!(status, STATUS_PENDING);
        connecting
    }

    fn complete_connect(connecting: Connecting) -> Connector {
        let connector = connecting.end();
        complete(|done| call!(connector.0, NdkCompleteConnectEx(None, null_mut(), succeeded, done)));
        connector
    }
}
