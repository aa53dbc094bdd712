//! Both ends, and the loop that serves them.

use core::net::SocketAddr;

use ndk_abi::status::{
    NTSTATUS, STATUS_CANCELLED, STATUS_CONNECTION_ABORTED, STATUS_CONNECTION_DISCONNECTED, STATUS_INVALID_ADDRESS,
    STATUS_SUCCESS,
};
use ndk_consumer::{Adapter, OpenAdapters};
use platform::Passive;

use crate::client::Client;
use crate::report::{Failure, Figures, Step};
use crate::server::{Conduct, PORT, Server};
use crate::settings::Settings;
use crate::{Kernel, PlatformOf, Ref};
use kernel_consumer::{Bell, SILENCE};

/// A server, and at most one client.
pub(crate) struct World<'a, K: Kernel> {
    client: Option<Client<K>>,
    pub(crate) server: Server<K>,
    /// The client's NDK adapter; the server has its own.
    adapter: Ref<Adapter<PlatformOf<K>>, K>,
    address: SocketAddr,
    bell: Ref<Bell<PlatformOf<K>>, K>,
    passive: &'a Passive<'a>,
    pub(crate) figures: Figures,
}

impl<'a, K: Kernel> World<'a, K> {
    pub(crate) fn new(
        kernel: &K,
        adapters: &OpenAdapters<PlatformOf<K>>,
        bell: &Ref<Bell<PlatformOf<K>>, K>,
        (settings, conduct, file_size): (Settings, Conduct, usize),
        passive: &'a Passive<'a>,
    ) -> Result<Self, Failure> {
        let make = || {
            let address = SocketAddr::new(kernel.address().ok_or(STATUS_INVALID_ADDRESS)?, PORT);
            let adapter = adapters.open(kernel, None, passive)?;
            let of_server = adapters.open(kernel, None, passive)?;
            let server = Server::new(of_server, bell, address, settings, conduct, file_size, passive)?;
            let (bell, figures) = (bell.clone(), Figures::default());
            Ok::<_, NTSTATUS>(Self { client: None, server, adapter, address, bell, passive, figures })
        };
        make().map_err(Step::Prepare.failed())
    }

    /// Serves both ends until `ready` returns a value. Fails if the connection fails, or if the run is stopped.
    pub(crate) fn until<T>(
        &mut self,
        step: Step,
        mut ready: impl FnMut(&mut Client<K>) -> Result<Option<T>, Failure>,
    ) -> Result<T, Failure> {
        self.serve(step, |world| {
            let Some(client) = &mut world.client else {
                return Err(Failure { step, status: STATUS_CANCELLED });
            };
            // Read before the call of `ready`, and in this order: if the end of the connection is seen here, everything that came before
            // the end is already visible, as a failure or to `ready`. Later changes ring the bell again.
            let lost = client.connector().context().lost();
            let drained = client.connection().is_drained();
            let failure = client.connection().failure();
            if let Some(value) = ready(client)? {
                return Ok(Some(value));
            }
            match failure {
                // The server's own failure tells more about the end of the connection.
                Some(failure) => Err(world.server.take_failure().unwrap_or(failure)),
                // The disconnect event may come before the last messages. A flush completes all receives: those with a message before the
                // cancelled ones.
                None if lost && !drained => {
                    client.connection().qp().flush();
                    Ok(None)
                }
                None if lost => Err(Failure { step, status: STATUS_CONNECTION_DISCONNECTED }),
                None => Ok(None),
            }
        })
    }

    /// Serves both ends until `ready` returns a value. Fails if the run is stopped.
    pub(crate) fn serve<T>(
        &mut self,
        step: Step,
        mut ready: impl FnMut(&mut Self) -> Result<Option<T>, Failure>,
    ) -> Result<T, Failure> {
        loop {
            if self.bell.stopped() {
                return Err(Failure { step: Step::Stopped, status: STATUS_CANCELLED });
            }
            self.server.work(self.passive)?;
            if let Some(value) = ready(self)? {
                return Ok(value);
            }
            Bell::wait(&self.bell, Some(SILENCE), self.passive).map_err(step.failed())?;
        }
    }

    /// Makes a client, connects and negotiates.
    pub(crate) fn connect(&mut self, settings: Settings, regions: &[(usize, usize)]) -> Result<(), Failure> {
        let _of_the_last_connection = self.server.take_failure();
        let client = Client::new(&self.adapter, &self.bell, settings, regions, self.passive);
        let client = client.map_err(Step::Prepare.failed())?;
        client.connect(self.address.ip(), self.address);
        self.client = Some(client);
        self.operation_ends(Step::Connect)?;
        self.with_client(|client| client.complete_connect());
        self.operation_ends(Step::Connect)?;
        self.with_client(|client| client.connection().connected());
        self.until(Step::Negotiate, |client| Ok(client.connection().is_established().then_some(())))?;
        self.serve(Step::Connect, |world| match world.server.connection() {
            Some(_) => Ok(Some(())),
            None if world.server.is_connected() => Ok(None),
            None => Err(Failure { step: Step::Connect, status: STATUS_CONNECTION_ABORTED }),
        })?;
        self.figures.connections = self.figures.connections.saturating_add(1);
        Ok(())
    }

    /// Waits for the end of the connector's operation, which has to succeed.
    fn operation_ends(&mut self, step: Step) -> Result<(), Failure> {
        let status =
            self.serve(step, |world| Ok(world.client.as_ref().and_then(|c| c.connector().context().outcome())))?;
        if status == STATUS_SUCCESS { Ok(()) } else { Err(Failure { step, status }) }
    }

    /// Calls `work` with the client. STATUS_CANCELLED: there is no client.
    pub(crate) fn ask<T>(&mut self, work: impl FnOnce(&mut Client<K>) -> Result<T, Failure>) -> Result<T, Failure> {
        let none = Failure { step: Step::Request, status: STATUS_CANCELLED };
        self.with_client(work).unwrap_or(Err(none))
    }

    /// Calls `work` with the client, which exists between [`Self::connect`] and [`Self::disconnect`].
    fn with_client<T>(&mut self, work: impl FnOnce(&mut Client<K>) -> T) -> Option<T> {
        self.client.as_mut().map(work)
    }

    /// Ends the connection in order: waits until the initiator queue is empty, disconnects, waits until all posted requests have completed,
    /// closes the client.
    pub(crate) fn disconnect(&mut self) -> Result<(), Failure> {
        let step = Step::Disconnect;
        self.serve(step, |world| {
            let idle = world.client.as_ref().is_none_or(|client| client.connection().quiesce());
            Ok(idle.then_some(()))
        })?;
        self.with_client(|client| client.disconnect());
        self.operation_ends(step)?;
        self.drained()
    }

    /// Leaves a connection that the server has ended: flushes instead of disconnecting.
    pub(crate) fn leave(&mut self) -> Result<(), Failure> {
        self.with_client(|client| {
            client.connection().quiesce();
            client.connection().qp().flush();
        });
        self.drained()
    }

    /// Disconnects while requests are outstanding.
    pub(crate) fn abandon(&mut self) -> Result<(), Failure> {
        self.with_client(|client| {
            client.connection().quiesce();
            client.disconnect();
        });
        self.serve(Step::Disconnect, |world| {
            Ok(world.client.as_ref().and_then(|client| client.connector().context().outcome()))
        })?;
        self.leave()
    }

    /// Waits until all posted requests have completed, on both sides, and closes the client.
    fn drained(&mut self) -> Result<(), Failure> {
        let step = Step::Disconnect;
        self.serve(step, |world| {
            Ok(world.client.as_ref().is_none_or(|client| client.connection().is_drained()).then_some(()))
        })?;
        let passive = self.passive;
        if let Some(released) = self.with_client(|client| client.release(passive)) {
            self.figures.add(&released.map_err(step.failed())?);
        }
        self.client = None;
        self.serve(step, |world| Ok((!world.server.is_connected()).then_some(())))?;
        let figures = self.server.take_figures();
        self.figures.add(&figures);
        Ok(())
    }

    /// Takes the counts until now, including those of the client's open connection.
    pub(crate) fn take_figures(&mut self) -> Figures {
        if let Some(client) = &mut self.client {
            self.figures.add(&client.connection().take_figures());
            self.figures.add(&core::mem::take(&mut client.figures));
        }
        core::mem::take(&mut self.figures)
    }

    /// Closes the server. There is no connection.
    pub(crate) fn close(&mut self) -> Result<(), Failure> {
        self.server.close(self.passive).map_err(Step::Disconnect.failed())
    }
}
