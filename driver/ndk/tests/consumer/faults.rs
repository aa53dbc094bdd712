//! Allocation failures: each allocation of the create, connect and modify paths fails once. Nothing leaks, and what was
//! not hit works.

use std::{thread, time::Instant};

use ndk_abi::{
    ndkpi::{NDK_MR_FLAG_ALLOW_REMOTE_WRITE, NDK_OP_FLAG_ALLOW_REMOTE_READ, NDK_OP_FLAG_ALLOW_REMOTE_WRITE},
    status::{NTSTATUS, STATUS_CONNECTION_REFUSED, STATUS_INSUFFICIENT_RESOURCES, STATUS_SUCCESS},
    wdm::PAGE_SIZE,
};
use simkernel::Pages;

use crate::kit::{Buffer, Connector, LIMIT, Lam, QpSizes, Request, World, loopback, mapping};

/// What was made, to be closed in the opposite order.
#[derive(Default)]
struct Made(Vec<Box<dyn FnOnce() -> Request>>);

impl Made {
    fn push(&mut self, close: impl FnOnce() -> Request + 'static) {
        self.0.push(Box::new(close));
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        for close in self.0.drain(..).rev() {
            close().succeed();
        }
    }
}

fn done(status: NTSTATUS) -> Result<(), NTSTATUS> {
    if status == STATUS_SUCCESS { Ok(()) } else { Err(status) }
}

/// Keeps an object and plans its close.
macro_rules! make {
    ($made:ident, $object:expr) => {{
        let object = $object?;
        $made.push(move || object.close());
        object
    }};
}

/// The life of a small consumer. The first failure ends it.
fn scenario(world: &World) -> Result<(), NTSTATUS> {
    let adapter = &world.adapter;
    // Before what closes the regions over it.
    let pages = Pages::new(2);
    let mdl = pages.mdl(0, pages.size(), Buffer::INDEX);
    let mut made = Made::default();
    let pd = make!(made, adapter.create_pd());
    let cq = make!(made, adapter.create_cq(16));
    let srq = make!(made, pd.create_srq(16, 2, 0));
    let active = make!(made, pd.create_qp(&cq, &cq, 1, QpSizes::default()));
    let passive = make!(made, pd.create_qp_with_srq(&cq, &cq, &srq, 2, QpSizes::default()));
    done(cq.resize(32).wait())?;
    done(srq.modify(32, 1).wait())?;
    let mr = make!(made, pd.create_mr(false));
    done(mr.register(&mdl, pages.size(), NDK_MR_FLAG_ALLOW_REMOTE_WRITE).wait())?;
    let fast = make!(made, pd.create_mr(true));
    done(fast.initialize_fast(2, true).wait())?;
    let mw = make!(made, pd.create_mw());
    let token = pd.privileged_token();
    if token == 0 {
        return Err(STATUS_INSUFFICIENT_RESOURCES);
    }
    let lam: Lam = mapping(adapter, &mdl, pages.size())?;

    let listener = make!(made, adapter.create_listener());
    done(listener.listen(loopback(5445)))?;
    let ours = make!(made, adapter.create_connector());
    let connect = ours.connect(&active, loopback(0), loopback(5445), (4, 4), b"hello");
    let deadline = Instant::now() + LIMIT;
    while !connect.is_done() && listener.events.count() == 0 {
        assert!(Instant::now() < deadline);
        thread::yield_now();
    }
    if listener.events.count() == 0 {
        return done(connect.wait());
    }
    let theirs = Connector::of_event(listener.events.take().value);
    made.push(move || theirs.close());
    let accept = theirs.accept(&passive, (4, 4), b"welcome", None);
    done(connect.wait())?;
    done(ours.complete(None).wait())?;
    done(accept.wait())?;

    let base = Buffer::INDEX;
    done(srq.receive(1, &[crate::kit::sge(base, 8, mr.token())]))?;
    done(active.send(2, &[crate::kit::sge(lam.pages[0].QuadPart.cast_unsigned(), 8, token)], 0))?;
    let flags = NDK_OP_FLAG_ALLOW_REMOTE_WRITE;
    done(active.fast_register(3, &fast, &lam, pages.size(), base, flags))?;
    done(active.write(4, &[crate::kit::sge(base + 100, 8, fast.token())], base + PAGE_SIZE as u64, mr.token(), 0))?;
    done(active.invalidate(5, &fast, 0))?;
    done(active.bind(6, &mw, &mr, (base, 8), NDK_OP_FLAG_ALLOW_REMOTE_READ))?;
    done(active.invalidate_window(7, &mw, 0))?;
    for result in cq.wait(7) {
        done(result.Status)?;
    }
    done(ours.disconnect().wait())
}

#[test]
fn every_allocation_fails_once() {
    let world = World::new();
    // The tables of the device grow to what this needs, the 64 shards of the memory tokens one after the other.
    (0..64).for_each(|_| scenario(&world).expect("without a fault"));
    world.settle();
    let live = world.session.ledger().live.len();
    let mut faults = 0;
    for nth in 1.. {
        let fault = world.session.fail_allocation(nth);
        let outcome = scenario(&world);
        let happened = fault.happened();
        drop(fault);
        world.settle();
        assert_eq!(world.session.ledger().live.len(), live, "allocation {nth} leaks, {outcome:?}");
        if !happened {
            assert_eq!(outcome, Ok(()));
            break;
        }
        faults += 1;
        // Where the passive connector's head finds no memory, the active side is refused.
        let allowed = [STATUS_INSUFFICIENT_RESOURCES, STATUS_CONNECTION_REFUSED];
        assert!(outcome.is_err_and(|status| allowed.contains(&status)), "allocation {nth}: {outcome:?}");
    }
    println!("{faults} allocations");
    assert!(faults > 40);
}

/// The same from a fresh provider each time, whose tables have to grow.
#[test]
fn every_allocation_of_a_fresh_provider_fails_once() {
    for nth in 1.. {
        let world = World::new();
        let fault = world.session.fail_allocation(nth);
        let outcome = scenario(&world);
        let happened = fault.happened();
        drop(fault);
        if !happened {
            assert_eq!(outcome, Ok(()));
            break;
        }
        let allowed = [STATUS_INSUFFICIENT_RESOURCES, STATUS_CONNECTION_REFUSED];
        assert!(outcome.is_err_and(|status| allowed.contains(&status)), "allocation {nth}: {outcome:?}");
        // It works afterwards.
        scenario(&world).expect("without a fault");
    }
}

/// The same with mappings of MDLs.
#[test]
fn every_mapping_fails_once() {
    let world = World::new();
    for nth in 1.. {
        let fault = world.session.fail_mapping(nth);
        let outcome = scenario(&world);
        let happened = fault.happened();
        drop(fault);
        if !happened {
            assert_eq!(outcome, Ok(()));
            assert!(nth > 1);
            break;
        }
        assert_eq!(outcome, Err(STATUS_INSUFFICIENT_RESOURCES));
    }
}

/// All NDKPI functions but NdkQueryAdapterInfo may be called at DISPATCH_LEVEL (ndkpi.md, section 4.10): the simulated kernel
/// notes what waits or asks for a lower level.
#[test]
fn the_whole_life_at_dispatch_level() {
    let world = World::new();
    simkernel::at_dispatch(|_| scenario(&world)).expect("without a fault");
}
