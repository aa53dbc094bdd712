//! The way to INDProvider, and INDProvider.

use anyhow::{anyhow, ensure};
use nd_com::{
    class::IClassFactory,
    status::{CLASS_E_NOAGGREGATION, E_NOINTERFACE},
    v1::{INDAdapter, INDProvider},
};
use ndk_abi::status::{NTSTATUS, STATUS_INVALID_ADDRESS};
use std::net::SocketAddr;
use windows_core::{IUnknown, Interface as _};

use crate::{
    nd::{
        Version,
        client::{ClassFactory, both::CompletionQueue as _, cast},
        pair::is,
        run::Nd,
    },
    pair::refused,
};

// Shows V11.
pub(in crate::nd) fn class_factory(nd: &Nd) -> anyhow::Result<()> {
    let library = nd.library();
    ensure!(library.can_unload(), "a fresh DLL cannot be unloaded");
    let factory = library.class_object::<IClassFactory>(library.class(Version::V1));
    let factory = factory.map(ClassFactory).map_err(|status| anyhow!("the class factory: {status}"))?;
    let made = factory.create::<INDProvider>()?;
    let inner = factory.create_within::<INDProvider>(&made);
    is(inner, NTSTATUS(CLASS_E_NOAGGREGATION.0), "aggregation")?;
    refused(factory.create::<INDAdapter>(), NTSTATUS(E_NOINTERFACE.0), "another interface")?;
    drop(factory);
    ensure!(!library.can_unload(), "the DLL could be unloaded with a provider alive");
    drop(made);
    ensure!(library.can_unload(), "all objects are gone and the DLL cannot be unloaded");
    Ok(())
}

pub(in crate::nd) fn identity(nd: &Nd) -> anyhow::Result<()> {
    let provider = nd.provider_v1()?.com;
    let one: IUnknown = cast(&provider)?;
    let other: IUnknown = cast(&cast::<INDProvider>(&one)?)?;
    ensure!(one == other, "two IUnknown of one object");
    ensure!(provider.cast::<INDAdapter>().is_err(), "a provider says that it is an adapter");
    Ok(())
}

// Shows V12.
pub(in crate::nd) fn addresses(nd: &Nd) -> anyhow::Result<()> {
    let (mut of_1, mut of_2) = (nd.provider_v1()?.addresses()?, nd.provider()?.addresses()?);
    ensure!(!of_1.is_empty(), "no addresses");
    of_1.sort();
    of_2.sort();
    ensure!(of_1 == of_2, "version 1 has {of_1:?}, version 2 {of_2:?}");
    Ok(())
}

// Shows V12.
pub(in crate::nd) fn open_adapter(nd: &Nd) -> anyhow::Result<()> {
    let provider = nd.provider_v1()?;
    let mut adapters = Vec::new();
    for address in provider.addresses()? {
        adapters.push(provider.open(address)?);
        adapters.push(provider.open(SocketAddr::new(address.ip(), 0x1234))?);
    }
    drop(provider);
    // The provider is released; the adapters still work, and keep the DLL loaded.
    for adapter in &adapters {
        ensure!(adapter.info()?.MaxCqEntries > 0, "an adapter without completion queues");
    }
    ensure!(!nd.library().can_unload(), "the DLL could be unloaded with an adapter alive");
    let cq = adapters[0].cq(16)?;
    drop(adapters);
    ensure!(!nd.library().can_unload(), "the DLL could be unloaded with a completion queue alive");
    ensure!(cq.poll(1)?.is_empty(), "a fresh queue is not empty");
    Ok(())
}

pub(in crate::nd) fn unknown_address(nd: &Nd) -> anyhow::Result<()> {
    let provider = nd.provider_v1()?;
    // TEST-NET-1 (RFC 5737), and the IPv6 prefix for documentation (RFC 3849).
    for address in ["192.0.2.77:0", "[2001:db8::77]:0", "0.0.0.0:0"] {
        refused(provider.open(address.parse()?), STATUS_INVALID_ADDRESS, address)?;
    }
    refused(provider.open_raw(&[2, 0, 0, 0]), STATUS_INVALID_ADDRESS, "four bytes of an address")?;
    ensure!(provider.open_raw(&[]).is_err(), "no bytes of an address open an adapter");
    Ok(())
}
