//! softnd.dll in the Winsock catalog, where programs look for NetworkDirect providers.

#[cfg(windows)]
mod catalog;

use clap::Subcommand;
use nd_com::class::SOFTND_PROVIDER_V2;
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
    /// Enter softnd.dll, where it lies beside this program. Needs an administrator.
    Install,
    /// Remove its entry; no error if there is none. Needs an administrator.
    Remove,
    /// Print the NetworkDirect providers of the catalog.
    List,
}

/// The version of an entry's interfaces: `ND_VERSION_2`.
const VERSION_2: i32 = 0x0002_0000;

/// Does it.
pub(crate) fn run(command: Command) -> anyhow::Result<()> {
    #[cfg(windows)]
    return match command {
        Command::Install => catalog::install(&entry()),
        Command::Remove => catalog::remove(&entry()),
        Command::List => catalog::list(),
    };
    #[cfg(not(windows))]
    {
        let _ = command;
        anyhow::bail!("there is a Winsock catalog on Windows only")
    }
}

/// The entry of version 2. One for IPv6 stands for both address families. Flags and numbers are those by which programs know
/// a NetworkDirect provider; Winsock itself makes no sockets of it.
#[cfg_attr(not(any(windows, test)), expect(dead_code, reason = "there is a Winsock catalog on Windows only"))]
fn entry() -> WSAPROTOCOL_INFOW {
    let mut name = [0; 256];
    for (to, from) in name.iter_mut().zip("SoftNDK NetworkDirect 2".encode_utf16()) {
        *to = from;
    }
    WSAPROTOCOL_INFOW {
        dwServiceFlags1: XP1_GUARANTEED_DELIVERY | XP1_GUARANTEED_ORDER | XP1_MESSAGE_ORIENTED | XP1_CONNECT_DATA,
        dwServiceFlags2: 0,
        dwServiceFlags3: 0,
        dwServiceFlags4: 0,
        dwProviderFlags: PFL_HIDDEN | PFL_NETWORKDIRECT_PROVIDER,
        ProviderId: GUID::from_u128(SOFTND_PROVIDER_V2.to_u128()),
        dwCatalogEntryId: 0,
        ProtocolChain: WSAPROTOCOLCHAIN { ChainLen: BASE_PROTOCOL as i32, ChainEntries: [0; 7] },
        iVersion: VERSION_2,
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
    const VERSION_1: i32 = 1;
    let flags = match entry.iVersion {
        VERSION_1 => PFL_HIDDEN,
        VERSION_2 => PFL_HIDDEN | PFL_NETWORKDIRECT_PROVIDER,
        _ => return false,
    };
    entry.dwServiceFlags1 & SERVICE == SERVICE
        && entry.dwProviderFlags & flags == flags
        && (entry.iSocketType, entry.iProtocol, entry.iProtocolMaxOffset) == (-1, 0, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_entry_is_that_of_a_networkdirect_provider() {
        let entry = entry();
        assert!(is_networkdirect(&entry));
        // The numbers of the catalog themselves, as programs compare them.
        assert_eq!(entry.dwServiceFlags1, 0x2 | 0x4 | 0x8 | 0x80);
        assert_eq!(entry.dwProviderFlags, 0x4 | 0x10);
        assert_eq!((entry.iVersion, entry.iAddressFamily), (0x20000, 23));
        assert_eq!((entry.iSocketType, entry.iProtocol, entry.iProtocolMaxOffset), (-1, 0, 0));
        assert_eq!((entry.iMinSockAddr, entry.iMaxSockAddr), (16, 28));
        assert_eq!((entry.ProtocolChain.ChainLen, entry.dwCatalogEntryId), (1, 0));
        assert_eq!(entry.ProviderId.data1, 0x3d1c_7a52);
        let name: Vec<u16> = entry.szProtocol.iter().copied().take_while(|unit| *unit != 0).collect();
        assert_eq!(String::from_utf16(&name).unwrap(), "SoftNDK NetworkDirect 2");
        assert_eq!(size_of::<WSAPROTOCOL_INFOW>(), 628);
    }

    #[test]
    fn other_entries_are_not() {
        type Change = fn(&mut WSAPROTOCOL_INFOW);
        let changes: [Change; 6] = [
            |entry| entry.dwServiceFlags1 &= !XP1_CONNECT_DATA,
            |entry| entry.dwProviderFlags &= !PFL_HIDDEN,
            |entry| entry.dwProviderFlags &= !PFL_NETWORKDIRECT_PROVIDER,
            |entry| entry.iVersion = 2,
            |entry| entry.iSocketType = 1,
            |entry| entry.iProtocol = 6,
        ];
        for change in changes {
            let mut entry = entry();
            change(&mut entry);
            assert!(!is_networkdirect(&entry));
        }
    }
}
