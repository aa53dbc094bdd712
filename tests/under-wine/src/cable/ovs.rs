//! Open vSwitch in user mode as the peer: VXLAN that is neither ours nor Linux's.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Result, ensure};
use build::command::output;
use checks::tally::Tally;

use super::{
    LINUX, MEBIBYTE, Network, OURS, VNI, is_clean, payload, ping, refused, session, stream, until, until_reached,
};

const MTU: u32 = 1500;
/// Bytes of a ping besides its data.
const PING: u32 = 28;
const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";

/// Skipped if there is no Open vSwitch.
pub(super) fn run(tally: &mut Tally) -> Result<()> {
    if !Path::new(SCHEMA).is_file() {
        println!("skipped: Open vSwitch in user mode: the package openvswitch-switch is not installed");
        return Ok(());
    }
    let network = Network::build(MTU, &[OURS])?;
    let switch = Switch::start()?;
    let mut session = session(&OURS, MTU)?;
    session.load()?;
    let mut check = |what: &str, result: Result<()>| tally.check(&format!("{what}, Open vSwitch"), result);
    check("the peer reaches the adapter", until_reached(&LINUX, &OURS.address()));
    let largest = payload(MTU) - PING;
    check("the largest frame passes", ping(&OURS, &LINUX.address(), largest));
    check("the largest frame passes back", ping(&LINUX, &OURS.address(), largest));
    check("a larger one is refused", refused(ping(&OURS, &LINUX.address(), largest + 1)));
    check("a stream of 64 MiB goes out", stream(&OURS, &LINUX, 64 * MEBIBYTE));
    check("a stream of 64 MiB comes in", stream(&LINUX, &OURS, 64 * MEBIBYTE));
    check("softndk.sys leaves nothing and breaks no rule", is_clean(&session.unload()?));
    drop((switch, network));
    Ok(())
}

/// The daemons in LINUX's namespace, instead of VXLAN of its kernel.
struct Switch {
    folder: PathBuf,
    daemons: Vec<Child>,
}

impl Switch {
    fn start() -> Result<Self> {
        // Not in the tree: the path of a socket has 108 bytes at most.
        let folder = std::env::temp_dir().join(format!("softndk-ovs-{}", std::process::id()));
        fs::create_dir_all(&folder)?;
        let mut switch = Self { folder, daemons: Vec::new() };
        let database = switch.folder.join("conf.db");
        output(Command::new("ovsdb-tool").arg("create").arg(&database).arg(SCHEMA))?;
        let socket = switch.folder.join("db.sock");
        let remote = format!("--remote=punix:{}", socket.display());
        switch.daemon(&["ovsdb-server", &database.to_string_lossy(), &remote])?;
        until(|| {
            ensure!(socket.exists(), "ovsdb-server makes no socket");
            Ok(())
        })?;
        switch.set("--no-wait init")?;
        switch.daemon(&["ovs-vswitchd", &switch.database()])?;

        // Datagrams with a checksum that is left to a card would be wrong in a process.
        for computer in [OURS, LINUX] {
            computer.run("ethtool -K wire tx off")?;
        }
        LINUX.run("ip link delete cable")?;
        LINUX.run("ip address flush dev wire")?;
        switch.set("add-br below -- set bridge below datapath_type=netdev -- add-port below wire")?;
        let peer = format!("type=vxlan options:remote_ip={} options:key={VNI}", OURS.underlay());
        switch.set(&format!(
            "add-br cable -- set bridge cable datapath_type=netdev -- add-port cable peer -- set interface peer {peer}"
        ))?;
        for line in [
            format!("ip address add {}/24 dev below", LINUX.underlay()),
            "ip link set below up".to_owned(),
            format!("ip address add {}/24 dev cable", LINUX.address()),
            format!("ip link set cable mtu {} up", payload(MTU)),
        ] {
            LINUX.run(&line)?;
        }
        Ok(switch)
    }

    fn database(&self) -> String {
        format!("unix:{}/db.sock", self.folder.display())
    }

    fn daemon(&mut self, line: &[&str]) -> Result<()> {
        let mut command = LINUX.command("");
        command.args(line).arg("-vconsole:off").env("OVS_RUNDIR", &self.folder).stdin(Stdio::null());
        self.daemons.push(command.spawn()?);
        Ok(())
    }

    fn set(&self, line: &str) -> Result<()> {
        let mut command = Command::new("ovs-vsctl");
        command.arg(format!("--db={}", self.database())).arg("--timeout=30").args(line.split_whitespace());
        output(command.env("OVS_RUNDIR", &self.folder)).map(|_| ())
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        for daemon in self.daemons.iter_mut().rev() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}
