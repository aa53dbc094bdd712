//! Protection domains.

use ndk_abi::nd_ioctl::ND_HANDLE;
use ndk_abi::ndkpi::NDK_PD;
use platform::{Arc, Charge, Passive};

use crate::decode::{Reply, input, output, room_for};
use crate::objects::Handles;
use crate::quota::Quota;
use crate::{Host, Ref, shared};
use ndk_consumer::{Adapter, Owned};

pub(crate) struct Pd<H: Host> {
    pub(crate) ndk: Owned<NDK_PD, Adapter<H::Platform>, H::Platform>,
    _charge: Charge<H::Platform>,
}

impl<H: Host> Pd<H> {
    pub(crate) fn adapter(&self) -> &Ref<Adapter<H::Platform>, H> {
        self.ndk.context()
    }
}

pub(crate) fn create<H: Host>(
    handles: &Handles<H>,
    quota: &Quota<H>,
    request: &mut H::Request,
    passive: &Passive<'_>,
) -> Reply {
    let input: ND_HANDLE = input(request)?;
    let adapter: Arc<Adapter<_>, _> = handles.get(input.Handle)?;
    room_for::<u64>(request)?;
    let slot = handles.reserve()?;
    let charge = quota.charge_bytes(Arc::<Pd<H>, H::Platform>::POOL_BYTES)?;
    let ndk = Adapter::create_pd(&adapter, passive)?;
    let handle = slot.fill(shared(Pd::<H> { ndk, _charge: charge })?)?;
    output(request, &handle)
}

pub(crate) fn free<H: Host>(handles: &Handles<H>, request: &H::Request) -> Reply {
    let input: ND_HANDLE = input(request)?;
    handles.remove::<Pd<H>>(input.Handle)?;
    Ok(0)
}
