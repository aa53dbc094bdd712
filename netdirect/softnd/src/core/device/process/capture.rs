//! The capture of the process's device, into the file that an environment variable names.

use std::{
    ffi::OsStr,
    fs::File,
    io::{self, BufWriter, Write as _},
    process,
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::Duration,
};

use capture::Writer;
use hosted::Hosted;
use ndk_abi::{
    softndk_ioctl::{SOFTNDK_IOCTL_VERSION, SOFTNDK_START_CAPTURE},
    status::{NTSTATUS, STATUS_SUCCESS},
};
use ndk_provider::Provider;

/// The part of the name for which the process's number is put, so that processes with one environment have a file each.
const PROCESS: &str = "{pid}";
/// The time between two looks for records.
const INTERVAL: Duration = Duration::from_millis(20);
/// Bytes of records that one look gets.
const ANSWER: usize = 256 << 10;
/// The owner of the capture: no file of the device has this number.
const OWNER: u64 = u64::MAX;
/// All data of a message; 16 MiB of records.
const WHAT: SOFTNDK_START_CAPTURE =
    SOFTNDK_START_CAPTURE { Version: SOFTNDK_IOCTL_VERSION, Snap: 1 << 18, Bytes: 16 << 20, Port: 0, Reserved: 0 };

/// The capture of the device, which a thread writes for the life of the process.
pub(super) struct Capture {
    provider: Provider<Hosted>,
    output: Mutex<Output>,
}

struct Output {
    /// `None`: the file could not be written.
    writer: Option<Writer<BufWriter<File>>>,
    answer: Vec<u8>,
    /// The dropped records that were reported.
    dropped: u64,
}

impl Capture {
    /// Starts the capture into the file with this name.
    pub(super) fn start(provider: &Provider<Hosted>, name: &OsStr) -> io::Result<Arc<Self>> {
        let name = name.to_str().ok_or_else(|| io::Error::other("not Unicode"))?;
        let file = File::create(name.replace(PROCESS, &process::id().to_string()))?;
        let writer = Some(Writer::new(BufWriter::new(file))?);
        match provider.start_capture(OWNER, &WHAT) {
            STATUS_SUCCESS => {}
            status => return Err(io::Error::other(NTSTATUS::to_string(&status))),
        }
        let output = Mutex::new(Output { writer, answer: vec![0; ANSWER], dropped: 0 });
        let capture = Arc::new(Self { provider: provider.clone(), output });
        let for_life = capture.clone();
        thread::Builder::new().name("capture".to_owned()).spawn(move || {
            loop {
                for_life.write();
                thread::sleep(INTERVAL);
            }
        })?;
        Ok(capture)
    }

    /// Writes what was captured so far.
    pub(super) fn write(&self) {
        let Output { writer, answer, dropped } = &mut *self.output.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(open) = writer else { return };
        // What a full buffer has, so that a thread that closes an adapter waits for no more.
        let mut left = WHAT.Bytes as usize;
        let written = loop {
            let Ok(returned) = self.provider.read_capture(OWNER, answer) else { break Ok(()) };
            left = left.saturating_sub(returned);
            match open.write(answer.get(..returned).unwrap_or_default()) {
                Ok(records) if records == 0 || left == 0 => break open.get_mut().flush(),
                Ok(_) => {}
                Err(error) => break Err(error),
            }
        };
        let now = open.figures().dropped;
        if now > *dropped {
            eprintln!("softnd.dll: the capture has dropped {} records", now - *dropped);
            *dropped = now;
        }
        if let Err(error) = written {
            eprintln!("softnd.dll: the capture cannot be written: {error}");
            self.provider.end_capture(OWNER);
            *writer = None;
        }
    }
}
