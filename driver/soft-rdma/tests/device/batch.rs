//! Small sends, several in one step.

use simkernel::{Pages, boot};
use soft_rdma::{Access, Connector, Error, Flags, MemoryRegion, Outcome, Post, QueuePair, Sge};

use crate::common::{BASE, Side, accepted, runs_of};

/// Memory stays open from one send to the next: only for the token that names it, and no further than it goes.
#[test]
fn each_send_uses_the_memory_that_it_names() {
    let kernel = boot();
    let (pages, others) = (Pages::new(1), Pages::new(1));
    let (active, passive) = accepted(&kernel, &pages);
    assert_eq!(Connector::complete_connect(&active.connector, None), Ok(Outcome::Done));
    // At the addresses of the side's region.
    let other = |side: &Side| {
        let region = MemoryRegion::new(&side.pd, false).unwrap();
        MemoryRegion::register(&region, BASE, others.size() as u64, Access::LOCAL_WRITE, runs_of(&others)).unwrap();
        region
    };
    let (from, to) = (other(&active), other(&passive));
    pages.write(0, b"the ones");
    others.write(0, b"not them");
    let end = others.size() - 4;
    let receives = [passive.sge(64, 8), Sge { token: to.token(), ..passive.sge(64, 8) }];
    for sge in receives.into_iter().chain([receives[1]]) {
        passive.queue_pair.post_receive(1, &[sge]).unwrap();
    }
    let past_the_end = Sge { token: from.token(), ..active.sge(end, 8) };
    let sends = [active.sge(0, 8), Sge { token: from.token(), ..active.sge(0, 8) }, past_the_end];
    for (context, (sge, flags)) in sends.into_iter().zip([Flags::DEFER, Flags::DEFER, Flags::empty()]).enumerate() {
        QueuePair::post(&active.queue_pair, context, &[sge], flags, Post::Send(None)).unwrap();
    }
    kernel.flush_dpcs();
    let statuses: Vec<_> = active.completions().iter().map(|completion| completion.status).collect();
    assert_eq!(statuses, [Ok(()), Ok(()), Err(Error::AccessViolation)]);
    assert_eq!((pages.read(64, 8), others.read(64, 8)), (b"the ones".to_vec(), b"not them".to_vec()));
}
