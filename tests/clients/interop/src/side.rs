//! Who plays our role of rping: a device of this process, or another program.

use std::{
    io::{BufRead, BufReader, Read},
    net::{IpAddr, SocketAddr},
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::ValueEnum;
use rping::Plan;

use crate::roles::{self, Server};

/// Longer than a role takes by far.
const PATIENCE: Duration = Duration::from_secs(60);

/// Who plays.
pub(crate) enum Side {
    /// A device of this process, with CRCs or without.
    Here { crc: bool },
    /// ndharness, and how it is started: a command comes behind that.
    Program(Vec<String>),
}

impl Side {
    /// Plays the client at `local`; the port of its end of the connection.
    pub(crate) fn client(&self, local: IpAddr, server: SocketAddr, plan: Plan) -> Result<u16> {
        match self {
            Self::Here { crc } => Ok(roles::client(local, server, *crc, plan)?.port()),
            Self::Program(program) => {
                let own = [format!("--address={local}")];
                let mut playing = Playing::start(program, &arguments("client", server, &own, plan))?;
                let address: SocketAddr = playing.until("connected from ")?.parse()?;
                playing.end()?;
                Ok(address.port())
            }
        }
    }

    /// Plays the server at `local`, once. The peer may connect when this returns.
    pub(crate) fn server(&self, local: SocketAddr, plan: Plan) -> Result<Serving> {
        match self {
            Self::Here { crc } => {
                let (crc, (sender, ready)) = (*crc, channel());
                let serving = Serving::Here(thread::spawn(move || {
                    let server = Server::new(local, crc, plan)?;
                    // Whoever waited may have given up.
                    let _ = sender.send(());
                    server.serve()
                }));
                if ready.recv_timeout(PATIENCE).is_ok() {
                    return Ok(serving);
                }
                serving.end()?;
                bail!("it does not listen")
            }
            Self::Program(program) => {
                let mut playing = Playing::start(program, &arguments("server", local, &[], plan))?;
                playing.until("listening at ")?;
                Ok(Serving::Program(playing))
            }
        }
    }
}

/// A server at work.
pub(crate) enum Serving {
    Here(JoinHandle<Result<()>>),
    Program(Playing),
}

impl Serving {
    /// Waits for its end.
    pub(crate) fn end(self) -> Result<()> {
        match self {
            Self::Here(thread) => thread.join().unwrap_or_else(|_| Err(anyhow!("the server has panicked"))),
            Self::Program(playing) => playing.end(),
        }
    }
}

/// A program that plays a role.
pub(crate) struct Playing {
    child: Child,
    /// Of its output and its errors.
    lines: Receiver<String>,
    said: Vec<String>,
}

impl Playing {
    pub(crate) fn start(program: &[String], arguments: &[String]) -> Result<Self> {
        let (name, first) = program.split_first().context("no program")?;
        let mut command = Command::new(name);
        command.args(first).args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("cannot start {name}"))?;
        let (sender, lines) = channel();
        forward(child.stdout.take(), sender.clone());
        forward(child.stderr.take(), sender);
        Ok(Self { child, lines, said: Vec::new() })
    }

    /// Reads on to a line that begins like that; the rest of it.
    pub(crate) fn until(&mut self, beginning: &str) -> Result<String> {
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => {
                    let found = line.strip_prefix(beginning).map(str::to_owned);
                    self.said.push(line);
                    if let Some(found) = found {
                        return Ok(found);
                    }
                }
                Err(RecvTimeoutError::Timeout) => bail!("it does not say {beginning:?}: {}", self.said.join("; ")),
                Err(RecvTimeoutError::Disconnected) => {
                    bail!("it does not say {beginning:?}, {}: {}", self.child.wait()?, self.said.join("; "))
                }
            }
        }
    }

    /// Waits for its end, which has to be a success.
    pub(crate) fn end(mut self) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            ensure!(Instant::now() < deadline, "it does not end: {}", self.said.join("; "));
            thread::sleep(Duration::from_millis(5));
        };
        self.said.extend(self.lines.iter());
        ensure!(status.success(), "{status}: {}", self.said.join("; "));
        Ok(())
    }
}

impl Drop for Playing {
    fn drop(&mut self) {
        // It has ended, or something has failed before.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends each line on.
fn forward(from: Option<impl Read + Send + 'static>, to: Sender<String>) {
    let Some(from) = from else { return };
    thread::spawn(move || {
        let lines = BufReader::new(from).lines().map_while(Result::ok);
        lines.map(|line| line.trim().to_owned()).try_for_each(|line| to.send(line))
    });
}

/// A role with its plan as ndharness takes it.
fn arguments(role: &str, address: SocketAddr, own: &[String], plan: Plan) -> Vec<String> {
    let Plan { size, count, parts, windows, solicited, corrupt, solicit, invalidate, fault } = plan;
    debug_assert!(!invalidate, "no option of a program of NetworkDirect");
    let mut all = vec!["rping".to_owned(), role.to_owned(), address.to_string()];
    all.extend_from_slice(own);
    all.extend([format!("--size={size}"), format!("--count={count}"), format!("--parts={parts}")]);
    let flags = [(windows, "--windows"), (solicited, "--solicited"), (corrupt, "--corrupt"), (solicit, "--solicit")];
    all.extend(flags.into_iter().filter(|(wanted, _)| *wanted).map(|(_, flag)| flag.to_owned()));
    let fault = fault.and_then(|fault| fault.to_possible_value());
    all.extend(fault.map(|fault| format!("--fault={}", fault.get_name())));
    all
}
