//! Address queries of the provider, and [`Adapter`], an open adapter.

use std::{env, sync::Arc};

use ndk_abi::{
    nd_ioctl::{
        IOCTL_ND_ADAPTER_CLOSE, IOCTL_ND_ADAPTER_OPEN, IOCTL_ND_ADAPTER_QUERY, IOCTL_ND_ADAPTER_QUERY_ADDRESS_LIST,
        IOCTL_ND_PD_CREATE, IOCTL_ND_PD_FREE, IOCTL_ND_PROVIDER_QUERY_ADDRESS_LIST, IOCTL_ND_PROVIDER_RESOLVE_ADDRESS,
        ND_ADAPTER_QUERY, ND_IOCTL_VERSION, ND_OPEN_ADAPTER, ND_RESOLVE_ADDRESS, ND_RESOURCE_DESCRIPTOR, ND_VERSION_2,
        ND2_ADAPTER_INFO,
    },
    sockaddr::SOCKADDR_INET,
    status::{
        NTSTATUS, STATUS_BUFFER_OVERFLOW, STATUS_DEVICE_REMOVED, STATUS_INVALID_ADDRESS, STATUS_INVALID_PARAMETER,
    },
};
use zerocopy::{FromBytes, IntoBytes};

use super::{
    device::{self, File},
    handle::Handle,
    object::Object,
};

/// The DeviceId of an adapter in the program's own process; the DeviceId of softndk.sys is 1.
const HOSTED_DEVICE_ID: u16 = 2;

/// The addresses of all adapters that this user may open.
pub(crate) fn provider_addresses() -> Result<Vec<SOCKADDR_INET>, NTSTATUS> {
    let (mut all, mut error) = (None, STATUS_DEVICE_REMOVED);
    for file in File::each()? {
        match file.and_then(|file| addresses(&file, IOCTL_ND_PROVIDER_QUERY_ADDRESS_LIST, 0)) {
            Ok(addresses) => all.get_or_insert_with(Vec::new).extend(addresses),
            Err(status) => error = status,
        }
    }
    all.ok_or(error)
}

/// The identifier of the adapter that owns a local address. STATUS_INVALID_ADDRESS: no adapter owns it.
pub(crate) fn resolve(address: SOCKADDR_INET) -> Result<u64, NTSTATUS> {
    let input = ND_RESOLVE_ADDRESS { Version: ND_IOCTL_VERSION, Reserved: 0, Address: address };
    let ask = |file: &File| file.query(IOCTL_ND_PROVIDER_RESOLVE_ADDRESS, input.as_bytes());
    of_one_adapter(STATUS_INVALID_ADDRESS, ask).map(|(_, id)| id)
}

/// The first answer that is no error, with the file that `ask` had. `Err(not_mine)`: each adapter says that it is another one's. Else the error
/// of an adapter that may be the one.
fn of_one_adapter<T>(not_mine: NTSTATUS, ask: impl Fn(&File) -> Result<T, NTSTATUS>) -> Result<(File, T), NTSTATUS> {
    let mut error = STATUS_DEVICE_REMOVED;
    for file in File::each()? {
        match file.and_then(|file| ask(&file).map(|answer| (file, answer))) {
            Ok(found) => return Ok(found),
            Err(status) if status == not_mine && error != STATUS_DEVICE_REMOVED => {}
            Err(status) => error = status,
        }
    }
    Err(error)
}

fn addresses(file: &File, code: u32, handle: u64) -> Result<Vec<SOCKADDR_INET>, NTSTATUS> {
    let input = device::handle(handle);
    let mut output = vec![0; 64 * size_of::<SOCKADDR_INET>()];
    loop {
        match file.control(code, input.as_bytes(), &mut output) {
            Ok(length) => {
                let list = output[..length].chunks_exact(size_of::<SOCKADDR_INET>());
                return Ok(list.filter_map(|bytes| SOCKADDR_INET::read_from_bytes(bytes).ok()).collect());
            }
            Err(STATUS_BUFFER_OVERFLOW) => output.resize(output.len() * 2, 0),
            Err(status) => return Err(status),
        }
    }
}

/// An open adapter, with a protection domain.
#[derive(Debug)]
pub(crate) struct Adapter {
    pd: Object,
    adapter: Object,
    file: Arc<File>,
    info: ND2_ADAPTER_INFO,
    uses_rings: bool,
}

impl Adapter {
    /// STATUS_INVALID_PARAMETER: no adapter has this identifier.
    pub(crate) fn open(id: u64) -> Result<Arc<Self>, NTSTATUS> {
        let input = ND_OPEN_ADAPTER {
            Version: ND_IOCTL_VERSION,
            CeMappingCount: 0,
            CbMappingsOffset: 0,
            Reserved: 0,
            AdapterId: id,
        };
        let (file, descriptor) = of_one_adapter(STATUS_INVALID_PARAMETER, |file| {
            file.query::<ND_RESOURCE_DESCRIPTOR>(IOCTL_ND_ADAPTER_OPEN, input.as_bytes())
        })?;
        let file = Arc::new(file);
        let adapter = Object::new(&file, descriptor.Handle, IOCTL_ND_ADAPTER_CLOSE);
        let pd = Object::create(&file, IOCTL_ND_PD_CREATE, adapter.handle(), IOCTL_ND_PD_FREE)?;
        let input =
            ND_ADAPTER_QUERY { Version: ND_IOCTL_VERSION, InfoVersion: ND_VERSION_2, AdapterHandle: adapter.handle() };
        let mut info: ND2_ADAPTER_INFO = file.query(IOCTL_ND_ADAPTER_QUERY, input.as_bytes())?;
        if file.is_hosted() {
            info.DeviceId = HOSTED_DEVICE_ID;
        }
        let uses_rings = env::var_os("SOFTND_PATH").is_none_or(|path| path != "plain");
        Ok(Arc::new(Self { pd, adapter, file, info, uses_rings }))
    }

    pub(crate) fn file(&self) -> &Arc<File> {
        &self.file
    }

    pub(crate) fn handle(&self) -> u64 {
        self.adapter.handle()
    }

    /// The handle of the adapter's protection domain.
    pub(crate) fn pd(&self) -> u64 {
        self.pd.handle()
    }

    pub(crate) fn info(&self) -> &ND2_ADAPTER_INFO {
        &self.info
    }

    /// Whether the adapter's queues are rings.
    pub(crate) fn uses_rings(&self) -> bool {
        self.uses_rings
    }

    pub(crate) fn addresses(&self) -> Result<Vec<SOCKADDR_INET>, NTSTATUS> {
        addresses(&self.file, IOCTL_ND_ADAPTER_QUERY_ADDRESS_LIST, self.handle())
    }

    /// A new file for requests that pend.
    pub(crate) fn open_overlapped(&self) -> Result<Handle, NTSTATUS> {
        self.file.open_overlapped()
    }
}
