//! Everything that is tried with the peer.

use std::{
    net::{IpAddr, SocketAddr},
    path::Path,
};

use anyhow::{Context, Result, anyhow, bail, ensure};
use rping::{Fault, Plan};

use crate::{
    capture::{self, Capture, Captured},
    peer::{self, OURS, OURS_V6},
    rows::Rows,
    side::Side,
};

/// Where our servers listen.
const PORT: u16 = 7175;
/// With nothing special.
const PLAIN: Plan =
    Plan { size: 64, count: 100, parts: 1, corrupt: false, solicit: false, invalidate: false, fault: None };

/// Our side.
pub(crate) struct Suite {
    pub(crate) side: Side,
    pub(crate) name: String,
    /// Its FPDUs have CRCs.
    pub(crate) crc: bool,
}

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

/// All steps; whether none failed. Captures are written in `directory`.
pub(crate) fn run(suite: &Suite, directory: &Path) -> Result<bool> {
    peer::prepare_link()?;
    let mut rows = Rows::of(suite.name.clone());
    for size in [64, 4096, 65536] {
        suite.both_roles(&mut rows, &format!("{size} B"), OURS, Plan { size, ..PLAIN });
    }
    if !suite.crc {
        suite.both_roles(&mut rows, "4096 B, IPv6", OURS_V6, Plan { size: 4096, ..PLAIN });
        suite.controls(&mut rows);
    }
    let missing = capture::missing();
    let file = format!("{}-{}", suite.name.replace([' ', '.'], "-"), if suite.crc { "crc" } else { "plain" });
    let capture = if missing.is_none() { Some(Capture::start(directory, &file)?) } else { None };
    let ports = suite.captured(&mut rows);
    match (capture, missing) {
        (Some(capture), _) if suite.crc => look_at_crcs(&capture.end()?, &mut rows),
        (Some(capture), _) => look(suite, &capture.end()?, &ports, &mut rows),
        (None, program) => {
            let why = format!("this machine has no {}", program.unwrap_or("capture"));
            rows.skip("Wireshark decodes what we send", why);
        }
    }
    Ok(rows.is_success())
}

impl Suite {
    fn both_roles(&self, rows: &mut Rows, what: &str, ours: IpAddr, plan: Plan) {
        let with = if self.crc { "with CRC" } else { "without CRC" };
        rows.add(format!("rping server of siw, {what}, {with}"), || self.as_client(ours, plan));
        rows.add(format!("rping client of siw, {what}, {with}"), || self.as_server(ours, plan));
    }

    fn as_client(&self, ours: IpAddr, plan: Plan) -> Result<String> {
        self.side.client(ours, peer::rping_server(ours), plan)?;
        Ok(format!("{} rounds, data compared here", plan.count))
    }

    /// Both ends have to be content.
    fn as_server(&self, ours: IpAddr, plan: Plan) -> Result<String> {
        let address = SocketAddr::new(ours, PORT);
        let serving = self.side.server(address, plan)?;
        let pinged = peer::rping(address, plan.size, plan.count);
        match (serving.end(), pinged) {
            (Ok(()), Ok(())) => Ok(format!("{} rounds, data compared by the peer", plan.count)),
            (Err(ours), Err(theirs)) => bail!("{ours:#}; {theirs:#}"),
            (Err(error), Ok(())) | (Ok(()), Err(error)) => Err(error),
        }
    }

    /// The negative controls: the same steps, but that a byte is changed.
    fn controls(&self, rows: &mut Rows) {
        let plan = Plan { corrupt: true, ..PLAIN };
        for (who, run) in
            [("we", Self::as_client as fn(&Self, IpAddr, Plan) -> _), ("the peer's rping", Self::as_server)]
        {
            rows.add(format!("control: {who} must notice a changed byte"), || {
                let Err(error) = run(self, OURS, plan) else { bail!("not noticed") };
                let said = format!("{error:#}");
                ensure!(said.contains("data mismatch"), "something else failed: {said}");
                Ok(format!("reported as failed: {said}"))
            });
        }
    }

    /// What is captured. The port of our end for each fault.
    fn captured(&self, rows: &mut Rows) -> Vec<Option<u16>> {
        let plan = Plan { size: 4096, count: 5, ..PLAIN };
        if self.crc {
            self.both_roles(rows, "captured", OURS, plan);
            return Vec::new();
        }
        rows.add("siw takes sends with solicited event", || self.as_server(OURS, Plan { solicit: true, ..plan }));
        rows.add("siw serves four reads posted at once", || self.as_server(OURS, Plan { parts: 4, ..plan }));
        if matches!(self.side, Side::Here { .. }) {
            let invalidate = Plan { count: 1, solicit: true, invalidate: true, ..PLAIN };
            rows.add("siw takes sends with solicited event and invalidate", || self.as_server(OURS, invalidate));
            rows.add("siw refuses a read by a token that was invalidated", || self.refused(invalidate));
        }
        let mut ports = Vec::new();
        for (fault, ..) in TERMINATES {
            let mut port = None;
            rows.add(format!("siw runs into {fault:?}: the connection ends"), || {
                let plan = Plan { fault: Some(fault), ..PLAIN };
                port = Some(self.side.client(OURS, peer::rping_server(OURS), plan)?);
                Ok("no data placed, the consumer is told".to_owned())
            });
            ports.push(port);
        }
        ports
    }

    /// In a second round the client names the token again that the first has invalidated.
    fn refused(&self, plan: Plan) -> Result<String> {
        let Err(error) = self.as_server(OURS, Plan { count: 2, ..plan }) else { bail!("the token is still good") };
        let said = format!("{error:#}");
        ensure!(said.contains("NdkRead: "), "something else failed: {said}");
        Ok("our second read ends with an error".to_owned())
    }
}

fn look_at_crcs(captured: &Captured, rows: &mut Rows) {
    rows.add("Wireshark: CRCs of our FPDUs", || {
        let (good, bad) = captured.crcs()?;
        ensure!(good > 0 && bad == 0, "{good} good, {bad} bad");
        Ok(format!("{good} good, none bad"))
    });
}

/// What Wireshark says of the packets that we have sent.
fn look(suite: &Suite, captured: &Captured, ports: &[Option<u16>], rows: &mut Rows) {
    let mut sends = vec![("Send with SE", 5)];
    sends.extend(matches!(suite.side, Side::Here { .. }).then_some(("Send with SE and Invalidate", 6)));
    for (what, opcode) in sends {
        rows.add(format!("Wireshark: our {what}"), || {
            let sends = captured.ours(&format!("iwarp_rdma.opcode=={opcode}"), &[])?;
            let count = sends.iter().filter(|(port, _)| *port == PORT).count();
            ensure!(count > 0, "there is none");
            Ok(format!("{count} of them"))
        });
    }
    let terminates = terminates(captured);
    for ((fault, wanted, names), port) in TERMINATES.into_iter().zip(ports) {
        rows.add(format!("Wireshark: our Terminate for {fault:?}"), || {
            let found = terminates.as_ref().map_err(|error| anyhow!("{error:#}"))?;
            let found: Vec<_> =
                found.iter().filter(|(from, _)| Some(*from) == *port).map(|(_, codes)| *codes).collect();
            ensure!(found == [wanted], "{found:?} instead of {wanted:?}");
            Ok(names.to_owned())
        });
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
