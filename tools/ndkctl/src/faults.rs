//! `ndkctl faults`: the adapter's fault rules.

use std::{fmt, fs, path::PathBuf, process::ExitCode};

use clap::{Args, Subcommand};
use fault_rules::Point;
use ndk_abi::{
    softndk_ioctl::{SOFTNDK_FAULT_RULE, SOFTNDK_FAULT_RULES_LENGTH},
    status::{STATUS_NO_SUCH_DEVICE, STATUS_OBJECT_NAME_NOT_FOUND},
};
use serde::Serialize;

use crate::{
    columns::Columns,
    driver::{self, Driver},
    open, opened, print, sweep,
};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Replace the rules, and count from 0.
    Set(Rules),
    /// Remove all rules.
    Clear,
    /// Exit with 1 if there are no rules, or one has not fired; a rule with `times N`: N times. So no test passes because nothing failed.
    Assert,
    /// Run a program once for each fault that it meets: each point and each status, disconnect and reset of a queue pair's requests, an overrun of a
    /// completion queue. Exit with 1 if it hung, crashed, or left objects in the driver.
    ///
    /// The rules are the driver's; without one, or with SOFTND_MODE=hosted, those of the device in the program's process. A program that exits with 0
    /// although a request failed has mended that, or lost data: what it says is on standard error. Its children are not ended with it. The sweep
    /// removes the rules that were set, and counts requests and objects of the adapter's other consumers as the program's.
    Sweep(sweep::Options),
}

/// The rules to set.
#[derive(Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Rules {
    /// The rules, one in each argument.
    pub(crate) rules: Vec<String>,
    /// A file with the rules, one in each line; `#` begins a comment.
    #[arg(long)]
    pub(crate) file: Option<PathBuf>,
}

/// The rules of an adapter, and what they have counted.
#[derive(Debug, Serialize)]
pub(crate) struct Counted {
    pub(crate) rules: Vec<Rule>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Rule {
    /// Requests that passed the rule's point and agree with its filters.
    pub(crate) passed: u64,
    /// Those of them at which the rule fired.
    pub(crate) fired: u64,
    /// Whether it has fired as often as `assert` asks.
    pub(crate) done: bool,
    pub(crate) rule: String,
}

impl Counted {
    pub(crate) fn read(driver: &dyn Driver) -> anyhow::Result<Self> {
        Ok(Self { rules: driver::fault_rules(driver)?.iter().map(Rule::new).collect() })
    }

    /// Whether every rule has fired as often as `assert` asks. Without rules there is nothing to have fired.
    pub(crate) fn are_done(&self) -> bool {
        !self.rules.is_empty() && self.rules.iter().all(|rule| rule.done)
    }
}

impl Rule {
    fn new(found: &SOFTNDK_FAULT_RULE) -> Self {
        let text = found.Text.split(|byte| *byte == 0).next().unwrap_or_default();
        let rule = String::from_utf8_lossy(text).into_owned();
        let times = fault_rules::parse(&rule).next().and_then(Result::ok).map(|(rule, _)| rule.when.times);
        let wanted = times.filter(|times| *times != u64::MAX).unwrap_or(1);
        Self { passed: found.Passed, fired: found.Fired, done: found.Fired >= wanted, rule }
    }
}

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.rules.is_empty() {
            return writeln!(f, "no rules");
        }
        let mut columns = Columns::new(["passed", "fired", "rule"]);
        for Rule { passed, fired, rule, .. } in &self.rules {
            columns.row([passed.to_string(), fired.to_string(), rule.clone()]);
        }
        write!(f, "{columns}")
    }
}

impl Rules {
    fn text(&self) -> anyhow::Result<String> {
        match &self.file {
            Some(file) => fs::read_to_string(file).map_err(|error| anyhow::anyhow!("{}: {error}", file.display())),
            None => Ok(self.rules.join("\n")),
        }
    }
}

/// What a rule may have at each point, for the help.
pub(crate) fn points() -> String {
    let mut columns = Columns::new(["point", "filters", "actions"]);
    for point in Point::ALL {
        let filters: Vec<_> = point.filters().iter().map(|filter| filter.name()).collect();
        let actions: Vec<_> = point.actions().iter().map(|action| action.syntax()).collect();
        columns.row([point.name().to_owned(), filters.join(" "), actions.join(", ")]);
    }
    let mut text = columns.to_string();
    for point in Point::ALL.into_iter().filter(|point| !point.statuses().is_empty()) {
        let statuses: Vec<_> = point.statuses().iter().map(|(status, _)| *status).collect();
        text += &format!("\n{}: {}", point.name(), statuses.join(", "));
    }
    text
}

/// Carries a command out; without one: shows the rules.
pub(crate) fn execute(command: Option<&Command>, path: &'static str, json: bool) -> anyhow::Result<ExitCode> {
    let is_good = match command {
        None => print(&Counted::read(&*opened(path)?)?, json).map(|()| true),
        Some(Command::Set(rules)) => print(&set(&*opened(path)?, rules)?, json).map(|()| true),
        Some(Command::Clear) => print(&clear(&*opened(path)?)?, json).map(|()| true),
        Some(Command::Assert) => {
            let counted = Counted::read(&*opened(path)?)?;
            print(&counted, json).map(|()| counted.are_done())
        }
        Some(Command::Sweep(options)) => {
            let open_driver = || opened(path);
            // As softnd.dll chooses the device: any other error is one.
            let is_absent = matches!(open(path), Err(STATUS_OBJECT_NAME_NOT_FOUND | STATUS_NO_SUCH_DEVICE));
            let found = if sweep::is_hosted() || is_absent {
                sweep::sweep(None, options)?
            } else {
                let clear = move || {
                    // If that fails too, there is nobody to tell.
                    let _cleared = opened(path).and_then(|driver| driver::set_fault_rules(&*driver, ""));
                    std::process::exit(2);
                };
                ctrlc::set_handler(clear)?;
                sweep::sweep(Some(&open_driver), options)?
            };
            print(&found, json).map(|()| found.good)
        }
    };
    Ok(if is_good? { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Sets the rules, if all are right. Returns them as the driver has them.
pub(crate) fn set(driver: &dyn Driver, rules: &Rules) -> anyhow::Result<Counted> {
    let text = rules.text()?;
    let rules = fault_rules::parse(&text).map(|rule| match rule {
        Ok((_, text)) => Ok(text),
        Err(error) => Err(anyhow::anyhow!("{error}{}", shown(&text, error))),
    });
    let rules = rules.collect::<anyhow::Result<Vec<_>>>()?.join("\n");
    anyhow::ensure!(
        rules.len() <= SOFTNDK_FAULT_RULES_LENGTH as usize,
        "{} bytes of rules: the driver takes {SOFTNDK_FAULT_RULES_LENGTH}",
        rules.len()
    );
    driver::set_fault_rules(driver, &rules)?;
    Counted::read(driver)
}

/// Removes the rules.
pub(crate) fn clear(driver: &dyn Driver) -> anyhow::Result<Counted> {
    driver::set_fault_rules(driver, "")?;
    Counted::read(driver)
}

/// The wrong rule, with a mark under the place.
fn shown(text: &str, error: fault_rules::ParseError) -> String {
    let rule = fault_rules::texts(text).nth(error.rule as usize - 1).unwrap_or_default();
    format!("\n  {rule}\n  {:>1$}", '^', error.column as usize)
}
