//! IND2Listener and INDListen.

use std::thread;
use std::time::Instant;

use anyhow::{Context as _, ensure};
use ndk_abi::status::{STATUS_CANCELLED, STATUS_CONNECTION_REFUSED, STATUS_SUCCESS};

use crate::nd::{client::both::Connector as _, ends::End, interfaces::Interfaces, pair::is, run::Nd};

/// Another end on the adapter of `end`, with its queues.
fn another<V: Interfaces>(end: &End<V>) -> anyhow::Result<End<V>> {
    end.on_same_adapter(&end.receive_cq, &end.initiator_cq, V::Size::default())
}

// Shows N120.
pub(in crate::nd) fn queued<V: Interfaces>(nd: &Nd) -> anyhow::Result<()> {
    const COUNT: usize = 5;
    let (a, b) = (End::<V>::new(nd)?, End::<V>::new(nd)?);
    let (listener, address) = b.listener()?;
    // Some requests wait for connections, some connections for requests.
    let asked = (0..COUNT).map(|_| another(&b)).collect::<Result<Vec<_>, _>>()?;
    let mut requests = Vec::new();
    for end in &asked[..2] {
        requests.push(V::connection_request(&listener, &end.connector)?);
    }
    let mut asking = Vec::new();
    for number in 0..COUNT {
        let end = another(&a)?;
        V::bind(&end)?;
        asking.push((V::connect(&end, address, &[number as u8 + 1])?, end));
    }
    for end in &asked[2..] {
        requests.push(V::connection_request(&listener, &end.connector)?);
    }
    for request in &mut requests {
        is(request.status()?, STATUS_SUCCESS, "a connection request")?;
    }
    let first = |end: &End<V>| end.connector.private_data()?.first().copied().context("no private data");
    let mut found = asked.iter().map(first).collect::<anyhow::Result<Vec<_>>>()?;
    found.sort_unstable();
    ensure!(found == [1, 2, 3, 4, 5], "requests {found:?} came");
    for end in &asked {
        end.connector.reject(&[])?;
    }
    for (connect, _) in &mut asking {
        is(connect.status()?, STATUS_CONNECTION_REFUSED, "Connect")?;
    }
    Ok(())
}

// Shows N121.
pub(in crate::nd) fn cancelled<V: Interfaces>(nd: &Nd) -> anyhow::Result<()> {
    let (a, b) = (End::<V>::new(nd)?, End::<V>::new(nd)?);
    let (listener, address) = b.listener()?;
    let other = another(&b)?;
    let mut requests =
        [V::connection_request(&listener, &b.connector)?, V::connection_request(&listener, &other.connector)?];
    ensure!(requests.iter_mut().all(|request| !request.is_over()), "a request is over and nobody connects");
    V::cancel_connection_requests(&listener)?;
    for request in &mut requests {
        is(request.status()?, STATUS_CANCELLED, "a request that was cancelled")?;
    }
    // The connectors of cancelled requests are as good as new, and so is the listener.
    let request = V::connection_request(&listener, &b.connector)?;
    V::bind(&a)?;
    let mut connect = V::connect(&a, address, &[])?;
    request.finish_unless_failed(&mut connect)?;
    b.connector.reject(&[])?;
    is(connect.status()?, STATUS_CONNECTION_REFUSED, "Connect")?;
    let mut last = V::connection_request(&listener, &other.connector)?;
    last.let_object_go();
    drop((requests, listener));
    is(last.status()?, STATUS_CANCELLED, "a request of a listener that was released")
}

// Shows N117, V16 (nd1).
pub(in crate::nd) fn backlog<V: Interfaces>(nd: &Nd) -> anyhow::Result<()> {
    const BACKLOG: usize = 2;
    let (a, b) = (End::<V>::new(nd)?, End::<V>::new(nd)?);
    let (_listener, address) = V::listener(&b, BACKLOG)?;
    let mut asking = Vec::new();
    for _ in 0..BACKLOG + 1 {
        let end = another(&a)?;
        V::bind(&end)?;
        asking.push((V::connect(&end, address, &[])?, end));
    }
    // NDKPI promises no order between connections: one of them is too many, whichever arrives last.
    let (mut over, deadline) = (Vec::new(), Instant::now() + nd.patience());
    while over.is_empty() {
        ensure!(Instant::now() < deadline, "none of {} Connects was refused by a backlog of {BACKLOG}", asking.len());
        over = asking.extract_if(.., |(connect, _)| connect.is_over()).collect();
        thread::yield_now();
    }
    is(over[0].0.status()?, STATUS_CONNECTION_REFUSED, "one more than the backlog")?;
    ensure!(asking.len() == BACKLOG, "{} Connects were refused", over.len());
    ensure!(asking.iter_mut().all(|(connect, _)| !connect.is_over()), "those in the backlog ended");
    Ok(())
}
