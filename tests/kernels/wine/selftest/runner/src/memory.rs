//! Memory of a process, locked by the driver, which counts in the first word of what it has locked.

use std::{
    fs::File,
    io::{BufRead as _, BufReader},
    os::windows::io::AsRawHandle as _,
    path::PathBuf,
    process::{Command, ExitCode, Stdio},
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use windows_sys::Win32::{
    Foundation::HANDLE,
    System::Memory::{
        CreateFileMappingW, FILE_MAP_READ, FILE_MAP_WRITE, MEM_COMMIT, MEM_RELEASE, MEM_RESERVE, MapViewOfFile,
        PAGE_READONLY, PAGE_READWRITE, VirtualAlloc, VirtualFree, VirtualProtect,
    },
};

use crate::{
    KEEPER, SHARER, VICTIM,
    device::Device,
    protocol::{BLOCK, KEEP, LOCK, Memory, PEND, RELEASE, UNLOCK},
};

const SIZE: usize = 1 << 20;
pub(crate) const START: u64 = 0xBEEF;
pub(crate) const ERROR_NOACCESS: &str = "error 998";

/// `length` bytes of new pages. Never freed: the driver's section may be there in their place.
pub(crate) fn pages(length: usize) -> Result<*mut u64, String> {
    // SAFETY: any address will do.
    let pages = unsafe { VirtualAlloc(std::ptr::null(), length, MEM_COMMIT | MEM_RESERVE, PAGE_READWRITE) };
    if pages.is_null() { Err("VirtualAlloc failed".into()) } else { Ok(pages.cast()) }
}

pub(crate) fn read(word: *mut u64) -> u64 {
    // SAFETY: callers give words of live memory, which the driver writes to at any time.
    unsafe { word.read_volatile() }
}

pub(crate) fn write(word: *mut u64, value: u64) {
    // SAFETY: as in `read`.
    unsafe { word.write_volatile(value) };
}

pub(crate) fn lock(device: &Device, word: *mut u64, length: usize, slot: u32) -> Result<u64, String> {
    let mut input = Vec::with_capacity(size_of::<Memory>());
    input.extend((word as u64).to_le_bytes());
    input.extend((length as u32).to_le_bytes());
    input.extend(slot.to_le_bytes());
    let found = device.call(LOCK, &input, 16)?;
    let bytes = found.first_chunk().ok_or("short answer")?;
    Ok(u64::from_le_bytes(*bytes))
}

pub(crate) fn unlock(device: &Device, slot: u32) -> Result<(), String> {
    device.call(UNLOCK, &slot.to_le_bytes(), 0).map(drop)
}

/// Waits until the driver has counted beyond `from`.
pub(crate) fn await_counting(word: *mut u64, from: u64) -> Result<(), String> {
    let limit = Instant::now() + Duration::from_secs(5);
    while read(word) <= from {
        if Instant::now() > limit {
            return Err(format!("the driver's writes are not seen: the word is {:#x}", read(word)));
        }
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// The driver's writes are seen here at once, and this process's writes there.
pub(crate) fn shared(device: &Device) -> Result<(), String> {
    let word = pages(SIZE)?;
    let last = word.wrapping_add(SIZE / 8 - 1);
    write(word, START);
    write(last, 77);
    let found = lock(device, word, SIZE, 0)?;
    if found != START {
        return Err(format!("the driver found {found:#x}"));
    }
    await_counting(word, START)?;
    if read(last) != 77 {
        return Err("the end of the region was lost".into());
    }
    write(word, START * 100);
    await_counting(word, START * 100)?;
    unlock(device, 0)?;
    let after = read(word);
    thread::sleep(Duration::from_millis(20));
    if read(word) != after { Err("the driver goes on after unlocking".into()) } else { Ok(()) }
}

/// Two locks of overlapping ranges see the same memory.
pub(crate) fn overlapping(device: &Device) -> Result<(), String> {
    let first = pages(SIZE)?;
    let second = first.wrapping_add(1024);
    write(first, START);
    write(second, START);
    lock(device, first, SIZE, 0)?;
    let found = lock(device, second, 4096, 1)?;
    if found != START {
        return Err(format!("the second lock found {found:#x}"));
    }
    await_counting(second, START)?;
    await_counting(first, START + 1)?;
    unlock(device, 0)?;
    await_counting(second, read(second))?;
    unlock(device, 1)
}

/// Memory is shared though other threads look for room all the time, as where it is replaced.
pub(crate) fn beside_others(device: &Device) -> Result<(), String> {
    const BYTES: usize = 8192;
    let is_over = AtomicBool::new(false);
    let others = || {
        while !is_over.load(Ordering::Relaxed) {
            let room = pages(BYTES)?;
            write(room, 0);
            // SAFETY: allocated above, and known to nobody else.
            unsafe { VirtualFree(room.cast(), 0, MEM_RELEASE) };
        }
        Ok::<_, String>(())
    };
    thread::scope(|scope| {
        let others = [(); 4].map(|()| scope.spawn(others));
        let shared = (0..500).try_for_each(|round| {
            let word = pages(BYTES)?;
            write(word, START);
            let found = lock(device, word, BYTES, 0).map_err(|error| format!("lock {round}: {error}"))?;
            unlock(device, 0)?;
            if found == START { Ok(()) } else { Err(format!("lock {round}: the driver found {found:#x}")) }
        });
        is_over.store(true, Ordering::Relaxed);
        for other in others {
            other.join().map_err(|_| "a thread panicked")??;
        }
        shared
    })
}

/// `length` bytes of a file from `offset` on. Never unmapped.
pub(crate) fn view(section: HANDLE, offset: u32, length: usize) -> Result<*mut u64, String> {
    // SAFETY: any address will do.
    let view = unsafe { MapViewOfFile(section, FILE_MAP_READ | FILE_MAP_WRITE, 0, offset, length) }.Value;
    if view.is_null() { Err("MapViewOfFile failed".into()) } else { Ok(view.cast()) }
}

/// The path of a new file, and a section of it.
pub(crate) fn file_section(name: &str) -> Result<(PathBuf, HANDLE), String> {
    let path = std::env::temp_dir().join(name);
    let file = File::options().read(true).write(true).create(true).truncate(true).open(&path);
    let file = file.map_err(|error| error.to_string())?;
    // SAFETY: an open file, which gets the size that is asked for; no attributes and no name.
    let section = unsafe {
        CreateFileMappingW(file.as_raw_handle(), std::ptr::null(), PAGE_READWRITE, 0, SIZE as u32, std::ptr::null())
    };
    Ok((path, section))
}

/// All views of a file show what the driver writes.
pub(crate) fn mapped(device: &Device) -> Result<(), String> {
    let (path, section) = file_section("softndk-selftest")?;
    let [locked, other] = [view(section, 0, SIZE)?, view(section, 0, SIZE)?];
    write(locked, START);
    let found = lock(device, locked, SIZE, 0)?;
    if found != START {
        return Err(format!("the driver found {found:#x}"));
    }
    await_counting(other, START)?;
    write(other, START * 100);
    await_counting(locked, START * 100)?;
    unlock(device, 0)?;
    std::fs::remove_file(path).map_err(|error| error.to_string())
}

/// Memory that is not there, or only for reading, makes MmProbeAndLockPages raise an exception.
pub(crate) fn bad(device: &Device) -> Result<(), String> {
    let read_only = pages(4096)?;
    let mut old = 0;
    // SAFETY: a page of this process.
    unsafe { VirtualProtect(read_only.cast(), 4096, PAGE_READONLY, &mut old) };
    let short = pages(4096)?;
    let cases = [("unmapped", 0x1_0000 as *mut u64, 8), ("read-only", read_only, 8), ("too long", short, 1 << 28)];
    for (name, word, length) in cases {
        match lock(device, word, length, 0) {
            Err(error) if error.ends_with(ERROR_NOACCESS) => {}
            other => return Err(format!("{name}: {other:?}")),
        }
    }
    Ok(())
}

/// Starts this program with an argument, and kills it when the driver has so many requests of it.
fn start_and_kill(device: &Device, argument: &str, requests: u32) -> Result<(), String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut victim = Command::new(own).arg(argument).spawn().map_err(|error| error.to_string())?;
    let limit = Instant::now() + Duration::from_secs(10);
    while device.counts()?[2] != requests {
        if Instant::now() > limit {
            return Err("the victim's requests did not arrive".into());
        }
        thread::sleep(Duration::from_millis(5));
    }
    victim.kill().and_then(|()| victim.wait()).map_err(|error| error.to_string())?;
    Ok(())
}

/// A process that is killed with locked memory, pended requests and one that blocks: everything comes back to the driver, and its file
/// is closed when all have ended.
pub(crate) fn kill(device: &Device) -> Result<(), String> {
    let [cleanups, closes, _] = device.counts()?;
    start_and_kill(device, VICTIM, 5)?;
    let limit = Instant::now() + Duration::from_secs(10);
    loop {
        let now = device.counts()?;
        if now == [cleanups + 1, closes + 1, 0] {
            return Ok(());
        }
        if now[1] != closes && now[2] != 0 {
            return Err(format!("closed with {} requests in progress", now[2]));
        }
        if Instant::now() > limit {
            return Err(format!("cleanups and closes went from {cleanups}, {closes} to {now:?} with requests pended"));
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// The other side of `kill`.
pub(crate) fn be_killed() -> ExitCode {
    let work = || -> Result<(), String> {
        let device = Device::open()?;
        lock(&device, pages(SIZE)?, SIZE, 2)?;
        let _pending: Vec<_> = (0..4).map(|_| device.begin(PEND, &[0; 4], 0)).collect();
        let _blocks = device.begin(BLOCK, &1000_u32.to_le_bytes(), 0)?;
        thread::sleep(Duration::from_secs(60));
        Ok(())
    };
    if let Err(error) = work() {
        println!("victim: {error}");
    }
    ExitCode::FAILURE
}

/// A process that is killed with a request that the driver keeps: its file is cleaned up and not closed, not even when the stand-in
/// has waited for the request for as long as it does.
pub(crate) fn kill_kept(device: &Device) -> Result<(), String> {
    let [cleanups, closes, _] = device.counts()?;
    start_and_kill(device, KEEPER, 1)?;
    let limit = Instant::now() + Duration::from_secs(30);
    // No request is handed on while the close waits: what comes next comes after it.
    while device.counts()?[0] == cleanups {
        if Instant::now() > limit {
            return Err("the killed process is not cleaned up".into());
        }
        thread::sleep(Duration::from_millis(5));
    }
    device.call(RELEASE, &[], 0)?;
    match device.counts()? {
        now if now == [cleanups + 1, closes, 0] => Ok(()),
        now => Err(format!("cleanups and closes went from {cleanups}, {closes} to {now:?} with requests pended")),
    }
}

/// The other side of `kill_kept`.
pub(crate) fn keep_until_killed() -> ExitCode {
    let work = || -> Result<(), String> {
        let device = Device::open()?;
        let _kept = device.begin(KEEP, &[], 0)?;
        thread::sleep(Duration::from_secs(60));
        Ok(())
    };
    if let Err(error) = work() {
        println!("keeper: {error}");
    }
    ExitCode::FAILURE
}

/// Processes that are killed while the stand-in is at their memory, at different moments: the next process does not wait for them.
pub(crate) fn kill_sharing(device: &Device) -> Result<(), String> {
    const KILLED: u64 = 20;
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    for round in 0..KILLED {
        let [cleanups, closes, _] = device.counts()?;
        let mut sharer =
            Command::new(&own).arg(SHARER).stdout(Stdio::piped()).spawn().map_err(|error| error.to_string())?;
        let output = sharer.stdout.take().ok_or("no output")?;
        let ready = BufReader::new(output).lines().next();
        thread::sleep(Duration::from_micros(round * 50));
        sharer.kill().and_then(|()| sharer.wait()).map_err(|error| error.to_string())?;
        if !matches!(&ready, Some(Ok(line)) if line == READY) {
            return Err(format!("the process said {ready:?}"));
        }
        let limit = Instant::now() + Duration::from_secs(20);
        while device.counts()? != [cleanups + 1, closes + 1, 0] {
            if Instant::now() > limit {
                return Err(format!("killed process {round} is not closed"));
            }
            thread::sleep(Duration::from_millis(5));
        }
        let (sender, is_locked) = mpsc::channel();
        std::thread::spawn(move || {
            let work = || {
                let device = Device::open()?;
                lock(&device, pages(4096)?, 4096, 3)?;
                unlock(&device, 3)
            };
            sender.send(work())
        });
        is_locked
            .recv_timeout(Duration::from_secs(20))
            .map_err(|_| format!("a lock waits for killed process {round}"))??;
    }
    Ok(())
}

const READY: &str = "ready";

/// The other side of `kill_sharing`.
pub(crate) fn share_until_killed() -> ExitCode {
    let work = || -> Result<(), String> {
        let device = Device::open()?;
        println!("{READY}");
        let limit = Instant::now() + Duration::from_secs(60);
        while Instant::now() < limit {
            lock(&device, pages(4096)?, 4096, 2)?;
            unlock(&device, 2)?;
        }
        Ok(())
    };
    if let Err(error) = work() {
        println!("{error}");
    }
    ExitCode::FAILURE
}
