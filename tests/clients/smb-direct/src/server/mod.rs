//! The server: accepts, one connection at a time, and serves the file.

mod operation;

use core::net::SocketAddr;

use ndk_abi::ndkpi::{NDK_MR_FLAG_ALLOW_LOCAL_WRITE, NDK_MR_FLAG_RDMA_READ_SINK};
use ndk_abi::status::{NTSTATUS, STATUS_CANCELLED, STATUS_SUCCESS};
use ndk_consumer::{Adapter, Offer};
use platform::{Passive, Slice};

use crate::connection::Connection;
use crate::report::{Failure, Figures, Step};
use crate::settings::Settings;
use crate::{Connector, Kernel, Listener, Pd, PlatformOf, Ref, no_memory, shared};
use kernel_consumer::Bell;
use kernel_consumer::ListenerEvents;
use kernel_consumer::Registered;
use operation::Operation;

/// SMB Direct over iWARP (IANA).
pub(crate) const PORT: u16 = 5445;
/// The most writes that are served at a time.
const OPERATIONS: usize = 16;
/// The outbound read limit: the value that ksmbd requests.
pub(crate) const OUTBOUND_READS: u32 = 8;

/// The conduct of the server: correct, or with a fault that the client has to detect.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Conduct {
    Honest,
    /// Changes a byte of the data of a read.
    CorruptsData,
    /// Invalidates the second token instead of the first.
    InvalidatesAnother,
    /// Disconnects once, as soon as it has posted the reads of a write.
    DisconnectsOnce,
}

pub(crate) struct Server<K: Kernel> {
    end: Option<End<K>>,
    listener: Listener<K>,
    file: Registered<K>,
    /// In pool: the server itself is on the stack of a scenario.
    operations: Slice<Option<Operation>, PlatformOf<K>>,
    conduct: Conduct,
    settings: Settings,
    /// The failure that ended the last connection, if it was not a flush.
    failure: Option<Failure>,
    figures: Figures,
    pd: Ref<Pd<K>, K>,
    adapter: Ref<Adapter<PlatformOf<K>>, K>,
    bell: Ref<Bell<PlatformOf<K>>, K>,
}

/// A connection of the server.
struct End<K: Kernel> {
    connector: Connector<K>,
    connection: Ref<Connection<K>, K>,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Accepting,
    Serving,
    /// Disconnects; if the negotiation has failed, only after the initiator queue is empty.
    Leaving,
    Disconnecting,
    /// Waits until all posted requests have completed.
    Draining,
}

impl<K: Kernel> Server<K> {
    /// Listens, with a file of `file_size` bytes.
    pub(crate) fn new(
        adapter: Ref<Adapter<PlatformOf<K>>, K>,
        bell: &Ref<Bell<PlatformOf<K>>, K>,
        address: SocketAddr,
        settings: Settings,
        conduct: Conduct,
        file_size: usize,
        passive: &Passive<'_>,
    ) -> Result<Self, NTSTATUS> {
        let pd = shared::<_, K>(Adapter::create_pd(&adapter, passive)?)?;
        // The sink right is for adapters without NDK_ADAPTER_FLAG_RDMA_READ_SINK_NOT_REQUIRED; others ignore it.
        let flags = NDK_MR_FLAG_ALLOW_LOCAL_WRITE | NDK_MR_FLAG_RDMA_READ_SINK;
        let file = Registered::new(&pd, file_size, flags, passive)?;
        let events = ListenerEvents::new(&adapter, bell)?;
        let listener = Listener::<K>::create_listener(&adapter, events, passive)?;
        listener.listen(&address, passive)?;
        Ok(Self {
            end: None,
            listener,
            file,
            operations: Slice::from_fn(OPERATIONS, |_| None).map_err(no_memory)?,
            conduct,
            settings,
            failure: None,
            figures: Figures::default(),
            pd,
            adapter,
            bell: bell.clone(),
        })
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.end.is_some()
    }

    /// The connection, while the server serves it.
    pub(crate) fn connection(&self) -> Option<&Ref<Connection<K>, K>> {
        self.end.as_ref().filter(|end| end.stage == Stage::Serving).map(|end| &end.connection)
    }

    /// Takes the failure that ended the last connection.
    pub(crate) fn take_failure(&mut self) -> Option<Failure> {
        self.failure.take()
    }

    pub(crate) fn take_figures(&mut self) -> Figures {
        core::mem::take(&mut self.figures)
    }

    /// Refuses new connections, and deregisters the memory of the file. There is no connection.
    pub(crate) fn close(&self, passive: &Passive<'_>) -> Result<(), NTSTATUS> {
        self.listener.context().close();
        self.file.deregister(passive)
    }

    /// Performs the next step. Called again after each ring of the bell.
    pub(crate) fn work(&mut self, passive: &Passive<'_>) -> Result<(), Failure> {
        let Some(mut end) = self.end.take() else {
            if let Some(connector) = self.listener.context().take() {
                self.end = Some(self.accept(connector, passive).map_err(Step::Connect.failed())?);
            }
            return Ok(());
        };
        // Read once: later changes ring the bell again.
        let lost = end.connector.context().lost();
        let failure = end.connection.failure();
        if matches!(end.stage, Stage::Accepting | Stage::Serving) {
            if lost {
                end.connection.quiesce();
                end.connection.qp().flush();
                end.stage = Stage::Draining;
            } else if let Some(failure) = failure {
                if failure.status != STATUS_CANCELLED {
                    self.failure = Some(failure);
                }
                end.stage = Stage::Leaving;
            }
        }
        if self.advance(&mut end, passive)? {
            self.end = Some(end);
        }
        Ok(())
    }

    /// Performs the next step of a connection. False: the connection is gone.
    fn advance(&mut self, end: &mut End<K>, passive: &Passive<'_>) -> Result<bool, Failure> {
        match end.stage {
            Stage::Accepting => match end.connector.context().outcome() {
                Some(STATUS_SUCCESS) => {
                    end.connection.connected();
                    end.stage = Stage::Serving;
                }
                Some(_the_client_gave_up) => return Ok(false),
                None => {}
            },
            Stage::Serving => self.serve(end)?,
            Stage::Leaving => {
                // A refusal of the negotiation may still be outstanding; after any other failure there is nothing to wait for.
                let refused = end.connection.failure().is_some_and(|failure| failure.step == Step::Negotiate);
                if end.connection.quiesce() || !refused {
                    end.connector.context().begin(|| end.connector.disconnect());
                    end.stage = Stage::Disconnecting;
                    self.bell.ring();
                }
            }
            Stage::Disconnecting => {
                if end.connector.context().outcome().is_some() {
                    // A successful disconnect has flushed already; a disconnect after the end of the connection has not.
                    end.connection.qp().flush();
                    end.stage = Stage::Draining;
                    self.bell.ring();
                }
            }
            Stage::Draining => {
                if end.connection.is_drained() {
                    self.operations.fill_with(|| None);
                    self.figures.add(&end.connection.take_figures());
                    end.connection.release(passive).map_err(Step::Disconnect.failed())?;
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    fn accept(&self, connector: Connector<K>, passive: &Passive<'_>) -> Result<End<K>, NTSTATUS> {
        let connection = Connection::new(&self.adapter, &self.pd, &self.bell, self.settings, false, passive)?;
        let offer = Offer { inbound_reads: 0, outbound_reads: OUTBOUND_READS, private_data: &[] };
        connector.context().begin(|| connector.accept(connection.qp(), &offer));
        Ok(End { connector, connection, stage: Stage::Accepting })
    }
}

impl<K: Kernel> Drop for Server<K> {
    fn drop(&mut self) {
        self.listener.context().close();
    }
}
