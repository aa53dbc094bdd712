//! `tests/clients/nd-cpp`: a C++ program that knows the published interfaces of NetworkDirect and nothing else.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::command::{run, wait};
use crate::paths;
use crate::session::{self, Session};

/// Debian's, of the package clang-19.
const CLANG: &str = "/usr/lib/llvm-19/bin/clang++";

/// Compiles it with clang, as mingw's C++ compiler is one package more, and links it with mingw's linker: it uses no C++ library.
pub(crate) fn build(program: &Path) -> Result<()> {
    let source = paths::root().join("tests/clients/nd-cpp/client.cpp");
    let object = paths::root().join("target/windows/nd-cpp.o");
    let mut compiler = Command::new(CLANG);
    compiler.args(["--target=x86_64-w64-mingw32", "-std=c++17", "-O1", "-fno-exceptions", "-fno-rtti"]);
    compiler.args(["-Wall", "-Wextra", "-Werror", "-c", "-o"]).arg(&object).arg(source);
    run(&mut compiler)?;
    run(Command::new("x86_64-w64-mingw32-gcc").arg("-o").arg(program).arg(object))
}

/// Runs it beside a freshly loaded driver, on each path of softnd.dll; the driver has to be clean afterwards.
pub(crate) fn passes(limit: Duration) -> Result<()> {
    let mut session = Session::start(&session::addresses(&[])?)?;
    session.load()?;
    plays(&session, limit)?;
    let report = session.unload()?;
    ensure!(report.is_clean(), "left behind: {report}");
    Ok(())
}

/// The same where no driver is loaded.
pub(crate) fn passes_without_driver(limit: Duration) -> Result<()> {
    plays(&Session::start(&session::addresses(&[])?)?, limit)
}

fn plays(session: &Session, limit: Duration) -> Result<()> {
    for path in ["rings", "plain"] {
        let mut command = session.program(r"C:\softndk\nd-cpp.exe");
        let mut child =
            command.arg(r"C:\softndk\softnd.dll").env("SOFTND_PATH", path).stdout(Stdio::piped()).spawn()?;
        let output = child.stdout.take().context("the program has no output")?;
        let status = wait(&mut child, limit)?;
        let text = std::io::read_to_string(output)?;
        ensure!(status.success() && text.trim() == "pass", "on {path} it ended with {status}:\n{text}");
    }
    Ok(())
}
