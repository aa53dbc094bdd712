//! `PoolQuota` and `Charge`: bytes of the pool that one user takes.

use platform::{Arc, OutOfMemory};
use simkernel::{SimKernel, boot};

type PoolQuota = platform::PoolQuota<SimKernel>;
type Slice<T> = platform::Slice<T, SimKernel>;

#[test]
fn a_charge_is_given_back_when_it_is_dropped() {
    let _kernel = boot();
    let quota = PoolQuota::new(1000).unwrap();
    let own = quota.taken();
    let rest = 1000 - own;
    let mut first = quota.charge(rest - 100).unwrap();
    let second = quota.clone().charge(60).unwrap();
    assert_eq!(first.add(41), Err(OutOfMemory), "refused as a whole");
    assert!(quota.charge(41).is_err() && quota.charge(u64::MAX).is_err());
    assert_eq!(first.add(40), Ok(()));
    assert_eq!(quota.taken(), 1000);
    first.absorb(second);
    assert_eq!(quota.taken(), 1000);
    drop(first);
    assert_eq!(quota.taken(), own);
}

#[test]
fn without_a_limit_everything_is_allowed() {
    let _kernel = boot();
    let quota = PoolQuota::UNLIMITED;
    let mut charge = quota.charge(u64::MAX).unwrap();
    assert_eq!((charge.add(1), quota.taken()), (Err(OutOfMemory), 0), "there are no more bytes than that");
}

/// The pool keeps 16 bytes before each allocation, and rounds sizes up to 16.
#[test]
fn allocations_take_what_the_pool_takes() {
    let kernel = boot();
    let taken = [0, 1, 16, 17, 5000].map(Slice::<u8>::pool_bytes);
    assert_eq!(taken, [0, 32, 32, 48, 5008 + 16]);
    assert_eq!(Slice::<u64>::pool_bytes(usize::MAX), u64::MAX);
    let _object = Arc::<_, SimKernel>::try_new([0u8; 100]).unwrap();
    let counted = kernel.ledger().pool_bytes() as u64;
    assert_eq!(Arc::<[u8; 100], SimKernel>::POOL_BYTES, counted.next_multiple_of(16) + 16);
}
