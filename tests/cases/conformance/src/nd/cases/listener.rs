//! IND2Listener.

use anyhow::ensure;
use ndk_abi::status::{
    STATUS_ADDRESS_ALREADY_ASSOCIATED, STATUS_CANCELLED, STATUS_CONNECTION_REFUSED, STATUS_INVALID_DEVICE_STATE,
    STATUS_SHARING_VIOLATION, STATUS_SUCCESS,
};
use std::net::SocketAddr;

use crate::{
    nd::{
        client::{QpSize, ReadLimits, both::Connector as _, end_of},
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

// Shows N120.
pub(in crate::nd) fn queued(nd: &Nd) -> anyhow::Result<()> {
    const COUNT: usize = 5;
    let (a, b) = (End::new(nd)?, End::new(nd)?);
    let (listener, address) = b.listener()?;
    // Some requests wait for connections, some connections for requests.
    let connectors = (0..COUNT).map(|_| b.adapter.connector()).collect::<Result<Vec<_>, _>>()?;
    let mut requests = Vec::new();
    for connector in &connectors[..2] {
        requests.push(listener.connection_request(connector)?);
    }
    let mut asking = Vec::new();
    for number in 0..COUNT {
        let (connector, qp) =
            (a.adapter.connector()?, a.adapter.qp(&a.receive_cq, &a.initiator_cq, QpSize::default())?);
        connector.bind(a.address)?;
        let connect = connector.connect(&qp, address, ReadLimits::default(), &[number as u8 + 1])?;
        asking.push((connect, connector, qp));
    }
    for connector in &connectors[2..] {
        requests.push(listener.connection_request(connector)?);
    }
    for request in &mut requests {
        is(request.status()?, STATUS_SUCCESS, "a connection request")?;
    }
    let mut found =
        connectors.iter().map(|connector| Ok(connector.private_data()?[0])).collect::<anyhow::Result<Vec<_>>>()?;
    found.sort_unstable();
    ensure!(found == [1, 2, 3, 4, 5], "requests {found:?} came");
    for connector in &connectors {
        connector.reject(&[])?;
    }
    for (connect, ..) in &mut asking {
        is(connect.status()?, STATUS_CONNECTION_REFUSED, "Connect")?;
    }
    Ok(())
}

// Shows N121.
pub(in crate::nd) fn cancelled(nd: &Nd) -> anyhow::Result<()> {
    let end = End::new(nd)?;
    let (listener, _) = end.listener()?;
    let other = end.adapter.connector()?;
    let mut requests = [listener.connection_request(&end.connector)?, listener.connection_request(&other)?];
    ensure!(requests.iter_mut().all(|request| !request.is_over()), "a request is over and nobody connects");
    listener.cancel()?;
    for request in &mut requests {
        is(request.status()?, STATUS_CANCELLED, "a request that was cancelled")?;
    }
    let mut last = listener.connection_request(&end.connector)?;
    last.let_object_go();
    drop((requests, listener));
    is(last.status()?, STATUS_CANCELLED, "a request of a listener that was released")
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

// Shows N117.
pub(in crate::nd) fn backlog(nd: &Nd) -> anyhow::Result<()> {
    const BACKLOG: usize = 2;
    let (a, b) = (End::new(nd)?, End::new(nd)?);
    let listener = b.adapter.listener()?;
    listener.bind(b.address)?;
    listener.listen(BACKLOG as u32)?;
    let address = listener.local_address()?;
    let mut asking = Vec::new();
    for _ in 0..BACKLOG + 1 {
        let (connector, qp) =
            (a.adapter.connector()?, a.adapter.qp(&a.receive_cq, &a.initiator_cq, QpSize::default())?);
        connector.bind(a.address)?;
        let connect = connector.connect(&qp, address, ReadLimits::default(), &[])?;
        asking.push((connect, connector, qp));
    }
    let Some((last, ..)) = asking.last_mut() else { unreachable!() };
    is(last.status()?, STATUS_CONNECTION_REFUSED, "one more than the backlog")?;
    ensure!(asking[..BACKLOG].iter_mut().all(|(connect, ..)| !connect.is_over()), "those in the backlog ended");
    Ok(())
}
