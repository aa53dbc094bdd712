//! Running other programs, with what was run in every error.

use std::io::{BufRead as _, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};

/// Runs `command` with inherited output; fails on any status but 0.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot start {}", program(command)))?;
    if !status.success() {
        bail!("{} ended with {status}", line(command));
    }
    Ok(())
}

/// Runs `command` silently and returns its standard output; its error output goes into the error.
pub fn output(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot start {}", program(command)))?;
    if !output.status.success() {
        bail!("{} ended with {}:\n{}", line(command), output.status, String::from_utf8_lossy(&output.stderr));
    }
    String::from_utf8(output.stdout).with_context(|| format!("{} printed something that is not UTF-8", line(command)))
}

/// Waits for `child`; ends it and fails if it takes longer than `limit`.
pub fn wait(child: &mut Child, limit: Duration) -> Result<ExitStatus> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if start.elapsed() > limit {
            child.kill()?;
            child.wait()?;
            bail!("it did not end within {} s", limit.as_secs());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Waits for `child`, whose `errors` tell what it is at, in lines that begin with "running"; others are printed. Ends it and fails if it
/// tells nothing for longer than `limit`.
pub fn wait_while_it_tells(
    child: &mut Child,
    errors: impl Read + Send + 'static,
    limit: Duration,
) -> Result<ExitStatus> {
    let (sender, lines) = mpsc::channel();
    // It ends with the last program that has the other end, which may be later than the child.
    std::thread::spawn(move || {
        BufReader::new(errors).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
    });
    let (mut told, mut last) = (Instant::now(), "it began".to_owned());
    loop {
        let status = child.try_wait()?;
        for line in lines.try_iter() {
            if line.starts_with("running ") {
                (told, last) = (Instant::now(), line);
            } else {
                eprintln!("{line}");
            }
        }
        if let Some(status) = status {
            return Ok(status);
        }
        if told.elapsed() > limit {
            child.kill()?;
            child.wait()?;
            bail!("nothing for {} s after: {last}", limit.as_secs());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Runs `command` silently, whatever it ends with; ends it and fails if it takes longer than `limit`.
pub fn outcome(command: &mut Command, limit: Duration) -> Result<Output> {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let outputs = (reader(child.stdout.take()), reader(child.stderr.take()));
    let status = wait(&mut child, limit)?;
    Ok(Output { status, stdout: read(outputs.0)?, stderr: read(outputs.1)? })
}

fn reader(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<std::io::Result<Vec<u8>>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.map_or(Ok(0), |mut pipe| pipe.read_to_end(&mut bytes)).map(|_count| bytes)
    })
}

fn read(reader: JoinHandle<std::io::Result<Vec<u8>>>) -> Result<Vec<u8>> {
    Ok(reader.join().map_err(|_| anyhow!("reading an output failed"))??)
}

/// How a program ended, and all that it said.
pub fn said(output: &Output) -> String {
    format!("{}\n{}{}", output.status, String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// The cargo that runs this program, without what an outer build would leak into an inner one.
pub fn cargo(directory: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(directory);
    for name in ["CARGO_TARGET_DIR", "CARGO_BUILD_TARGET", "CARGO_ENCODED_RUSTFLAGS", "RUSTFLAGS", "RUSTDOCFLAGS"] {
        command.env_remove(name);
    }
    command
}

/// Shorter steps are not worth a line.
const NOTICEABLE: Duration = Duration::from_secs(2);

/// What the noticeable steps took, in the order in which they ended.
static TAKEN: Mutex<Vec<(String, Duration)>> = Mutex::new(Vec::new());

/// Says what begins, does it, and says how long it took if that was noticeable; all on standard error, because
/// standard output belongs to what the user asked for.
pub fn step<T>(what: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    eprintln!("-- {what}");
    let start = Instant::now();
    let result = work().with_context(|| format!("{what} failed"));
    let taken = start.elapsed();
    if taken >= NOTICEABLE {
        eprintln!("   {what}: {:.1} s", taken.as_secs_f64());
        TAKEN.lock().unwrap_or_else(PoisonError::into_inner).push((what.to_owned(), taken));
    }
    result
}

/// A table of the noticeable steps. A step can contain others, and two threads have steps at the same time: the lines do not add up.
pub fn times() -> String {
    let taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    let lines = taken.iter().map(|(what, taken)| format!("{:7.1}  {what}\n", taken.as_secs_f64()));
    std::iter::once("seconds  step\n".to_owned()).chain(lines).collect()
}

fn program(command: &Command) -> String {
    command.get_program().to_string_lossy().into_owned()
}

/// A command as one would type it.
pub fn line(command: &Command) -> String {
    let mut line = program(command);
    for argument in command.get_args() {
        line.push(' ');
        line.push_str(&argument.to_string_lossy());
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_has_both_outputs_and_a_limit() {
        let shell = |script: &str, limit| outcome(Command::new("sh").args(["-c", script]), limit);
        let output = shell("echo out; echo err >&2; exit 3", Duration::from_secs(60)).unwrap();
        assert_eq!(output.status.code(), Some(3));
        assert!(said(&output).ends_with("\nout\nerr\n"), "{}", said(&output));
        assert!(shell("exec sleep 60", Duration::ZERO).is_err());
    }

    #[test]
    fn a_silent_program_is_ended_and_what_it_was_at_is_told() {
        let shell = |script: &str| {
            let mut child = Command::new("sh").args(["-c", script]).stderr(Stdio::piped()).spawn().unwrap();
            let errors = child.stderr.take().unwrap();
            wait_while_it_tells(&mut child, errors, Duration::from_secs(3))
        };
        assert_eq!(shell("for i in 1 2 3 4; do echo running $i >&2; sleep 1; done; exit 3").unwrap().code(), Some(3));
        let error = shell("echo running a >&2; echo running b >&2; exec sleep 600").unwrap_err().to_string();
        assert!(error.ends_with("after: running b"), "{error}");
    }
}
