//! `ndkctl capture`: writes what the adapter's connections carry to pcapng files.

use std::{
    collections::VecDeque,
    ffi::OsString,
    fmt, fs,
    fs::File,
    io::{self, BufWriter, Write as _},
    num::{NonZeroU16, NonZeroU64},
    path::{Path, PathBuf},
    process::{Command, ExitStatus},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use capture::{Figures, Writer};
use clap::Args;
use serde::Serialize;

use crate::driver::{self, Driver};

/// The time between two looks for records.
const INTERVAL: Duration = Duration::from_millis(10);
/// Bytes of records that one request gets.
const ANSWER: usize = 1 << 20;
/// The output that stands for standard output.
const STANDARD_OUTPUT: &str = "-";

#[derive(Args)]
pub(crate) struct Options {
    /// The file to write, which is replaced; `-`: standard output, for `| wireshark -k -i -`.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Only connections with this port, on either side.
    #[arg(long)]
    port: Option<NonZeroU16>,
    /// Bytes of data of each message part that are captured, at most. Few cost little: 256 show SMB Direct's headers.
    #[arg(long, value_name = "BYTES", default_value_t = 262_144)]
    snap: u32,
    /// Memory for records in the driver. Records that find no room are dropped, and counted.
    #[arg(long, value_name = "MIB", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=64))]
    buffer: u32,
    /// Stop after SECONDS seconds.
    #[arg(long)]
    seconds: Option<NonZeroU64>,
    /// Begin a new file when one has this size: FILE_00001, FILE_00002 ...
    #[arg(long, value_name = "MIB")]
    file_size: Option<NonZeroU64>,
    /// With --file-size: keep the last COUNT files.
    #[arg(long, value_name = "COUNT", requires = "file_size")]
    files: Option<NonZeroU64>,
    /// Stop when this program ends, which is started with the capture. If the program fails, the exit status is 1.
    #[arg(last = true)]
    program: Vec<OsString>,
}

impl Options {
    /// Whether standard output gets the capture.
    pub(crate) fn is_to_standard_output(&self) -> bool {
        self.output.as_os_str() == STANDARD_OUTPUT
    }
}

/// What was captured.
#[derive(Debug, Serialize)]
pub(crate) struct Captured {
    packets: u64,
    bytes: u64,
    /// Records for which the driver had no room.
    dropped: u64,
    /// The files that are there.
    files: Vec<String>,
    /// How the program has ended, unless it succeeded.
    failed: Option<String>,
}

impl Captured {
    /// Whether the program has failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.is_some()
    }
}

impl fmt::Display for Captured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} packets, {} bytes, {} records dropped", self.packets, self.bytes, self.dropped)?;
        self.files.iter().try_for_each(|file| writeln!(f, "{file}"))?;
        self.failed.iter().try_for_each(|ended| writeln!(f, "the program has failed: {ended}"))
    }
}

/// Why a capture is over: an interrupt, or the end of the program.
pub(crate) enum Over {
    Interrupted,
    Ended(ExitStatus),
}

/// Captures until `stop` hears something, or the time is over. `begin` runs when the capture has started; `progress` gets a line for each second.
pub(crate) fn capture(
    driver: &dyn Driver,
    options: &Options,
    begin: impl FnOnce() -> anyhow::Result<()>,
    stop: &Receiver<Over>,
    progress: &mut impl FnMut(&str),
) -> anyhow::Result<Captured> {
    let is_piped = options.is_to_standard_output();
    anyhow::ensure!(!is_piped || options.file_size.is_none(), "--file-size is for files, not for standard output");
    driver::start_capture(driver, options.port.map_or(0, NonZeroU16::get), options.snap, options.buffer << 20)?;
    let mut files = Files::new(options)?;
    let mut answer = vec![0; ANSWER];
    begin()?;
    let start = Instant::now();
    let end = options.seconds.map(|seconds| start + Duration::from_secs(seconds.get()));
    let (mut told, mut found) = (start, 0);
    loop {
        let heard = stop.recv_timeout(if found == 0 { INTERVAL } else { Duration::ZERO });
        if !matches!(heard, Err(RecvTimeoutError::Timeout)) || end.is_some_and(|end| Instant::now() >= end) {
            files.write_rest(driver, &mut answer, options.buffer)?;
            let failed = match heard {
                Ok(Over::Ended(status)) if !status.success() => Some(status.to_string()),
                _ => None,
            };
            return files.finish(failed);
        }
        found = match driver::read_capture(driver, &mut answer)? {
            Some(returned) => files.write(answer.get(..returned).unwrap_or_default())?,
            None => {
                progress("the adapter's RDMA was turned off, or the adapter is gone: the capture has ended");
                return files.finish(None);
            }
        };
        if found == 0 {
            files.writer.get_mut().flush()?;
        }
        if told.elapsed() >= Duration::from_secs(1) {
            told = Instant::now();
            let Figures { packets, bytes, dropped } = files.figures();
            progress(&format!("{packets} packets, {bytes} bytes, {dropped} records dropped"));
        }
    }
}

/// Captures until interrupted, with the progress on standard error.
pub(crate) fn capture_here(driver: &dyn Driver, options: &Options) -> anyhow::Result<Captured> {
    let (sender, stop) = channel();
    let interrupt = sender.clone();
    ctrlc::set_handler(move || interrupt.send(Over::Interrupted).unwrap_or_default())?;
    let begin = || {
        let Some((program, arguments)) = options.program.split_first() else { return Ok(()) };
        let mut command = Command::new(program);
        command.args(arguments);
        if options.is_to_standard_output() {
            // The capture has standard output for itself.
            command.stdout(io::stderr());
        }
        let child = command.spawn();
        let mut child = child.with_context(|| format!("cannot start {}", program.display()))?;
        thread::spawn(move || child.wait().map(|status| sender.send(Over::Ended(status)).unwrap_or_default()));
        Ok(())
    };
    capture(driver, options, begin, &stop, &mut |line| eprintln!("{line}"))
}

type Output = BufWriter<Box<dyn io::Write>>;

/// The files of a capture, one after the other.
struct Files<'a> {
    options: &'a Options,
    writer: Writer<Output>,
    /// The files that are kept, the oldest first; `writer` has the last one open.
    names: VecDeque<PathBuf>,
    begun: u64,
    /// Of the files that have ended.
    before: Figures,
}

impl<'a> Files<'a> {
    fn new(options: &'a Options) -> anyhow::Result<Self> {
        let name = name(options, 1);
        let writer = Writer::new(output(&name)?)?;
        Ok(Self { options, writer, names: VecDeque::from([name]), begun: 1, before: Figures::default() })
    }

    fn write(&mut self, answer: &[u8]) -> anyhow::Result<u32> {
        let records = self.writer.write(answer)?;
        let size = self.options.file_size.map(|size| size.get() << 20);
        if size.is_some_and(|size| self.writer.figures().bytes >= size) {
            self.rotate()?;
        }
        Ok(records)
    }

    /// Begins the next file, and removes the oldest if there are too many.
    fn rotate(&mut self) -> anyhow::Result<()> {
        self.begun += 1;
        let name = name(self.options, self.begun);
        let ended = self.writer.next(output(&name)?)?;
        self.before.packets += ended.packets;
        self.before.bytes += ended.bytes;
        self.names.push_back(name);
        if self.options.files.is_some_and(|files| self.names.len() as u64 > files.get())
            && let Some(oldest) = self.names.pop_front()
            && let Err(error) = fs::remove_file(&oldest)
        {
            eprintln!("cannot remove {}: {error}", oldest.display());
        }
        Ok(())
    }

    /// Writes what was recorded before the end of the capture: what fills the buffer twice at most, as more may come.
    fn write_rest(&mut self, driver: &dyn Driver, answer: &mut [u8], buffer: u32) -> anyhow::Result<()> {
        let mut left = u64::from(buffer) << 21;
        while let Some(returned) = driver::read_capture(driver, answer)? {
            let records = self.write(answer.get(..returned).unwrap_or_default())?;
            left = left.saturating_sub(returned as u64);
            if records == 0 || left == 0 {
                break;
            }
        }
        Ok(())
    }

    fn figures(&self) -> Figures {
        let Figures { packets, bytes, dropped } = self.writer.figures();
        Figures { packets: self.before.packets + packets, bytes: self.before.bytes + bytes, dropped }
    }

    fn finish(self, failed: Option<String>) -> anyhow::Result<Captured> {
        let Figures { packets, bytes, dropped } = self.writer.finish()?;
        let (packets, bytes) = (self.before.packets + packets, self.before.bytes + bytes);
        let files = self.names.iter().map(|name| name.display().to_string()).collect();
        Ok(Captured { packets, bytes, dropped, files, failed })
    }
}

/// The name of file number `number`.
fn name(options: &Options, number: u64) -> PathBuf {
    let output = &options.output;
    if options.file_size.is_none() {
        return output.clone();
    }
    let mut name = output.file_stem().unwrap_or_default().to_owned();
    name.push(format!("_{number:05}"));
    if let Some(extension) = output.extension() {
        name.push(".");
        name.push(extension);
    }
    output.with_file_name(name)
}

fn output(name: &Path) -> anyhow::Result<Output> {
    let output: Box<dyn io::Write> = if name.as_os_str() == STANDARD_OUTPUT {
        Box::new(io::stdout())
    } else {
        Box::new(File::create(name).map_err(|error| anyhow::anyhow!("cannot write {}: {error}", name.display()))?)
    };
    Ok(BufWriter::new(output))
}

#[cfg(test)]
mod unit_tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use ndk_abi::{
        describe::ZeroInit as _,
        sockaddr::SOCKADDR_INET,
        softndk_ioctl::{
            IOCTL_SOFTNDK_START_CAPTURE, SOFTNDK_CAPTURE, SOFTNDK_CAPTURE_RECORD, SOFTNDK_CAPTURE_STREAM,
            SOFTNDK_IOCTL_VERSION,
        },
        status::{NTSTATUS, STATUS_INVALID_DEVICE_STATE},
    };
    use zerocopy::IntoBytes as _;

    use super::*;

    /// A driver with a record whenever it is asked, as often as there are; then the capture is over.
    struct Busy(AtomicU64);

    impl Driver for Busy {
        fn ask(&self, code: u32, _: &[u8], output: &mut [u8]) -> Result<usize, NTSTATUS> {
            if code == IOCTL_SOFTNDK_START_CAPTURE {
                return Ok(0);
            }
            let left = self.0.load(Ordering::Relaxed).checked_sub(1).ok_or(STATUS_INVALID_DEVICE_STATE)?;
            self.0.store(left, Ordering::Relaxed);
            let head = SOFTNDK_CAPTURE { Version: SOFTNDK_IOCTL_VERSION, Count: 1, Dropped: 5 };
            let address = |port| SOCKADDR_INET::new(([10, 0, 0, 1], port).into());
            let record = SOFTNDK_CAPTURE_RECORD {
                Kind: SOFTNDK_CAPTURE_STREAM,
                Value: 64,
                Captured: 64,
                Source: address(1),
                Destination: address(2),
                ..SOFTNDK_CAPTURE_RECORD::ZERO
            };
            let answer = [head.as_bytes(), record.as_bytes(), &[0; 64]].concat();
            output[..answer.len()].copy_from_slice(&answer);
            Ok(answer.len())
        }
    }

    fn options(name: &str) -> Options {
        let output = std::env::temp_dir().join(format!("ndkctl-{}-{name}.pcapng", std::process::id()));
        let (port, seconds, program) = (None, None, Vec::new());
        Options { output, port, snap: 256, buffer: 1, seconds, file_size: None, files: None, program }
    }

    // Shows S1723.
    #[test]
    fn a_capture_ends_though_records_come_and_come() {
        let (sender, stop) = channel();
        sender.send(Over::Interrupted).unwrap();
        let driver = Busy(AtomicU64::new(u64::MAX));
        let options = options("busy");
        let captured = capture(&driver, &options, || Ok(()), &stop, &mut |_| ()).unwrap();
        assert!(captured.packets > 1000 && !captured.has_failed(), "{captured:?}");
        fs::remove_file(&options.output).unwrap();
    }

    // Shows S1723.
    #[test]
    fn a_capture_that_the_driver_ends_is_a_whole_file() {
        let (_sender, stop) = channel();
        let driver = Busy(AtomicU64::new(3000));
        let options = Options { file_size: NonZeroU64::new(1), files: NonZeroU64::new(2), ..options("over") };
        let mut said = Vec::new();
        let captured = capture(&driver, &options, || Ok(()), &stop, &mut |line| said.push(line.to_owned())).unwrap();
        // Handshakes of TCP and MPA come before the records, in each file.
        assert!(captured.packets >= 3000 + 5 && captured.dropped == 5, "{captured:?}");
        assert!(said.last().is_some_and(|line| line.contains("the capture has ended")), "{said:?}");
        for file in &captured.files {
            assert!(fs::metadata(file).unwrap().len() > 0);
            fs::remove_file(file).unwrap();
        }
        let refused = Options { output: STANDARD_OUTPUT.into(), ..options };
        assert!(capture(&driver, &refused, || Ok(()), &stop, &mut |_| ()).is_err());
    }
}
