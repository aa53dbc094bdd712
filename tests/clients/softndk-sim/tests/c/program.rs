//! Compiling and running a C program.

use std::{
    env,
    io::Read,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

/// For a program that hangs.
const LIMIT: Duration = Duration::from_secs(120);

/// This package.
pub(crate) fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Where cargo has put the shared library: beside this test.
fn library() -> PathBuf {
    let test = env::current_exe().expect("the path of the test");
    let folder = test.parent().expect("a folder").to_owned();
    assert!(folder.join("libsoftndk_sim.so").exists(), "no shared library in {}", folder.display());
    folder
}

/// The dynamic symbols that the library defines, sorted.
pub(crate) fn exports() -> Vec<String> {
    let mut nm = Command::new("nm");
    let output = nm.args(["-D", "--defined-only", "--format=just-symbols"]).arg(library().join("libsoftndk_sim.so"));
    let output = output.output().expect("nm, which comes with gcc");
    assert!(output.status.success(), "nm: {}", String::from_utf8_lossy(&output.stderr));
    let mut names: Vec<_> = String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect();
    names.sort_unstable();
    names
}

/// gcc with the options of all programs here.
fn gcc() -> Command {
    let mut gcc = Command::new("gcc");
    gcc.current_dir(folder()).args(["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pthread"]);
    gcc.args(["-Ic", "-Iinclude"]);
    gcc
}

/// Whether gcc accepts a source, and if not what it says.
pub(crate) fn accepts(source: &Path) -> Result<(), String> {
    let output = gcc().arg("-fsyntax-only").arg(source).output().expect("gcc: see `cargo xtask setup`");
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

/// A C program of `c/`.
pub(crate) struct Program(PathBuf);

/// How one has ended.
pub(crate) struct Ended {
    status: ExitStatus,
    stderr: String,
}

impl Program {
    /// Compiles `c/{name}.c` with the kit, and links it with the library.
    pub(crate) fn compile(name: &str) -> Self {
        let library = library();
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name.replace('/', "-"));
        let mut gcc = gcc();
        gcc.arg(format!("c/{name}.c")).arg("c/consumer.c").arg("-o").arg(&program);
        gcc.arg("-L").arg(&library).arg("-lsoftndk_sim").arg(format!("-Wl,-rpath,{}", library.display()));
        let output = gcc.output().expect("gcc: see `cargo xtask setup`");
        assert!(output.status.success(), "gcc: {}", String::from_utf8_lossy(&output.stderr));
        Self(program)
    }

    /// Runs it to its end.
    pub(crate) fn run(&self) -> Ended {
        let mut program = Command::new(&self.0);
        // Cargo's search path comes before the program's own, and leads to a library that `cargo build` made some time ago.
        program.env_remove("LD_LIBRARY_PATH");
        let mut child = program.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().expect("a program");
        let mut pipe = child.stderr.take().expect("a pipe");
        let reader = thread::spawn(move || {
            let mut text = String::new();
            pipe.read_to_string(&mut text).map(|_| text)
        });
        let start = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().expect("a status") {
                break status;
            }
            if start.elapsed() > LIMIT {
                child.kill().expect("to end a program that hangs");
            }
            thread::sleep(Duration::from_millis(5));
        };
        Ended { status, stderr: reader.join().expect("a reader").expect("text") }
    }
}

impl Ended {
    #[track_caller]
    pub(crate) fn succeeds(&self) {
        assert!(self.status.success() && self.stderr.is_empty(), "{}\n{}", self.status, self.stderr);
    }

    /// The library has said `what` and aborted.
    #[track_caller]
    pub(crate) fn aborts(&self, what: &str) {
        const SIGABRT: i32 = 6;
        assert_eq!(self.status.signal(), Some(SIGABRT), "{}\n{}", self.status, self.stderr);
        assert!(self.stderr.contains(what), "not said: {what}\n{}", self.stderr);
    }

    /// The library has said `what`, and the program has ended with success nevertheless.
    #[track_caller]
    pub(crate) fn succeeds_with(&self, what: &str) {
        assert!(self.status.success(), "{}\n{}", self.status, self.stderr);
        assert!(self.stderr.contains(what), "not said: {what}\n{}", self.stderr);
    }
}
