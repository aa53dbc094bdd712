//! What went over the link, as Wireshark sees it.

use std::{
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};

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

fn output(mut tshark: Command) -> Result<String> {
    let output = tshark.stderr(Stdio::null()).output().context("cannot start tshark")?;
    ensure!(output.status.success(), "tshark ended with {}", output.status);
    Ok(String::from_utf8(output.stdout)?)
}
