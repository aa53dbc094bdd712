//! What TCP answers to listens and connects: other processes and machines use addresses and ports too.

use std::{
    collections::HashSet,
    net::{IpAddr, SocketAddr},
};

use simkernel::{Pages, SimKernel, boot, boot_seeded, pause, scope, seeds};
use soft_rdma::{Adapter, Connect, Connector, Device, Error, Listener, Outcome, SharedEndpoint, Source, Status};

use crate::common::{Arc, HOST, LIMITS, OTHER_HOST, awaited, ignore, listener, machine, side};

/// The result of a listen.
fn listen(listener: &Arc<Listener<SimKernel>>, host: IpAddr, port: u16) -> Status {
    let (done, wait) = awaited();
    match Listener::listen(listener, SocketAddr::new(host, port), done) {
        Ok(Outcome::Pending) => wait(),
        other => other.map(|_| ()),
    }
}

/// The result of a connect from `host`; the passive side never accepts.
fn connect(adapter: &Arc<Adapter<SimKernel>>, host: IpAddr, remote: SocketAddr) -> Status {
    let pages = Pages::new(1);
    let active = side(adapter, Connector::new(adapter).unwrap(), &pages);
    let (done, wait) = awaited();
    let request = Connect {
        queue_pair: &active.queue_pair,
        source: Source::Address(SocketAddr::new(host, 0)),
        remote,
        limits: LIMITS,
        private_data: &[],
    };
    let result = match Connector::connect(&active.connector, request, done) {
        Ok(Outcome::Pending) => wait(),
        other => other.map(|_| ()),
    };
    let _may_wait = soft_rdma::close(active.connector, ignore());
    let _may_wait = soft_rdma::close(active.queue_pair, ignore());
    result
}

/// A port of another process of this machine: the listener can try another.
#[test]
fn a_port_that_tcp_knows_to_be_taken() {
    for seed in seeds(20) {
        let kernel = boot_seeded(seed);
        kernel.hold_clock();
        let (one, other) = (machine(HOST), machine(HOST));
        let (first, second) = (listener(&one), listener(&other));
        assert_eq!(listen(&first, HOST, 5445), Ok(()));
        assert_eq!(listen(&second, HOST, 5445), Err(Error::SharingViolation));
        assert_eq!(listen(&second, HOST, 5446), Ok(()), "after a failure");
        assert_eq!(second.local_address(), Some(SocketAddr::new(HOST, 5446)));
        assert_eq!(listen(&second, HOST, 5447), Err(Error::InvalidDeviceRequest), "it listens");
        for listener in [first, second] {
            let _may_wait = soft_rdma::close(listener, ignore());
        }
        kernel.flush_dpcs();
    }
}

/// The listener is closed at some point of its listen: the consumer hears that, or that it listens, and nothing else.
#[test]
fn a_listen_that_a_close_crosses() {
    let mut canceled = 0;
    for seed in seeds(60) {
        let kernel = boot_seeded(seed);
        kernel.hold_clock();
        let listener = listener(&machine(HOST));
        let (done, wait) = awaited();
        assert_eq!(Listener::listen(&listener, SocketAddr::new(HOST, 0), done), Ok(Outcome::Pending));
        (0..seed % 7).for_each(|_| pause());
        let _may_wait = soft_rdma::close(listener, ignore());
        match wait() {
            Ok(()) => {}
            other => {
                assert_eq!(other, Err(Error::Canceled), "seed {seed}");
                canceled += 1;
            }
        }
        kernel.flush_dpcs();
    }
    assert_ne!(canceled, 0);
}

/// Each listener gets a free port.
#[test]
fn ports_that_tcp_picks() {
    for seed in seeds(20) {
        let kernel = boot_seeded(seed);
        kernel.hold_clock();
        let machines = [machine(HOST), machine(HOST)];
        let listeners = machines.each_ref().map(listener);
        let ports = listeners.each_ref().map(|listener| {
            assert_eq!(listen(listener, HOST, 0), Ok(()));
            listener.local_address().unwrap().port()
        });
        assert!(ports[0] != 0 && ports[1] != 0 && ports[0] != ports[1], "{ports:?}");
        for listener in listeners {
            let _may_wait = soft_rdma::close(listener, ignore());
        }
        kernel.flush_dpcs();
    }
}

/// The listener may be in another process with the host's address, or on another machine.
#[test]
fn connects_that_find_somebody_and_that_do_not() {
    for seed in seeds(20) {
        let kernel = boot_seeded(seed);
        kernel.hold_clock();
        let (one, other) = (machine(HOST), machine(HOST));
        let far = machine(OTHER_HOST);
        let listeners = [listener(&other), listener(&far)];
        for (listener, host) in listeners.iter().zip([HOST, OTHER_HOST]) {
            assert_eq!(listen(listener, host, 5445), Ok(()));
            // The consumer closes the connector: the peer sees a refusal.
            assert_eq!(connect(&one, HOST, SocketAddr::new(host, 5445)), Err(Error::ConnectionRefused));
            assert_eq!(connect(&one, HOST, SocketAddr::new(host, 5446)), Err(Error::ConnectionRefused));
        }
        let nowhere = SocketAddr::new([224, 0, 0, 1].into(), 5445);
        assert_eq!(connect(&one, HOST, nowhere), Err(Error::NetworkUnreachable));
        for listener in listeners {
            let _may_wait = soft_rdma::close(listener, ignore());
        }
        kernel.flush_dpcs();
    }
}

/// Without a network TCP does not tell whether a process listens: at an address of this machine, no process but this one can.
#[test]
fn connects_without_a_network() {
    for seed in seeds(5) {
        let kernel = boot_seeded(seed);
        kernel.hold_clock();
        kernel.set_tcp(false);
        let adapter = machine(HOST);
        assert_eq!(connect(&adapter, HOST, SocketAddr::new(HOST, 5445)), Err(Error::ConnectionRefused));
        assert_eq!(connect(&adapter, HOST, SocketAddr::new(OTHER_HOST, 5445)), Err(Error::NetworkUnreachable));
        kernel.flush_dpcs();
    }
}

/// Two threads remove one address, and one of them adds another: each change happens once, and all other addresses stay.
#[test]
fn the_list_of_addresses_changes_on_two_threads() {
    let address = |host| IpAddr::from([192, 0, 2, host]);
    for seed in seeds(200) {
        let _kernel = boot_seeded(seed);
        let device = Device::<SimKernel>::new().unwrap();
        (1..=3).for_each(|host| device.add_address(address(host)).unwrap());
        let take_away = || device.retain_addresses(|other| other != address(1)).unwrap();
        scope(|scope| {
            scope.spawn(take_away);
            take_away();
            device.add_address(address(4)).unwrap();
        });
        let left: Vec<_> = (0..).map_while(|index| device.address(index)).collect();
        assert_eq!(left, [2, 3, 4].map(address), "seed {seed}");
    }
}

/// All ephemeral ports are taken but one: it is found, wherever it is. At another address each of them is free.
#[test]
fn the_only_port_that_is_free() {
    const PORTS: usize = 16_384;
    let _kernel = boot();
    let adapter = machine(HOST);
    let endpoint = |host| SharedEndpoint::new(&adapter, SocketAddr::new(host, 0));
    let mut all: Vec<_> = (0..PORTS).map(|_| endpoint(HOST).expect("a port")).collect();
    let ports: HashSet<_> = all.iter().map(|endpoint| endpoint.local_address().port()).collect();
    assert_eq!(ports.len(), PORTS);
    assert_eq!(endpoint(HOST).err(), Some(Error::TooManyAddresses));
    for given_back in [0, 63, 64, 8_000, PORTS - 1] {
        let port = all[given_back].local_address().port();
        let _may_wait = soft_rdma::close(all.swap_remove(given_back), ignore());
        all.push(endpoint(HOST).expect("the port that was given back"));
        assert_eq!(all.last().map(|endpoint| endpoint.local_address().port()), Some(port));
        assert_eq!(endpoint(HOST).err(), Some(Error::TooManyAddresses));
    }
    adapter.device().add_address(OTHER_HOST).unwrap();
    all.extend((0..100).map(|_| endpoint(OTHER_HOST).expect("a port that is in use elsewhere")));
    for endpoint in all {
        let _may_wait = soft_rdma::close(endpoint, ignore());
    }
}
