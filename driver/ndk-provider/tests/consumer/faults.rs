//! What the kernel may refuse, memory and mappings, is refused once at each call site of a consumer's whole life. The call
//! that needed it says so, nothing leaks or hangs, and afterwards everything works.

use ndk_abi::{
    ndkpi::{
        NDK_CQ_NOTIFY_ANY, NDK_MR_FLAG_ALLOW_LOCAL_WRITE, NDK_MR_FLAG_ALLOW_REMOTE_READ,
        NDK_MR_FLAG_ALLOW_REMOTE_WRITE, NDK_OP_FLAG_ALLOW_REMOTE_READ, NDK_OP_FLAG_ALLOW_REMOTE_WRITE,
        NDK_OP_FLAG_INLINE,
    },
    status::{NTSTATUS, STATUS_CONNECTION_REFUSED, STATUS_INSUFFICIENT_RESOURCES, STATUS_SUCCESS},
    wdm::PAGE_SIZE,
};
use ndk_provider::{ObjectCounts, Provider};
use simkernel::{Pages, Session, SimKernel, Site, boot_seeded, each_fault, pause, seeds};

use crate::kit::{
    Adapter, Buffer, Connector, Cq, LIMIT, Lam, Listener, Qp, QpSizes, Request, Waiter, World, addresses,
    close_adapter, loopback, mapping, open_adapter, sge, take_complaints,
};

type Outcome = Result<(), NTSTATUS>;

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

fn done(status: NTSTATUS) -> Outcome {
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

/// Carries out a connect that was begun: the passive side accepts, then the active side completes.
fn establish((connect, ours): (Request, Connector), listener: &Listener, passive: &Qp, made: &mut Made) -> Outcome {
    while !connect.is_done() && !listener.events.has_more() {
        pause();
    }
    if !listener.events.has_more() {
        return done(connect.wait());
    }
    let theirs = listener.take();
    made.push(move || theirs.close());
    let accept = theirs.accept_ex(passive, (4, 4), b"welcome", Some(Waiter::deferred("disconnect event, passive")));
    done(connect.wait())?;
    assert_eq!(ours.data(), ((4, 4), b"welcome".to_vec()));
    done(ours.complete(Some(Waiter::deferred("disconnect event, active"))).wait())?;
    done(accept.wait())
}

fn completed(cq: &Cq, count: usize) -> Outcome {
    cq.wait(count).iter().try_for_each(|result| done(result.Status))
}

/// The life of a consumer that has all there is. The first failure ends it.
fn life(adapter: &Adapter) -> Outcome {
    // Before what closes the regions over it.
    let pages = Pages::new(2);
    let mdl = pages.mdl(0, pages.size(), Buffer::INDEX);
    let made = &mut Made::default();
    let pd = make!(made, adapter.create_pd());
    let cq = make!(made, adapter.create_cq(16));
    let srq = make!(made, pd.create_srq(16, 2, 0));
    let active = make!(made, pd.create_qp(&cq, &cq, 1, QpSizes::default()));
    let passive = make!(made, pd.create_qp_with_srq(&cq, &cq, &srq, 2, QpSizes::default()));
    done(cq.resize(32).wait())?;
    done(cq.moderate(1000, 2))?;
    done(srq.modify(32, 1).wait())?;
    let mr = make!(made, pd.create_mr(false));
    let rights = NDK_MR_FLAG_ALLOW_LOCAL_WRITE | NDK_MR_FLAG_ALLOW_REMOTE_READ | NDK_MR_FLAG_ALLOW_REMOTE_WRITE;
    done(mr.register(&mdl, pages.size(), rights).wait())?;
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
    establish((connect, ours), &listener, &passive, made)?;

    let base = Buffer::INDEX;
    cq.arm(NDK_CQ_NOTIFY_ANY);
    done(srq.receive(1, &[sge(base, 8, mr.token())]))?;
    done(active.send(2, &[sge(lam.pages[0].QuadPart.cast_unsigned(), 8, token)], 0))?;
    completed(&cq, 2)?;
    let flags = NDK_OP_FLAG_ALLOW_REMOTE_WRITE;
    done(active.fast_register(3, &fast, &lam, pages.size(), base, flags))?;
    done(active.write(4, &[sge(base + 100, 8, fast.token())], base + PAGE_SIZE as u64, mr.token(), 0))?;
    done(active.read(5, &[sge(base + 100, 8, mr.token())], base + 200, mr.token(), 0))?;
    done(active.bind(6, &mw, &mr, (base, 8), NDK_OP_FLAG_ALLOW_REMOTE_READ))?;
    done(active.invalidate_window(7, &mw, 0))?;
    done(active.invalidate(8, &fast, 0))?;
    completed(&cq, 6)?;
    done(ours.disconnect().wait())?;

    let endpoint = make!(made, adapter.create_shared_endpoint(loopback(5446)));
    let sides = [3, 4].map(|tag| pd.create_qp(&cq, &cq, tag, QpSizes::default()));
    for side in sides.into_iter().flatten() {
        made.push(move || side.close());
    }
    let [active, passive] = [sides[0]?, sides[1]?];
    let ours = make!(made, adapter.create_connector());
    let connect = ours.connect_shared(&active, &endpoint, loopback(5445), (4, 4), &[]);
    establish((connect, ours), &listener, &passive, made)?;
    done(passive.receive(9, &[]))?;
    done(active.send(10, &[], NDK_OP_FLAG_INLINE))?;
    completed(&cq, 2)?;
    done(passive.receive(11, &[]))?;
    passive.flush();
    assert_eq!(cq.wait_one().RequestContext.addr(), 11);
    done(mr.deregister().wait())
}

/// What is open in a session. Dropping it checks that nothing is left.
struct OpenAdapter {
    provider: Provider<SimKernel>,
    adapter: Adapter,
}

impl OpenAdapter {
    fn new() -> Result<Self, NTSTATUS> {
        let provider = Provider::new(&addresses())?;
        let adapter = open_adapter(&provider, 2, 1)?;
        Ok(Self { provider, adapter })
    }

    fn close(self) {
        close_adapter(self.adapter);
        assert_eq!(self.provider.object_counts(), ObjectCounts::default());
        let complaints = take_complaints();
        assert!(complaints.is_empty(), "{complaints:?}");
    }
}

/// From loading the provider to unloading it. If something fails, a second time everything works.
fn scenario(session: &Session) -> Outcome {
    let mut first = Ok(());
    // Both rounds make these calls, so that each allocation has one call site.
    for time in 0..2 {
        let outcome = OpenAdapter::new().and_then(|opened| {
            let outcome = life(&opened.adapter);
            opened.close();
            outcome
        });
        session.flush_dpcs();
        match (time, outcome) {
            (0, Ok(())) => return Ok(()),
            (0, _) => first = outcome,
            (_, again) => assert_eq!(again, Ok(()), "after {first:?} everything works"),
        }
    }
    first
}

/// Where the passive connector's head finds no memory, the consumer cannot be asked: the active side is refused. The next connection
/// of another machine is awaited again later. Every other call says that it wants memory.
fn check(site: Option<&Site>, outcome: Outcome) {
    let Some(site) = site else { return assert_eq!(outcome, Ok(())) };
    let expected = match outcome {
        Err(STATUS_CONNECTION_REFUSED) => site.to_string().contains("connect_event"),
        Ok(()) => ["await_connection", "WireTable<P>::reserve"].iter().any(|place| site.to_string().contains(place)),
        refused => refused == Err(STATUS_INSUFFICIENT_RESOURCES),
    };
    assert!(expected, "{outcome:?} when this failed: {site}");
}

// Shows S109.
#[test]
fn every_call_site_fails_once() {
    for seed in seeds(1) {
        let faults = each_fault(|| boot_seeded(seed), LIMIT, scenario, check);
        println!("{faults}");
        assert!(faults.missed.is_empty(), "{:?}", faults.missed.iter().map(ToString::to_string).collect::<Vec<_>>());
        let mappings = faults.failed.iter().filter(|site| site.to_string().starts_with("mapping")).count();
        assert!(faults.failed.len() > 50 && mappings > 1, "{faults}, {mappings} of them mappings");
    }
}

/// As before, in the order of the calls: sites that are passed several times, as where a table grows, fail each time.
// Shows S109.
#[test]
fn every_allocation_fails_once() {
    let world = World::new();
    // The tables of the device grow to what this needs, the 64 shards of the memory tokens one after the other.
    (0..64).for_each(|_| life(&world.adapter).expect("without a fault"));
    world.flush_dpcs();
    let live = world.session.ledger().live.len();
    for nth in 1.. {
        let fault = world.session.fail_allocation(nth);
        let outcome = life(&world.adapter);
        let site = fault.site();
        drop(fault);
        world.flush_dpcs();
        assert_eq!(world.session.ledger().live.len(), live, "allocation {nth} leaks, {outcome:?}");
        check(site.as_ref(), outcome);
        if site.is_none() {
            assert!(nth > 50, "{nth} allocations");
            break;
        }
    }
}

/// All NDKPI functions but NdkQueryAdapterInfo may be called at DISPATCH_LEVEL (ndkpi.md, section 4.10): the simulated kernel
/// notes what waits or asks for a lower level.
// Shows S107.
#[test]
fn the_whole_life_at_dispatch_level() {
    let world = World::new();
    simkernel::at_dispatch(|_| life(&world.adapter)).expect("without a fault");
}

/// NdkQueryAdapterInfo is the exception.
#[test]
#[should_panic(expected = "code for IRQL 0 entered")]
fn a_query_at_dispatch_level_is_caught() {
    let world = World::new();
    simkernel::at_dispatch(|_| world.adapter.info());
}

/// Negative control of the kit: it catches a callback at PASSIVE_LEVEL that a deferred call should have made.
// Shows S306.
#[test]
#[should_panic(expected = "a notification called at an IRQL that is not 2 to 2")]
fn a_callback_at_a_wrong_level_is_caught() {
    let _world = World::new();
    Waiter::deferred("a notification").call_now();
}
