//! The DLL's exports and IND2Provider.

use anyhow::ensure;
use nd_com::{
    class::{IClassFactory, SOFTND_PROVIDER_V1},
    status::{CLASS_E_CLASSNOTAVAILABLE, CLASS_E_NOAGGREGATION, E_NOINTERFACE, E_POINTER},
    v1::{INDAdapter, INDCompletionQueue, INDConnector, INDProvider},
    v2::{IND2Adapter, IND2CompletionQueue, IND2Provider},
};
use ndk_abi::status::{NTSTATUS, STATUS_INVALID_ADDRESS, STATUS_INVALID_PARAMETER};
use windows_core::{GUID, IUnknown, Interface as _};

use crate::{
    nd::{
        Version,
        client::{ClassFactory, Provider, QpSize, both::CompletionQueue as _, cast},
        pair::{End, Pair, is},
        run::Nd,
    },
    pair::refused,
};

// Shows N1, N2, N3.
pub(in crate::nd) fn class_object(nd: &Nd) -> anyhow::Result<()> {
    let library = nd.library();
    ensure!(library.has_startup(), "there is no WSPStartup");
    ensure!(library.can_unload(), "a fresh DLL cannot be unloaded");
    let provider: IND2Provider =
        library.class_object(library.class(Version::V2)).map_err(|status| anyhow::anyhow!("{status}"))?;
    ensure!(!library.can_unload(), "the DLL could be unloaded with a provider alive");
    drop(provider);
    ensure!(library.can_unload(), "the provider is gone and the DLL cannot be unloaded");
    let other = library.class_object::<IND2Provider>(&GUID::from_u128(1)).err();
    ensure!(other == Some(CLASS_E_CLASSNOTAVAILABLE), "another class: {other:?}");
    let other = library.class_object::<IND2CompletionQueue>(library.class(Version::V2)).err();
    ensure!(other == Some(E_NOINTERFACE), "another interface: {other:?}");
    let nowhere = library.class_object_nowhere(library.class(Version::V2));
    ensure!(nowhere == E_POINTER, "no place for the answer: {nowhere}");
    Ok(())
}

// Shows N2, N4.
pub(in crate::nd) fn class_factory(nd: &Nd) -> anyhow::Result<()> {
    let library = nd.library();
    let factory = || -> anyhow::Result<ClassFactory> {
        let factory = library.class_object::<IClassFactory>(library.class(Version::V2));
        factory.map(ClassFactory).map_err(|status| anyhow::anyhow!("DllGetClassObject for IClassFactory: {status}"))
    };
    let made = factory()?.create::<IND2Provider>()?;
    ensure!(!library.can_unload(), "the DLL could be unloaded with a provider alive");
    let inner = factory()?.create_within::<IND2Provider>(&made);
    is(inner, NTSTATUS(CLASS_E_NOAGGREGATION.0), "aggregation")?;
    refused(factory()?.create::<IND2Adapter>(), NTSTATUS(E_NOINTERFACE.0), "another interface")?;
    drop(made);
    ensure!(library.can_unload(), "all objects are gone and the DLL cannot be unloaded");
    factory()?.lock(true)?;
    ensure!(!library.can_unload(), "the DLL could be unloaded while its server is locked");
    factory()?.lock(false)?;
    ensure!(library.can_unload(), "the server was unlocked and the DLL cannot be unloaded");
    Ok(())
}

// Shows N13, N14, N15.
pub(in crate::nd) fn addresses(nd: &Nd) -> anyhow::Result<()> {
    let provider = nd.provider()?;
    let addresses = provider.addresses()?;
    ensure!(!addresses.is_empty(), "no addresses");
    for address in addresses {
        let adapter = provider.resolve(address)?;
        let mut other_port = address;
        other_port.set_port(0x1234);
        ensure!(provider.resolve(other_port)? == adapter, "the port of {address} matters");
        ensure!(
            provider.open(adapter)?.addresses()?.contains(&address),
            "the adapter has another address than {address}"
        );
    }
    Ok(())
}

// Shows N16.
pub(in crate::nd) fn unknown_address(nd: &Nd) -> anyhow::Result<()> {
    let provider = nd.provider()?;
    // TEST-NET-1 (RFC 5737), and the IPv6 prefix for documentation (RFC 3849).
    for address in ["192.0.2.77:0", "[2001:db8::77]:0", "0.0.0.0:0"] {
        refused(provider.resolve(address.parse()?), STATUS_INVALID_ADDRESS, address)?;
    }
    refused(provider.resolve_raw(&[2, 0, 0, 0]), STATUS_INVALID_ADDRESS, "four bytes of an address")?;
    Ok(())
}

// Shows N12, N17.
pub(in crate::nd) fn open_adapter(nd: &Nd) -> anyhow::Result<()> {
    let provider = nd.provider()?;
    let id = provider.resolve(provider.addresses()?[0])?;
    refused(provider.open(id ^ 0x5a5a_5a5a), STATUS_INVALID_PARAMETER, "an unknown adapter")?;
    is(provider.open_as(&IND2CompletionQueue::IID, id), NTSTATUS(E_NOINTERFACE.0), "another interface")?;
    let adapter = provider.open(id)?;
    let another = provider.open(id)?;
    drop(provider);
    ensure!(adapter.info()?.AdapterId == id && another.info()?.AdapterId == id, "the adapter is another one");
    drop(another);
    // The provider is released; the adapter still works, and keeps the DLL loaded.
    ensure!(!nd.library().can_unload(), "the DLL could be unloaded with an adapter alive");
    let cq = adapter.cq(16)?;
    drop(adapter);
    ensure!(!nd.library().can_unload(), "the DLL could be unloaded with a completion queue alive");
    ensure!(cq.poll(1)?.is_empty(), "a fresh queue is not empty");
    Ok(())
}

// Shows N9.
pub(in crate::nd) fn identity(nd: &Nd) -> anyhow::Result<()> {
    let provider = nd.provider()?.com;
    let one: IUnknown = cast(&provider)?;
    let other: IUnknown = cast(&cast::<IND2Provider>(&one)?)?;
    ensure!(one == other, "two IUnknown of one object");
    ensure!(provider.cast::<IND2Adapter>().is_err(), "a provider says that it is an adapter");
    Ok(())
}

/// A program that looks for one version must not be given objects of the other; the class of either makes both (docs/decisions.md).
// Shows N9.
pub(in crate::nd) fn versions_apart(nd: &Nd) -> anyhow::Result<()> {
    let pair = Pair::new(nd)?;
    ensure!(nd.provider()?.com.cast::<INDProvider>().is_err(), "a provider of version 2 says that it is of version 1");
    ensure!(pair.a.adapter.com.cast::<INDAdapter>().is_err(), "an adapter of version 2 says that it is of version 1");
    ensure!(pair.a.initiator_cq.com.cast::<INDCompletionQueue>().is_err(), "a completion queue of version 1");
    ensure!(pair.a.connector.com.cast::<INDConnector>().is_err(), "a connector of version 1");
    // What the other class makes is as good.
    let com = nd.library().class_object::<IND2Provider>(&SOFTND_PROVIDER_V1);
    let provider = Provider { com: com.map_err(|status| anyhow::anyhow!("{status}"))?, patience: nd.patience() };
    let adapter = provider.open(provider.resolve(pair.a.address)?)?;
    let end = End::on(adapter, pair.a.address, QpSize::default(), 16)?;
    Pair::of(end, End::new(nd)?)?.quiet()
}
