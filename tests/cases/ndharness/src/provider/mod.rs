//! softnd.dll in the Winsock catalog, where programs look for NetworkDirect providers.

#[cfg(windows)]
pub(crate) mod catalog;

use clap::Subcommand;
use nd_com::class::{SOFTND_PROVIDER_V1, SOFTND_PROVIDER_V2};
use windows_sys::{
    Win32::Networking::WinSock::{
        AF_INET6, BASE_PROTOCOL, PFL_HIDDEN, PFL_NETWORKDIRECT_PROVIDER, SOCKADDR_IN, SOCKADDR_IN6, WSAPROTOCOL_INFOW,
        WSAPROTOCOLCHAIN, XP1_CONNECT_DATA, XP1_GUARANTEED_DELIVERY, XP1_GUARANTEED_ORDER, XP1_MESSAGE_ORIENTED,
    },
    core::GUID,
};

/// What to do with the catalog.
#[derive(Clone, Copy, Subcommand)]
pub(crate) enum Command {
    /// Enter softnd.dll, where it lies beside this program, once for each version of NetworkDirect. Needs an administrator.
    Install,
    /// Remove its entries; no error if there is none. Needs an administrator.
    Remove,
    /// Print the NetworkDirect providers of the catalog.
    List,
}

/// The version of an entry's interfaces: `ND_VERSION_1`.
pub(crate) const VERSION_1: i32 = 1;

/// The version of an entry's interfaces: `ND_VERSION_2`.
pub(crate) const VERSION_2: i32 = 0x0002_0000;

/// Does it.
pub(crate) fn run(command: Command) -> anyhow::Result<()> {
    #[cfg(windows)]
    return match command {
        Command::Install => entries().iter().try_for_each(catalog::install),
        Command::Remove => entries().iter().try_for_each(catalog::remove),
        Command::List => catalog::list(),
    };
    #[cfg(not(windows))]
    {
        let _ = command;
        anyhow::bail!("there is a Winsock catalog on Windows only")
    }
}

/// An entry for each version: programs of version 1 know only those of theirs.
#[cfg_attr(not(any(windows, test)), expect(dead_code, reason = "there is a Winsock catalog on Windows only"))]
fn entries() -> [WSAPROTOCOL_INFOW; 2] {
    [
        entry("SoftNDK NetworkDirect 2", VERSION_2, SOFTND_PROVIDER_V2.to_u128()),
        entry("SoftNDK NetworkDirect 1", VERSION_1, SOFTND_PROVIDER_V1.to_u128()),
    ]
}

/// An entry. One for IPv6 stands for both address families. Flags and numbers are those by which programs know a NetworkDirect
/// provider; Winsock itself makes no sockets of it.
fn entry(called: &str, version: i32, provider: u128) -> WSAPROTOCOL_INFOW {
    let mut name = [0; 256];
    for (to, from) in name.iter_mut().zip(called.encode_utf16()) {
        *to = from;
    }
    WSAPROTOCOL_INFOW {
        dwServiceFlags1: XP1_GUARANTEED_DELIVERY | XP1_GUARANTEED_ORDER | XP1_MESSAGE_ORIENTED | XP1_CONNECT_DATA,
        dwServiceFlags2: 0,
        dwServiceFlags3: 0,
        dwServiceFlags4: 0,
        dwProviderFlags: PFL_HIDDEN | PFL_NETWORKDIRECT_PROVIDER,
        ProviderId: GUID::from_u128(provider),
        dwCatalogEntryId: 0,
        ProtocolChain: WSAPROTOCOLCHAIN { ChainLen: BASE_PROTOCOL as i32, ChainEntries: [0; 7] },
        iVersion: version,
        iAddressFamily: AF_INET6.into(),
        iMaxSockAddr: size_of::<SOCKADDR_IN6>() as i32,
        iMinSockAddr: size_of::<SOCKADDR_IN>() as i32,
        iSocketType: -1,
        iProtocol: 0,
        iProtocolMaxOffset: 0,
        iNetworkByteOrder: 0,
        iSecurityScheme: 0,
        // Messages have no limit that the catalog could name.
        dwMessageSize: u32::MAX,
        dwProviderReserved: 0,
        szProtocol: name,
    }
}

/// Whether programs take an entry for one of a NetworkDirect provider: of version 1 or 2.
#[cfg_attr(not(any(windows, test)), expect(dead_code, reason = "there is a Winsock catalog on Windows only"))]
fn is_networkdirect(entry: &WSAPROTOCOL_INFOW) -> bool {
    const SERVICE: u32 = XP1_GUARANTEED_DELIVERY | XP1_GUARANTEED_ORDER | XP1_MESSAGE_ORIENTED | XP1_CONNECT_DATA;
    let flags = match entry.iVersion {
        VERSION_1 => PFL_HIDDEN,
        VERSION_2 => PFL_HIDDEN | PFL_NETWORKDIRECT_PROVIDER,
        _ => return false,
    };
    entry.dwServiceFlags1 & SERVICE == SERVICE
        && entry.dwProviderFlags & flags == flags
        && (entry.iSocketType, entry.iProtocol, entry.iProtocolMaxOffset) == (-1, 0, 0)
}

/// The number of an identifier.
#[cfg_attr(not(any(windows, test)), expect(dead_code, reason = "there is a Winsock catalog on Windows only"))]
pub(crate) fn number_of(class: &GUID) -> u128 {
    let &GUID { data1, data2, data3, data4 } = class;
    u128::from(data1) << 96 | u128::from(data2) << 80 | u128::from(data3) << 64 | u128::from(u64::from_be_bytes(data4))
}

/// An identifier as people write it.
pub(crate) fn written(class: u128) -> String {
    let text = format!("{class:032x}");
    let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| text.get(part).unwrap_or_default());
    format!("{{{}}}", parts.join("-"))
}

/// An identifier that was written so, or without its braces.
#[cfg_attr(not(any(windows, test)), expect(dead_code, reason = "there is a Winsock catalog on Windows only"))]
pub(crate) fn read(text: &str) -> Option<u128> {
    let inner = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')).unwrap_or(text);
    let number = u128::from_str_radix(&inner.replace('-', ""), 16).ok()?;
    written(number).eq_ignore_ascii_case(&format!("{{{inner}}}")).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Shows N5.
    #[test]
    fn the_entries_are_those_of_a_networkdirect_provider() {
        let expected = [(0x20000, 0x3d1c_7a52, "SoftNDK NetworkDirect 2"), (1, 0xa86f_04b9, "SoftNDK NetworkDirect 1")];
        for (entry, (version, class, called)) in entries().iter().zip(expected) {
            assert!(is_networkdirect(entry));
            // The numbers of the catalog themselves, as programs compare them.
            assert_eq!(entry.dwServiceFlags1, 0x2 | 0x4 | 0x8 | 0x80);
            assert_eq!(entry.dwProviderFlags, 0x4 | 0x10);
            assert_eq!((entry.iVersion, entry.iAddressFamily), (version, 23));
            assert_eq!((entry.iSocketType, entry.iProtocol, entry.iProtocolMaxOffset), (-1, 0, 0));
            assert_eq!((entry.iMinSockAddr, entry.iMaxSockAddr), (16, 28));
            assert_eq!((entry.ProtocolChain.ChainLen, entry.dwCatalogEntryId), (1, 0));
            assert_eq!(entry.ProviderId.data1, class);
            let name: Vec<u16> = entry.szProtocol.iter().copied().take_while(|unit| *unit != 0).collect();
            assert_eq!(String::from_utf16(&name).unwrap(), called);
        }
        assert_eq!(size_of::<WSAPROTOCOL_INFOW>(), 628);
    }

    #[test]
    fn identifiers_are_read_as_they_are_written() {
        let text = "{3d1c7a52-9b0e-4c6f-8a47-2f6b5e90d1c3}";
        let number = SOFTND_PROVIDER_V2.to_u128();
        assert_eq!((written(number), number_of(&GUID::from_u128(number))), (text.to_owned(), number));
        for same in [text, &text[1..37], &text.to_uppercase()] {
            assert_eq!(read(same), Some(number), "{same}");
        }
        for wrong in ["", "{}", "softnd.dll", &text[1..], &text[..36], &text.replace('-', ""), &text.replace('3', "x")]
        {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn other_entries_are_not() {
        type Change = fn(&mut WSAPROTOCOL_INFOW);
        let changes: [Change; 5] = [
            |entry| entry.dwServiceFlags1 &= !XP1_CONNECT_DATA,
            |entry| entry.dwProviderFlags &= !PFL_HIDDEN,
            |entry| entry.iVersion = 2,
            |entry| entry.iSocketType = 1,
            |entry| entry.iProtocol = 6,
        ];
        for change in changes {
            for mut entry in entries() {
                change(&mut entry);
                assert!(!is_networkdirect(&entry));
            }
        }
        // The flag came with version 2.
        let without = entries().map(|entry| WSAPROTOCOL_INFOW { dwProviderFlags: PFL_HIDDEN, ..entry });
        assert_eq!(without.each_ref().map(is_networkdirect), [false, true]);
    }
}
