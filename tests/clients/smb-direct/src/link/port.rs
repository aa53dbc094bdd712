//! [`Port`]: accepts clients and makes their links.

use core::net::SocketAddr;

use ndk_abi::ndkpi::{NDK_MR_FLAG_ALLOW_LOCAL_WRITE, NDK_MR_FLAG_RDMA_READ_SINK};
use ndk_consumer::{Adapter, Offer};
use platform::Passive;

use super::{Link, Options, Places, Wake};
use crate::connection::Connection;
use crate::report::{Failure, Step};
use crate::server::OUTBOUND_READS;
use crate::{Kernel, Listener, PlatformOf, Ref, shared};
use kernel_consumer::ListenerEvents;
use kernel_consumer::Registered;

/// A listener for clients.
pub struct Port<K: Kernel> {
    listener: Listener<K>,
    adapter: Ref<Adapter<PlatformOf<K>>, K>,
    wake: Wake<K>,
}

impl<K: Kernel> Port<K> {
    /// Listens. The wake rings when a client connects.
    pub fn listen(
        adapter: &Ref<Adapter<PlatformOf<K>>, K>,
        wake: &Wake<K>,
        address: SocketAddr,
        passive: &Passive<'_>,
    ) -> Result<Self, Failure> {
        let make = || {
            let events = ListenerEvents::new(adapter, &wake.0)?;
            let listener = Listener::<K>::create_listener(adapter, events, passive)?;
            listener.listen(&address, passive)?;
            Ok(Self { listener, adapter: adapter.clone(), wake: wake.clone() })
        };
        make().map_err(Step::Prepare.failed())
    }

    /// Waits for a client, and accepts it. [`Link::negotiate`] is next.
    pub fn accept(&self, options: Options, passive: &Passive<'_>) -> Result<Link<K>, Failure> {
        loop {
            match self.accept_waiting(options, passive)? {
                Some(link) => return Ok(link),
                None => self.wake.wait(Step::Connect, None, passive)?,
            }
        }
    }

    /// Accepts a client that has connected already.
    pub(crate) fn accept_waiting(&self, options: Options, passive: &Passive<'_>) -> Result<Option<Link<K>>, Failure> {
        let Some(connector) = self.listener.context().take() else { return Ok(None) };
        let make = || {
            let pd = shared::<_, K>(Adapter::create_pd(&self.adapter, passive)?)?;
            let length = (options.places as usize).saturating_mul(options.length as usize);
            let flags = NDK_MR_FLAG_ALLOW_LOCAL_WRITE | NDK_MR_FLAG_RDMA_READ_SINK;
            let places = Places::Own(Registered::new(&pd, length, flags, passive)?, options);
            let connection = Connection::new(&self.adapter, &pd, &self.wake.0, options.settings(), false, passive)?;
            Ok(Link { connector, connection, places, wake: self.wake.clone(), _pd: pd })
        };
        let link = make().map_err(Step::Prepare.failed())?;
        let offer = Offer { inbound_reads: 0, outbound_reads: OUTBOUND_READS, private_data: &[] };
        link.operation(Step::Connect, passive, || link.connector.accept(link.connection.qp(), &offer))?;
        Ok(Some(link))
    }
}

impl<K: Kernel> Drop for Port<K> {
    fn drop(&mut self) {
        self.listener.context().close();
    }
}
