//! Processes that share memory, and are killed: for as long as one likes.
#![cfg(target_os = "linux")]

use std::{
    env,
    fs::{self, File},
    io::Write as _,
    net::TcpStream,
    path::PathBuf,
    process::{Child, exit},
    thread,
    time::{Duration, Instant},
};

use platform::{SocketError, Stream};

use crate::{
    end::{ANY, End, Heard, Said, bytes, close, hear, listen, turn},
    process::{input, line, other},
};

/// The connections of a process, and the bytes that each end sends on one, at most.
const CONNECTIONS: usize = 8;
const BYTES: usize = 1 << 20;

/// What is sent to the process with this number of connections, or from it.
fn sent(connection: usize, by_process: bool, round: usize) -> Vec<u8> {
    let count = 1 + (round * 7919 + connection * 104_729 + usize::from(by_process) * 1_299_709) % BYTES;
    bytes(count, 1 + connection)
}

/// Closes ends that have sent all, unless the peer is gone.
fn finish(ends: Vec<Heard>) {
    for end in ends {
        while !end.0.stream.is_finished() {
            thread::yield_now();
        }
        close([end]);
    }
}

/// Connects, or accepts, as told; sends and receives; 0 if all has come.
#[test]
#[ignore = "it is run by another test"]
fn a_process_of_it() {
    let mut test: TcpStream = input();
    let (round, connections) = (line(&mut test).parse().unwrap(), line(&mut test).parse().unwrap());
    let at = line(&mut test);
    let ends: Vec<Heard> = (0..connections).map(|number| End::new(sent(number, true, round))).collect();
    let listener = End::new(Vec::new());
    if at.is_empty() {
        writeln!(test, "{}", listen(&listener)).unwrap();
    }
    for end in &ends {
        match at.parse() {
            Ok(at) => Stream::connect(&end.0, ANY, at).unwrap(),
            Err(_) => Stream::accept(&end.0, &listener.0).unwrap(),
        }
        assert_eq!(hear(&end.1), Said::Started(Ok(())));
    }
    for (number, end) in ends.iter().enumerate() {
        assert!(hear(&end.1) == Said::Ended(Ok(()), sent(number, false, round)));
    }
    finish(ends);
    exit(0);
}

/// The process, and this one's ends of its connections.
fn start(round: usize, connections: usize, connects: bool) -> (Child, Vec<Heard>) {
    let (child, mut test) = other("soak::a_process_of_it");
    let ends: Vec<Heard> = (0..connections).map(|number| End::new(sent(number, false, round))).collect();
    let listener = End::new(Vec::new());
    let at = if connects { listen(&listener).to_string() } else { String::new() };
    write!(test, "{round}\n{connections}\n{at}\n").unwrap();
    let theirs = if connects { String::new() } else { line(&mut test) };
    for end in &ends {
        match theirs.parse() {
            Ok(at) => Stream::connect(&end.0, ANY, at).unwrap(),
            Err(_) => Stream::accept(&end.0, &listener.0).unwrap(),
        }
        assert_eq!(hear(&end.1), Said::Started(Ok(())));
    }
    if connects {
        close([listener]);
    }
    (child, ends)
}

/// Files of this process, its memory in KiB, and its mappings of memory that is shared.
fn kept() -> (usize, usize, usize) {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    (
        fs::read_dir("/proc/self/fd").unwrap().count(),
        resident.trim().trim_end_matches("kB").trim().parse().unwrap(),
        maps.lines().filter(|line| line.contains("/dev/shm/softndk-")).count(),
    )
}

/// Offers of processes that are gone.
fn left() -> Vec<PathBuf> {
    let all = fs::read_dir("/dev/shm").unwrap().flatten().map(|entry| entry.path());
    let ours = all.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("softndk-"));
    ours.filter(|path| File::open(path).is_ok_and(|file| file.try_lock().is_ok())).collect()
}

/// Every second process is killed, at any moment: what has come from it is a part of what it sent, and its end a reset. From the others all comes. For
/// `SOFTNDK_SOAK_SECONDS`, or some rounds.
#[test]
fn processes_that_are_killed_lose_and_leave_nothing() {
    let _turn = turn();
    let seconds = env::var("SOFTNDK_SOAK_SECONDS").map_or(2, |seconds| seconds.parse().unwrap());
    let until = Instant::now() + Duration::from_secs(seconds);
    let (mut round, mut kills, mut whole, mut received) = (0, 0, 0, 0);
    let mut first = None;
    while Instant::now() < until || round < 8 {
        let connections = 1 + round % CONNECTIONS;
        let (mut child, ends) = start(round, connections, round / 2 % 2 == 0);
        let killed = round % 2 == 0;
        if killed {
            thread::sleep(Duration::from_micros((round * 7919 % 4000) as u64));
            child.kill().unwrap();
            kills += 1;
        }
        for (number, end) in ends.iter().enumerate() {
            let all = sent(number, true, round);
            let Said::Ended(how, got) = hear(&end.1) else { panic!("it did not end") };
            assert!(all.starts_with(&got), "other bytes in round {round}");
            match how {
                Ok(()) => assert!(got.len() == all.len(), "{} of {} bytes in round {round}", got.len(), all.len()),
                Err(error) => assert!(killed && error == SocketError::Reset, "{error:?} in round {round}"),
            }
            whole += usize::from(how.is_ok());
            received += got.len();
        }
        finish(ends);
        let status = child.wait().unwrap();
        assert!(killed || status.success(), "{status} in round {round}");
        let (files, resident, mappings) = kept();
        assert_eq!(mappings, 0, "in round {round}");
        // What the first rounds have needed serves all.
        if round == 40 {
            first = Some((files, resident));
        }
        if let Some((first_files, first_resident)) = first {
            assert_eq!(files, first_files, "in round {round}");
            assert!(resident < first_resident + (16 << 10), "{resident} KiB in round {round}, {first_resident} before");
        }
        round += 1;
    }
    // One more, which deletes what the last one may have left.
    let (mut child, ends) = start(round, 1, true);
    assert!(hear(&ends[0].1) == Said::Ended(Ok(()), sent(0, true, round)));
    finish(ends);
    assert!(child.wait().unwrap().success());
    assert_eq!(left(), Vec::<PathBuf>::new());
    println!(
        "{round} processes, {kills} of them killed; {whole} connections had all bytes; {received} bytes; nothing left"
    );
}
