//! What went over the link, as Wireshark sees it.

use std::{
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, ensure};

use crate::peer::{self, INTERFACE, OURS};

/// A capture under way.
pub(crate) struct Capture {
    tcpdump: Child,
    file: PathBuf,
}

/// Whether both programs are there; which is missing.
pub(crate) fn missing() -> Option<&'static str> {
    ["tcpdump", "tshark"].into_iter().find(|program| {
        let version = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        !version.is_ok_and(|status| status.success())
    })
}

impl Capture {
    /// Begins; the file is written in `directory`.
    pub(crate) fn start(directory: &Path, name: &str) -> Result<Self> {
        let file = directory.join(name).with_extension("pcap");
        // What an earlier run has left would look like the beginning of this one.
        let _ = std::fs::remove_file(&file);
        // -Z: the file belongs to who has started it, as other users may not write there.
        let mut tcpdump = Command::new("tcpdump");
        tcpdump.args(["-i", INTERFACE, "-U", "--immediate-mode", "-B", "16384", "-Z", "root", "-w"]).arg(&file);
        let tcpdump = tcpdump.stdout(Stdio::null()).stderr(Stdio::null()).spawn().context("cannot start tcpdump")?;
        let start = Instant::now();
        // It writes the head of the file when it has begun.
        while !file.metadata().is_ok_and(|file| file.len() > 0) {
            ensure!(start.elapsed() < Duration::from_secs(5), "tcpdump does not begin");
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(Self { tcpdump, file })
    }

    /// Ends, and gives the file to look at.
    pub(crate) fn end(mut self) -> Result<Captured> {
        // tcpdump is behind, by as much as a second and more. What the peer echoes now comes after everything else.
        let last = format!("the last packet of {}", std::process::id());
        ensure!(peer::run(&format!("echo {last}"))? == last, "the peer has no echo");
        let start = Instant::now();
        while !std::fs::read(&self.file)?.windows(last.len()).any(|part| part == last.as_bytes()) {
            ensure!(start.elapsed() < Duration::from_secs(10), "tcpdump does not catch up");
            std::thread::sleep(Duration::from_millis(20));
        }
        self.tcpdump.kill()?;
        self.tcpdump.wait()?;
        Ok(Captured(self.file))
    }
}

/// A capture that has ended.
pub(crate) struct Captured(PathBuf);

/// Layer, type and code of a Terminate (RFC 5040 section 4.8).
pub(crate) type Codes = (u8, u8, u8);

/// Our Terminates, each with its port, as Wireshark decodes them.
pub(crate) struct Terminates(Result<Vec<(u16, Codes)>>);

impl Terminates {
    /// Fails unless there is this one from that port, and no other.
    pub(crate) fn ensure(&self, port: Option<u16>, wanted: Codes) -> Result<()> {
        let all = self.0.as_ref().map_err(|error| anyhow!("{error:#}"))?;
        let port = port.context("there was no connection")?;
        let found: Vec<_> = all.iter().filter(|(from, _)| *from == port).map(|(_, codes)| *codes).collect();
        ensure!(found == [wanted], "{found:?} instead of {wanted:?}");
        Ok(())
    }
}

impl Captured {
    /// For each of our packets that the filter accepts, its port and these fields.
    pub(crate) fn ours(&self, filter: &str, fields: &[&str]) -> Result<Vec<(u16, Vec<String>)>> {
        let mut tshark = self.tshark(filter);
        tshark.args(["-T", "fields", "-e", "tcp.srcport"]);
        for field in fields {
            tshark.args(["-e", field]);
        }
        let line = |line: &str| {
            let mut values = line.split('\t').map(str::to_owned);
            let port = values.next().unwrap_or_default();
            Ok((port.parse().with_context(|| format!("tshark: {line:?}"))?, values.collect()))
        };
        output(tshark)?.lines().map(line).collect()
    }

    /// Our Terminates.
    pub(crate) fn terminates(&self) -> Terminates {
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
        let codes = |(port, fields): (u16, Vec<String>)| {
            ensure!(fields.len() == FIELDS.len(), "tshark: {fields:?}");
            Ok((port, (number(&fields[..1])?, number(&fields[1..4])?, number(&fields[4..])?)))
        };
        let found = self.ours("iwarp_rdma.opcode==7", &FIELDS);
        Terminates(found.and_then(|found| found.into_iter().map(codes).collect()))
    }

    /// How many reads were under way at once on connections with this port of ours: requests with nothing between them. Wireshark does not
    /// take a packet of several FPDUs apart.
    pub(crate) fn reads_under_way(&self, port: u16) -> Result<usize> {
        const AGAIN: &str = "tcp.analysis.retransmission";
        let mut tshark = Command::new("tshark");
        tshark.arg("-r").arg(&self.0).arg("-Y").arg(format!("tcp.len>0 && tcp.port=={port} && !{AGAIN}"));
        tshark.args(["-T", "fields", "-e", "tcp.payload"]);
        let (mut now, mut most) = (0, 0);
        for line in output(tshark)?.lines() {
            now = read_requests(line.trim()).map_or(0, |count| now + count);
            most = most.max(now);
        }
        Ok(most)
    }

    /// How many of our FPDUs have a good CRC, and how many a bad one.
    pub(crate) fn crcs(&self) -> Result<(usize, usize)> {
        let mut tshark = self.tshark("iwarp_mpa.crc_check");
        tshark.args(["-O", "iwarp_mpa"]);
        let text = output(tshark)?;
        let count = |what: &str| text.lines().filter(|line| line.contains("CRC check:") && line.contains(what)).count();
        Ok((count("Good CRC32"), count("Bad CRC32")))
    }

    fn tshark(&self, filter: &str) -> Command {
        let mut tshark = Command::new("tshark");
        tshark.arg("-r").arg(&self.0).arg("-Y").arg(format!("ip.src=={OURS} && ({filter})"));
        tshark
    }
}

/// How many Read Requests a packet has, given in hexadecimal, if it has nothing else.
fn read_requests(packet: &str) -> Option<usize> {
    /// MPA length, DDP untagged and last, RDMAP Read Request (RFC 5044 section 4.2, RFC 5041 section 4.3, RFC 5040 section 4.1).
    const BEGINNING: &str = "002e4141";
    /// Digits of a request: length, ULPDU, CRC.
    const DIGITS: usize = 2 * (2 + 0x2e + 4);
    let whole = !packet.is_empty() && packet.len().is_multiple_of(DIGITS);
    let requests = whole && (0..packet.len()).step_by(DIGITS).all(|at| packet[at..].starts_with(BEGINNING));
    requests.then_some(packet.len() / DIGITS)
}

fn output(mut tshark: Command) -> Result<String> {
    let output = tshark.stderr(Stdio::null()).output().context("cannot start tshark")?;
    ensure!(output.status.success(), "tshark ended with {}", output.status);
    Ok(String::from_utf8(output.stdout)?)
}

#[cfg(test)]
mod tests {
    use super::read_requests;

    #[test]
    fn read_requests_are_counted() {
        let request = format!("002e4141{}", "0".repeat(2 * 0x30));
        assert_eq!(read_requests(&request), Some(1));
        assert_eq!(read_requests(&request.repeat(4)), Some(4));
        assert_eq!(read_requests(&format!("{request}00224143")), None);
        assert_eq!(read_requests(""), None);
    }
}
