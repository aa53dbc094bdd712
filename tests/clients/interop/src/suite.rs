//! Everything that is tried with the peer.

use std::{
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Result, anyhow, bail, ensure};
use rping::{Fault, Plan};

use crate::{
    capture::{self, Capture, Captured, Codes, Terminates},
    peer::{self, OURS, OURS_V6},
    rows::Rows,
    side::Side,
    smb::{self, Consumer, On},
    verbs,
};

/// Where our servers listen.
pub(crate) const PORT: u16 = 7175;
/// With nothing special.
pub(crate) const PLAIN: Plan = Plan {
    size: 64,
    count: 100,
    parts: 1,
    windows: false,
    solicited: false,
    corrupt: false,
    solicit: false,
    invalidate: false,
    fault: None,
};

/// Our side.
pub(crate) struct Suite {
    pub(crate) side: Side,
    pub(crate) name: String,
    /// Its FPDUs have CRCs.
    pub(crate) crc: bool,
    /// It is the driver, with its test consumer.
    pub(crate) driver: bool,
    /// The program for the peer's end, where there is one.
    pub(crate) verbs: Option<PathBuf>,
}

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

/// The steps of rping over IPv4 that need no capture; whether none failed.
pub(crate) fn roles(suite: &Suite) -> bool {
    let mut rows = Rows::of(suite.name.clone());
    suite.sizes(&mut rows);
    suite.controls(&mut rows);
    rows.is_success()
}

/// All steps; whether none failed. Captures are written in `directory`.
pub(crate) fn run(suite: &Suite, directory: &Path) -> Result<bool> {
    peer::prepare_link()?;
    let mut rows = Rows::of(suite.name.clone());
    suite.sizes(&mut rows);
    if !suite.crc {
        suite.both_roles(&mut rows, "4096 B, IPv6", OURS_V6, Plan { size: 4096, ..PLAIN });
        suite.controls(&mut rows);
    }
    let missing = capture::missing();
    let file = format!("{}-{}", suite.name.replace([' ', '.'], "-"), if suite.crc { "crc" } else { "plain" });
    let capture = if missing.is_none() { Some(Capture::start(directory, &file)?) } else { None };
    let ports = suite.captured(&mut rows);
    let with_verbs = if suite.crc { None } else { verbs::steps(suite.verbs.as_deref(), &suite.side, &mut rows) };
    match (capture, missing) {
        (Some(capture), _) if suite.crc => look_at_crcs(&capture.end()?, &mut rows),
        (Some(capture), _) => {
            let captured = capture.end()?;
            let terminates = captured.terminates();
            look(suite, &captured, &terminates, &ports, &mut rows);
            with_verbs.iter().for_each(|ports| verbs::look(&captured, &terminates, ports, &mut rows));
        }
        (None, program) => {
            let why = format!("this machine has no {}", program.unwrap_or("capture"));
            rows.skip("Wireshark decodes what we send", why);
        }
    }
    match &suite.side {
        Side::Here { crc } => smb::run(directory, &On::Here { crc: *crc }, suite.crc, &mut rows),
        Side::Program(program) if suite.driver => with_driver(program, directory, suite.crc, &mut rows),
        Side::Program(_) => {}
    }
    Ok(rows.is_success())
}

/// SMB Direct by the test consumer in the driver.
fn with_driver(program: &[String], directory: &Path, crc: bool, rows: &mut Rows) {
    match Consumer::start(program) {
        Ok((consumer, agent)) => {
            smb::run(directory, &On::Driver(Arc::new(consumer)), crc, rows);
            rows.add("the agent of the driver ends", || agent.end().map(|()| "with success".to_owned()));
        }
        Err(error) => rows.add("SMB Direct by the test consumer", || Err(error)),
    }
}

impl Suite {
    fn sizes(&self, rows: &mut Rows) {
        for size in [64, 4096, 65536] {
            self.both_roles(rows, &format!("{size} B"), OURS, Plan { size, ..PLAIN });
        }
    }

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
        let plan = Plan { count: 5, corrupt: true, ..PLAIN };
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
        // Its Terminate says why.
        ensure!(said.contains("NdkRead: STATUS_ACCESS_VIOLATION"), "something else failed: {said}");
        Ok("our second read ends with STATUS_ACCESS_VIOLATION".to_owned())
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
fn look(suite: &Suite, captured: &Captured, terminates: &Terminates, ports: &[Option<u16>], rows: &mut Rows) {
    let sends = captured.ours("iwarp_rdma.opcode==5 || iwarp_rdma.opcode==6", &["iwarp_rdma.opcode"]);
    let mut kinds = vec![("Send with SE", "0x05")];
    kinds.extend(matches!(suite.side, Side::Here { .. }).then_some(("Send with SE and Invalidate", "0x06")));
    for (what, opcode) in kinds {
        rows.add(format!("Wireshark: our {what}"), || {
            let sends = sends.as_ref().map_err(|error| anyhow!("{error:#}"))?;
            // A program's send shares its packet with the read that confirms it, and Wireshark has the opcodes of both in the field.
            let has = |fields: &[String]| fields.iter().flat_map(|field| field.split(',')).any(|found| found == opcode);
            let count = sends.iter().filter(|(port, fields)| *port == PORT && has(fields)).count();
            ensure!(count > 0, "there is none");
            Ok(format!("{count} of them"))
        });
    }
    for ((fault, wanted, names), port) in TERMINATES.into_iter().zip(ports) {
        rows.add(format!("Wireshark: our Terminate for {fault:?}"), || {
            terminates.ensure(*port, wanted)?;
            Ok(names.to_owned())
        });
    }
}
