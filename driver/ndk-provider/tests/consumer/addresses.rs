//! The device's list of addresses, which changes while the device runs.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    thread,
};

use ndk_abi::status::{
    STATUS_CONNECTION_ABORTED, STATUS_CONNECTION_REFUSED, STATUS_INSUFFICIENT_RESOURCES, STATUS_INVALID_ADDRESS,
    STATUS_SUCCESS,
};
use ndk_provider::Provider;
use simkernel::SimKernel;
use soft_rdma::limits;

use crate::{
    connector::Scene,
    kit::{World, addresses, loopback},
};

fn list(provider: &Provider<SimKernel>) -> Vec<IpAddr> {
    (0..).map_while(|index| provider.address(index)).collect()
}

/// An address may be bound and reached from the moment that it was added; the adapter is open all the time.
// Shows S712.
#[test]
fn an_address_that_comes_late_and_goes() {
    let world = World::new();
    let scene = Scene::new(&world);
    for ip in [IpAddr::from([10, 0, 0, 77]), "fd00::77".parse().expect("an address")] {
        let late = SocketAddr::new(ip, 5445);
        let local = SocketAddr::new(if ip.is_ipv4() { addresses()[0] } else { addresses()[2] }, 0);
        let listener = world.adapter.create_listener().expect("a listener");
        assert_eq!(listener.listen(late), STATUS_INVALID_ADDRESS);
        let connect = || scene.connector.connect(&scene.active.qp, local, late, (1, 1), &[]);
        // In the simulated network, a machine with this address refuses the connect: it has no listener.
        assert_eq!(connect().wait(), STATUS_CONNECTION_REFUSED);

        assert_eq!(world.provider.add_address(ip), Ok(()));
        assert_eq!(listener.listen(late), STATUS_SUCCESS);
        let connected = connect();
        let passive = listener.take();
        assert_eq!((passive.local_address(), passive.peer_address()), (Ok(late), scene.connector.local_address()));
        passive.close_now();
        connected.wait();
        // After the provider has dropped the address, no connect reaches its listener.
        assert_eq!(world.provider.retain_addresses(|held| held != ip), Ok(()));
        assert_eq!(connect().wait(), STATUS_CONNECTION_ABORTED, "TCP of the simulated network has it still");
        listener.close_now();
    }
    scene.close(true);
}

/// A listener on the unspecified address also listens on the addresses that are added later.
// Shows S712.
#[test]
fn a_wildcard_listener_gets_later_addresses() {
    let world = World::new();
    let scene = Scene::new(&world);
    let any = world.adapter.create_listener().expect("a listener");
    assert_eq!(any.listen(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 700)), STATUS_SUCCESS);
    let late = SocketAddr::new([10, 0, 0, 77].into(), 700);
    assert_eq!(world.provider.add_address(late.ip()), Ok(()));
    let connect = scene.connector.connect(&scene.active.qp, loopback(0), late, (1, 1), &[]);
    let passive = any.take();
    assert_eq!(passive.local_address(), Ok(late));
    passive.close_now();
    connect.wait();
    any.close_now();
    scene.close(true);
}

#[test]
fn a_list_that_starts_empty() {
    let _session = simkernel::boot();
    let provider = Provider::<SimKernel>::new(&[]).expect("a provider");
    assert!(list(&provider).is_empty());
    let [one, two, six] = addresses();
    for ip in [one, six, one, two, six] {
        // At DISPATCH_LEVEL as well.
        assert_eq!(simkernel::at_dispatch(|_| provider.add_address(ip)), Ok(()));
    }
    assert_eq!(list(&provider), [one, six, two], "in the order they came, each once");
}

#[test]
fn addresses_go() {
    let session = simkernel::boot();
    let provider = Provider::<SimKernel>::new(&addresses()).expect("a provider");
    let [one, two, six] = addresses();
    let fault = session.fail_allocation(1);
    assert_eq!(provider.retain_addresses(|ip| ip != two), Err(STATUS_INSUFFICIENT_RESOURCES));
    drop(fault);
    assert_eq!(list(&provider), [one, two, six], "without memory they stay");
    assert_eq!(simkernel::at_dispatch(|_| provider.retain_addresses(|ip| ip != two)), Ok(()));
    assert_eq!(list(&provider), [one, six]);
    assert_eq!(provider.retain_addresses(|_| true), Ok(()));
    assert_eq!(list(&provider), [one, six]);
    assert_eq!(provider.add_address(two), Ok(()));
    assert_eq!(list(&provider), [one, six, two], "it comes back as a new one");
    assert_eq!(provider.retain_addresses(|_| false), Ok(()));
    assert!(list(&provider).is_empty());
}

// Shows T45.
#[test]
fn addresses_that_no_device_can_have() {
    let _session = simkernel::boot();
    let provider = Provider::<SimKernel>::new(&[]).expect("a provider");
    let many: [IpAddr; 3] = [[224, 0, 0, 1].into(), "ff02::1".parse().expect("an address"), Ipv4Addr::BROADCAST.into()];
    let link_local: IpAddr = "fe80::1".parse().expect("an address");
    for ip in [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into(), link_local].into_iter().chain(many) {
        assert_eq!(provider.add_address(ip), Err(STATUS_INVALID_ADDRESS), "{ip}");
        assert_eq!(Provider::<SimKernel>::new(&[ip]).err(), Some(STATUS_INVALID_ADDRESS), "{ip}");
    }
    assert!(list(&provider).is_empty());
}

#[test]
fn as_many_as_there_may_be() {
    let session = simkernel::boot();
    let provider = Provider::<SimKernel>::new(&[]).expect("a provider");
    let nth = |index: usize| IpAddr::from((10 << 24 | index as u32).to_be_bytes());
    for index in 0..limits::ADDRESSES {
        let fault = session.fail_allocation(1);
        assert_eq!(provider.add_address(nth(index)), Err(STATUS_INSUFFICIENT_RESOURCES));
        drop(fault);
        assert_eq!(provider.add_address(nth(index)), Ok(()));
    }
    assert_eq!(provider.add_address(nth(limits::ADDRESSES)), Err(STATUS_INSUFFICIENT_RESOURCES));
    assert_eq!(provider.add_address(nth(0)), Ok(()), "it is there already");
    assert_eq!(list(&provider), (0..limits::ADDRESSES).map(nth).collect::<Vec<_>>());
}

#[test]
fn several_threads_add() {
    let _session = simkernel::boot();
    let provider = Provider::<SimKernel>::new(&[]).expect("a provider");
    thread::scope(|scope| {
        for thread in 0..4u8 {
            let provider = &provider;
            scope.spawn(move || {
                for host in 0..50 {
                    // All four threads add the even hosts of net 9; each thread adds the odd hosts of its own net.
                    let net = if host % 2 == 0 { 9 } else { thread };
                    assert_eq!(provider.add_address([10, 0, net, host].into()), Ok(()));
                }
            });
        }
    });
    let mut all = list(&provider);
    assert_eq!(all.len(), 4 * 25 + 25);
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 4 * 25 + 25, "each once");
}
