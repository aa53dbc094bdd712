//! `cargo xtask cable`: a tunnel end of ours and VXLAN of Linux, three computers of one Ethernet, in network namespaces.
//!
//! Ours is softndk.sys under Wine, or the crate `vxlan` in a process (tests/clients/tunnel). TCP/IP behind it is Linux's, by a TAP interface.

mod away;
pub mod bench;
mod faults;
mod guest;
mod hostile;
mod ipv6;
mod offloads;
mod ovs;
mod patch;
mod paused;
mod seen;
mod soak;
mod stream;
mod walk;

use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use build::command::{cargo, outcome, output, run, said, step, wait};
use build::{dist, paths, setup};
use checks::tally::Tally;
use clap::Args;
use vxlan::ethernet::MacAddress;

use crate::computers::Computers;
use crate::report::StandInReport;
use crate::session::Session;
use crate::two_computers;
use crate::wine_tests::FIRST;

/// What the command needs besides.
const PACKAGES: [(&str, &str); 5] = [
    ("iproute2", "makes the computers and their network"),
    ("iputils-ping", "asks over it"),
    ("ethtool", "has Linux finish its checksums"),
    ("tcpdump", "captures the datagrams"),
    ("tshark", "reads the capture"),
];
/// How long a stream or an answer may take.
const LIMIT: Duration = Duration::from_secs(60);
const MEBIBYTE: u64 = 1 << 20;
const VNI: &str = "7";
/// Why a link is down without the address `CableLocal`.
const NO_ADDRESS: &str = "STATUS_INVALID_ADDRESS_COMPONENT";

/// A computer: a network namespace with an address on the network that carries the datagrams, and one on the Ethernet in them.
#[derive(PartialEq)]
struct Computer(u8);

/// The computer with our tunnel end.
const OURS: Computer = Computer(1);
/// Has Linux's.
const LINUX: Computer = Computer(2);
/// Has Linux's, or ours.
const OTHER: Computer = Computer(3);

impl Computer {
    fn namespace(&self) -> String {
        namespace(&self.0.to_string())
    }

    fn namespace_path(&self) -> String {
        format!("/run/netns/{}", self.namespace())
    }

    fn underlay(&self) -> String {
        format!("198.51.100.{}", self.0)
    }

    fn address(&self) -> String {
        format!("192.0.2.{}", self.0)
    }

    /// The Ethernet address that softndk.sys has for this `CableLocal`.
    fn mac_address(&self) -> String {
        let underlay = Ipv4Addr::new(198, 51, 100, self.0);
        MacAddress::of_tunnel_end(underlay.into()).0.map(|byte| format!("{byte:02x}")).join(":")
    }

    fn address_v6(&self) -> String {
        format!("fd00:db8::{}", self.0)
    }

    /// The addresses of the other tunnel ends.
    fn peers(&self) -> Vec<String> {
        let others = [OURS, LINUX, OTHER].into_iter().filter(|other| other.0 != self.0);
        others.map(|other| other.underlay()).collect()
    }

    /// A command of this computer's.
    fn command(&self, line: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace()]).args(line.split_whitespace());
        command
    }

    fn run(&self, line: &str) -> Result<String> {
        output(&mut self.command(line))
    }
}

/// The namespace of the bridge to which the computers are connected.
fn switch() -> String {
    namespace("switch")
}

/// A namespace of this tree's: another tree may run the command at the same time.
fn namespace(name: &str) -> String {
    let mut hasher = DefaultHasher::new();
    paths::root().hash(&mut hasher);
    format!("softndk-cable-{:08x}-{name}", hasher.finish() as u32)
}

/// The three computers, until it is dropped.
struct Network;

impl Network {
    /// `mtu`: of the network that carries the datagrams. `ours`: the computers whose tunnel end is ours, behind a TAP interface.
    fn build(mtu: u32, ours: &[Computer]) -> Result<Self> {
        Self::tear_down();
        let ip = |line: &str| output(Command::new("ip").args(line.split_whitespace()));
        let (network, switch) = (Self, switch());
        ip(&format!("netns add {switch}"))?;
        ip(&format!("-n {switch} link add bridge mtu {mtu} type bridge"))?;
        ip(&format!("-n {switch} link set bridge up"))?;
        for computer in [OURS, LINUX, OTHER] {
            let (namespace, port) = (computer.namespace(), format!("port{}", computer.0));
            ip(&format!("netns add {namespace}"))?;
            ip(&format!("-n {switch} link add {port} mtu {mtu} type veth peer name wire mtu {mtu} netns {namespace}"))?;
            ip(&format!("-n {switch} link set {port} master bridge up"))?;
            ip(&format!("-n {namespace} link set lo up"))?;
            ip(&format!("-n {namespace} address add {}/24 dev wire", computer.underlay()))?;
            ip(&format!("-n {namespace} link set wire up"))?;
        }
        for computer in [OURS, LINUX, OTHER] {
            let namespace = computer.namespace();
            if ours.contains(&computer) {
                let (mtu, address) = (payload(mtu), computer.mac_address());
                ip(&format!("-n {namespace} tuntap add cable mode tap"))?;
                ip(&format!("-n {namespace} link set cable mtu {mtu} address {address}"))?;
                continue;
            }
            let local = computer.underlay();
            ip(&format!("-n {namespace} link add cable type vxlan id {VNI} local {local} dev wire dstport 4789"))?;
            // Head-end replication: a frame to all goes to each peer.
            for peer in computer.peers() {
                computer.run(&format!("bridge fdb append 00:00:00:00:00:00 dev cable dst {peer}"))?;
            }
            // Over veth Linux leaves the checksums in the tunnel to a card, and there is none.
            computer.run("ethtool -K cable tx off")?;
        }
        for computer in [OURS, LINUX, OTHER] {
            let namespace = computer.namespace();
            ip(&format!("-n {namespace} address add {}/24 dev cable", computer.address()))?;
            ip(&format!("-n {namespace} address add {}/64 dev cable nodad", computer.address_v6()))?;
            ip(&format!("-n {namespace} link set cable up"))?;
        }
        Ok(network)
    }

    /// Also what an earlier run has left.
    fn tear_down() {
        let computers = [OURS, LINUX, OTHER].map(|computer| computer.namespace());
        for namespace in computers.into_iter().chain([switch()]) {
            let mut command = Command::new("ip");
            let _gone = command.args(["netns", "delete", &namespace]).stderr(Stdio::null()).status();
        }
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        Self::tear_down();
    }
}

/// Bytes in a frame that a datagram can carry: less IPv4, UDP, VXLAN and Ethernet (RFC 7348 section 4.3).
const fn payload(mtu: u32) -> u32 {
    mtu - 50
}

fn program() -> PathBuf {
    paths::root().join("target/debug/tunnel")
}

/// Our tunnel end, at work.
struct Relay(Child);

impl Relay {
    fn start(vni: &str, mtu: u32) -> Result<Self> {
        let mut command = OURS.command("");
        command.arg(program()).args(["relay", "--tap", "cable", "--local", &OURS.underlay(), "--vni", vni]);
        command.args(["--peers", &OURS.peers().join(","), "--mtu", &payload(mtu).to_string()]);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        // The interface has a carrier once the relay has opened it.
        let start = Instant::now();
        while !OURS.run("cat /sys/class/net/cable/carrier").is_ok_and(|carrier| carrier.trim() == "1") {
            ensure!(start.elapsed() < LIMIT, "the relay does not open its interface");
            thread::sleep(Duration::from_millis(20));
        }
        Ok(Self(child))
    }

    /// Ends the relay, and returns its lines: how many frames, and what became of them.
    fn end(mut self) -> Result<String> {
        drop(self.0.stdin.take());
        let mut counts = String::new();
        self.0.stdout.take().context("the relay has no output")?.read_to_string(&mut counts)?;
        ensure!(self.0.wait()?.success(), "the relay failed: {counts}");
        Ok(counts)
    }
}

/// Pings `to` from `from` with `size` bytes, which may not be fragmented.
fn ping(from: &Computer, to: &str, size: u32) -> Result<()> {
    from.run(&format!("ping -n -c 3 -i 0.2 -W 2 -M do -s {size} {to}")).map(|_| ())
}

/// Pings `to` from `from` until there is an answer.
fn until_reached(from: &Computer, to: &str) -> Result<()> {
    until(|| from.run(&format!("ping -n -c 1 -W 1 {to}")).map(|_| ()))
}

/// Pings `to` from `from` until there is no answer.
fn until_unreached(from: &Computer, to: &str) -> Result<()> {
    until(|| match from.run(&format!("ping -n -c 1 -W 1 {to}")) {
        Ok(_) => bail!("{to} answers"),
        Err(_) => Ok(()),
    })
}

/// Tries again and again, for as long as [`LIMIT`].
fn until(what: impl Fn() -> Result<()>) -> Result<()> {
    let start = Instant::now();
    loop {
        match what() {
            Err(_) if start.elapsed() < LIMIT => thread::sleep(Duration::from_millis(100)),
            result => return result,
        }
    }
}

/// Sends `bytes` over TCP; the receiver compares each.
fn stream(from: &Computer, to: &Computer, bytes: u64) -> Result<()> {
    stream_of(&program(), from, to, bytes).map(|_| ())
}

/// As [`stream`], by a build of the program. What the sender says.
fn stream_of(program: &Path, from: &Computer, to: &Computer, bytes: u64) -> Result<String> {
    stream_at(program, from, to, &format!("{}:5001", to.address()), bytes)
}

/// As [`stream_of`], to an address and port of the receiver's.
fn stream_at(program: &Path, from: &Computer, to: &Computer, at: &str, bytes: u64) -> Result<String> {
    let mut receiver = to.command("");
    let mut receiver = receiver.arg(program).args(["receive", at]).stdout(Stdio::piped()).spawn()?;
    let mut ready = String::new();
    BufReader::new(receiver.stdout.take().context("no output")?).read_line(&mut ready)?;
    let mut sender = from.command("");
    let sent = outcome(sender.arg(program).args(["send", at, &bytes.to_string()]), LIMIT);
    if !sent.as_ref().is_ok_and(|sent| sent.status.success()) {
        receiver.kill()?;
    }
    let received = wait(&mut receiver, LIMIT)?;
    let sent = sent?;
    ensure!(sent.status.success(), "the sender: {}", said(&sent));
    ensure!(received.success(), "the receiver ended with {received}");
    Ok(String::from_utf8(sent.stdout)?)
}

/// Captures what `filter` lets pass at an interface of `at` while `what` is done, and returns the file.
fn captured<T>(at: &Computer, interface: &str, filter: &str, what: impl FnOnce() -> Result<T>) -> Result<(PathBuf, T)> {
    let folder = paths::root().join("target/cable");
    fs::create_dir_all(&folder)?;
    let file = folder.join(format!("{interface}-{}.pcap", at.0));
    // In this mode each frame takes as much of the buffer as the longest that is kept.
    let mut command = at.command(&format!("tcpdump -i {interface} -U --immediate-mode -s 10000 -B 65536 -w"));
    let mut tcpdump = command.arg(&file).arg(filter).stderr(Stdio::piped()).spawn()?;
    let mut told = BufReader::new(tcpdump.stderr.take().context("no output")?);
    // tcpdump prints its first line when it captures.
    told.read_line(&mut String::new())?;
    let done = what();
    // tcpdump may not have written the last datagrams yet.
    thread::sleep(Duration::from_millis(300));
    at.run(&format!("kill -INT {}", tcpdump.id()))?;
    told.read_to_end(&mut Vec::new())?;
    tcpdump.wait()?;
    done.map(|done| (file, done))
}

/// Frames in a capture that a filter of Wireshark's lets pass.
fn frames(file: &PathBuf, filter: &str) -> Result<usize> {
    let mut tshark = Command::new("tshark");
    tshark.arg("-r").arg(file).args(["-Y", filter, "-T", "fields", "-e", "frame.number"]).stderr(Stdio::null());
    tshark.args(["-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE"]);
    Ok(output(&mut tshark)?.lines().count())
}

/// What is asked for.
#[derive(Args)]
pub struct Wanted {
    /// Instead, have things happen to two drivers and a Linux kernel for this number of minutes
    #[arg(long, value_name = "MINUTES")]
    soak: Option<f64>,
    /// What happens in which order comes from it; a random one if none is given
    #[arg(long, requires = "soak")]
    seed: Option<u64>,
}

/// Makes the computers, and tries everything.
pub fn cable(wanted: &Wanted) -> Result<ExitCode> {
    setup::provide(&PACKAGES)?;
    step("building the tunnel end", || run(cargo(&paths::root()).args(["build", "--package", "tunnel"])))?;
    dist::build()?;
    if let Some(minutes) = wanted.soak {
        ensure!(minutes > 0.0 && minutes < 1e6, "{minutes} minutes");
        return soak::soak(minutes, wanted.seed.unwrap_or_else(|| fastrand::u64(..)));
    }
    let mut tally = Tally::default();
    step("following README", || walk::run(&mut tally))?;
    for mtu in [1500, 9000] {
        let network = Network::build(mtu, &[OURS])?;
        driver(mtu, &mut tally)?;
        drop(network);
    }
    step("joining softndk.sys over IPv6", || ipv6::run(&mut tally))?;
    step("joining softndk.sys to Open vSwitch", || ovs::run(&mut tally))?;
    let network = Network::build(1500, &[OURS])?;
    network_address(&mut tally)?;
    offloads::run(&mut tally)?;
    drop(network);
    step("joining two adapters of one driver", || patch::run(&mut tally))?;
    let network = Network::build(1500, &[OURS, OTHER])?;
    let played = two_drivers(&mut tally);
    tally.check("every case holds between two drivers, over the addresses of their adapters", played);
    drop(network);
    guest::run(&mut tally)?;
    for mtu in [1500, 9000] {
        let network = Network::build(mtu, &[OURS])?;
        let relay = Relay::start(VNI, mtu)?;
        reaches("a process", mtu, &mut tally);
        let counts = relay.end()?;
        println!("frames of our end, underlay MTU {mtu}:\n{counts}");
        if mtu == 1500 {
            tally.check("a network with another number is not reached", another_network());
        }
        drop(network);
    }
    println!("{tally}");
    Ok(if tally.is_success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The driver of a computer, not loaded yet.
fn session(computer: &Computer, mtu: u32) -> Result<Session> {
    let addresses = [computer.address().parse()?, computer.address_v6().parse()?];
    session_with(computer, mtu, &addresses)
}

/// The driver of a computer whose adapter has these addresses, not loaded yet.
fn session_with(computer: &Computer, mtu: u32, addresses: &[IpAddr]) -> Result<Session> {
    let mut session = Session::start_in(&computer.namespace(), addresses)?;
    for (keyword, value) in [
        ("TapInterface", "cable"),
        // What TCP/IP says of another interface.
        ("OtherAddresses", &computer.underlay()),
        ("CableLocal", &computer.underlay()),
        ("CablePeers", &computer.peers().join(",")),
        ("CableVni", VNI),
        // With the Ethernet header.
        ("*JumboPacket", &(mtu + 14).to_string()),
    ] {
        session.set_keyword(keyword, value)?;
    }
    Ok(session)
}

/// Every case of the control codes between two drivers: TCP of their iWARP goes through the adapters, with no setting but the cable's.
fn two_drivers(tally: &mut Tally) -> Result<()> {
    let mut sessions = [session(&OURS, 1500)?, session(&OTHER, 1500)?];
    sessions.iter_mut().try_for_each(Session::load)?;
    until_reached(&OURS, &OTHER.address())?;
    away::unplugged(&mut sessions, tally);
    step("playing every case between two computers over the cable", || {
        two_computers::cases(Computers::of(sessions)?, &OURS.underlay(), tally)
    })
}

/// An address that an administrator gives the adapter, and one that no station can have.
fn network_address(tally: &mut Tally) -> Result<()> {
    let mut session = session(&OURS, 1500)?;
    for (given, expected) in [("02-00-5E-00-53-01", "02:00:5e:00:53:01"), ("03-00-5E-00-53-01", &*OURS.mac_address())] {
        session.set_keyword("NetworkAddress", given)?;
        session.load()?;
        let has_address = until_reached(&LINUX, &OURS.address()).and_then(|()| {
            let neighbour = LINUX.run(&format!("ip neighbour show {}", OURS.address()))?;
            ensure!(neighbour.contains(expected), "{neighbour}");
            Ok(())
        });
        tally.check(&format!("with NetworkAddress {given} the adapter has the address {expected}"), has_address);
        is_clean(&session.unload()?)?;
    }
    Ok(())
}

/// Whether another interface of OURS has `CableLocal` from now on. Linux has the address all the time: only what TCP/IP tells the driver changes.
fn other_has_local(session: &mut Session, has: bool) -> Result<()> {
    let address = if has { OURS.underlay() } else { "192.0.2.99".to_owned() };
    session.set_keyword("OtherAddresses", &address)
}

/// Waits until the driver of OURS has a socket, or none.
fn until_socket(is_open: bool) -> Result<()> {
    until(|| {
        let sockets = OURS.run("ss -Huan")?;
        ensure!(sockets.is_empty() != is_open, "the sockets are: {sockets:?}");
        Ok(())
    })
}

/// softndk.sys, whose TCP/IP gets the address `CableLocal` after the driver has started.
fn driver(mtu: u32, tally: &mut Tally) -> Result<()> {
    let mut session = session(&OURS, mtu)?;
    other_has_local(&mut session, false)?;
    session.load()?;
    let mut check = |what: &str, result: Result<()>| tally.check(&format!("{what}, underlay MTU {mtu}"), result);
    check("without CableLocal the link is down", until_unreached(&LINUX, &OURS.address()));
    check("ndkctl shows that it is", seen::is_down(&session, FIRST, NO_ADDRESS));
    other_has_local(&mut session, true)?;
    check("the link comes up with CableLocal", until_reached(&LINUX, &OURS.address()));
    other_has_local(&mut session, false)?;
    check("the link goes down with CableLocal", until_unreached(&LINUX, &OURS.address()));
    check("its socket is closed", until_socket(false));
    check("ndkctl shows the link down again", seen::is_down(&session, FIRST, NO_ADDRESS));
    other_has_local(&mut session, true)?;
    check("and comes up again", until_reached(&LINUX, &OURS.address()));
    reaches("softndk.sys", mtu, tally);
    let mut check = |what: &str, result: Result<()>| tally.check(&format!("{what}, underlay MTU {mtu}"), result);
    check("ndkctl shows the peers, their stations, and each ping", seen::traffic(&session, mtu));
    check("ndkctl shows each dropped datagram under its reason", seen::drops(&session, mtu));
    check("each frame goes to its own peer while two peers are pinged", seen::two_peers(&session));
    check("no frame allocates pool", allocates_nothing(&mut session));
    if mtu == 1500 {
        hostile::run(&mut session, tally);
        away::peers(tally);
        away::changes_address(&mut session, tally);
        paused::run(&mut session, tally);
    }
    let report = session.unload()?;
    tally.check(&format!("softndk.sys leaves nothing and breaks no rule, underlay MTU {mtu}"), is_clean(&report));
    tally.check(&format!("a call has sent several datagrams, underlay MTU {mtu}"), sent_lists(&session));
    if mtu == 1500 {
        paused::unload_in_traffic(&mut session, tally);
    }
    Ok(())
}

/// What the stand-in says when a socket is closed.
fn sent_lists(session: &Session) -> Result<()> {
    let log = session.log()?;
    let lengths = log.lines().filter_map(|line| line.split_once("longest list of datagrams: ")?.1.trim().parse().ok());
    let longest: usize = lengths.max().context("the stand-in does not say how long lists were")?;
    ensure!((2..=64).contains(&longest), "the longest list of datagrams has {longest}");
    Ok(())
}

/// How many lists had a message of several datagrams that Winsock Kernel divided or refused, by all sockets that were closed.
fn messages(session: &Session, what: &str) -> Result<u64> {
    let (log, said) = (session.log()?, format!("lists with a message that is {what}: "));
    let counts = log.lines().filter_map(|line| line.split_once(&said)?.1.trim().parse().ok());
    counts.reduce(|all: u64, more| all + more).with_context(|| format!("the stand-in does not say what was {what}"))
}

/// Sends a stream each way. What the question takes is taken off: it goes through the driver too.
fn allocates_nothing(session: &mut Session) -> Result<()> {
    let question = allocations(session, || Ok(()))?;
    ensure!(question > 0, "the control: an open of the device allocates nothing");
    let streams = allocations(session, || {
        stream(&OURS, &LINUX, 64 * MEBIBYTE)?;
        stream(&LINUX, &OURS, 64 * MEBIBYTE)
    })?;
    ensure!(streams == question, "the driver allocates {question} times without traffic, {streams} times with it");
    Ok(())
}

/// How often the driver allocates between two questions for its pool, with `traffic` between them.
fn allocations(session: &mut Session, traffic: impl FnOnce() -> Result<()>) -> Result<u64> {
    let before = session.pool()?.allocations;
    traffic()?;
    Ok(session.pool()?.allocations - before)
}

fn is_clean(report: &StandInReport) -> Result<()> {
    ensure!(report.is_clean(), "{report}");
    Ok(())
}

/// What has to pass between the computers. `ours`: our tunnel end.
fn reaches(ours: &str, mtu: u32, tally: &mut Tally) {
    let largest = payload(mtu) - 28;
    let mut check =
        |what: &str, result: Result<()>| tally.check(&format!("{what}, {ours}, underlay MTU {mtu}"), result);
    let capture = captured(&OURS, "cable", "arp", || {
        captured(&OURS, "wire", "udp port 4789", || {
            // So that there is an ARP request.
            OURS.run("ip neigh flush dev cable")?;
            ping(&OURS, &LINUX.address(), 56)?;
            ping(&OTHER, &OURS.address(), 56)?;
            ping(&OURS, &LINUX.address_v6(), 56)
        })
    });
    match capture {
        Err(error) => check("ARP, neighbour discovery and ping both ways", Err(error)),
        Ok((frames, (datagrams, ()))) => {
            check("ARP, neighbour discovery and ping both ways", Ok(()));
            check("Wireshark reads each datagram", well_formed(&datagrams));
            check("a broadcast goes to each peer once, and a peer's frame to none", replicated(&frames, &datagrams));
        }
    }
    check("the largest frame passes", ping(&OURS, &LINUX.address(), largest));
    check("the largest frame passes back", ping(&LINUX, &OURS.address(), largest));
    check("a larger one is refused", refused(ping(&OURS, &LINUX.address(), largest + 1)));
    for (from, to) in [(OURS, LINUX), (LINUX, OURS), (OTHER, OURS)] {
        let what = format!("a stream of 64 MiB from computer {} to {}", from.0, to.0);
        check(&what, stream(&from, &to, 64 * MEBIBYTE));
    }
}

fn refused(result: Result<()>) -> Result<()> {
    match result {
        Ok(()) => bail!("it passes"),
        Err(error) if format!("{error:#}").contains("essage too long") => Ok(()),
        Err(error) => Err(error),
    }
}

fn well_formed(file: &PathBuf) -> Result<()> {
    let (all, malformed) = (frames(file, "vxlan.vni == 7 && eth")?, frames(file, "_ws.malformed")?);
    let captured = frames(file, "udp.port == 4789")?;
    ensure!(all > 0 && all == captured && malformed == 0, "{all} of {captured} are VXLAN, {malformed} are malformed");
    Ok(())
}

/// `sent`: the ARP frames of our interface. Each request in it is in one datagram to each peer.
fn replicated(sent: &PathBuf, datagrams: &PathBuf) -> Result<()> {
    let mac = |computer: &Computer| computer.run("cat /sys/class/net/cable/address");
    let requests =
        format!("arp.opcode == 1 && eth.dst == ff:ff:ff:ff:ff:ff && arp.src.hw_mac == {}", mac(&OURS)?.trim());
    let sent = frames(sent, &requests)?;
    ensure!(sent > 0, "no broadcast was sent");
    for peer in [LINUX, OTHER] {
        let ours = format!("ip.src == {}", OURS.underlay());
        let copies = frames(datagrams, &format!("{ours} && ip.dst == {} && {requests}", peer.underlay()))?;
        ensure!(copies == sent, "of {sent} broadcasts {copies} went to {}", peer.underlay());
        let passed_on = frames(datagrams, &format!("{ours} && eth.src == {}", mac(&peer)?.trim()))?;
        ensure!(passed_on == 0, "{passed_on} frames of a peer were passed on");
    }
    Ok(())
}

/// The negative control: our tunnel end has another VNI.
fn another_network() -> Result<()> {
    let relay = Relay::start("8", 1500)?;
    let reached = ping(&LINUX, &OURS.address(), 56);
    let counts = relay.end()?;
    ensure!(reached.is_err(), "it is reached");
    ensure!(counts.contains("dropped in: OtherVni"), "nothing was dropped for it: {counts}");
    Ok(())
}
