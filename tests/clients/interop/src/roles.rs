//! Both roles of rping on a device of this process.

use std::{
    cell::Cell,
    net::{IpAddr, SocketAddr},
};

use anyhow::{Context, Result};
use rping::Plan;

use crate::{
    connection::{Connection, Listener},
    device::Device,
};

/// Plays the client, with CRCs or without; the address of its end of the connection.
pub(crate) fn client(local: IpAddr, peer: SocketAddr, crc: bool, plan: Plan) -> Result<SocketAddr> {
    let device = Device::new(local, crc)?;
    let connection = Connection::new(&device)?;
    let address = Cell::new(None);
    rping::client(&connection, plan, || {
        address.set(Some(connection.connect(local, peer)?));
        Ok(())
    })?;
    drop(connection);
    device.close()?;
    address.get().context("not connected")
}

/// A listening server.
pub(crate) struct Server {
    device: Device,
    listener: Listener,
    plan: Plan,
}

impl Server {
    /// Listens; its connections have CRCs or not.
    pub(crate) fn new(local: SocketAddr, crc: bool, plan: Plan) -> Result<Self> {
        let device = Device::new(local.ip(), crc)?;
        Ok(Self { listener: Listener::new(&device, local)?, device, plan })
    }

    /// Serves one client until it disconnects.
    pub(crate) fn serve(self) -> Result<()> {
        let Self { device, listener, plan } = self;
        let connection = Connection::new(&device)?;
        rping::server(&connection, plan, || connection.accept(&listener))?;
        drop((connection, listener));
        device.close()
    }
}
