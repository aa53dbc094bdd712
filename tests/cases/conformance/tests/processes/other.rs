//! The process that has the other device, which this one starts.

use std::{
    env,
    io::{self, Stdin},
    net::{Ipv4Addr, TcpListener},
    os::fd::{AsFd as _, OwnedFd},
    process::{Child, Command, Stdio},
    sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError},
};

use conformance::{agent::Agent, memory::shared};

/// The environment variable that says whether such a process shares memory.
const SHARES: &str = "SHARES_MEMORY";

/// A process that has a device.
pub(crate) struct Process {
    child: Mutex<Child>,
    agent: Arc<Agent>,
}

impl Process {
    /// Starts this program again, to have a device and nothing else: the test of that name serves it. `shares`: its device offers and accepts
    /// shared memory.
    pub(crate) fn start(test: &str, shares: bool) -> io::Result<Self> {
        static PATH: LazyLock<io::Result<String>> = LazyLock::new(shared::share);
        let path = PATH.as_ref().map_err(|error| io::Error::new(error.kind(), error.to_string()))?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let child = Command::new("/proc/self/exe")
            .args([test, "--exact", "--ignored", "--nocapture"])
            .env(SHARES, if shares { "1" } else { "0" })
            .stdin(OwnedFd::from(listener))
            .stdout(Stdio::null())
            .spawn()?;
        let agent = Arc::new(Agent::connect(address, path.clone())?);
        Ok(Self { child: Mutex::new(child), agent })
    }

    pub(crate) fn agent(&self) -> Arc<Agent> {
        self.agent.clone()
    }

    fn child(&self) -> MutexGuard<'_, Child> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn id(&self) -> u32 {
        self.child().id()
    }

    pub(crate) fn is_running(&self) -> bool {
        !self.agent.is_gone() && matches!(self.child().try_wait(), Ok(None))
    }

    /// Ends it, unless it is gone already.
    pub(crate) fn end(&self) {
        let mut child = self.child();
        let _unless_it_is_gone = child.kill();
        child.wait().expect("to wait for the other process");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

/// Whether this process, started so, shares memory.
pub(crate) fn shares() -> bool {
    env::var(SHARES).is_ok_and(|shares| shares == "1")
}

/// What such a process listens on.
pub(crate) fn listener(input: &Stdin) -> io::Result<TcpListener> {
    input.as_fd().try_clone_to_owned().map(TcpListener::from)
}
