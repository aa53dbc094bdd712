//! What is tried: smbclient by our client of SMB Direct with ksmbd, and `mount -t cifs -o rdma` by our server with smbd. Neither end of SMB
//! is ours, and each file goes one way by SMB Direct and the other way by plain TCP, so what is compared has not only met itself.

use std::{
    fs,
    io::Write,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::mpsc::channel,
    thread,
    time::Duration,
};

use anyhow::{Context, Result, anyhow, bail, ensure};

use super::{Carried, Client, Fault, KEEPALIVE, Mode, On, Plan, Server, samba::Samba};
use crate::{
    peer::{self, OURS, PEER},
    rows::Rows,
};

/// Where ksmbd listens, and our server: SMB Direct over iWARP.
const PORT: u16 = 5445;
/// A bridge ends long before, once its program has.
const PATIENCE: Duration = Duration::from_secs(30);
/// In 77 fragments; signed and inline, a read or write may not be longer than 128 KiB.
const INLINE: usize = 100 << 10;
const LONG: usize = 4 << 20;

/// Starts ksmbd there, unless it runs; the peer's end of the first steps. The shell has read all of it before it begins.
const KSMBD: &str = r"
if ! command -v ksmbd.mountd >/dev/null; then echo none; else
if [ ! -e /tmp/ksmbd.conf ]; then
mkdir -p /tmp/share; chmod 777 /tmp/share
printf '[global]\ninterfaces = eth0\nbind interfaces only = yes\n[share]\npath = /tmp/share\nread only = no\n' >/tmp/ksmbd.conf
ksmbd.adduser -C /tmp/ksmbd.conf -P /tmp/ksmbd.pwd -a -p secret interop >/tmp/ksmbd.log 2>&1 </dev/null
ksmbd.mountd -C /tmp/ksmbd.conf -P /tmp/ksmbd.pwd >>/tmp/ksmbd.log 2>&1 </dev/null
fi
for i in $(seq 100); do grep -q :1545 /proc/net/tcp /proc/net/tcp6 && break; sleep 0.1; done
grep -q :1545 /proc/net/tcp /proc/net/tcp6 && echo listening || cat /tmp/ksmbd.log
fi
";

/// All steps, where there are CRCs or where there are none; files are in `directory`.
pub(crate) fn run(directory: &Path, on: &On, crc: bool, rows: &mut Rows) {
    match missing() {
        Some(program) => rows.skip("SMB Direct", format!("this machine has no {program}")),
        None => {
            match Files::new(directory) {
                Ok(files) => with_ksmbd(&files, on, crc, rows),
                Err(error) => rows.add("files", || Err(error)),
            }
            with_cifs(on, crc, rows);
        }
    }
}

/// A program that is needed and not there.
fn missing() -> Option<&'static str> {
    ["smbclient", "smbd", "smbpasswd"].into_iter().find(|program| {
        Command::new(program).arg("--help").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err()
    })
}

/// Files of ours.
struct Files(PathBuf);

impl Files {
    fn new(directory: &Path) -> Result<Self> {
        let directory = directory.join("smb");
        fs::create_dir_all(&directory)?;
        Ok(Self(directory))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Makes one whose bytes are not those of others.
    fn make(&self, name: &str, length: usize) -> Result<Vec<u8>> {
        let mut word =
            0x9E37_79B9_7F4A_7C15_u64 ^ name.bytes().fold(length as u64, |seed, byte| seed << 5 ^ u64::from(byte));
        let data: Vec<u8> = (0..length)
            .map(|_| {
                word ^= word << 13;
                word ^= word >> 7;
                word ^= word << 17;
                word as u8
            })
            .collect();
        fs::write(self.path(name), &data)?;
        Ok(data)
    }

    /// Fails unless a file is that.
    fn compare(&self, name: &str, data: &[u8]) -> Result<()> {
        same(&fs::read(self.path(name)).with_context(|| format!("no {name}"))?, data)
    }
}

fn same(found: &[u8], data: &[u8]) -> Result<()> {
    let differs = found.iter().zip(data).position(|(one, other)| one != other);
    ensure!(found.len() == data.len(), "{} bytes instead of {}", found.len(), data.len());
    ensure!(differs.is_none(), "data mismatch at byte {}", differs.unwrap_or_default());
    Ok(())
}

/// Has smbclient do something.
fn smbclient(files: &Files, server: SocketAddr, options: &[&str], what: &str) -> Result<()> {
    let mut command = Command::new("timeout");
    command.args(["30", "smbclient", "--configfile=/dev/null", "-m", "SMB3", "-U", "interop%secret"]).args(options);
    command.args(["-p", &server.port().to_string(), &format!("//{}/share", server.ip())]).current_dir(&files.0);
    let mut program = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    program.stdin.take().context("no input")?.write_all(what.as_bytes())?;
    let output = program.wait_with_output()?;
    let said = [output.stdout, output.stderr].concat();
    // It ends with success after most failures.
    let said = String::from_utf8_lossy(&said);
    ensure!(output.status.success() && !said.contains("NT_STATUS"), "smbclient {what:?}: {}", said.trim());
    Ok(())
}

fn with_ksmbd(files: &Files, on: &On, crc: bool, rows: &mut Rows) {
    let started = peer::run(KSMBD);
    if matches!(started.as_deref(), Ok("none")) {
        return rows.skip("SMB Direct with ksmbd", "the peer has none".to_owned());
    }
    rows.add("ksmbd listens for SMB Direct", || {
        let said = started?;
        ensure!(said == "listening", "{said}");
        Ok("and for TCP".to_owned())
    });
    let with = if crc { "with CRC" } else { "without CRC" };
    let plan = |mode| Client {
        local: OURS,
        server: SocketAddr::new(PEER, PORT),
        mode,
        on: on.clone(),
        fault: None,
        keepalive: KEEPALIVE,
    };
    rows.add(format!("ksmbd, server invalidates, {with}"), || {
        there_and_back(files, &plan(Mode::Invalidate), &[LONG, 4096, 65537], &[])
    });
    if crc {
        return;
    }
    rows.add("ksmbd, inline", || there_and_back(files, &plan(Mode::Inline), &[INLINE, 1], &[]));
    rows.add("ksmbd, inline, signed", || {
        there_and_back(files, &plan(Mode::Inline), &[INLINE], &["--client-protection=sign"])
    });
    rows.add("ksmbd, client invalidates", || there_and_back(files, &plan(Mode::Rdma), &[LONG, 4096, 65537], &[]));
    rows.add("ksmbd, 100 files in a connection", || there_and_back(files, &plan(Mode::Invalidate), &[8192; 100], &[]));
    rows.add("ksmbd answers our keepalives", || {
        let client = Client { keepalive: 1, ..plan(Mode::Invalidate) };
        files.make("smb-0", LONG)?;
        let commands = "put smb-0\n!sleep 4\nls\n";
        let carried = by_smb_direct(&client, |bridge| smbclient(files, bridge, &[], commands))?;
        ensure!(carried.keepalives > 1, "{carried:?}");
        Ok(format!("{} of them", carried.keepalives))
    });
    rows.add("ksmbd gets a token that we have not lent", || {
        files.make("smb-0", LONG)?;
        let client = Client { fault: Some(Fault::Token), ..plan(Mode::Invalidate) };
        let Err(error) = by_smb_direct(&client, |bridge| smbclient(files, bridge, &[], "put smb-0\n")) else {
            bail!("it has read our memory")
        };
        let said = format!("{error:#}");
        ensure!(
            said.contains("SMB Direct, Transport: STATUS_CONNECTION_DISCONNECTED"),
            "something else failed: {said}"
        );
        there_and_back(files, &plan(Mode::Invalidate), &[65536], &[])?;
        Ok("the connection ends, and the next is good".to_owned())
    });
    rows.add("control: a byte that we change is noticed", || {
        let Err(error) =
            there_and_back(files, &Client { fault: Some(Fault::Byte), ..plan(Mode::Invalidate) }, &[65536], &[])
        else {
            bail!("not noticed")
        };
        let said = format!("{error:#}");
        ensure!(said.contains("data mismatch"), "something else failed: {said}");
        Ok(format!("reported as failed: {said}"))
    });
}

/// Files of these lengths: each is written by SMB Direct and read by TCP, then read by SMB Direct what was written by TCP.
fn there_and_back(files: &Files, client: &Client, lengths: &[usize], options: &[&str]) -> Result<String> {
    let tcp = SocketAddr::new(client.server.ip(), 445);
    let names: Vec<_> = (0..lengths.len()).map(|number| format!("smb-{number}")).collect();
    let data = names.iter().zip(lengths).map(|(name, length)| files.make(name, *length)).collect::<Result<Vec<_>>>()?;
    let each = |verb: &str, suffix: &str| {
        names.iter().map(|name| format!("{verb} {name}{suffix} {name}{suffix}\n")).collect::<String>()
    };
    let out = by_smb_direct(client, |bridge| smbclient(files, bridge, options, &each("put", "")))?;
    smbclient(files, tcp, &[], &each("get", ""))?;
    names.iter().zip(&data).try_for_each(|(name, data)| files.compare(name, data))?;

    let data = names.iter().zip(lengths).map(|(name, length)| files.make(&format!("{name}b"), *length));
    let data = data.collect::<Result<Vec<_>>>()?;
    smbclient(files, tcp, &[], &each("put", "b"))?;
    names.iter().try_for_each(|name| fs::remove_file(files.path(&format!("{name}b"))))?;
    let back = by_smb_direct(client, |bridge| smbclient(files, bridge, options, &each("get", "b")))?;
    names.iter().zip(&data).try_for_each(|(name, data)| files.compare(&format!("{name}b"), data))?;

    let whole = lengths.iter().sum::<usize>() as u64;
    match client.mode {
        Mode::Inline => ensure!(out.writes + back.reads == 0, "{out:?} {back:?}"),
        Mode::Rdma => ensure!(out.invalidated + back.invalidated == 0, "{out:?} {back:?}"),
        Mode::Invalidate => {
            ensure!(out.invalidated == out.writes && back.invalidated == back.reads, "{out:?} {back:?}");
        }
    }
    if client.mode != Mode::Inline {
        ensure!(out.written == whole && back.read == whole, "not all by RDMA: {out:?} {back:?}");
    }
    Ok(format!(
        "{} writes and {} reads by RDMA, {} invalidated, data compared",
        out.writes,
        back.reads,
        out.invalidated + back.invalidated
    ))
}

/// Runs a program that connects to a bridge.
fn by_smb_direct(client: &Client, program: impl FnOnce(SocketAddr) -> Result<()>) -> Result<Carried> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    thread::scope(|scope| {
        let bridge = scope.spawn(|| client.serve(&listener, Some(PATIENCE)));
        let ran = program(address);
        let served = bridge.join().unwrap_or_else(|_| Err(anyhow!("the bridge has panicked")));
        match (ran, served) {
            (Ok(()), served) => served,
            (Err(error), Ok(_)) => Err(error),
            (Err(error), Err(why)) => Err(error.context(format!("{why:#}"))),
        }
    })
}

fn with_cifs(on: &On, crc: bool, rows: &mut Rows) {
    let able = peer::run("command -v mount.cifs >/dev/null && grep -q cifs /proc/filesystems && echo able");
    if matches!(able.as_deref(), Ok("")) {
        return rows.skip("SMB Direct with cifs", "the peer has none".to_owned());
    }
    let mut samba = None;
    rows.add("smbd serves TCP on the loopback interface", || {
        let started = Samba::start()?;
        let address = started.address();
        samba = Some(started);
        Ok(address.to_string())
    });
    let Some(samba) = samba else { return };
    let with = if crc { "with CRC" } else { "without CRC" };
    rows.add(format!("mount -t cifs -o rdma, direct, {with}"), || {
        mounted(&samba, on, "cache=none", DIRECT, USUAL).map(told)
    });
    if crc {
        return;
    }
    rows.add("mount -t cifs -o rdma, buffered, four at once", || {
        mounted(&samba, on, "cache=strict", PARALLEL, USUAL).map(told)
    });
    rows.add("mount -t cifs -o rdma, keepalives of Linux", || {
        mounted(&samba, on, "cache=none", &format!("sleep 8\n{DIRECT}"), USUAL).map(told)
    });
    rows.add("control: Linux notices a byte that we change", || {
        let Err(error) = mounted(&samba, on, "cache=none", DIRECT, Plan { corrupt: true, ..USUAL }) else {
            bail!("not noticed")
        };
        let said = format!("{error:#}");
        ensure!(said.contains("differ"), "something else failed: {said}");
        Ok("reported as failed".to_owned())
    });
}

/// Nothing special.
const USUAL: Plan = Plan { corrupt: false, keepalive: KEEPALIVE };
/// 8 MiB there, and back.
const DIRECT: &str = "dd if=/dev/urandom of=/tmp/f1 bs=1M count=8 2>/dev/null
dd if=/tmp/f1 of=/tmp/m/f1 bs=1M 2>/tmp/said && cmp /tmp/f1 /tmp/m/f1 || cat /tmp/said";
/// Four of them at once; what is cached is dropped before it is read.
const PARALLEL: &str = "for i in 1 2 3 4; do dd if=/dev/urandom of=/tmp/f$i bs=1M count=8 2>/dev/null; done
for i in 1 2 3 4; do dd if=/tmp/f$i of=/tmp/m/f$i bs=1M conv=fsync 2>/dev/null & done; wait
echo 3 >/proc/sys/vm/drop_caches
for i in 1 2 3 4; do cmp /tmp/f$i /tmp/m/f$i & done; wait";

/// Has the peer mount the share by SMB Direct and work there; then the files are compared here, as smbd has them.
fn mounted(samba: &Samba, on: &On, options: &str, work: &str, plan: Plan) -> Result<Carried> {
    samba.clear()?;
    let server = Server::new(SocketAddr::new(OURS, PORT), samba.address(), on, plan)?;
    let (wake, (sender, ended)) = (server.wake(), channel());
    let serving = thread::spawn(move || {
        let served = server.serve();
        let closed = server.close();
        let _ = sender.send(());
        let carried = served?;
        closed.map(|()| carried)
    });
    let said = peer::run(&format!(
        "echo 2 >/proc/fs/cifs/smbd_keep_alive_interval; mkdir -p /tmp/m
mount.cifs //{OURS}/share /tmp/m -o rdma,port={PORT},vers=3.1.1,username=root,password=secret,{options} 2>&1
if grep -q /tmp/m /proc/mounts; then
({work}) 2>&1
umount /tmp/m 2>&1
sha256sum /tmp/f?; rm -f /tmp/f?
echo end
else dmesg | tail -5; fi"
    ));
    if !said.as_ref().is_ok_and(|said| said.ends_with("end")) || ended.recv_timeout(PATIENCE).is_err() {
        wake.stop();
    }
    let served = serving.join().unwrap_or_else(|_| Err(anyhow!("the bridge has panicked")));
    let said = said?;
    let carried = served.with_context(|| format!("the peer: {}", said.replace('\n', "; ")))?;
    let sums = said.strip_suffix("end").context("the peer has not come to its end").and_then(|said| {
        ensure!(!said.is_empty() && said.lines().all(|line| line.contains("  /tmp/f")), "the peer: {}", said.trim());
        Ok(said)
    })?;
    let mut files = 0;
    for line in sums.lines() {
        let (sum, name) = line.split_once("  /tmp/").context("no sum")?;
        ensure!(samba.sum(name)? == sum, "smbd has another {name}");
        files += 1;
    }
    let whole = files * (8 << 20);
    ensure!(files > 0 && carried.written >= whole && carried.read >= whole, "not all by RDMA: {carried:?}");
    Ok(carried)
}

fn told(carried: Carried) -> String {
    let Carried { writes, reads, invalidated, .. } = carried;
    format!("{writes} writes and {reads} reads by RDMA, {invalidated} invalidated, data compared by both")
}
