//! What keeps SMB from RDMA, as a table: one rule for each cause.

use super::{
    checks::{
        across_subnets, adapter, address_state, addresses, client_binding, client_interface, client_multichannel,
        constraint, dialect, driver, driver_version, edition, failed, few_requests, firewall, ksmbd_multichannel, link,
        link_local, link_speed, network_direct, networks, profile, rdma, server_binding, server_edition,
        server_interface, server_multichannel, server_rdma, smb_direct, test_signing, threshold, windows_version,
    },
    inputs::{Machine, Unknown},
    pairing::Pairing,
};

/// A cause, and how to find it.
pub(crate) struct Rule {
    pub(crate) name: &'static str,
    /// Why it keeps SMB from RDMA.
    pub(crate) why: &'static str,
    /// The document that says so.
    pub(crate) page: &'static str,
    /// What mends it; `{}` is what [`Found::name`] has.
    pub(crate) mend: &'static str,
    pub(crate) check: Check,
}

/// Of which machine a rule is, and what finds its cause.
pub(crate) enum Check {
    /// Of either machine.
    Either(fn(&Machine) -> Checked),
    Client(fn(&Machine) -> Checked),
    Server(fn(&Machine) -> Checked),
    /// Of a client and a server together.
    Pair(fn(&Pairing) -> Checked),
}

pub(crate) type Checked = Result<Vec<Found>, Unknown>;

/// A cause that is there.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) what: String,
    /// The adapter or server that has it.
    pub(crate) name: String,
}

const SMB_DIRECT: &str = "https://learn.microsoft.com/windows-server/storage/file-server/smb-direct";
const MULTICHANNEL: &str =
    "https://learn.microsoft.com/windows-server/storage/file-server/troubleshoot/smb-multichannel-troubleshooting";
const CLIENT_CHOICE: &str = "MS-SMB2 3.2.5.14.11 and its notes in appendix A, https://learn.microsoft.com/openspecs/windows_protocols/ms-smb2/5459722b-1eaa-4ead-b465-284363264cad";
const SERVER_LIST: &str = "MS-SMB2 3.3.5.15.11, https://learn.microsoft.com/openspecs/windows_protocols/ms-smb2/21176e9a-ec3e-4d54-adde-bed5c13f64b8";
const PORTS: &str =
    "MS-SMBD 1.9, https://learn.microsoft.com/openspecs/windows_protocols/ms-smbd/ff0fc2d8-dd85-4471-9881-b608318fb406";

const THRESHOLD: &str = "MS-SMB2 3.2.5.14.11, notes in appendix A; https://learn.microsoft.com/archive/blogs/josebda/how-much-traffic-needs-to-pass-between-the-smb-client-and-server-before-multichannel-actually-starts";

/// All rules. Those of one machine come first, as they explain those of two.
pub(crate) const RULES: &[Rule] = &[
    Rule {
        name: "windows-version",
        why: "softndk.sys needs Windows 11 or Windows Server 2022: build 20348 or later",
        page: "docs/install.md, inf/softndk.inx",
        mend: "install a later Windows",
        check: Check::Either(windows_version),
    },
    Rule {
        name: "edition",
        why: "SMB Direct is in Windows Server, and in the editions Enterprise, Education and Pro for Workstations",
        page: SMB_DIRECT,
        mend: "install another edition",
        check: Check::Either(edition),
    },
    Rule {
        name: "test-signing",
        why: "Windows loads a test-signed driver only with test signing on, and that only with Secure Boot off",
        page: "https://learn.microsoft.com/windows-hardware/drivers/install/the-testsigning-boot-configuration-option, and preproduction-driver-signing-and-install there",
        mend: r".\prepare-vm.ps1 -Package .\softndk_package; Restart-Computer",
        check: Check::Either(test_signing),
    },
    Rule {
        name: "adapter",
        why: "without a device Root\\SoftNdk that runs there is no adapter",
        page: "docs/install.md, docs/bring-up.md",
        mend: "`install.ps1` if there is none; else docs/bring-up.md says what the code means",
        check: Check::Either(adapter),
    },
    Rule {
        name: "driver",
        why: "softndk.sys has a control device for each adapter that it runs",
        page: "docs/ndkctl.md",
        mend: "Restart-NetAdapter -Name '{}', then `ndkctl adapters`",
        check: Check::Either(driver),
    },
    Rule {
        name: "driver-version",
        why: "ndkctl and softndk.sys of different versions may not understand each other",
        page: "docs/install.md",
        mend: r".\install.ps1 -Package .\softndk_package -Devgen .\devgen.exe, and ndkctl.exe of the same build",
        check: Check::Either(driver_version),
    },
    Rule {
        name: "link",
        why: "an adapter that is not Up has no addresses that SMB could use",
        page: "docs/cable.md",
        mend: "Enable-NetAdapter -Name '{}' if it is Disabled; else `ndkctl cable` has the link's last error",
        check: Check::Either(link),
    },
    Rule {
        name: "rdma",
        why: "if RDMA is off at either end, neither can use it",
        page: SMB_DIRECT,
        mend: "Enable-NetAdapterRdma -Name '{}'",
        check: Check::Either(rdma),
    },
    Rule {
        name: "network-direct",
        why: "NetworkDirect Disabled turns RDMA off on all adapters",
        page: SMB_DIRECT,
        mend: "Set-NetOffloadGlobalSetting -NetworkDirect Enabled",
        check: Check::Either(network_direct),
    },
    Rule {
        name: "smb-direct",
        why: "SMB uses RDMA by the Windows feature SMB Direct",
        page: SMB_DIRECT,
        mend: "Enable-WindowsOptionalFeature -Online -FeatureName SMBDirect",
        check: Check::Either(smb_direct),
    },
    Rule {
        name: "address-state",
        why: "an address is of no use before TCP/IP has found that no other machine has it",
        page: "docs/troubleshooting.md, https://learn.microsoft.com/powershell/module/nettcpip/get-netipaddress",
        mend: "Get-NetIPAddress -InterfaceAlias '{}'; give the adapter an address that no other machine has",
        check: Check::Either(address_state),
    },
    Rule {
        name: "addresses",
        why: "SMB connects from TCP/IP's addresses, and the driver serves only those that it knows",
        page: "docs/troubleshooting.md, docs/install.md",
        mend: "Restart-NetAdapter -Name '{}', after its parameter Addresses is empty",
        check: Check::Either(addresses),
    },
    Rule {
        name: "link-local",
        why: "link-local addresses count only where both ends have no others, and Windows then takes the network for Public",
        page: "MS-SMB2 3.2.5.14.11, notes in appendix A; https://learn.microsoft.com/windows-server/storage/file-server/troubleshoot/smb-multichannel-troubleshooting",
        mend: r".\set-address.ps1 10.77.0.1 -Name '{}' -Port 445, 5445",
        check: Check::Either(link_local),
    },
    Rule {
        name: "client-multichannel",
        why: "SMB Multichannel finds which adapters have RDMA: without it the client uses none",
        page: SMB_DIRECT,
        mend: "Set-SmbClientConfiguration -EnableMultiChannel $true",
        check: Check::Client(client_multichannel),
    },
    Rule {
        name: "client-binding",
        why: "the SMB client uses an adapter only if ms_msclient is bound to it",
        page: MULTICHANNEL,
        mend: "Enable-NetAdapterBinding -Name '{}' -ComponentID ms_msclient",
        check: Check::Client(client_binding),
    },
    Rule {
        name: "client-interface",
        why: "the SMB client uses RDMA on interfaces that Get-SmbClientNetworkInterface lists as RDMA capable",
        page: MULTICHANNEL,
        mend: "Restart-NetAdapter -Name '{}', after the other findings are mended",
        check: Check::Client(client_interface),
    },
    Rule {
        name: "threshold",
        why: "alternate channels, and with them RDMA, come above as many outstanding requests: 8 on Windows, 1 on Windows Server by default",
        page: THRESHOLD,
        mend: "Set-SmbClientConfiguration -WindowSizeThreshold 1",
        check: Check::Client(threshold),
    },
    Rule {
        name: "server-edition",
        why: "Windows 10 and Windows 11 can be clients of SMB Direct, and no servers",
        page: SMB_DIRECT,
        mend: "share the folder on Windows Server",
        check: Check::Server(server_edition),
    },
    Rule {
        name: "server-multichannel",
        why: "without SMB Multichannel the server does not tell its interfaces to clients",
        page: SERVER_LIST,
        mend: "Set-SmbServerConfiguration -EnableMultiChannel $true",
        check: Check::Server(server_multichannel),
    },
    Rule {
        name: "server-binding",
        why: "the SMB server uses an adapter only if ms_server is bound to it",
        page: MULTICHANNEL,
        mend: "Enable-NetAdapterBinding -Name '{}' -ComponentID ms_server",
        check: Check::Server(server_binding),
    },
    Rule {
        name: "server-interface",
        why: "the server tells clients the interfaces that Get-SmbServerNetworkInterface lists, and none of index 0",
        page: SERVER_LIST,
        mend: "Restart-NetAdapter -Name '{}', after the other findings are mended",
        check: Check::Server(server_interface),
    },
    Rule {
        name: "profile",
        why: "Windows Firewall blocks SMB by default in a Public network",
        page: MULTICHANNEL,
        mend: "Set-NetConnectionProfile -InterfaceAlias '{}' -NetworkCategory Private",
        check: Check::Server(profile),
    },
    Rule {
        name: "firewall-445",
        why: "SMB begins over TCP, at the server's port 445",
        page: MULTICHANNEL,
        mend: "New-NetFirewallRule -DisplayName 'SMB on {}' -Direction Inbound -Protocol TCP -LocalPort 445 -InterfaceAlias '{}' -RemoteAddress LocalSubnet -Action Allow",
        check: Check::Server(|machine| firewall(machine, 445)),
    },
    Rule {
        name: "firewall-5445",
        why: "SMB Direct over iWARP connects to the server's TCP port 5445",
        page: PORTS,
        mend: "New-NetFirewallRule -DisplayName 'SMB Direct on {}' -Direction Inbound -Protocol TCP -LocalPort 5445 -InterfaceAlias '{}' -RemoteAddress LocalSubnet -Action Allow",
        check: Check::Server(|machine| firewall(machine, 5445)),
    },
    Rule {
        name: "dialect",
        why: "SMB Multichannel and SMB Direct need a dialect of SMB 3",
        page: SERVER_LIST,
        mend: "have {} speak SMB 3; ksmbd: server max protocol = SMB3_11",
        check: Check::Pair(dialect),
    },
    Rule {
        name: "ksmbd-multichannel",
        why: "ksmbd tells its interfaces only with this setting, whose default is no",
        page: "ksmbd.conf(5), https://docs.kernel.org/filesystems/smb/ksmbd.html",
        mend: "in [global] of {}'s ksmbd.conf: server multi channel support = yes; then restart ksmbd",
        check: Check::Pair(ksmbd_multichannel),
    },
    Rule {
        name: "constraint",
        why: "a constraint names the only interfaces that the client may use for a server",
        page: "https://learn.microsoft.com/powershell/module/smbshare/new-smbmultichannelconstraint",
        mend: "Remove-SmbMultichannelConstraint -ServerName {}",
        check: Check::Pair(constraint),
    },
    Rule {
        name: "server-rdma",
        why: "RDMA takes an RDMA-capable interface at both ends",
        page: CLIENT_CHOICE,
        mend: "`ndkctl doctor` on {}; Linux: `rdma link` has to show a device on the interface, and ksmbd needs the kernel's CONFIG_SMB_SERVER_SMBDIRECT",
        check: Check::Pair(server_rdma),
    },
    Rule {
        name: "networks",
        why: "a pair takes an address of each end, between which there is a route",
        page: CLIENT_CHOICE,
        mend: r".\set-address.ps1 with an address of the network that {}'s RDMA interface is in",
        check: Check::Pair(networks),
    },
    Rule {
        name: "across-subnets",
        why: "NetworkDirectAcrossIPSubnets Blocked keeps RDMA within the adapter's own network",
        page: "https://learn.microsoft.com/powershell/module/nettcpip/set-netoffloadglobalsetting",
        mend: "Set-NetOffloadGlobalSetting -NetworkDirectAcrossIPSubnets Allowed",
        check: Check::Pair(across_subnets),
    },
    Rule {
        name: "link-speed",
        why: "of the RDMA-capable pairs the client takes those of the highest link speed, which is the lower of both ends",
        page: CLIENT_CHOICE,
        mend: "New-SmbMultichannelConstraint -ServerName SERVER -InterfaceAlias '{}'",
        check: Check::Pair(link_speed),
    },
    Rule {
        name: "failed",
        why: "the client goes on over TCP if RDMA connections fail",
        page: "https://learn.microsoft.com/previous-versions/windows/desktop/smb/msft-smbmultichannelconnection",
        mend: "`ndkctl trace` on both machines shows which end refuses; then Update-SmbMultichannelConnection",
        check: Check::Pair(failed),
    },
    Rule {
        name: "few-requests",
        why: "the client opens RDMA connections only above as many outstanding requests as WindowSizeThreshold says, and some seconds later: a small copy shows none",
        page: THRESHOLD,
        mend: "copy a file of some gigabytes to or from {}, and ask again",
        check: Check::Pair(few_requests),
    },
];
