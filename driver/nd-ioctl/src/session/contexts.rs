//! The provider contexts of a control device, by their identifiers.

use platform::{SpinLock, Weak};

use crate::quota::Quota;
use crate::session::provider_context::ProviderContext;
use crate::tables::slab::Slab;
use crate::{Host, Ref};

/// At most 8192 provider contexts.
const CHUNK: u32 = 256;
const CHUNKS: usize = 32;

/// The contexts whose file is not cleaned up.
pub(crate) type Contexts<H> = SpinLock<Slab<Entry<H>, <H as Host>::Platform, CHUNK, CHUNKS>, <H as Host>::Platform>;

/// The entry of a provider context.
pub(crate) struct Entry<H: Host> {
    pub(super) process: u64,
    /// All contexts of the process share it.
    pub(super) quota: Ref<Quota<H>, H>,
    /// None: PROVIDER_INIT is making it.
    pub(super) context: Option<Weak<ProviderContext<H>, H::Platform>>,
}
