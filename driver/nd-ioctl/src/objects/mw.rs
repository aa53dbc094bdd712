//! Memory windows: create, free.

use ndk_abi::nd_ioctl::ND_HANDLE;
use ndk_abi::ndkpi::NDK_MW;
use platform::{Arc, Charge, Passive};

use crate::decode::{Reply, input, output, room_for};
use crate::objects::Handles;
use crate::objects::pd::Pd;
use crate::quota::Quota;
use crate::{Host, shared};
use ndk_consumer::Owned;

pub(crate) struct Mw<H: Host> {
    pub(crate) ndk: Owned<NDK_MW, Pd<H>, H::Platform>,
    _charge: Charge<H::Platform>,
}

pub(crate) fn create<H: Host>(
    handles: &Handles<H>,
    quota: &Quota<H>,
    request: &mut H::Request,
    passive: &Passive<'_>,
) -> Reply {
    let input: ND_HANDLE = input(request)?;
    let pd: Arc<Pd<H>, _> = handles.get(input.Handle)?;
    room_for::<u64>(request)?;
    let slot = handles.reserve()?;
    let charge = quota.charge_bytes(Arc::<Mw<H>, H::Platform>::POOL_BYTES)?;
    let ndk = Owned::create_mw(&pd.ndk, pd.clone(), passive)?;
    let handle = slot.fill(shared(Mw::<H> { ndk, _charge: charge })?)?;
    output(request, &handle)
}

pub(crate) fn free<H: Host>(handles: &Handles<H>, request: &H::Request) -> Reply {
    let input: ND_HANDLE = input(request)?;
    handles.remove::<Mw<H>>(input.Handle)?;
    Ok(0)
}
