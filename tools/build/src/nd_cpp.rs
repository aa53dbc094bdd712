//! Builds `tests/clients/nd-cpp`: a C++ program that knows the published interfaces of NetworkDirect and nothing else.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::command::run;
use crate::paths;

/// Debian's, of the package clang-19.
const CLANG: &str = "/usr/lib/llvm-19/bin/clang++";

/// Compiles `tests/clients/nd-cpp`, a C++ program, with clang, as mingw's C++ compiler is one package more, and links it with mingw's linker: it uses no C++ library.
pub(crate) fn build(program: &Path) -> Result<()> {
    let source = paths::root().join("tests/clients/nd-cpp/client.cpp");
    let object = paths::root().join("target/windows/nd-cpp.o");
    let mut compiler = Command::new(CLANG);
    compiler.args(["--target=x86_64-w64-mingw32", "-std=c++17", "-O1", "-fno-exceptions", "-fno-rtti"]);
    compiler.args(["-Wall", "-Wextra", "-Werror", "-c", "-o"]).arg(&object).arg(source);
    run(&mut compiler)?;
    run(Command::new("x86_64-w64-mingw32-gcc").arg("-o").arg(program).arg(object))
}
