//! The configuration of an adapter: the INF's keywords, in the adapter's software key.
#![expect(unsafe_code, reason = "calls into NDIS, and strings that NDIS owns")]

use core::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    ptr::null_mut,
    slice,
};

use ndk_abi::{
    describe::ZeroInit,
    ndis::{
        NDIS_CONFIGURATION_OBJECT, NDIS_CONFIGURATION_OBJECT_REVISION_1, NDIS_CONFIGURATION_PARAMETER_DATA,
        NDIS_HANDLE, NDIS_OBJECT_HEADER, NDIS_OBJECT_TYPE_CONFIGURATION_OBJECT, NDIS_PARAMETER_TYPE,
        NDIS_SIZEOF_CONFIGURATION_OBJECT_REVISION_1, NdisParameterInteger, NdisParameterString,
    },
    status::{NDIS_STATUS, NDIS_STATUS_INVALID_DATA, NDIS_STATUS_RESOURCES, STATUS_SUCCESS},
    wdm::UNICODE_STRING,
};
use platform::{Passive, Slice};
use vxlan::{ethernet::MacAddress, header::Vni, peers::Peers};

use crate::{
    attributes::ETHERNET_HEADER,
    cable::{self, patch},
    keywords, ndis,
    offload::Set,
    platform::Windows,
    security,
    unicode::{unicode_string, wide},
};

/// Characters of an address literal, at most. The longest has 45: `ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255`.
const ADDRESS_LENGTH: usize = 48;

/// The value of a [`keywords::Flag`] in an open configuration.
macro_rules! flag {
    ($key:expr, $flag:expr) => {
        $key.flag(wide!($flag.name), $flag.default)
    };
}

/// The value of a [`keywords::Number`] in an open configuration.
macro_rules! number {
    ($key:expr, $number:expr) => {
        $key.number(wide!($number.name))
            .filter(|number| ($number.min..=$number.max).contains(number))
            .unwrap_or($number.default)
    };
}

// The device in a process without the driver has the same default.
const _: () = assert!(keywords::SEND_TIMEOUT.default == ndk_provider::SEND_TIMEOUT_SECONDS);

/// The configuration of an adapter.
pub(crate) struct Configuration {
    /// [`keywords::NETWORK_DIRECT`].
    pub(crate) network_direct: bool,
    /// [`keywords::CRC`].
    pub(crate) crc: bool,
    /// [`keywords::SEND_TIMEOUT`].
    pub(crate) send_timeout: u32,
    /// [`keywords::FAULT_RULES`]; `None`: [`keywords::FAULT_INJECTION`] is off.
    pub(crate) fault_rules: Option<Slice<u8, Windows>>,
    /// [`keywords::CAPTURE`].
    pub(crate) capture: bool,
    /// [`keywords::ADDRESSES`].
    pub(crate) addresses: Slice<IpAddr, Windows>,
    /// [`keywords::NETWORK_ADDRESS`]. `None`: the key has no address, or one that no station can have.
    pub(crate) network_address: Option<MacAddress>,
    /// The most bytes of a frame's payload, without a cable: [`keywords::JUMBO_PACKET`] less the Ethernet header.
    pub(crate) mtu: u32,
    /// The task offloads that are on at the start, if the adapter has a cable.
    pub(crate) offloads: Set,
    /// `None`: [`keywords::CABLE_PEERS`] is empty.
    pub(crate) cable: Option<cable::Parameters>,
    /// The security descriptor of the control device, with [`keywords::GROUPS`] in it.
    pub(crate) security: Slice<u16, Windows>,
}

/// Reads the configuration of an adapter. NDIS_STATUS_INVALID_DATA: `Addresses` is not a list of IP addresses, `Groups` is not a list of
/// SIDs, `FaultRules` is not ASCII, or the cable's parameters are not what [`parse_cable`] says. Not inlined, as `Cable::new`.
#[inline(never)]
pub(crate) fn read(miniport: NDIS_HANDLE, passive: &Passive<'_>) -> Result<Configuration, NDIS_STATUS> {
    let key = Key::open(miniport, passive)?;
    let mtu = number!(key, keywords::JUMBO_PACKET).saturating_sub(ETHERNET_HEADER);
    let network_address = key.network_address();
    Ok(Configuration {
        mtu,
        network_address,
        network_direct: flag!(key, keywords::NETWORK_DIRECT),
        crc: flag!(key, keywords::CRC),
        send_timeout: number!(key, keywords::SEND_TIMEOUT),
        fault_rules: match flag!(key, keywords::FAULT_INJECTION) {
            true => Some(ascii(key.string(wide!(keywords::FAULT_RULES)))?),
            false => None,
        },
        capture: flag!(key, keywords::CAPTURE),
        addresses: parse_addresses(key.string(wide!(keywords::ADDRESSES)))?,
        offloads: offloads(&key),
        cable: parse_cable(&key, mtu, network_address)?,
        security: security::descriptor(elements(key.string(wide!(keywords::GROUPS))))?,
    })
}

fn offloads(key: &Key) -> Set {
    const TRANSMIT: u32 = 1;
    Set::NONE
        .with(Set::IPV4_CHECKSUM, number!(key, keywords::IP_CHECKSUM_IPV4) & TRANSMIT != 0)
        .with(Set::TCP_CHECKSUM_IPV4, number!(key, keywords::TCP_CHECKSUM_IPV4) & TRANSMIT != 0)
        .with(Set::TCP_CHECKSUM_IPV6, number!(key, keywords::TCP_CHECKSUM_IPV6) & TRANSMIT != 0)
        .with(Set::LARGE_SEND_IPV4, flag!(key, keywords::LSO_V2_IPV4))
        .with(Set::LARGE_SEND_IPV6, flag!(key, keywords::LSO_V2_IPV6))
        .with(Set::COALESCE_IPV4, flag!(key, keywords::RSC_IPV4))
        .with(Set::COALESCE_IPV6, flag!(key, keywords::RSC_IPV6))
}

/// Reads only `*NetworkDirect`, whose present value OID_NDK_SET_STATE checks.
pub(crate) fn network_direct(miniport: NDIS_HANDLE, passive: &Passive<'_>) -> Result<bool, NDIS_STATUS> {
    let key = Key::open(miniport, passive)?;
    Ok(flag!(key, keywords::NETWORK_DIRECT))
}

/// An adapter's open configuration.
struct Key(NDIS_HANDLE);

impl Key {
    fn open(miniport: NDIS_HANDLE, _passive: &Passive<'_>) -> Result<Self, NDIS_STATUS> {
        let mut object = NDIS_CONFIGURATION_OBJECT {
            Header: NDIS_OBJECT_HEADER::new(
                NDIS_OBJECT_TYPE_CONFIGURATION_OBJECT,
                NDIS_CONFIGURATION_OBJECT_REVISION_1,
                NDIS_SIZEOF_CONFIGURATION_OBJECT_REVISION_1,
            ),
            NdisHandle: miniport,
            ..NDIS_CONFIGURATION_OBJECT::ZERO
        };
        let mut handle = null_mut();
        // SAFETY: complete parameters that outlive the call; PASSIVE_LEVEL by the token.
        let status = unsafe { ndis::NdisOpenConfigurationEx(&raw mut object, &raw mut handle) };
        if status == STATUS_SUCCESS { Ok(Self(handle)) } else { Err(status) }
    }

    /// The value of a keyword, if the value is of type `kind`. NDIS owns the memory that the value points to, until the key is closed.
    fn value(&self, keyword: &[u16], kind: NDIS_PARAMETER_TYPE) -> Option<NDIS_CONFIGURATION_PARAMETER_DATA> {
        let mut keyword = unicode_string(keyword);
        let mut status = STATUS_SUCCESS;
        let mut parameter = null_mut();
        // SAFETY: an open configuration, and parameters that outlive the call.
        unsafe {
            ndis::NdisReadConfiguration(&raw mut status, &raw mut parameter, self.0, &raw mut keyword, kind);
        }
        if status != STATUS_SUCCESS {
            return None;
        }
        // SAFETY: on success NDIS gives a parameter, which lives until the key is closed.
        let parameter = unsafe { parameter.as_ref() }?;
        (parameter.ParameterType == kind).then_some(parameter.ParameterData)
    }

    fn flag(&self, keyword: &[u16], default: bool) -> bool {
        match self.number(keyword) {
            Some(0) => false,
            Some(1) => true,
            _ => default,
        }
    }

    fn number(&self, keyword: &[u16]) -> Option<u32> {
        let data = self.value(keyword, NdisParameterInteger)?;
        // SAFETY: the parameter's type is NdisParameterInteger.
        Some(unsafe { data.IntegerData })
    }

    fn network_address(&self) -> Option<MacAddress> {
        let (mut status, mut address, mut length) = (STATUS_SUCCESS, null_mut(), 0);
        // SAFETY: an open configuration, and parameters that outlive the call.
        unsafe { ndis::NdisReadNetworkAddress(&raw mut status, &raw mut address, &raw mut length, self.0) };
        if status != STATUS_SUCCESS || length as usize != size_of::<MacAddress>() || address.is_null() {
            return None;
        }
        // SAFETY: as many bytes of NDIS's, which live until the key is closed.
        let address = unsafe { address.cast::<MacAddress>().read() };
        (!address.is_group() && !address.is_zero()).then_some(address)
    }

    /// The text of a keyword; empty if the key has no string for the keyword.
    fn string(&self, keyword: &[u16]) -> &[u16] {
        let Some(data) = self.value(keyword, NdisParameterString) else { return &[] };
        // SAFETY: the parameter's type is NdisParameterString.
        let UNICODE_STRING { Length, Buffer, .. } = unsafe { data.StringData };
        if Buffer.is_null() {
            return &[];
        }
        let characters = usize::from(Length) / 2;
        // SAFETY: a counted string of NDIS, which lives until the key is closed; `self` is borrowed that long.
        unsafe { slice::from_raw_parts(Buffer, characters) }
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        // SAFETY: opened by `open`, closed once.
        unsafe { ndis::NdisCloseConfiguration(self.0) };
    }
}

/// The elements of a comma-separated list, without the blanks around each. Empty elements are left out.
fn elements(list: &[u16]) -> impl Iterator<Item = &[u16]> + Clone {
    let units = list.strip_suffix(&[0]).unwrap_or(list);
    units.split(|unit| *unit == u16::from(b',')).map(trim).filter(|element| !element.is_empty())
}

/// The addresses of a list. NDIS_STATUS_INVALID_DATA: an element is not an IP address.
fn parse_addresses(list: &[u16]) -> Result<Slice<IpAddr, Windows>, NDIS_STATUS> {
    let literals = elements(list);
    let mut addresses = Slice::filled(literals.clone().count(), IpAddr::V4(Ipv4Addr::UNSPECIFIED))
        .map_err(|_| NDIS_STATUS_RESOURCES)?;
    for (address, literal) in addresses.iter_mut().zip(literals) {
        *address = parse_address(literal).ok_or(NDIS_STATUS_INVALID_DATA)?;
    }
    Ok(addresses)
}

/// The cable's parameters. NDIS_STATUS_INVALID_DATA: `CablePeers` is not a list of other machines' addresses, of one family, each once, at most
/// [`vxlan::peers::MAX_PEERS`]; or `CableLocal` is no address of one machine and of that family, or one of the peers; or a peer's adapter, without
/// a `NetworkAddress` of its own, has this adapter's Ethernet address. `CablePeers` may be `local`: a patch cable, for which `CableLocal` and
/// `CablePort` do not count.
fn parse_cable(
    key: &Key,
    mtu: u32,
    network_address: Option<MacAddress>,
) -> Result<Option<cable::Parameters>, NDIS_STATUS> {
    let text = key.string(wide!(keywords::CABLE_PEERS));
    if elements(text).next().is_none() {
        return Ok(None);
    }
    let invalid = NDIS_STATUS_INVALID_DATA;
    let ascii = ascii(text)?;
    let text = core::str::from_utf8(&ascii).map_err(|_| invalid)?;
    let vni = Vni::new(number!(key, keywords::CABLE_VNI)).ok_or(invalid)?;
    if text.trim_matches([' ', ',']).eq_ignore_ascii_case(keywords::CABLE_PEERS_LOCAL) {
        let mut peers = Peers::default();
        peers.push(patch::END).map_err(|_| invalid)?;
        let local = SocketAddr::new(patch::END, 0);
        return Ok(Some(cable::Parameters { peers, local, vni, underlay_mtu: mtu, is_patch: true }));
    }
    let peers = Peers::parse(text).map_err(|_| invalid)?;
    let local = elements(key.string(wide!(keywords::CABLE_LOCAL))).next().and_then(parse_address).ok_or(invalid)?;
    let local = local.to_canonical();
    let own = network_address.unwrap_or_else(|| MacAddress::of_tunnel_end(local));
    if !peers.may_have(local) || peers.iter().any(|(_, peer)| MacAddress::of_tunnel_end(peer) == own) {
        return Err(invalid);
    }
    let port = u16::try_from(number!(key, keywords::CABLE_PORT)).map_err(|_| invalid)?;
    let local = SocketAddr::new(local, port);
    Ok(Some(cable::Parameters { peers, local, vni, underlay_mtu: mtu, is_patch: false }))
}

/// A copy of `text` as ASCII. NDIS_STATUS_INVALID_DATA: it has other characters.
fn ascii(text: &[u16]) -> Result<Slice<u8, Windows>, NDIS_STATUS> {
    let text = text.strip_suffix(&[0]).unwrap_or(text);
    let character = |unit: &u16| u8::try_from(*unit).ok().filter(u8::is_ascii);
    if !text.iter().all(|unit| character(unit).is_some()) {
        return Err(NDIS_STATUS_INVALID_DATA);
    }
    let copy = Slice::from_fn(text.len(), |place| text.get(place).and_then(character).unwrap_or_default());
    copy.map_err(|_| NDIS_STATUS_RESOURCES)
}

/// Removes the blanks at both ends of `literal`.
fn trim(mut literal: &[u16]) -> &[u16] {
    const BLANK: u16 = b' ' as u16;
    while let [BLANK, rest @ ..] | [rest @ .., BLANK] = literal {
        literal = rest;
    }
    literal
}

/// Parses an IPv4 or IPv6 literal.
fn parse_address(literal: &[u16]) -> Option<IpAddr> {
    let mut ascii = [0; ADDRESS_LENGTH];
    let text = ascii.get_mut(..literal.len())?;
    for (byte, unit) in text.iter_mut().zip(literal) {
        *byte = u8::try_from(*unit).ok()?;
    }
    core::str::from_utf8(text).ok()?.parse().ok()
}
