//! What rping of the peer has no option for: a program of ours at its end, `peer/verbs.c`.

use std::{
    fs,
    net::{IpAddr, SocketAddr},
    path::Path,
};

use anyhow::{Context, Result, ensure};
use rping::{Fault, Plan};

use crate::{
    capture::{Captured, Codes, Terminates},
    peer::{self, OURS, PEER},
    rows::Rows,
    side::Side,
    suite::{PLAIN, PORT},
};

/// Where it is there.
const PROGRAM: &str = "/tmp/verbs";
const LOG: &str = "/tmp/verbs.log";
/// Where it listens.
const SERVER: SocketAddr = SocketAddr::new(PEER, 7178);
/// Reads that are under way at once.
const PARTS: Plan = Plan { size: 65536, count: 20, parts: 4, ..PLAIN };
/// RDMAP, remote protection, invalid STag.
const NO_TOKEN: Codes = (0, 1, 0x00);

/// Brings the program there.
fn install(program: &Path) -> Result<()> {
    let bytes = fs::read(program).with_context(|| format!("cannot read {}", program.display()))?;
    // For another of our sides.
    if peer::run(&format!("wc -c <{PROGRAM}"))? == bytes.len().to_string() {
        return Ok(());
    }
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let lines: Vec<_> = digits.as_bytes().chunks(64).map(String::from_utf8_lossy).collect();
    let text = lines.join("\n");
    let said = peer::run(&format!("xxd -r -p >{PROGRAM} <<'end'\n{text}\nend\nchmod +x {PROGRAM}; wc -c <{PROGRAM}"))?;
    ensure!(said == bytes.len().to_string(), "it has {} bytes, and {said} there", bytes.len());
    Ok(())
}

/// Runs it there, as `role` at an address.
fn command(role: &str, address: SocketAddr, plan: Plan) -> String {
    let (ip, port): (IpAddr, u16) = (address.ip(), address.port());
    let Plan { size, count, parts, solicit, invalidate, .. } = plan;
    let or = |wanted, name| if wanted { name } else { "-" };
    let (solicit, invalidate) = (or(solicit, "solicit"), or(invalidate, "invalidate"));
    format!("timeout 30 {PROGRAM} {role} {ip} {port} {size} {count} {parts} {solicit} {invalidate}")
}

/// Starts a server there, for one client.
fn serve(plan: Plan) -> Result<()> {
    let server = command("server", SERVER, plan);
    let background = format!("rm -f {LOG}; ({server}; echo status $?) >{LOG} 2>&1 </dev/null &");
    let said = peer::run(&format!("{background}\nuntil grep -qs . {LOG}; do sleep 0.02; done; cat {LOG}"))?;
    ensure!(said.starts_with("listening"), "the peer's program: {said}");
    Ok(())
}

/// What it says in the end.
fn served() -> Result<String> {
    peer::run(&format!("until grep -q ^status {LOG}; do sleep 0.02; done; cat {LOG}"))
}

/// Ports of our end, for a look at the capture.
pub(crate) struct Ports {
    reads: Option<u16>,
    refused: Option<u16>,
}

/// All steps with it.
pub(crate) fn steps(program: Option<&Path>, side: &Side, rows: &mut Rows) -> Option<Ports> {
    let Some(program) = program else {
        let why = "this machine has no librdmacm-dev to build the program for the peer with".to_owned();
        rows.skip("what rping has no option for", why);
        return None;
    };
    let mut ports = Ports { reads: None, refused: None };
    rows.add("a program for the peer", || {
        install(program)?;
        Ok("it is there".to_owned())
    });
    rows.add("siw has four reads of ours under way", || {
        ports.reads = Some(as_client(side, PARTS, PARTS)?);
        Ok(format!("{} rounds, data compared here", PARTS.count))
    });
    rows.add("we have four reads of siw's under way", || {
        let address = SocketAddr::new(OURS, PORT);
        let serving = side.server(address, PARTS)?;
        let said =
            peer::run(&format!("{} 2>&1; echo status $?", command("client", address, Plan { parts: 1, ..PARTS })))?;
        let served = serving.end();
        ensure!(said == "status 0", "the peer's program: {said}; {served:?}");
        served?;
        Ok(format!("{} rounds, data compared by the peer", PARTS.count))
    });
    let solicit = Plan { count: 20, solicit: true, ..PLAIN };
    rows.add("sends of siw's with solicited event wake us", || {
        as_client(side, solicit, Plan { solicited: true, solicit: false, ..solicit })?;
        Ok(format!("{} rounds, data compared here", solicit.count))
    });
    let invalidate = Plan { invalidate: true, ..solicit };
    rows.add("sends of siw's with invalidate take our windows back", || {
        as_client(side, invalidate, Plan { windows: true, solicit: false, invalidate: false, ..invalidate })?;
        Ok(format!("{} rounds, data compared here", invalidate.count))
    });
    rows.add("siw is refused the window that it has invalidated", || {
        serve(Plan { count: 2, ..invalidate })?;
        let plan = Plan { windows: true, fault: Some(Fault::Invalidated), ..PLAIN };
        ports.refused = Some(side.client(OURS, SERVER, plan)?);
        let said = served()?;
        ensure!(!said.ends_with("status 0"), "the peer's program: {said}");
        Ok("the connection ends, no data placed".to_owned())
    });
    Some(ports)
}

/// With a server there; both have to be content. The port of our end.
fn as_client(side: &Side, there: Plan, here: Plan) -> Result<u16> {
    serve(there)?;
    let port = side.client(OURS, SERVER, here);
    let said = served()?;
    let port = port.with_context(|| format!("the peer's program: {said}"))?;
    ensure!(said.ends_with("status 0"), "the peer's program: {said}");
    Ok(port)
}

/// What Wireshark says of that.
pub(crate) fn look(captured: &Captured, terminates: &Terminates, ports: &Ports, rows: &mut Rows) {
    for (whose, port) in [("siw's", ports.reads), ("our", Some(PORT))] {
        rows.add(format!("Wireshark: {whose} reads under way at once"), || {
            let count = captured.reads_under_way(port.context("there was no connection")?)?;
            ensure!(count > 1, "{count} at most");
            Ok(format!("{count} at most"))
        });
    }
    rows.add("Wireshark: our Terminate for the invalidated window", || {
        terminates.ensure(ports.refused, NO_TOKEN)?;
        Ok("RDMAP, remote protection, invalid STag".to_owned())
    });
}
