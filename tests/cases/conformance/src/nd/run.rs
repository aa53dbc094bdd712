//! How a case is run.
#![expect(unsafe_code, reason = "changes an environment variable")]

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, anyhow, ensure};
use nd_com::{v1::INDProvider, v2::IND2Provider};
use windows_core::GUID;

use super::{
    client::{self, Adapter, ClassFactory, Library, Provider, v1},
    limits,
    table::{NdCase, Version},
};
use crate::{Bench, Transport, client::Client};

/// The variable by which softnd.dll is told its path.
const PATH_VARIABLE: &str = "SOFTND_PATH";

/// What a case gets: softnd.dll, or another provider's DLL.
pub struct Nd {
    library: Arc<Library>,
    patience: Duration,
    /// The local address to use.
    at: Option<IpAddr>,
    notes: RefCell<Vec<String>>,
    /// A file of the driver beside the DLL, of a case that runs alone.
    driver: Option<Arc<Client>>,
}

/// Runs a case with softnd.dll from `library`, on one of its paths: `rings` or `plain`. Afterwards nothing of the case may be left
/// in the DLL nor in the driver, which `transport` asks. Returns its notes, and what every method returned.
pub fn run(
    case: &NdCase,
    library: &Path,
    path: &str,
    transport: Box<dyn Transport>,
    patience: Duration,
) -> (anyhow::Result<Vec<String>>, BTreeSet<(&'static str, u32)>) {
    choose_path(path);
    client::take_seen();
    let bench = Bench::new(&*transport, patience);
    let result =
        Nd::load(library, patience).and_then(|nd| Nd { driver: Some(bench.bare_client()?), ..nd }.try_case(case));
    let mut complaints = bench.left_behind();
    complaints.extend(transport.close());
    complaints.extend(v1::late_writes());
    let seen = client::take_seen();
    if complaints.is_empty() {
        return (result, seen);
    }
    let complaints = complaints.join("\n");
    let error = match result {
        Ok(_) => anyhow!("{complaints}"),
        Err(error) => anyhow!("{error:#}\n{complaints}"),
    };
    (Err(error), seen)
}

/// A provider that may be anyone's: it is asked for nothing but what the interfaces publish.
pub struct AnyProvider {
    /// Where its DLL is.
    pub library: PathBuf,
    /// Its class, by which DllGetClassObject is asked: the identifier of its entry in the Winsock catalog.
    pub class: u128,
    /// The local address to use; the first of IPv4 if there is none.
    pub address: Option<IpAddr>,
}

/// How the requests of a method began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Begun {
    /// ND_PENDING: a notification has to follow.
    pub pended: u64,
    /// ND_SUCCESS: over at once, and none follows.
    pub at_once: u64,
    /// Anything else: not a request.
    pub refused: u64,
}

/// What a case saw of a provider.
pub struct Seen {
    /// Every status that a method returned, or a request or a completion ended with.
    pub statuses: BTreeSet<(&'static str, u32)>,
    /// How requests began, by method.
    pub begun: BTreeMap<&'static str, Begun>,
}

impl AnyProvider {
    /// Runs a case that needs nothing but the published interfaces. What is left behind can be seen in DllCanUnloadNow alone, for which
    /// there are cases.
    pub fn run(&self, case: &NdCase, patience: Duration) -> (anyhow::Result<Vec<String>>, Seen) {
        let result = self.load_anew(patience).and_then(|nd| {
            (case.run)(&nd)?;
            Ok(nd.notes.take())
        });
        let late = v1::late_writes();
        let result = result.and_then(|notes| {
            ensure!(late.is_empty(), "{}", late.join("\n"));
            Ok(notes)
        });
        (result, Seen::take())
    }

    /// The address to use, and what the adapter's Query tells: name and value of each field.
    ///
    /// # Errors
    /// There is no such provider, or it has no such address.
    pub fn limits(&self, version: Version) -> anyhow::Result<(IpAddr, Vec<(&'static str, u64)>)> {
        let nd = self.load_anew(Duration::ZERO)?;
        Ok(match version {
            Version::V1 => {
                let (adapter, address) = nd.adapter_v1()?;
                (address.ip(), limits::of_v1(&adapter.info()?))
            }
            Version::V2 => {
                let (adapter, address) = nd.adapter()?;
                (address.ip(), limits::of_v2(&adapter.info()?))
            }
        })
    }

    /// Loads it, with nothing seen yet. Its requests may be over at once.
    pub(super) fn load_anew(&self, patience: Duration) -> anyhow::Result<Nd> {
        client::let_requests_end_at_once();
        Seen::take();
        let class = GUID::from_u128(self.class);
        let library = Library::load_with(&self.library, [class; 2])?;
        Ok(Nd::of(Arc::new(library), patience).at(self.address))
    }
}

impl Seen {
    /// What was seen since the last time.
    pub(super) fn take() -> Self {
        Self { statuses: client::take_seen(), begun: client::take_begun() }
    }
}

/// Has the DLL use one of its paths, `rings` or `plain`, for adapters that are opened from now on.
pub fn choose_path(path: &str) {
    // SAFETY: nothing else of this process is reading the environment: the DLL, which does, is not opening an adapter.
    unsafe { std::env::set_var(PATH_VARIABLE, path) };
}

impl Nd {
    pub(super) fn load(library: &Path, patience: Duration) -> anyhow::Result<Self> {
        Ok(Self::of(Arc::new(Library::load(library)?), patience))
    }

    /// One for another thread: a DLL that is loaded.
    pub(super) fn of(library: Arc<Library>, patience: Duration) -> Self {
        Self { library, patience, at: None, notes: RefCell::default(), driver: None }
    }

    /// With a local address of its own instead of the first.
    pub(super) fn at(self, at: Option<IpAddr>) -> Self {
        Self { at, ..self }
    }

    /// The local address that was asked for.
    pub(super) fn asked_for(&self) -> Option<IpAddr> {
        self.at
    }

    /// With the first local address of the family of another.
    pub(super) fn on_network_of(self, peer: Option<IpAddr>) -> anyhow::Result<Self> {
        let Some(peer) = peer else { return Ok(self) };
        let addresses = self.provider()?.addresses()?;
        let own = addresses.iter().map(SocketAddr::ip).find(|own| own.is_ipv4() == peer.is_ipv4());
        Ok(self.at(Some(own.with_context(|| format!("the provider has no address to reach {peer} from"))?)))
    }

    fn try_case(self, case: &NdCase) -> anyhow::Result<Vec<String>> {
        (case.run)(&self)?;
        self.is_unused()?;
        Ok(self.notes.take())
    }

    /// Checks that all objects are released.
    pub(super) fn is_unused(&self) -> anyhow::Result<()> {
        ensure!(self.library.can_unload(), "the DLL says that objects are left, after all were released");
        Ok(())
    }

    pub(super) fn shared_library(&self) -> Arc<Library> {
        self.library.clone()
    }

    /// The DLL.
    pub(super) fn library(&self) -> &Library {
        &self.library
    }

    /// Whether the DLL posts and polls by rings: [`choose_path`].
    pub(super) fn uses_rings(&self) -> bool {
        std::env::var(PATH_VARIABLE).is_ok_and(|path| path == "rings")
    }

    /// The driver, beside the DLL.
    pub(super) fn driver(&self) -> anyhow::Result<&Client> {
        self.driver.as_deref().context("the driver is asked by cases that run alone only")
    }

    /// How long to wait for anything that should happen.
    pub(super) fn patience(&self) -> Duration {
        self.patience
    }

    /// Says something about a case that passes.
    pub(super) fn note(&self, note: String) {
        self.notes.borrow_mut().push(note);
    }

    /// The provider.
    pub(super) fn provider(&self) -> anyhow::Result<Provider> {
        let com: Result<IND2Provider, _> = self.library.class_object(self.library.class(Version::V2));
        let com = com.map_err(|status| anyhow!("DllGetClassObject for IND2Provider: {status}"))?;
        Ok(Provider { com, patience: self.patience })
    }

    /// The provider of version 1, which programs get from the class factory only.
    pub(super) fn provider_v1(&self) -> anyhow::Result<v1::Provider> {
        let factory = self.library.class_object(self.library.class(Version::V1));
        let factory = factory.map(ClassFactory).map_err(|status| anyhow!("the class factory: {status}"))?;
        let com = factory.create::<INDProvider>().context("INDProvider from the class factory")?;
        Ok(v1::Provider { com, patience: self.patience })
    }

    /// Its adapter, and an address of the adapter, with port 0.
    pub(super) fn adapter_v1(&self) -> anyhow::Result<(v1::Adapter, SocketAddr)> {
        let provider = self.provider_v1()?;
        let addresses = provider.addresses()?;
        let address = self.choose(&addresses)?;
        Ok((provider.open(address)?, address))
    }

    /// The local address to use.
    pub(super) fn address(&self) -> anyhow::Result<IpAddr> {
        Ok(self.choose(&self.provider()?.addresses()?)?.ip())
    }

    /// The adapter of version 2, and an address of the adapter, with port 0.
    pub(super) fn adapter(&self) -> anyhow::Result<(Adapter, SocketAddr)> {
        let provider = self.provider()?;
        let addresses = provider.addresses()?;
        let address = self.choose(&addresses)?;
        Ok((provider.open(provider.resolve(address)?)?, address))
    }

    /// The local address to use, with port 0: the first of IPv4 if none was asked for.
    fn choose(&self, addresses: &[SocketAddr]) -> anyhow::Result<SocketAddr> {
        let is_wanted = |address: &&SocketAddr| self.at.map_or(address.is_ipv4(), |at| address.ip() == at);
        let address = addresses.iter().find(is_wanted).context("the provider has no such address")?;
        Ok(SocketAddr::new(address.ip(), 0))
    }
}
