//! Captures: of the loaded driver by ndkctl, and of the device without a driver, as Wireshark reads them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use build::command::{outcome, said, step};
use checks::tally::Tally;

use crate::ndkctl::ndkctl;
use crate::session::{self, Session};

const LIMIT: Duration = Duration::from_secs(120);
/// A case that sends messages of many sizes.
const CASE: [&str; 6] = ["run", "--front-end", "nd2", "--path", "rings", "messages::sizes"];
/// Much data in little time, to and fro.
const PERF: [&str; 6] = ["ndharness.exe", "perf", "--sizes", "64KiB", "--operation", "write"];
/// The last part of the names of the files.
const PCAPNG: &str = ".pcapng";
/// What is wrong in a capture, in Wireshark's eyes.
const WRONG: &str = "_ws.malformed || _ws.expert.severity == error || tcp.analysis.flags || tcp.checksum.status == Bad";

/// Of the driver.
pub(crate) fn run(tally: &mut Tally) {
    let captured = step("capturing a program's connections", captured);
    // Shows S1723, T94.
    tally.check("ndkctl captures what a program's connections carry, unless captures are off", captured);
}

fn captured() -> Result<()> {
    let mut session = Session::start(&session::addresses(&[])?)?;
    session.load()?;
    let refused = ndkctl(&session, &["capture", "-o", "refused.pcapng"])?;
    let text = said(&refused);
    ensure!(text.contains("STATUS_NOT_SUPPORTED") && text.contains("parameter Capture"), "{text}");
    ensure!(session.unload()?.is_clean(), "something is left");
    session.set_keyword("Capture", "1")?;
    session.load()?;
    let run = |options: &[&str], program: &[&str]| {
        remove_files(&session)?;
        let arguments = [&["capture", "-o", "driver.pcapng"], options, &["--"], program].concat();
        let output = outcome(session.program("ndkctl.exe").args(arguments), LIMIT)?;
        let text = said(&output);
        ensure!(output.status.success(), "{}: {text}", output.status);
        Ok((text, files(&session)?))
    };
    let (text, whole) = run(&[], &["nd-cpp.exe", r"C:\softndk\softnd.dll"])?;
    let [whole] = &whole[..] else { anyhow::bail!("not one file: {text}") };
    ensure!(text.contains(" 0 records dropped") && judge(whole)? > 0, "{text}");
    let (text, rotated) = run(&["--snap", "256", "--file-size", "1", "--files", "2"], &PERF)?;
    ensure!(rotated.len() == 2, "{rotated:?}: {text}");
    for file in rotated {
        let wrong = tshark(&file, &["-Y", WRONG])?;
        ensure!(wrong.is_empty(), "{}: {wrong}", file.display());
    }
    let report = session.unload()?;
    ensure!(report.is_clean(), "left behind: {report}");
    Ok(())
}

/// Of the device of a process.
pub(crate) fn without_driver() -> Result<()> {
    let session = Session::start(&session::addresses(&[])?)?;
    remove_files(&session)?;
    let harness = |name: &str| outcome(session.program("ndharness.exe").args(CASE).env("SOFTND_CAPTURE", name), LIMIT);
    let output = harness("process-{pid}.pcapng")?;
    ensure!(output.status.success(), "{}", said(&output));
    let [file] = &files(&session)?[..] else { anyhow::bail!("not one file") };
    let number = file.file_stem().and_then(|stem| stem.to_str()?.strip_prefix("process-")?.parse::<u32>().ok());
    ensure!(number.is_some() && judge(file)? > 0, "{}", file.display());
    let refused = harness(r"no folder\a file.pcapng")?;
    let text = said(&refused);
    ensure!(!refused.status.success() && text.contains("SOFTND_CAPTURE"), "{text}");
    Ok(())
}

/// The captures in the folder of the programs.
fn files(session: &Session) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(session.file(""))?;
    let paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    Ok(paths.into_iter().filter(|path| path.to_string_lossy().ends_with(PCAPNG)).collect())
}

fn remove_files(session: &Session) -> Result<()> {
    files(session)?.iter().try_for_each(|file| Ok(fs::remove_file(file)?))
}

/// The FPDUs in a capture in which Wireshark finds nothing wrong, and each CRC good.
fn judge(file: &Path) -> Result<usize> {
    let wrong = tshark(file, &["-Y", WRONG])?;
    ensure!(wrong.is_empty(), "{}: {wrong}", file.display());
    let fpdus = tshark(file, &["-Y", "iwarp_mpa.fpdu", "-O", "iwarp_mpa"])?;
    let count = |what: &str| fpdus.lines().filter(|line| line.contains(what)).count();
    let (all, good) = (count("FPDU"), count("(Good CRC32)"));
    ensure!(all == good, "{}: {good} good CRCs in {all} FPDUs", file.display());
    Ok(good)
}

fn tshark(file: &Path, arguments: &[&str]) -> Result<String> {
    let mut tshark = Command::new("tshark");
    // Wireshark takes some ports for other protocols', unless it looks at the bytes first, and a harness's bytes for RPC.
    tshark.args(["--disable-protocol", "rpcordma"]);
    tshark.args(["-o", "tcp.try_heuristic_first:TRUE", "-o", "tcp.check_checksum:TRUE", "-r"]).arg(file);
    let output = tshark.args(arguments).output().context("cannot start tshark; run `cargo xtask setup`")?;
    ensure!(output.status.success(), "{}", said(&output));
    Ok(String::from_utf8(output.stdout)?)
}
