//! A capture of SMB Direct within an adapter, as Wireshark reads it: it has the same messages as a capture of the same run over TCP.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use capture::Writer;
use ndk_abi::{
    softndk_ioctl::{SOFTNDK_IOCTL_VERSION, SOFTNDK_START_CAPTURE},
    status::STATUS_SUCCESS,
};
use ndk_consumer::OpenAdapters;
use simkernel::{SimKernel, boot, passive, scope, watchdog};
use smb_direct::{Access, Done, Options};

use crate::{
    host::Host,
    link::{Link, Port, Wake, await_next, close, message, place},
};

const LIMIT: Duration = Duration::from_secs(120);
const OPTIONS: Options = Options { places: 2, length: 1 << 20, keepalive: 120_000_000 };
const LENGTH: u32 = 1 << 20;
/// All data.
const WHOLE: u32 = 1 << 18;

/// Has a client and a server on these adapters move data both ways, and writes a capture of the client's adapter.
fn run(hosts: [&Host; 2], snap: u32, file: &Path) {
    let what =
        SOFTNDK_START_CAPTURE { Version: SOFTNDK_IOCTL_VERSION, Snap: snap, Bytes: 64 << 20, Port: 5445, Reserved: 0 };
    let [near, far] = hosts;
    assert_eq!(near.provider().start_capture(1, &what), STATUS_SUCCESS);
    watchdog(LIMIT, || {
        let all = [(); 2].map(|()| OpenAdapters::<SimKernel>::default());
        let [of_near, of_far] = [0, 1].map(|side| all[side].open(hosts[side], None, &passive()).unwrap());
        let (of_client, of_server) = (Wake::new().unwrap(), Wake::new().unwrap());
        let address = SocketAddr::new(far.address(), 5445);
        let port = Port::listen(&of_far, &of_server, address, &passive()).unwrap();
        let (mut client, server) = scope(|scope| {
            let client = scope
                .spawn(|| Link::connect(&of_near, &of_client, (near.address(), address), OPTIONS, &passive()).unwrap());
            let server = port.accept(OPTIONS, &passive()).unwrap();
            (client.join().unwrap(), server)
        });
        scope(|scope| {
            let of_server = scope.spawn(|| server.negotiate(&passive()));
            assert_eq!(client.negotiate(&passive()), Ok(()));
            assert_eq!(of_server.join().unwrap(), Ok(()));
        });
        let data: Vec<u8> = (0..LENGTH).map(|number| (number / 3) as u8).collect();
        client.fill(1, 0, &data).unwrap();
        let (descriptor, _) = client.lend(1, data.len(), Access::Read).unwrap();
        client.send(&descriptor, None).unwrap();
        let (asked, _) = message(&server);
        server.read(0, LENGTH, place(&asked)).unwrap();
        assert_eq!(await_next(&server, Link::done), Done::Read(0));
        server.send(b"read", None).unwrap();
        assert_eq!(message(&client).0, b"read");
        client.take_back(1).unwrap();
        assert_eq!(await_next(&client, Link::done), Done::TakenBack(1));
        let (descriptor, token) = client.lend(1, data.len(), Access::Write).unwrap();
        client.send(&descriptor, None).unwrap();
        let (asked, _) = message(&server);
        server.fill(1, 0, &data).unwrap();
        server.write(1, LENGTH, place(&asked)).unwrap();
        server.send(b"written", Some(token)).unwrap();
        assert_eq!(message(&client), (b"written".to_vec(), Some(token)));
        assert_eq!(await_next(&server, Link::done), Done::Written(1));
        close([client, server]);
        drop((port, of_near, of_far));
        all.iter().zip(hosts).for_each(|(adapters, host)| adapters.close_all(host, &passive()));
    });
    let mut writer = Writer::new(fs::File::create(file).unwrap()).unwrap();
    let mut answer = vec![0; 1 << 20];
    loop {
        let bytes = near.provider().read_capture(1, &mut answer).unwrap();
        if writer.write(&answer[..bytes]).unwrap() == 0 {
            break;
        }
    }
    near.provider().end_capture(1);
    assert_eq!(writer.finish().unwrap().dropped, 0);
}

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// What tshark prints of a capture.
fn tshark(file: &Path, arguments: &[&str]) -> String {
    let mut tshark = Command::new("tshark");
    // Wireshark takes port 5445 for Artemis, unless it looks at the bytes first.
    tshark.args([
        "-o",
        "tcp.try_heuristic_first:TRUE",
        "-o",
        "tcp.check_checksum:TRUE",
        "-o",
        "ip.check_checksum:TRUE",
    ]);
    let output = tshark.arg("-r").arg(file).args(arguments).stderr(Stdio::null()).output();
    let output = output.expect("tshark is installed");
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

/// The RDMAP messages of each side with data, in order: opcode and bytes.
fn messages(file: &Path) -> [Vec<(u32, usize)>; 2] {
    let fields = ["tcp.srcport", "iwarp_rdma.opcode", "iwarp_ddp.last_flag", "iwarp_mpa.ulpdulength"];
    let fields: Vec<_> = fields.iter().flat_map(|field| ["-e", field]).collect();
    let text = tshark(file, &[&["-Y", "iwarp_rdma", "-T", "fields"], &fields[..]].concat());
    let mut sides = [Vec::new(), Vec::new()];
    let mut open = [[0; 8]; 2];
    for line in text.lines() {
        let mut fields = line.split('\t');
        let mut next = || fields.next().unwrap();
        let side = usize::from(next() == "5445");
        let opcode = u32::from_str_radix(next().trim_start_matches("0x"), 16).unwrap();
        let last = matches!(next(), "1" | "True");
        let header = if matches!(opcode, 0 | 2) { 14 } else { 18 };
        let bytes = &mut open[side][opcode as usize];
        *bytes += next().parse::<usize>().unwrap() - header;
        if last {
            sides[side].push((opcode, std::mem::take(bytes)));
        }
    }
    sides.map(|messages| messages.into_iter().filter(|(_, bytes)| *bytes > 0).collect())
}

/// How many packets of a capture agree with a filter.
fn packets(file: &Path, filter: &str) -> usize {
    tshark(file, &["-Y", filter, "-T", "fields", "-e", "frame.number"]).lines().count()
}

/// What is wrong in a capture, in Wireshark's eyes.
const WRONG: &str = "_ws.malformed || _ws.expert.severity == error || tcp.analysis.flags || tcp.checksum.status == Bad";

/// The FPDUs whose CRC is good, and those whose is bad.
fn crcs(file: &Path) -> (usize, usize) {
    let text = tshark(file, &["-Y", "iwarp_mpa.crc_check", "-O", "iwarp_mpa"]);
    let count = |what: &str| text.lines().filter(|line| line.contains("CRC check:") && line.contains(what)).count();
    (count("Good CRC32"), count("Bad CRC32"))
}

// Shows S1721.
#[test]
fn wireshark_reads_it_and_finds_what_a_wire_would_carry() {
    let _session = boot();
    let (within, over_tcp) = (file("within.pcapng"), file("over-tcp.pcapng"));
    let (host, other) = (Host::new(), Host::at([10, 0, 0, 2].into()));
    host.provider().want_crc(true);
    run([&host, &host], WHOLE, &within);
    run([&host, &other], WHOLE, &over_tcp);
    let found = messages(&within);
    assert_eq!(found, messages(&over_tcp));
    // The answer to the read, and the write.
    assert!(found[0].contains(&(2, LENGTH as usize)) && found[1].contains(&(0, LENGTH as usize)), "{found:?}");
    for file in [&within, &over_tcp] {
        assert_eq!(packets(file, WRONG), 0, "{}", file.display());
        assert_eq!(packets(file, "smb_direct.negotiate_request || smb_direct.negotiate_response"), 2);
        assert_eq!(packets(file, "tcp.flags.fin == 1"), 2);
        assert_eq!(crcs(file), (packets(file, "iwarp_mpa.fpdu"), 0), "{}", file.display());
    }
    // Wireshark finds a changed byte.
    let mut bytes = fs::read(&within).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&within, bytes).unwrap();
    assert_eq!(crcs(&within).1, 1);
}
