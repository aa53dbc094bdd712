//! IND2Listener.

use anyhow::ensure;
use ndk_abi::status::{
    STATUS_ADDRESS_ALREADY_ASSOCIATED, STATUS_CONNECTION_REFUSED, STATUS_INVALID_DEVICE_STATE, STATUS_SHARING_VIOLATION,
};
use std::net::SocketAddr;

use crate::{
    nd::{
        client::{ReadLimits, both::Connector as _, end_of},
        pair::{End, is},
        run::Nd,
    },
    pair::{refused, when_free},
};

// Shows N115, N116, N119.
pub(in crate::nd) fn addresses(nd: &Nd) -> anyhow::Result<()> {
    let (adapter, address) = nd.adapter()?;
    let listener = adapter.listener()?;
    is(listener.query_address().0, STATUS_INVALID_DEVICE_STATE, "the address of a listener that is not bound")?;
    ensure!(listener.listen(0).is_err(), "a listener without an address listens");
    listener.bind(address)?;
    refused(listener.bind(address), STATUS_ADDRESS_ALREADY_ASSOCIATED, "a second Bind")?;
    listener.listen(0)?;
    let found = listener.local_address()?;
    ensure!(found.ip() == address.ip() && found.port() != 0, "it listens on {found}");
    let other = adapter.listener()?;
    refused(other.bind(found).and_then(|()| other.listen(0)), STATUS_SHARING_VIOLATION, "an address in use")?;
    drop(listener);
    let again = || {
        let later = adapter.listener()?;
        later.bind(found)?;
        later.listen(0).map(|()| later)
    };
    let _later = when_free(nd.patience(), again)?;
    let nowhere = adapter.listener()?;
    ensure!(
        nowhere.bind("192.0.2.77:0".parse()?).and_then(|()| nowhere.listen(0)).is_err(),
        "it listens on an address of nobody"
    );
    Ok(())
}

// Shows N119.
pub(in crate::nd) fn not_listening(nd: &Nd) -> anyhow::Result<()> {
    let (adapter, address) = nd.adapter()?;
    let (listener, connector) = (adapter.listener()?, adapter.connector()?);
    listener.bind(address)?;
    let asked = end_of(listener.connection_request(&connector))?;
    is(asked, STATUS_INVALID_DEVICE_STATE, "a connection request of a listener that does not listen")
}

// Shows N114.
pub(in crate::nd) fn any_address(nd: &Nd) -> anyhow::Result<()> {
    let (a, b) = (End::new(nd)?, End::new(nd)?);
    let listener = b.adapter.listener()?;
    listener.bind("0.0.0.0:0".parse()?)?;
    listener.listen(0)?;
    let port = listener.local_address()?.port();
    let request = listener.connection_request(&b.connector)?;
    a.connector.bind(a.address)?;
    let to = SocketAddr::new(a.address.ip(), port);
    let mut connect = a.connector.connect(&a.qp, to, ReadLimits::default(), &[])?;
    request.finish_unless_failed(&mut connect)?;
    b.connector.reject(&[])?;
    is(connect.status()?, STATUS_CONNECTION_REFUSED, "Connect")
}
