//! What this crate declares, as data: every structure, number and prototype. The tests compare it with the fact
//! tables; nothing of it reaches a binary that does not use it.

/// A structure.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// C name.
    pub name: &'static str,
    /// Bytes.
    pub size: usize,
    /// What the structure may be used for.
    pub kind: Kind,
    /// In declaration order. Fields called `Padding…` are alignment gaps made explicit.
    pub fields: &'static [Field],
}

/// What a structure may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A whole structure, all zero allowed.
    Struct,
    /// A dispatch table: functions that are never null.
    Table,
    /// The start of a structure whose size depends on the version of Windows: only behind a pointer.
    Prefix,
}

/// A field of a structure.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// C name.
    pub name: &'static str,
    /// Bytes from the start of the structure.
    pub offset: usize,
    /// Bytes.
    pub size: usize,
    /// Gives the Rust type with its path.
    pub type_name: fn() -> &'static str,
}

/// A function type.
#[derive(Clone, Copy, Debug)]
pub struct Prototype {
    /// C name.
    pub name: &'static str,
    /// Gives the Rust type of the function pointer.
    pub type_name: fn() -> &'static str,
    /// In order.
    pub parameters: &'static [Parameter],
    /// Gives the Rust type of the result.
    pub result: fn() -> &'static str,
}

/// A parameter of a function type.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// C name.
    pub name: &'static str,
    /// Gives the Rust type with its path.
    pub type_name: fn() -> &'static str,
}

/// A number.
#[derive(Clone, Copy, Debug)]
pub struct Number {
    /// C name.
    pub name: &'static str,
    /// The enumeration, or the integer type of a constant.
    pub of: &'static str,
    /// Zero-extended.
    pub value: u64,
}

/// A type whose all-zero bit pattern is a value, as C's `= {0}` gives it.
pub trait ZeroInit: Sized {
    /// All zero: numbers 0, pointers null, callbacks absent.
    const ZERO: Self;
}

macro_rules! zero_numbers {
    ($($ty:ty),*) => { $(impl ZeroInit for $ty { const ZERO: Self = 0; })* };
}
zero_numbers!(u8, u16, u32, u64, usize, i8, i16, i32, i64, isize);

impl<T> ZeroInit for *const T {
    const ZERO: Self = core::ptr::null();
}

impl<T> ZeroInit for *mut T {
    const ZERO: Self = core::ptr::null_mut();
}

impl<T> ZeroInit for Option<T> {
    const ZERO: Self = None;
}

impl<T: ZeroInit, const N: usize> ZeroInit for [T; N] {
    const ZERO: Self = [T::ZERO; N];
}

/// The structures of ndioctl.h; all others are of the WDK, or SoftNDK's own.
pub const ND_IOCTL_LAYOUTS: &[&[Layout]] = &[
    crate::nd_ioctl::adapter::ND_ADAPTER_LAYOUTS,
    crate::nd_ioctl::kernel::KERNEL_LAYOUTS,
    crate::nd_ioctl::mappings::MAPPING_LAYOUTS,
    crate::nd_ioctl::requests::REQUEST_LAYOUTS,
];

/// Every structure.
pub const LAYOUTS: &[&[Layout]] = &[
    crate::nd_ioctl::adapter::ND_ADAPTER_LAYOUTS,
    crate::nd_ioctl::kernel::KERNEL_LAYOUTS,
    crate::nd_ioctl::mappings::MAPPING_LAYOUTS,
    crate::nd_ioctl::requests::REQUEST_LAYOUTS,
    crate::ndis::attributes::ATTRIBUTE_LAYOUTS,
    crate::ndis::configuration::CONFIGURATION_LAYOUTS,
    crate::ndis::device::DEVICE_LAYOUTS,
    crate::ndis::header::HEADER_LAYOUTS,
    crate::ndis::miniport::MINIPORT_LAYOUTS,
    crate::ndis::ndk::NDK_LAYOUTS,
    crate::ndis::ndk_oids::NDK_OID_LAYOUTS,
    crate::ndis::net_buffer::NET_BUFFER_LAYOUTS,
    crate::ndis::oid::OID_LAYOUTS,
    crate::ndis::pnp::PNP_LAYOUTS,
    crate::ndis::status::STATUS_LAYOUTS,
    crate::ndkpi::adapter::ADAPTER_LAYOUTS,
    crate::ndkpi::common::COMMON_LAYOUTS,
    crate::ndkpi::connector::CONNECTOR_LAYOUTS,
    crate::ndkpi::cq::CQ_LAYOUTS,
    crate::ndkpi::data::DATA_LAYOUTS,
    crate::ndkpi::listener::LISTENER_LAYOUTS,
    crate::ndkpi::mr::MR_LAYOUTS,
    crate::ndkpi::mw::MW_LAYOUTS,
    crate::ndkpi::pd::PD_LAYOUTS,
    crate::ndkpi::qp::QP_LAYOUTS,
    crate::ndkpi::rss::RSS_LAYOUTS,
    crate::ndkpi::shared_endpoint::SHARED_ENDPOINT_LAYOUTS,
    crate::ndkpi::srq::SRQ_LAYOUTS,
    crate::ndkpi::wsk::WSK_LAYOUTS,
    crate::sockaddr::SOCKADDR_LAYOUTS,
    crate::softndk_ioctl::SOFTNDK_LAYOUTS,
    crate::softndk_link::SOFTNDK_LINK_LAYOUTS,
    crate::softndk_ring::SOFTNDK_RING_LAYOUTS,
    crate::wdm::WDM_LAYOUTS,
    crate::wsk::WSK_SOCKET_LAYOUTS,
];

/// Every number.
pub const NUMBERS: &[&[Number]] = &[
    crate::nd_ioctl::adapter::VERSIONS,
    crate::nd_ioctl::adapter::ND_ADAPTER_FLAGS,
    crate::nd_ioctl::adapter::ND_MR_FLAGS,
    crate::nd_ioctl::adapter::ND_OP_FLAGS,
    crate::nd_ioctl::adapter::ND_CQ_NOTIFY_TYPES,
    crate::nd_ioctl::codes::RESOURCES,
    crate::nd_ioctl::codes::CODES,
    crate::nd_ioctl::kernel::MMIO_TYPES,
    crate::nd_ioctl::mappings::MAPPING_TYPES,
    crate::nd_ioctl::mappings::CACHING_TYPES,
    crate::nd_ioctl::mappings::ACCESS_TYPES,
    crate::nd_ioctl::PROTOCOL_VERSIONS,
    crate::nd_ioctl::CONTROL_CODE_PARTS,
    crate::ndis::attributes::MEDIA,
    crate::ndis::attributes::PHYSICAL_MEDIA,
    crate::ndis::attributes::CONNECT_STATES,
    crate::ndis::attributes::DUPLEX_STATES,
    crate::ndis::attributes::INTERFACE_TYPES,
    crate::ndis::attributes::ACCESS_TYPES,
    crate::ndis::attributes::DIRECTION_TYPES,
    crate::ndis::attributes::CONNECTION_TYPES,
    crate::ndis::attributes::INTERFACE_NUMBERS,
    crate::ndis::attributes::ATTRIBUTE_FLAGS,
    crate::ndis::attributes::MAC_OPTIONS,
    crate::ndis::attributes::PACKET_FILTERS,
    crate::ndis::attributes::STATISTICS_FLAGS,
    crate::ndis::configuration::PARAMETER_TYPES,
    crate::ndis::header::OBJECT_TYPES,
    crate::ndis::header::REVISIONS,
    crate::ndis::header::SIZES,
    crate::ndis::miniport::HALT_ACTIONS,
    crate::ndis::miniport::SHUTDOWN_ACTIONS,
    crate::ndis::ndk::NDK_NUMBERS,
    crate::ndis::net_buffer::SEND_FLAGS,
    crate::ndis::oid::REQUEST_TYPES,
    crate::ndis::oid::OIDS,
    crate::ndis::pnp::DEVICE_PNP_EVENTS,
    crate::ndis::pnp::NET_PNP_EVENTS,
    crate::ndis::status::PAUSE_FUNCTIONS,
    crate::ndis::status::MODERATIONS,
    crate::ndkpi::constants::OBJECT_TYPES,
    crate::ndkpi::constants::OPERATION_TYPES,
    crate::ndkpi::constants::RDMA_TECHNOLOGIES,
    crate::ndkpi::constants::OP_FLAGS,
    crate::ndkpi::constants::MR_FLAGS,
    crate::ndkpi::constants::CQ_NOTIFY_TYPES,
    crate::ndkpi::constants::ADAPTER_FLAGS,
    crate::ndkpi::wsk::WSK_CONTROL_CODES,
    crate::sockaddr::ADDRESS_FAMILIES,
    crate::softndk_ioctl::SOFTNDK_CODES,
    crate::softndk_ioctl::SOFTNDK_NUMBERS,
    crate::softndk_link::SOFTNDK_LINK_NUMBERS,
    crate::softndk_ring::SOFTNDK_RING_NUMBERS,
    crate::status::NAMED,
    crate::status::ALIASES,
    crate::wdm::IRQLS,
    crate::wdm::SIZES,
    crate::wdm::MDL_FLAGS,
    crate::wsk::SOCKET_TYPES,
    crate::wsk::WSK_NUMBERS,
    crate::wsk::WSK_VERSIONS,
];

/// Every function type.
pub const PROTOTYPES: &[&[Prototype]] = &[
    crate::ndis::device::DEVICE_PROTOTYPES,
    crate::ndis::exports::EXPORT_PROTOTYPES,
    crate::ndis::miniport::MINIPORT_PROTOTYPES,
    crate::ndis::ndk::NDK_PROTOTYPES,
    crate::ndkpi::adapter::ADAPTER_PROTOTYPES,
    crate::ndkpi::common::COMMON_PROTOTYPES,
    crate::ndkpi::connector::CONNECTOR_PROTOTYPES,
    crate::ndkpi::cq::CQ_PROTOTYPES,
    crate::ndkpi::listener::LISTENER_PROTOTYPES,
    crate::ndkpi::mr::MR_PROTOTYPES,
    crate::ndkpi::mw::MW_PROTOTYPES,
    crate::ndkpi::pd::PD_PROTOTYPES,
    crate::ndkpi::qp::QP_PROTOTYPES,
    crate::ndkpi::rss::RSS_PROTOTYPES,
    crate::ndkpi::shared_endpoint::SHARED_ENDPOINT_PROTOTYPES,
    crate::ndkpi::srq::SRQ_PROTOTYPES,
    crate::ndkpi::wsk::WSK_PROTOTYPES,
    crate::wsk::WSK_SOCKET_PROTOTYPES,
];
