//! What an adapter does.
#![expect(unsafe_code, reason = "calls functions of a C interface")]

use std::{
    ffi::c_void,
    net::SocketAddr,
    ptr::{null, null_mut},
};

use ndk_abi::{
    describe::ZeroInit,
    ndkpi::*,
    status::{NTSTATUS, STATUS_BUFFER_TOO_SMALL, STATUS_SUCCESS},
    wdm::GUID,
};
use simkernel::Mdl;

use super::{
    super::{
        Lam, Waiter,
        call::call,
        transport::{Address, RawAddress},
        waiter,
    },
    Adapter, Connector, Cq, Listener, Pd, SharedEndpoint, made,
};

impl Adapter {
    pub(crate) fn header(&self) -> NDK_OBJECT_HEADER {
        // SAFETY: the consumer's open object.
        unsafe { (*self.0.as_ptr()).Header }
    }

    pub(crate) fn query_extension(&self) -> NTSTATUS {
        let mut guid = GUID::from_u128(1);
        let mut interface = NDK_EXTENSION_INTERFACE { Dispatch: null() };
        let version = NDK_VERSION { Major: 1, Minor: 0 };
        call!(self.0, NdkQueryExtension(&raw mut guid, version, &raw mut interface))
    }

    pub(crate) fn info(&self) -> NDK_ADAPTER_INFO {
        let mut info = NDK_ADAPTER_INFO::ZERO;
        let mut size = size_of::<NDK_ADAPTER_INFO>() as u32;
        assert_eq!(call!(self.0, NdkQueryAdapterInfo(&raw mut info, &raw mut size)), STATUS_SUCCESS);
        info
    }

    pub(crate) fn create_cq(&self, depth: u32) -> Result<Cq, NTSTATUS> {
        let notified = Waiter::notification("CQ notification");
        let completion = Waiter::new("create completion of a CQ");
        let mut out = null_mut();
        let returned = call!(
            self.0,
            NdkCreateCq(
                depth,
                waiter::completed,
                notified.context(),
                null_mut(),
                waiter::created,
                completion.context(),
                &raw mut out,
            )
        );
        let cq = Cq { raw: made(returned, out, completion)?, notified };
        cq.check_header();
        Ok(cq)
    }

    pub(crate) fn create_pd(&self) -> Result<Pd, NTSTATUS> {
        let completion = Waiter::new("create completion of a PD");
        let mut out = null_mut();
        let returned = call!(self.0, NdkCreatePd(waiter::created, completion.context(), &raw mut out));
        let pd = Pd { raw: made(returned, out, completion)? };
        pd.check_header();
        Ok(pd)
    }

    pub(crate) fn create_connector(&self) -> Result<Connector, NTSTATUS> {
        let completion = Waiter::new("create completion of a connector");
        let mut out = null_mut();
        let returned = call!(self.0, NdkCreateConnector(waiter::created, completion.context(), &raw mut out));
        let connector = Connector { raw: made(returned, out, completion)? };
        connector.check_header();
        Ok(connector)
    }

    pub(crate) fn create_listener(&self) -> Result<Listener, NTSTATUS> {
        // Requests of different peers are independent.
        let events = Waiter::concurrent("connect event");
        let completion = Waiter::new("create completion of a listener");
        let mut out = null_mut();
        let returned = call!(
            self.0,
            NdkCreateListener(
                waiter::connect_event,
                events.context(),
                waiter::created,
                completion.context(),
                &raw mut out
            )
        );
        let listener = Listener { raw: made(returned, out, completion)?, events };
        listener.check_header();
        Ok(listener)
    }

    pub(crate) fn create_shared_endpoint(&self, address: SocketAddr) -> Result<SharedEndpoint, NTSTATUS> {
        let address = Address::new(address);
        self.create_shared_endpoint_at((address.pointer(), address.length()))
    }

    /// NdkCreateSharedEndpoint with an address that is passed on unchecked.
    pub(crate) fn create_shared_endpoint_at(&self, address: RawAddress) -> Result<SharedEndpoint, NTSTATUS> {
        let completion = Waiter::new("create completion of a shared endpoint");
        let mut out = null_mut();
        let returned = call!(
            self.0,
            NdkCreateSharedEndpoint(address.0, address.1, waiter::created, completion.context(), &raw mut out)
        );
        let endpoint = SharedEndpoint { raw: made(returned, out, completion)? };
        endpoint.check_header();
        Ok(endpoint)
    }

    /// Builds a mapping in two calls, size first, and releases it: its addresses are good as long as the MDL is mapped.
    pub(crate) fn build_lam(&self, mdl: &Mdl, length: usize) -> Result<Lam, NTSTATUS> {
        let mut size = 0;
        let mut offset = u32::MAX;
        let mdl = mdl.as_ptr();
        let sized =
            call!(self.0, NdkBuildLAM(mdl, length, None, null_mut(), null_mut(), &raw mut size, &raw mut offset));
        if sized != STATUS_BUFFER_TOO_SMALL {
            assert_ne!(sized, STATUS_SUCCESS, "a mapping without a buffer");
            return Err(sized);
        }
        let mut storage = vec![0u64; (size as usize).div_ceil(size_of::<u64>())];
        let lam: *mut NDK_LOGICAL_ADDRESS_MAPPING = storage.as_mut_ptr().cast();
        let built = call!(self.0, NdkBuildLAM(mdl, length, None, null_mut(), lam, &raw mut size, &raw mut offset));
        if built != STATUS_SUCCESS {
            return Err(built);
        }
        call!(self.0, NdkReleaseLAM(lam));
        // SAFETY: built: the head is there, then that many addresses.
        let count = unsafe { (*lam).AdapterPageCount } as usize;
        assert_eq!(NDK_LOGICAL_ADDRESS_MAPPING::size_for(count), Some(size as usize));
        let pages = storage[storage.len() - count..].iter();
        let pages = pages.map(|&page| NDK_LOGICAL_ADDRESS { QuadPart: page.cast_signed() }).collect();
        Ok(Lam { pages, first_byte_offset: offset })
    }
}

/// NdkBuildLAM with a buffer of `size` bytes (none: only asks for the size). The status, the size reported, and what was
/// written.
pub(crate) fn lam_sized(adapter: &Adapter, mdl: &Mdl, length: usize, size: Option<u32>) -> (NTSTATUS, u32, Vec<u8>) {
    let (mut reported, mut offset) = (size.unwrap_or(0), 0);
    let (mdl, sizes) = (mdl.as_ptr(), (&raw mut reported, &raw mut offset));
    let (status, written) = filled(size.is_some(), |buffer| {
        let lam = buffer.cast();
        let status = call!(adapter.0, NdkBuildLAM(mdl, length, None, null_mut(), lam, sizes.0, sizes.1));
        if status == STATUS_SUCCESS {
            call!(adapter.0, NdkReleaseLAM(lam));
        }
        status
    });
    (status, reported, written)
}

/// Calls `fill` with room for more than there will be, or with NULL; what it returns, and what it has written.
fn filled(room: bool, fill: impl FnOnce(*mut c_void) -> NTSTATUS) -> (NTSTATUS, Vec<u8>) {
    const UNTOUCHED: u8 = 0xEE;
    let mut storage = vec![u64::from_ne_bytes([UNTOUCHED; 8]); 32];
    let status = fill(if room { storage.as_mut_ptr().cast() } else { null_mut() });
    let bytes: Vec<u8> = storage.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let written = bytes.iter().rposition(|&byte| byte != UNTOUCHED).map_or(0, |last| last + 1);
    (status, bytes[..written].to_vec())
}

/// NdkQueryAdapterInfo with a buffer of `size` bytes (none: only asks for the size). The status, the size reported, and
/// what was written.
pub(crate) fn adapter_info_sized(adapter: &Adapter, size: Option<u32>) -> (NTSTATUS, u32, Vec<u8>) {
    let mut reported = size.unwrap_or(0);
    let place = &raw mut reported;
    let (status, written) =
        filled(size.is_some(), |buffer| call!(adapter.0, NdkQueryAdapterInfo(buffer.cast(), place)));
    (status, reported, written)
}
