//! What finds the causes in the table of rules.

use std::net::IpAddr;

use super::{
    inputs::{
        Device, Machine, NetAdapter, NetAdapterBinding, NetAdapterRdma, NetConnectionProfile, NetFirewallProfile,
        NetFirewallRule, NetIpAddress, NetOffloadGlobalSetting, NetRoute, OperatingSystem, OptionalFeature, PnpDevice,
        SmbClientConfiguration, SmbClientNetworkInterface, SmbConnection, SmbMultichannelConstraint,
        SmbServerConfiguration, SmbServerNetworkInterface, Unknown,
    },
    pairing::Pairing,
    predict::{Interface, Reason, is_link_local},
    rules::{Checked, Found},
};

fn found(name: &str, what: impl Into<String>) -> Found {
    Found { what: what.into(), name: name.to_owned() }
}

fn if_so(is_so: bool, what: impl Into<String>) -> Checked {
    Ok(if is_so { vec![found("", what)] } else { Vec::new() })
}

pub(super) fn windows_version(machine: &Machine) -> Checked {
    let system: OperatingSystem = machine.only()?;
    let build = system.build_number.parse().map_err(|_| Unknown(format!("{} is no build", system.build_number)))?;
    if_so(20_348_u32 > build, format!("this is {}, build {build}", system.caption))
}

/// ProductType of Win32_OperatingSystem: no server.
const WORK_STATION: u32 = 1;

/// OperatingSystemSKU, PRODUCT_... of GetProductInfo: Enterprise, its N, E, evaluation and LTSC editions; Education and its N; Pro for Workstations
/// and its N.
const WITH_SMB_DIRECT: [u32; 13] = [4, 27, 70, 72, 84, 125, 126, 129, 130, 121, 122, 161, 162];
/// Home: N, of one country, of one language, and Home itself.
const HOME: [u32; 4] = [98, 99, 100, 101];

pub(super) fn edition(machine: &Machine) -> Checked {
    let system: OperatingSystem = machine.only()?;
    let is_known = HOME.contains(&system.sku) || WITH_SMB_DIRECT.contains(&system.sku);
    if system.product_type == WORK_STATION && !is_known {
        // The page listed Windows 10 Pro in 2023.
        return Err(Unknown(format!("whether {} has SMB Direct: versions of Microsoft's page differ", system.caption)));
    }
    if_so(system.product_type == WORK_STATION && HOME.contains(&system.sku), format!("this is {}", system.caption))
}

/// Whether it is known that this Windows can be no server of SMB Direct.
pub(super) fn is_client_only(machine: &Machine) -> Result<bool, Unknown> {
    Ok(machine.only::<OperatingSystem>()?.product_type == WORK_STATION)
}

pub(super) fn server_edition(machine: &Machine) -> Checked {
    if_so(is_client_only(machine)?, format!("the server is {}", machine.only::<OperatingSystem>()?.caption))
}

/// CM_PROB_UNSIGNED_DRIVER.
const UNSIGNED: u32 = 52;

pub(super) fn test_signing(machine: &Machine) -> Checked {
    let devices: Vec<PnpDevice> = machine.all()?;
    let devices = devices.iter().filter(|device| device.config_manager_error_code == UNSIGNED);
    Ok(devices
        .map(|device| {
            found("", format!("Windows refuses the signature of softndk.sys for {} (code 52)", device.instance_id))
        })
        .collect())
}

pub(super) fn adapter(machine: &Machine) -> Checked {
    let devices: Vec<PnpDevice> = machine.all()?;
    if devices.is_empty() {
        return if_so(true, "there is no device Root\\SoftNdk");
    }
    let is_wrong = |device: &&PnpDevice| ![0, UNSIGNED].contains(&device.config_manager_error_code);
    let mut wrong: Vec<_> = devices
        .iter()
        .filter(is_wrong)
        .map(|device| {
            found("", format!("{} does not run (code {})", device.instance_id, device.config_manager_error_code))
        })
        .collect();
    if devices.iter().all(|device| device.config_manager_error_code == 0) && machine.adapters()?.is_empty() {
        wrong.push(found("", "Get-NetAdapter lists no adapter of SoftNDK"));
    }
    Ok(wrong)
}

/// The LUID of an adapter, as the driver's state has it.
fn luid(adapter: &NetAdapter) -> String {
    format!("{:#018x}", adapter.net_luid)
}

pub(super) fn driver(machine: &Machine) -> Checked {
    let devices: Vec<Device> = machine.all()?;
    let is_served = |adapter: &NetAdapter| devices.iter().any(|device| device.net_luid == luid(adapter));
    let up = machine.adapters()?.into_iter().filter(|adapter| adapter.status == "Up");
    let unserved = up.filter(|adapter| !is_served(adapter));
    Ok(unserved
        .map(|adapter| found(&adapter.name, format!("the driver has no control device for {}", adapter.name)))
        .collect())
}

pub(super) fn driver_version(machine: &Machine) -> Checked {
    let own = env!("CARGO_PKG_VERSION");
    let devices: Vec<Device> = machine.all()?;
    let is_other = |device: &&Device| device.driver_version.rsplit_once('.').is_none_or(|(version, _)| version != own);
    let others = devices.iter().filter(is_other);
    Ok(others
        .map(|device| {
            found("", format!("{} is of softndk.sys {}, ndkctl is {own}", device.device, device.driver_version))
        })
        .collect())
}

pub(super) fn link(machine: &Machine) -> Checked {
    let down = machine.adapters()?.into_iter().filter(|adapter| adapter.status != "Up");
    Ok(down.map(|adapter| found(&adapter.name, format!("{} is {}", adapter.name, adapter.status))).collect())
}

pub(super) fn rdma(machine: &Machine) -> Checked {
    let states: Vec<NetAdapterRdma> = machine.all()?;
    let mut off = Vec::new();
    for adapter in machine.adapters()? {
        let name = &adapter.name;
        match states.iter().find(|state| state.name == *name) {
            None => off.push(found(name, format!("Get-NetAdapterRdma does not list {name}"))),
            Some(state) if !state.enabled => off.push(found(name, format!("RDMA of {name} is off"))),
            Some(_) => {
                let luid = luid(&adapter);
                let devices: Vec<Device> = machine.all()?;
                if devices.iter().any(|device| device.net_luid == luid && !device.rdma_enabled) {
                    off.push(found(name, format!("Windows has RDMA of {name} on, but the driver says off")));
                }
            }
        }
    }
    Ok(off)
}

pub(super) fn network_direct(machine: &Machine) -> Checked {
    let setting: NetOffloadGlobalSetting = machine.only()?;
    if_so(setting.network_direct != "Enabled", format!("NetworkDirect is {}", setting.network_direct))
}

pub(super) fn smb_direct(machine: &Machine) -> Checked {
    let feature: OptionalFeature = machine.only()?;
    if_so(feature.state != "Enabled", format!("the feature {} is {}", feature.feature_name, feature.state))
}

pub(super) fn address_state(machine: &Machine) -> Checked {
    let all: Vec<NetIpAddress> = machine.all()?;
    let mut wrong = Vec::new();
    for adapter in machine.adapters()? {
        let own = all.iter().filter(|address| address.interface_index == adapter.interface_index);
        for address in own.filter(|address| ["Invalid", "Tentative", "Duplicate"].contains(&&*address.address_state)) {
            let what = format!("{} of {} is {}", address.address, adapter.name, address.address_state);
            wrong.push(found(&adapter.name, what));
        }
    }
    Ok(wrong)
}

/// The addresses of an interface that are in use and not link-local.
fn usable(all: &[NetIpAddress], index: u32) -> Vec<IpAddr> {
    let own = all.iter().filter(|address| address.interface_index == index && address.address_state == "Preferred");
    own.map(|address| address.address).filter(|address| !is_link_local(*address)).collect()
}

pub(super) fn addresses(machine: &Machine) -> Checked {
    let (all, devices): (Vec<NetIpAddress>, Vec<Device>) = (machine.all()?, machine.all()?);
    let mut differ = Vec::new();
    for adapter in machine.adapters()? {
        let luid = luid(&adapter);
        for device in devices.iter().filter(|device| device.net_luid == luid) {
            for address in usable(&all, adapter.interface_index) {
                if !device.addresses.contains(&address) {
                    differ.push(found(
                        &adapter.name,
                        format!("TCP/IP has {address} on {}, the driver does not", adapter.name),
                    ));
                }
            }
        }
    }
    Ok(differ)
}

pub(super) fn link_local(machine: &Machine) -> Checked {
    let all: Vec<NetIpAddress> = machine.all()?;
    let up = machine.adapters()?.into_iter().filter(|adapter| adapter.status == "Up");
    let without = up.filter(|adapter| {
        let mut own = all.iter().filter(|address| address.interface_index == adapter.interface_index);
        own.all(|address| is_link_local(address.address))
    });
    Ok(without
        .map(|adapter| found(&adapter.name, format!("{} has no address but link-local ones", adapter.name)))
        .collect())
}

pub(super) fn client_multichannel(machine: &Machine) -> Checked {
    let configuration: SmbClientConfiguration = machine.only()?;
    if_so(!configuration.enable_multi_channel, "SMB Multichannel of the client is off")
}

pub(super) fn server_multichannel(machine: &Machine) -> Checked {
    let configuration: SmbServerConfiguration = machine.only()?;
    if_so(!configuration.enable_multi_channel, "SMB Multichannel of the server is off")
}

fn binding(machine: &Machine, component: &str) -> Checked {
    let bindings: Vec<NetAdapterBinding> = machine.all()?;
    let is_bound = |name: &str| {
        bindings.iter().any(|binding| binding.name == name && binding.component == component && binding.enabled)
    };
    let unbound = machine.adapters()?.into_iter().filter(|adapter| !is_bound(&adapter.name));
    Ok(unbound.map(|adapter| found(&adapter.name, format!("{component} is not bound to {}", adapter.name))).collect())
}

pub(super) fn client_binding(machine: &Machine) -> Checked {
    binding(machine, "ms_msclient")
}

pub(super) fn server_binding(machine: &Machine) -> Checked {
    binding(machine, "ms_server")
}

/// Adapters that SMB does not list, or not as RDMA capable. `listed` are the indices that it lists, with whether they are RDMA capable.
fn interface(machine: &Machine, cmdlet: &str, listed: &[(u32, bool)]) -> Checked {
    let mut missing = Vec::new();
    for adapter in machine.adapters()? {
        let name = &adapter.name;
        match listed.iter().find(|(index, _)| *index == adapter.interface_index) {
            None => {
                missing.push(found(name, format!("{cmdlet} does not list {name}, index {}", adapter.interface_index)))
            }
            Some((_, false)) => missing.push(found(name, format!("{cmdlet} lists {name} as not RDMA capable"))),
            Some((0, true)) => missing.push(found(name, format!("{cmdlet} lists {name} with the index 0"))),
            Some(_) => (),
        }
    }
    Ok(missing)
}

pub(super) fn client_interface(machine: &Machine) -> Checked {
    let listed: Vec<SmbClientNetworkInterface> = machine.all()?;
    let listed: Vec<_> = listed.iter().map(|listed| (listed.interface_index, listed.rdma_capable)).collect();
    interface(machine, "Get-SmbClientNetworkInterface", &listed)
}

pub(super) fn server_interface(machine: &Machine) -> Checked {
    let listed: Vec<SmbServerNetworkInterface> = machine.all()?;
    let listed: Vec<_> = listed.iter().map(|listed| (listed.interface_index, listed.rdma_capable)).collect();
    interface(machine, "Get-SmbServerNetworkInterface", &listed)
}

pub(super) fn threshold(machine: &Machine) -> Checked {
    let (configuration, default): (SmbClientConfiguration, _) =
        (machine.only()?, if is_client_only(machine)? { 8 } else { 1 });
    let set = configuration.window_size_threshold;
    if_so(set > default, format!("WindowSizeThreshold is {set}, its default here {default}"))
}

/// The category of an adapter's network.
fn category(machine: &Machine, name: &str, index: u32) -> Result<String, Unknown> {
    let profiles: Vec<NetConnectionProfile> = machine.all()?;
    let profile = profiles.into_iter().find(|profile| profile.interface_index == index);
    profile
        .map(|profile| profile.network_category)
        .ok_or_else(|| Unknown(format!("Get-NetConnectionProfile does not list {name}")))
}

pub(super) fn profile(machine: &Machine) -> Checked {
    let mut public = Vec::new();
    for adapter in machine.adapters()? {
        if category(machine, &adapter.name, adapter.interface_index)? == "Public" {
            public.push(found(&adapter.name, format!("the network of {} is Public", adapter.name)));
        }
    }
    Ok(public)
}

/// Whether a rule's list of ports has a port: a number, a range, or Any.
fn has_port(ports: &[String], port: u16) -> bool {
    ports.iter().any(|text| match text.split_once('-') {
        Some((first, last)) => {
            let range = (first.trim().parse::<u16>(), last.trim().parse::<u16>());
            matches!(range, (Ok(first), Ok(last)) if (first..=last).contains(&port))
        }
        None => text == "Any" || text.parse() == Ok(port),
    })
}

/// Adapters on which Windows Firewall does not let connections in to a port, by all rules but for remote addresses, which are not looked at.
pub(super) fn firewall(machine: &Machine, port: u16) -> Checked {
    let (profiles, rules): (Vec<NetFirewallProfile>, Vec<NetFirewallRule>) = (machine.all()?, machine.all()?);
    let mut blocked = Vec::new();
    for adapter in machine.adapters()? {
        let name = &adapter.name;
        let category = category(machine, name, adapter.interface_index)?;
        let of = if category == "DomainAuthenticated" { "Domain" } else { &category };
        let missing = || Unknown(format!("Get-NetFirewallProfile does not list {of}"));
        let profile = profiles.iter().find(|profile| profile.name == of).ok_or_else(missing)?;
        if profile.enabled == "False" {
            continue;
        }
        let is = |name: &str, wanted: &str| name == "Any" || name == wanted;
        let applies = |rule: &&NetFirewallRule| {
            rule.profile.split(',').any(|profile| is(profile.trim(), of))
                && rule.interface_alias.iter().any(|alias| is(alias, name))
                && has_port(&rule.local_port, port)
        };
        let blocks = |rule: &&NetFirewallRule| applies(rule) && rule.action == "Block";
        if let Some(rule) = rules.iter().find(blocks) {
            blocked.push(found(name, format!("the rule {} blocks TCP port {port} on {name}", rule.display_name)));
        } else if profile.default_inbound_action != "Allow"
            && !rules.iter().any(|rule| applies(&rule) && rule.action == "Allow")
        {
            blocked.push(found(
                name,
                format!("no rule of Windows Firewall lets TCP port {port} in on {name} (network: {category})"),
            ));
        }
    }
    Ok(blocked)
}

pub(super) fn dialect(pairing: &Pairing) -> Checked {
    let connections: Vec<SmbConnection> = pairing.client.all()?;
    let is_old = |dialect: &str| {
        dialect.split('.').next().and_then(|major| major.parse::<u32>().ok()).is_none_or(|major| major < 3)
    };
    let connection =
        connections.iter().find(|connection| pairing.is_server(&connection.server_name) && is_old(&connection.dialect));
    let what = |connection: &SmbConnection| format!("{} speaks SMB {}", pairing.name, connection.dialect);
    Ok(connection.map(|connection| found(pairing.name, what(connection))).into_iter().collect())
}

pub(super) fn ksmbd_multichannel(pairing: &Pairing) -> Checked {
    let Some(text) = pairing.server.and_then(|server| server.ksmbd.as_deref()) else {
        return Ok(Vec::new());
    };
    let (mut section, mut setting) = (String::new(), None);
    for line in text.lines() {
        let line = line.split(['#', ';']).next().unwrap_or_default().trim();
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            section = name.trim().to_lowercase();
        } else if let Some((name, value)) = line.split_once('=')
            && section == "global"
            && name.trim().eq_ignore_ascii_case("server multi channel support")
        {
            setting = Some(value.trim().to_lowercase());
        }
    }
    let is_on = matches!(setting.as_deref(), Some("yes" | "true" | "1"));
    let what = format!("server multi channel support is {}", setting.as_deref().unwrap_or("not set"));
    Ok(if is_on { Vec::new() } else { vec![found(pairing.name, what)] })
}

pub(super) fn constraint(pairing: &Pairing) -> Checked {
    let mut constraints: Vec<SmbMultichannelConstraint> = pairing.client.all()?;
    constraints.retain(|constraint| pairing.is_server(&constraint.server_name));
    let allows = |index| constraints.iter().any(|constraint| constraint.interface_index == index);
    let excluded: Vec<_> =
        pairing.client.adapters()?.into_iter().filter(|adapter| !allows(adapter.interface_index)).collect();
    let is_constrained = !constraints.is_empty();
    let what = |name: &str| found(pairing.name, format!("a constraint for {} excludes {name}", pairing.name));
    Ok(excluded.iter().filter(|_| is_constrained).map(|adapter| what(&adapter.name)).collect())
}

pub(super) fn server_rdma(pairing: &Pairing) -> Checked {
    let has_rdma = pairing.sides()?.server.iter().any(|interface| interface.rdma);
    let what = format!("{} has no RDMA-capable interface", pairing.name);
    Ok(if has_rdma { Vec::new() } else { vec![found(pairing.name, what)] })
}

pub(super) fn networks(pairing: &Pairing) -> Checked {
    let (sides, prediction) = (pairing.sides()?, pairing.prediction()?);
    let of = |interfaces: &[Interface]| {
        let rdma = interfaces.iter().filter(|interface| interface.rdma && interface.index != 0);
        let all: Vec<_> = rdma.flat_map(|interface| interface.addresses.iter().map(IpAddr::to_string)).collect();
        all.join(", ")
    };
    let (near, far) = (of(&sides.client), of(&sides.server));
    let is_there = near.is_empty() || far.is_empty() || prediction.chosen.iter().any(|chosen| chosen.pair.rdma);
    let what =
        format!("no pair of RDMA interfaces is in one network: the client's have {near}, {}'s {far}", pairing.name);
    Ok(if is_there { Vec::new() } else { vec![found(pairing.name, what)] })
}

pub(super) fn across_subnets(pairing: &Pairing) -> Checked {
    let (setting, routes): (NetOffloadGlobalSetting, Vec<NetRoute>) = (pairing.client.only()?, pairing.client.all()?);
    let is_near = |index, address| {
        routes.iter().any(|route| route.interface_index == index && route.is_on_link() && route.leads_to(address))
    };
    let far = pairing.prediction()?.chosen.iter().map(|chosen| &chosen.pair);
    let far: Vec<_> = far.filter(|pair| pair.rdma && !is_near(pair.client_interface, pair.server)).collect();
    let what = |server: IpAddr| found("", format!("{server} is behind a gateway, and RDMA across subnets is Blocked"));
    Ok(far.iter().filter(|_| setting.across_subnets == "Blocked").map(|pair| what(pair.server)).collect())
}

pub(super) fn link_speed(pairing: &Pairing) -> Checked {
    let prediction = pairing.prediction()?;
    let mut slower = Vec::new();
    for adapter in pairing.client.adapters()? {
        let left_out = prediction.left_out.iter().find(|left_out| {
            left_out.reason == Reason::Slower
                && left_out.pair.rdma
                && left_out.pair.client_interface == adapter.interface_index
        });
        if let (Some(left_out), Some(faster)) = (left_out, prediction.chosen.first()) {
            let speeds = (left_out.pair.speed, faster.pair.speed);
            let what =
                format!("{} has {} bit/s, but {} has {}", left_out.pair.client, speeds.0, faster.pair.client, speeds.1);
            slower.push(found(&adapter.name, what));
        }
    }
    Ok(slower)
}

pub(super) fn failed(pairing: &Pairing) -> Checked {
    let rows = pairing.rows()?;
    let failed = rows.iter().filter(|row| row.failed && row.client_rdma_capable && row.server_rdma_capable);
    let what = |near: IpAddr, far: IpAddr| format!("Windows failed to connect {near} to {far} by RDMA");
    Ok(failed.map(|row| found(pairing.name, what(row.client_ip_address, row.server_ip_address))).collect())
}

pub(super) fn few_requests(pairing: &Pairing) -> Checked {
    let (connections, devices): (Vec<SmbConnection>, Vec<Device>) = (pairing.client.all()?, pairing.client.all()?);
    let own: Vec<_> = pairing.client.adapters()?.iter().map(|adapter| adapter.interface_index).collect();
    let is_open = connections.iter().any(|connection| pairing.is_server(&connection.server_name));
    let chosen = pairing.prediction()?.chosen.iter().map(|chosen| &chosen.pair);
    let chosen: Vec<_> = chosen.filter(|pair| pair.rdma && own.contains(&pair.client_interface)).collect();
    let is_rdma = |server: IpAddr| {
        let mut peers = devices.iter().flat_map(|device| &device.peers);
        peers.any(|peer| peer.ip() == server && [445, 5445].contains(&peer.port()))
    };
    let is_waiting = is_open && !chosen.is_empty() && !chosen.iter().any(|pair| is_rdma(pair.server));
    let what = format!("SMB is connected to {}, and no RDMA connection is open", pairing.name);
    Ok(if is_waiting { vec![found(pairing.name, what)] } else { Vec::new() })
}
