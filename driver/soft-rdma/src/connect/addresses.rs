//! The local addresses of a device. On Windows they come and go while the adapter runs.

use core::net::IpAddr;

use platform::{Platform, Slice, SpinLock};

use crate::{Error, limits};

/// The addresses of a device, each once.
pub(crate) struct Addresses<P: Platform>(SpinLock<Slice<IpAddr, P>, P>);

impl<P: Platform> Default for Addresses<P> {
    fn default() -> Self {
        Self(SpinLock::<_, P>::new(Slice::empty()))
    }
}

impl<P: Platform> Addresses<P> {
    /// Adds an address, unless the list has it already. IRQL <= DISPATCH.
    pub(crate) fn add(&self, address: IpAddr) -> Result<(), Error> {
        let unusable = match address {
            IpAddr::V4(address) => address.is_broadcast(),
            // An IPv6 link-local address means nothing without its interface (RFC 4007, section 6), which the list does not hold.
            IpAddr::V6(address) => address.is_unicast_link_local(),
        };
        if unusable || address.is_unspecified() || address.is_multicast() {
            return Err(Error::InvalidAddress);
        }
        let mut larger = Slice::empty();
        loop {
            let mut list = self.0.lock();
            let length = list.len();
            if list.contains(&address) {
                return Ok(());
            }
            if length >= limits::ADDRESSES {
                return Err(Error::InsufficientResources);
            }
            if larger.len() == length.saturating_add(1) {
                larger.iter_mut().zip(list.iter()).for_each(|(new, old)| *new = *old);
                core::mem::swap(&mut *list, &mut larger);
                return Ok(());
            }
            // Allocated without the lock: another thread may add an address before the next round.
            drop(list);
            larger = Slice::filled(length.saturating_add(1), address)?;
        }
    }

    /// Removes the addresses that `wanted` does not accept. Objects that use such an address keep it. IRQL <= DISPATCH.
    pub(crate) fn retain(&self, wanted: impl Fn(IpAddr) -> bool) -> Result<(), Error> {
        let mut index = 0;
        while let Some(address) = self.get(index) {
            if wanted(address) {
                index = index.saturating_add(1);
                continue;
            }
            let length = self.0.lock().len();
            let mut smaller = Slice::filled(length.saturating_sub(1), address)?;
            let mut list = self.0.lock();
            // If another thread has changed the list in between, the next round tries the same address again.
            if list.len() == length && list.contains(&address) {
                let others = list.iter().filter(|other| **other != address);
                smaller.iter_mut().zip(others).for_each(|(new, old)| *new = *old);
                core::mem::swap(&mut *list, &mut smaller);
            }
            drop(list);
        }
        Ok(())
    }

    pub(crate) fn get(&self, index: usize) -> Option<IpAddr> {
        self.0.lock().get(index).copied()
    }

    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        self.0.lock().contains(&address)
    }
}
