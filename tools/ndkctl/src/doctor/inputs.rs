//! What the doctor looks at: objects of PowerShell's cmdlets and of the driver, as one machine gives them or as a folder has them.

use std::{collections::BTreeMap, fmt, fs, io, net::IpAddr, path::Path};

use anyhow::Context as _;
use ndk_abi::{
    softndk_ioctl::SOFTNDK_DEVICE_PATHS,
    status::{NTSTATUS, STATUS_OBJECT_NAME_NOT_FOUND},
};
use serde::{Deserialize, Deserializer, Serialize, de::DeserializeOwned, de::Error as _};
use serde_json::Value;

use crate::{
    adapters::Adapter,
    cable,
    connections::Endpoints,
    driver::{self, Driver},
    powershell,
};

/// Asks all that [`QUERIES`] has but the driver, and writes one JSON object of the answers by their names.
pub(crate) const SCRIPT: &str = include_str!("ask.ps1");

/// The driver's state, which ndkctl reads itself.
pub(crate) const DRIVER: &str = "driver";

/// ksmbd's settings, which a recording of a Linux server has in place of the answers.
pub(crate) const KSMBD: &str = "ksmbd.conf";

/// What a query gave: its objects, or why there are none.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(untagged)]
pub(crate) enum Answer {
    Objects(Vec<Value>),
    Failed { error: String },
}

/// What one machine says of itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct Machine {
    pub(crate) answers: BTreeMap<String, Answer>,
    pub(crate) ksmbd: Option<String>,
}

/// Why something is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unknown(pub(crate) String);

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An object of a query. A property that is missing makes all of the query unknown, never right.
pub(crate) trait Object: DeserializeOwned {
    const QUERY: &str;
}

macro_rules! queries {
    ($($(#[$page:meta])* $query:literal => $name:ident { $($(#[$field_attribute:meta])* $field:ident: $type:ty,)* })*) => {
        /// The queries, by the names of their files.
        pub(crate) const QUERIES: &[&str] = &[DRIVER, $($query),*];
        $(
            $(#[$page])*
            #[derive(Clone, Debug, Deserialize)]
            #[serde(rename_all = "PascalCase")]
            pub(crate) struct $name { $($(#[$field_attribute])* pub(crate) $field: $type,)* }

            impl Object for $name {
                const QUERY: &str = $query;
            }
        )*
    };
}

// The properties and their types are those of Microsoft's page for the class that each names. Properties that are enumerations come as text.
queries! {
    /// Win32_OperatingSystem.
    "Win32_OperatingSystem" => OperatingSystem {
        caption: String,
        build_number: String,
        #[serde(rename = "OperatingSystemSKU")]
        sku: u32,
        product_type: u32,
    }
    /// Win32_PnPEntity: the devices Root\SoftNdk.
    "Get-PnpDevice" => PnpDevice {
        instance_id: String,
        config_manager_error_code: u32,
    }
    /// MSFT_NetAdapter.
    "Get-NetAdapter" => NetAdapter {
        name: String,
        interface_description: String,
        interface_index: u32,
        net_luid: u64,
        status: String,
    }
    /// MSFT_NetAdapterRdmaSettingData.
    "Get-NetAdapterRdma" => NetAdapterRdma {
        name: String,
        enabled: bool,
    }
    /// MSFT_NetAdapterBindingSettingData.
    "Get-NetAdapterBinding" => NetAdapterBinding {
        name: String,
        #[serde(rename = "ComponentID")]
        component: String,
        enabled: bool,
    }
    /// MSFT_NetOffloadGlobalSetting.
    "Get-NetOffloadGlobalSetting" => NetOffloadGlobalSetting {
        network_direct: String,
        #[serde(rename = "NetworkDirectAcrossIPSubnets")]
        across_subnets: String,
    }
    /// MSFT_NetIPAddress.
    "Get-NetIPAddress" => NetIpAddress {
        interface_index: u32,
        #[serde(rename = "IPAddress", deserialize_with = "address")]
        address: IpAddr,
        address_state: String,
    }
    /// MSFT_NetRoute.
    "Get-NetRoute" => NetRoute {
        interface_index: u32,
        #[serde(deserialize_with = "prefix")]
        destination_prefix: (IpAddr, u8),
        #[serde(deserialize_with = "address")]
        next_hop: IpAddr,
    }
    /// MSFT_NetConnectionProfile.
    "Get-NetConnectionProfile" => NetConnectionProfile {
        interface_index: u32,
        network_category: String,
    }
    /// MSFT_NetFirewallProfile.
    "Get-NetFirewallProfile" => NetFirewallProfile {
        name: String,
        enabled: String,
        default_inbound_action: String,
    }
    /// MSFT_NetFirewallRule with its filters: enabled inbound rules for TCP that are for no program, or for System.
    "Get-NetFirewallRule" => NetFirewallRule {
        display_name: String,
        action: String,
        profile: String,
        #[serde(deserialize_with = "restriction")]
        local_port: Vec<String>,
        #[serde(deserialize_with = "restriction")]
        interface_alias: Vec<String>,
    }
    /// The optional feature SMBDirect.
    "Get-WindowsOptionalFeature" => OptionalFeature {
        feature_name: String,
        state: String,
    }
    /// MSFT_SmbClientConfiguration.
    "Get-SmbClientConfiguration" => SmbClientConfiguration {
        enable_multi_channel: bool,
        window_size_threshold: u32,
    }
    /// MSFT_SmbServerConfiguration.
    "Get-SmbServerConfiguration" => SmbServerConfiguration {
        enable_multi_channel: bool,
    }
    /// MSFT_SmbClientNetworkInterface.
    "Get-SmbClientNetworkInterface" => SmbClientNetworkInterface {
        interface_index: u32,
        friendly_name: String,
        rdma_capable: bool,
        rss_capable: bool,
        link_speed: u64,
        #[serde(deserialize_with = "addresses")]
        ip_addresses: Vec<IpAddr>,
    }
    /// MSFT_SmbServerNetworkInterface: one object for each address.
    "Get-SmbServerNetworkInterface" => SmbServerNetworkInterface {
        scope_name: String,
        interface_index: u32,
        friendly_name: String,
        rdma_capable: bool,
        rss_capable: bool,
        link_speed: u64,
        #[serde(deserialize_with = "address")]
        ip_address: IpAddr,
    }
    /// MSFT_SmbConnection.
    "Get-SmbConnection" => SmbConnection {
        server_name: String,
        dialect: String,
    }
    /// MSFT_SmbMultichannelConnection.
    "Get-SmbMultichannelConnection" => SmbMultichannelConnection {
        server_name: String,
        selected: bool,
        failed: bool,
        client_interface_index: u32,
        client_interface_friendly_name: String,
        #[serde(deserialize_with = "address")]
        client_ip_address: IpAddr,
        client_rdma_capable: bool,
        #[serde(rename = "ClientRSSCapable")]
        client_rss_capable: bool,
        client_link_speed: u64,
        server_interface_index: u32,
        #[serde(deserialize_with = "address")]
        server_ip_address: IpAddr,
        server_rdma_capable: bool,
        #[serde(rename = "ServerRSSCapable")]
        server_rss_capable: bool,
        server_link_speed: u64,
    }
    /// MSFT_SmbMultichannelConstraint.
    "Get-SmbMultichannelConstraint" => SmbMultichannelConstraint {
        server_name: String,
        interface_index: u32,
    }
}

/// A control device of the driver, as ndkctl reads it.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Device {
    pub(crate) device: String,
    pub(crate) driver_version: String,
    pub(crate) net_luid: String,
    pub(crate) rdma_enabled: bool,
    pub(crate) addresses: Vec<IpAddr>,
    /// The link of its cable, `up` or `down`; `None`: it has no cable.
    pub(crate) cable: Option<String>,
    /// Where the other ends of its established connections are.
    pub(crate) peers: Vec<std::net::SocketAddr>,
}

impl Object for Device {
    const QUERY: &str = DRIVER;
}

/// Windows appends the zone to an IPv6 link-local address.
fn without_zone(text: &str) -> Result<IpAddr, std::net::AddrParseError> {
    text.split('%').next().unwrap_or_default().parse()
}

fn address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<IpAddr, D::Error> {
    let text = String::deserialize(deserializer)?;
    without_zone(&text).map_err(|_| D::Error::custom(format!("{text} is no IP address")))
}

/// Texts: PowerShell makes one of a list that has only one.
#[derive(Deserialize)]
#[serde(untagged)]
enum Texts {
    One(String),
    Several(Vec<String>),
}

impl Texts {
    fn list(self) -> Vec<String> {
        match self {
            Self::One(text) => vec![text],
            Self::Several(texts) => texts,
        }
    }
}

fn addresses<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<IpAddr>, D::Error> {
    // An interface without addresses has no list.
    let texts = Option::<Texts>::deserialize(deserializer)?.map(Texts::list).unwrap_or_default();
    let address = |text: &String| without_zone(text).map_err(|_| D::Error::custom(format!("{text} is no IP address")));
    texts.iter().map(address).collect()
}

/// What a firewall rule is for; a rule without a filter is for any.
fn restriction<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    Ok(Option::<Texts>::deserialize(deserializer)?.map_or_else(|| vec!["Any".to_owned()], Texts::list))
}

fn prefix<'de, D: Deserializer<'de>>(deserializer: D) -> Result<(IpAddr, u8), D::Error> {
    let text = String::deserialize(deserializer)?;
    let parts = text.split_once('/').and_then(|(address, length)| {
        let address = without_zone(address).ok()?;
        let length: u8 = length.parse().ok()?;
        (length <= if address.is_ipv4() { 32 } else { 128 }).then_some((address, length))
    });
    parts.ok_or_else(|| D::Error::custom(format!("{text} is no prefix")))
}

impl NetRoute {
    /// Whether the route leads to an address.
    pub(crate) fn leads_to(&self, address: IpAddr) -> bool {
        let shared = |prefix: u128, address: u128, bits: u32| {
            let shift = bits - u32::from(self.destination_prefix.1);
            prefix.checked_shr(shift).unwrap_or_default() == address.checked_shr(shift).unwrap_or_default()
        };
        match (self.destination_prefix.0, address) {
            (IpAddr::V4(prefix), IpAddr::V4(address)) => shared(prefix.to_bits().into(), address.to_bits().into(), 32),
            (IpAddr::V6(prefix), IpAddr::V6(address)) => shared(prefix.to_bits(), address.to_bits(), 128),
            _ => false,
        }
    }

    /// Whether the addresses of the prefix are in the interface's own network.
    pub(crate) fn is_on_link(&self) -> bool {
        self.next_hop.is_unspecified()
    }
}

impl Device {
    fn read(device: &'static str, driver: &dyn Driver) -> anyhow::Result<Self> {
        let adapter = Adapter::read(device, driver)?;
        let sides = Endpoints::read(driver)?.connections;
        Ok(Self {
            device: device.to_owned(),
            driver_version: driver::diagnostics(driver)?.DriverVersion.map(|part| part.to_string()).join("."),
            net_luid: adapter.net_luid,
            rdma_enabled: adapter.rdma_enabled,
            addresses: adapter.addresses,
            cable: cable::Found::read(driver)?.cable.map(|cable| cable.link.to_owned()),
            peers: sides.iter().filter(|side| side.state == "established").filter_map(|side| side.remote).collect(),
        })
    }
}

/// The driver's state, by the control devices that `open` opens; no objects: there is no device.
pub(crate) fn driver(open: impl Fn(&'static str) -> Result<Box<dyn Driver>, NTSTATUS>) -> Answer {
    let device = |device| match open(device) {
        Err(STATUS_OBJECT_NAME_NOT_FOUND) => Ok(None),
        Err(status) => anyhow::bail!("{}", driver::why_not(device, status)),
        Ok(driver) => Ok(Some(serde_json::to_value(Device::read(device, &*driver)?)?)),
    };
    let devices = SOFTNDK_DEVICE_PATHS.into_iter().filter_map(|path| device(path).transpose());
    match devices.collect::<anyhow::Result<Vec<_>>>() {
        Ok(devices) => Answer::Objects(devices),
        Err(error) => Answer::Failed { error: format!("{error:#}") },
    }
}

impl Machine {
    /// Asks this computer.
    pub(crate) fn here() -> anyhow::Result<Self> {
        let mut machine = Self::parse(&powershell::run(SCRIPT)?)?;
        machine.answers.insert(DRIVER.to_owned(), driver(crate::open));
        Ok(machine)
    }

    /// The output of [`SCRIPT`].
    pub(crate) fn parse(output: &[u8]) -> anyhow::Result<Self> {
        let text = std::str::from_utf8(output).context("PowerShell's answer is not UTF-8")?;
        let answers = serde_json::from_str(text.trim_start_matches('\u{feff}').trim());
        Ok(Self { answers: answers.context("PowerShell's answer is not what was asked for")?, ksmbd: None })
    }

    /// Reads a recording.
    pub(crate) fn load(folder: &Path) -> anyhow::Result<Self> {
        let read = |name: &str| match fs::read_to_string(folder.join(name)) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", folder.join(name).display())),
        };
        let mut machine = Self { answers: BTreeMap::new(), ksmbd: read(KSMBD)? };
        for query in QUERIES {
            let name = file(query);
            if let Some(text) = read(&name)? {
                let answer = serde_json::from_str(text.trim_start_matches('\u{feff}'));
                let answer = answer.unwrap_or_else(|error| Answer::Failed { error: format!("{name}: {error}") });
                machine.answers.insert((*query).to_owned(), answer);
            }
        }
        let is_recording = machine.ksmbd.is_some() || !machine.answers.is_empty();
        anyhow::ensure!(is_recording, "{} has no recording of `ndkctl doctor --save`", folder.display());
        Ok(machine)
    }

    /// Writes a recording.
    pub(crate) fn save(&self, folder: &Path) -> anyhow::Result<()> {
        let write = || {
            fs::create_dir_all(folder)?;
            for (query, answer) in &self.answers {
                fs::write(folder.join(file(query)), serde_json::to_string_pretty(answer)? + "\n")?;
            }
            Ok::<_, anyhow::Error>(())
        };
        write().with_context(|| format!("cannot write the recording to {}", folder.display()))
    }

    /// Whether this is a recording of Windows; else it has only ksmbd's settings.
    pub(crate) fn is_windows(&self) -> bool {
        !self.answers.is_empty()
    }

    /// The objects of a query.
    pub(crate) fn all<T: Object>(&self) -> Result<Vec<T>, Unknown> {
        let query = T::QUERY;
        match self.answers.get(query) {
            None => Err(Unknown(format!("{query} was not asked"))),
            Some(Answer::Failed { error }) => Err(Unknown(format!("{query}: {error}"))),
            Some(Answer::Objects(objects)) => {
                let object =
                    |object: &Value| T::deserialize(object).map_err(|error| Unknown(format!("{query}: {error}")));
                objects.iter().map(object).collect()
            }
        }
    }

    /// The only object of a query.
    pub(crate) fn only<T: Object>(&self) -> Result<T, Unknown> {
        self.all()?.into_iter().next().ok_or_else(|| Unknown(format!("{} gave nothing", T::QUERY)))
    }

    /// The adapters of SoftNDK.
    pub(crate) fn adapters(&self) -> Result<Vec<NetAdapter>, Unknown> {
        let mut adapters: Vec<NetAdapter> = self.all()?;
        adapters.retain(|adapter| adapter.interface_description.starts_with("SoftNDK"));
        Ok(adapters)
    }
}

fn file(query: &str) -> String {
    format!("{query}.json")
}
