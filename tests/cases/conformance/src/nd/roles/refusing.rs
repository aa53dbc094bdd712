//! A consumer that refuses each connection request.

use std::{
    convert::Infallible,
    net::{IpAddr, SocketAddr},
    path::Path,
    time::Duration,
};

use super::role::Site;
use crate::nd::{client::both::Connector as _, run::Nd};

/// Listens, and refuses each request, until the process is ended. `ready` is told the address.
///
/// # Errors
/// The address cannot be had, or a call has failed.
pub fn refuse(
    library: &Path,
    patience: Duration,
    at: Option<IpAddr>,
    port: u16,
    ready: impl FnOnce(SocketAddr),
) -> anyhow::Result<Infallible> {
    let nd = Nd::load(library, patience)?.at(at);
    let site = Site::new(&nd)?;
    let listener = site.adapter.listener()?;
    listener.bind(SocketAddr::new(site.address.ip(), port))?;
    listener.listen(0)?;
    ready(listener.local_address()?);
    loop {
        let connector = site.adapter.connector()?;
        let mut request = listener.connection_request(&connector)?;
        while !request.is_over_within(patience) {}
        request.finish()?;
        connector.reject(&[])?;
    }
}
