//! A driver beside softndk.sys that opens its adapter by Winsock Kernel (tests/kernels/wine/consumer): what Microsoft's kernel consumers need of
//! the stand-ins, without one of them.

use anyhow::{Context, Result, ensure};

use crate::session::{self, Session};

const DRIVER: &str = "consumer.sys";

/// It opens the adapter, uses it, and leaves nothing; another interface is refused.
pub(crate) fn opens() -> Result<()> {
    let mut session = Session::start(&session::addresses(&[])?)?;
    session.load()?;
    for service in ["SoftNdkConsumer", "SoftNdkElsewhere"] {
        session.add_consumer(service, DRIVER)?;
    }
    session.run_consumer("SoftNdkConsumer")?;
    let refused = session.run_consumer("SoftNdkElsewhere").err().context("another interface was opened")?;
    // ERROR_NOT_FOUND, for STATUS_NOT_FOUND.
    ensure!(refused.to_string().contains("os error 1168"), "{refused:#}");
    let report = session.unload()?;
    ensure!(report.is_clean(), "left behind: {report}");
    Ok(())
}

/// It leaves the provider captured: the report has to say so.
pub(crate) fn planted() -> Result<()> {
    const SERVICE: &str = "SoftNdkLeaver";
    let mut session = Session::start(&session::addresses(&[])?)?;
    session.load()?;
    session.add_consumer(SERVICE, DRIVER)?;
    session.run_consumer(SERVICE)?;
    let report = session.unload()?;
    let told = report.details.iter().any(|line| line.contains("captured WSK provider 1"));
    ensure!(told && !report.is_clean(), "not caught: {report}");
    Ok(())
}
