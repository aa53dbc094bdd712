//! The provider contexts of all control devices, by their identifiers.

use platform::{SpinLock, Weak};

use crate::quota::Quota;
use crate::session::provider_context::ProviderContext;
use crate::tables::slab::Slab;
use crate::{Host, Ref};

/// At most 8192 provider contexts.
const CHUNK: u32 = 256;
const CHUNKS: usize = 32;

/// The contexts whose first file is not cleaned up yet.
pub(crate) type Contexts<H> = SpinLock<Slab<Entry<H>, <H as Host>::Platform, CHUNK, CHUNKS>, <H as Host>::Platform>;

/// The entry of a provider context.
pub(crate) struct Entry<H: Host> {
    pub(super) process: u64,
    /// Shared by all contexts of the process.
    pub(super) quota: Ref<Quota<H>, H>,
    /// `None` while PROVIDER_INIT makes the context.
    pub(super) context: Option<Weak<ProviderContext<H>, H::Platform>>,
}
