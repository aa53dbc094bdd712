//! What a process is charged for its regions.

use platform::PoolQuota;
use simkernel::boot;
use soft_rdma::{Access, Adapter, MemoryRegion, ProtectionDomain};

use crate::common::{BASE, HOST, machine, many_runs};

/// Each run of a region counts.
// Shows T12.
#[test]
fn runs_are_charged() {
    let _kernel = boot();
    let quota = PoolQuota::new(1 << 20).unwrap();
    let adapter = Adapter::open_for(machine(HOST).device(), (2, 1), Some(7), &quota).unwrap();
    let pd = ProtectionDomain::new(&adapter).unwrap();
    let region = MemoryRegion::new(&pd, false).unwrap();
    let before = quota.taken();
    MemoryRegion::register(&region, BASE, 64, Access::empty(), many_runs(1000, 64)).unwrap();
    // Each run has an address, an offset and a length.
    assert!(quota.taken() - before >= 1000 * 24, "{}", quota.taken() - before);
    drop(region);
    let _region = MemoryRegion::new(&pd, false).unwrap();
    assert_eq!(quota.taken(), before);
}
