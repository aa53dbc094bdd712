//! Memory windows: create, free, bind.

use ndk_abi::nd_ioctl::ND_HANDLE;
use ndk_abi::ndkpi::NDK_MW;
use ndk_abi::softndk_ioctl::{SOFTNDK_MW_TOKEN, SOFTNDK_POST};
use ndk_abi::status::{STATUS_INVALID_PARAMETER, STATUS_SUCCESS};
use platform::{Arc, Charge, Passive};

use crate::decode::{Reply, input, output, room_for};
use crate::objects::Handles;
use crate::objects::pd::Pd;
use crate::objects::post::{region, window};
use crate::objects::qp::Qp;
use crate::session::quota::Quota;
use crate::{Host, Ref, shared};
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

/// Posts a bind, and answers with the window's new token.
pub(crate) fn bind<H: Host>(
    handles: &Handles<H>,
    request: &mut H::Request,
    qp: &Ref<Qp<H>, H>,
    input: &SOFTNDK_POST,
) -> Reply {
    room_for::<SOFTNDK_MW_TOKEN>(request)?;
    let mw = window(handles, qp, input.ObjectHandle)?;
    let mr = region(handles, qp, input.MrHandle)?;
    let length = usize::try_from(input.Length).map_err(|_| STATUS_INVALID_PARAMETER)?;
    let part = (input.BaseVirtualAddress, length);
    let turn = qp.initiator_turn.lock();
    let status = qp.ndk.bind(input.RequestContext, &mw.ndk, &mr.ndk, part, input.Flags);
    let token = mw.ndk.remote_token();
    drop(turn);
    if status != STATUS_SUCCESS {
        return Err(status.into());
    }
    output(request, &SOFTNDK_MW_TOKEN { RemoteToken: token, Reserved: 0 })
}
