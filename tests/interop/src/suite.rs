//! Everything that is tried with the peer.

use std::{net::SocketAddr, path::Path, thread};

use anyhow::{Context, Result, anyhow, bail, ensure};

use rping::{Fault, Plan};

use crate::{
    capture::{self, Capture, Captured},
    peer::{self, OURS},
    roles::{self, Server},
    table::{Outcome, Row, Table},
};

/// Where our servers listen.
const PORT: u16 = 7175;
/// With nothing special.
const PLAIN: Plan =
    Plan { size: 64, count: 100, parts: 1, corrupt: false, solicit: false, invalidate: false, fault: None };

/// Layer, type and code of a Terminate (RFC 5040 section 4.8).
type Codes = (u8, u8, u8);

/// What Wireshark has to say of our Terminate for each fault, and the names of that.
const TERMINATES: [(Fault, Codes, &str); 8] = [
    (Fault::SourceToken, (0, 1, 0x00), "RDMAP, remote protection, invalid STag"),
    (Fault::SourceBounds, (0, 1, 0x01), "RDMAP, remote protection, base or bounds"),
    (Fault::SourceAccess, (0, 1, 0x02), "RDMAP, remote protection, access rights"),
    (Fault::SinkToken, (1, 1, 0x00), "DDP, tagged buffer, invalid STag"),
    (Fault::SinkBounds, (1, 1, 0x01), "DDP, tagged buffer, base or bounds"),
    (Fault::SinkAccess, (0, 1, 0x02), "RDMAP, remote protection, access rights"),
    (Fault::NoReceive, (1, 2, 0x02), "DDP, untagged buffer, no buffer"),
    (Fault::ShortReceive, (1, 2, 0x05), "DDP, untagged buffer, message too long"),
];

/// All steps. The capture is written in `directory`.
pub(crate) fn run(directory: &Path) -> Result<Table> {
    peer::fit_packets()?;
    let mut table = Table::default();
    for crc in [false, true] {
        for size in [64, 4096, 65536] {
            let plan = Plan { size, ..PLAIN };
            let with = if crc { "with CRC" } else { "without CRC" };
            table.add(Row::of(format!("rping server of siw, {size} B, {with}"), || as_client(crc, plan)));
            table.add(Row::of(format!("rping client of siw, {size} B, {with}"), || as_server(crc, plan)));
        }
    }
    controls(&mut table);
    let missing = capture::missing();
    let capture = if missing.is_none() { Some(Capture::start(directory)?) } else { None };
    for (role, run) in [("server", as_client as fn(bool, Plan) -> _), ("client", as_server)] {
        let plan = Plan { size: 4096, count: 5, ..PLAIN };
        table.add(Row::of(format!("rping {role} of siw, captured, with CRC"), || run(true, plan)));
    }
    let invalidate = Plan { count: 1, solicit: true, invalidate: true, ..PLAIN };
    table.add(Row::of("siw takes sends with solicited event and invalidate", || as_server(false, invalidate)));
    table.add(Row::of("siw refuses a read by a token that was invalidated", || refused(invalidate)));
    let mut ports = Vec::new();
    for (fault, ..) in TERMINATES {
        let mut port = None;
        table.add(Row::of(format!("siw runs into {fault:?}: the connection ends"), || {
            port = Some(roles::client(OURS, peer::RPING, false, Plan { fault: Some(fault), ..PLAIN })?.port());
            Ok("no data placed, the consumer is told".to_owned())
        }));
        ports.push(port);
    }
    match (capture, missing) {
        (Some(capture), _) => look(&capture.end()?, &ports, &mut table),
        (None, program) => {
            let why = format!("this machine has no {}", program.unwrap_or("capture"));
            table.add(Row::skipped("Wireshark decodes what we send", why));
        }
    }
    Ok(table)
}

fn as_client(crc: bool, plan: Plan) -> Result<String> {
    roles::client(OURS, peer::RPING, crc, plan)?;
    Ok(format!("{} rounds, data compared here", plan.count))
}

/// Both ends have to be content.
fn as_server(crc: bool, plan: Plan) -> Result<String> {
    let server = Server::new(SocketAddr::new(OURS, PORT), crc, plan)?;
    let (served, pinged) = thread::scope(|scope| {
        let serving = scope.spawn(|| server.serve());
        let pinged = peer::rping(PORT, plan.size, plan.count);
        (serving.join().unwrap_or_else(|_| Err(anyhow!("the server has panicked"))), pinged)
    });
    match (served, pinged) {
        (Ok(()), Ok(())) => Ok(format!("{} rounds, data compared by the peer", plan.count)),
        (Err(ours), Err(theirs)) => bail!("{ours:#}; {theirs:#}"),
        (Err(error), Ok(())) | (Ok(()), Err(error)) => Err(error),
    }
}

/// The negative controls: the same steps, but that a byte is changed.
fn controls(table: &mut Table) {
    let plan = Plan { corrupt: true, ..PLAIN };
    for (who, run) in [("we", as_client as fn(bool, Plan) -> _), ("the peer's rping", as_server)] {
        let changed = Row::of("a changed byte", || run(false, plan));
        table.add(Row::of(format!("control: {who} must notice a changed byte"), || {
            let noticed = changed.outcome == Outcome::Failed && changed.detail.contains("data mismatch");
            ensure!(noticed, "not noticed: {:?}, {}", changed.outcome, changed.detail);
            Ok(format!("reported as failed: {}", changed.detail))
        }));
    }
}

/// In a second round the client names the token again that the first has invalidated.
fn refused(plan: Plan) -> Result<String> {
    let Err(error) = as_server(false, Plan { count: 2, ..plan }) else { bail!("the token is still good") };
    let said = format!("{error:#}");
    ensure!(said.contains("NdkRead: "), "something else failed: {said}");
    Ok("our second read ends with an error".to_owned())
}

/// What Wireshark says of the packets that we have sent.
fn look(captured: &Captured, ports: &[Option<u16>], table: &mut Table) {
    table.add(Row::of("Wireshark: CRCs of our FPDUs", || {
        let (good, bad) = captured.crcs()?;
        ensure!(good > 0 && bad == 0, "{good} good, {bad} bad");
        Ok(format!("{good} good, none bad"))
    }));
    table.add(Row::of("Wireshark: our Send with SE and Invalidate", || {
        let sends = captured.ours("iwarp_rdma.opcode==6", &[])?;
        let count = sends.iter().filter(|(port, _)| *port == PORT).count();
        ensure!(count > 0, "there is none");
        Ok(format!("{count} of them"))
    }));
    let terminates = terminates(captured);
    for ((fault, wanted, names), port) in TERMINATES.into_iter().zip(ports) {
        table.add(Row::of(format!("Wireshark: our Terminate for {fault:?}"), || {
            let found = terminates.as_ref().map_err(|error| anyhow!("{error:#}"))?;
            let found: Vec<_> =
                found.iter().filter(|(from, _)| Some(*from) == *port).map(|(_, codes)| *codes).collect();
            ensure!(found == [wanted], "{found:?} instead of {wanted:?}");
            Ok(names.to_owned())
        }));
    }
}

/// Each of our Terminates, with its port.
fn terminates(captured: &Captured) -> Result<Vec<(u16, Codes)>> {
    const FIELDS: [&str; 8] = [
        "iwarp_rdma.term_layer",
        "iwarp_rdma.term_etype_rdma",
        "iwarp_rdma.term_etype_ddp",
        "iwarp_rdma.term_etype_llp",
        "iwarp_rdma.term_errcode_rdma",
        "iwarp_rdma.term_errcode_ddp_tagged",
        "iwarp_rdma.term_errcode_ddp_untagged",
        "iwarp_rdma.term_errcode_llp",
    ];
    let number = |fields: &[String]| {
        let value = fields.iter().find(|value| !value.is_empty()).context("a field is missing")?;
        Ok::<_, anyhow::Error>(u8::from_str_radix(value.trim_start_matches("0x"), 16)?)
    };
    let found = captured.ours("iwarp_rdma.opcode==7", &FIELDS)?;
    let codes = |(port, fields): (u16, Vec<String>)| {
        ensure!(fields.len() == FIELDS.len(), "tshark: {fields:?}");
        Ok((port, (number(&fields[..1])?, number(&fields[1..4])?, number(&fields[4..])?)))
    };
    found.into_iter().map(codes).collect()
}
