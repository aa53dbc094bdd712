//! Samba's smbd on the loopback interface, with a share of its own.

use std::{
    env, fs,
    io::Write,
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    path::PathBuf,
    process::{self, Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};

/// It listens long before.
const PATIENCE: Duration = Duration::from_secs(20);

/// A server; dropping it ends it and removes what it has.
pub(super) struct Samba {
    smbd: Child,
    folder: PathBuf,
    address: SocketAddr,
}

impl Samba {
    pub(super) fn start() -> Result<Self> {
        let folder = env::temp_dir().join(format!("softndk-smbd-{}", process::id()));
        for name in ["private", "lock", "state", "cache", "pid", "ncalrpc", "share"] {
            fs::create_dir_all(folder.join(name))?;
        }
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let (port, at) = (address.port(), folder.display());
        let configuration = folder.join("smb.conf");
        fs::write(
            &configuration,
            format!(
                "[global]
private dir = {at}/private
lock directory = {at}/lock
state directory = {at}/state
cache directory = {at}/cache
pid directory = {at}/pid
ncalrpc dir = {at}/ncalrpc
passdb backend = smbpasswd:{at}/private/smbpasswd
log file = {at}/log
interfaces = lo
bind interfaces only = yes
smb ports = {port}
disable netbios = yes
load printers = no
printing = bsd
printcap name = /dev/null
server min protocol = SMB3
[share]
path = {at}/share
read only = no
"
            ),
        )?;
        let mut password = Command::new("smbpasswd");
        password.arg("-c").arg(&configuration).args(["-s", "-a", "root"]);
        let mut password = password.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        password.stdin.take().context("no input")?.write_all(b"secret\nsecret\n")?;
        let status = password.wait()?;
        ensure!(status.success(), "smbpasswd ended with {status}");
        // At its end it ends its whole group of processes, so it gets one of its own.
        let mut smbd = Command::new("setsid");
        smbd.args(["smbd", "-F", "--no-process-group", "-s"]).arg(&configuration);
        let smbd = smbd.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let mut samba = Self { smbd, folder, address };
        let start = Instant::now();
        while TcpStream::connect(address).is_err() {
            let ended = samba.smbd.try_wait()?;
            ensure!(ended.is_none() && start.elapsed() < PATIENCE, "smbd does not listen, {ended:?}");
            thread::sleep(Duration::from_millis(50));
        }
        Ok(samba)
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Empties the share.
    pub(super) fn clear(&self) -> Result<()> {
        let share = self.folder.join("share");
        fs::remove_dir_all(&share)?;
        Ok(fs::create_dir(&share)?)
    }

    /// SHA-256 of a file of the share.
    pub(super) fn sum(&self, name: &str) -> Result<String> {
        let output = Command::new("sha256sum").arg(self.folder.join("share").join(name)).output()?;
        let said = String::from_utf8(output.stdout)?;
        Ok(said.split_whitespace().next().with_context(|| format!("there is no {name}"))?.to_owned())
    }
}

impl Drop for Samba {
    fn drop(&mut self) {
        // It ends its own processes then.
        let asked = Command::new("kill").arg(self.smbd.id().to_string()).status();
        if !asked.is_ok_and(|status| status.success()) {
            let _ = self.smbd.kill();
        }
        let _ = self.smbd.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}
