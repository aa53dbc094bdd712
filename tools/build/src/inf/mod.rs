//! inf/softndk.inx: what the documentation asks of it, and what stampinf makes of it.

mod file;
mod install;
#[path = "../../../../driver/softndk/src/keywords.rs"]
mod keywords;
mod parameters;
#[cfg(test)]
mod planted;
mod references;
mod service;
mod stamp;

use std::fs;

use anyhow::{Context, Result, ensure};

use crate::facts::Windows;
use crate::paths;
use file::Inf;
pub use stamp::stamped;

/// Names a rule, and says what breaks it.
type Rule = (&'static str, fn(&Inf) -> Vec<String>);

/// No InfVerif: what is here is what the documentation of INFs, of NDKPI and of driver-store isolation asks of this one.
const RULES: [Rule; 18] = [
    ("version", install::version),
    ("models", install::models),
    ("characteristics", install::characteristics),
    ("media", install::media),
    ("bindings", install::bindings),
    ("NetworkDirect", parameters::network_direct),
    ("technology", parameters::technology),
    ("parameters", parameters::well_formed),
    ("keywords", parameters::of_the_driver),
    ("service", service::service),
    ("event log", service::event_log),
    ("KMDF", service::kmdf),
    ("driver store", references::driver_store),
    ("registry", references::registry),
    ("directives", references::directives),
    ("files", references::files),
    ("sections", references::sections),
    ("strings", references::strings),
];

/// Checks inf/softndk.inx.
pub fn lint() -> Result<()> {
    let problems = problems(&source()?)?;
    ensure!(problems.is_empty(), "inf/softndk.inx breaks rules:\n  {}", problems.join("\n  "));
    Ok(())
}

/// The oldest Windows that it installs on.
pub fn oldest_windows() -> Result<Windows> {
    let inf = Inf::parse(&source()?)?;
    let decorations = inf.lines("Manufacturer").iter().filter_map(|line| line.values.last());
    let build = decorations.filter_map(|decoration| install::oldest(decoration)).min();
    Ok([10, 0, build.context("inf/softndk.inx names no build of Windows")?])
}

fn source() -> Result<String> {
    let path = paths::root().join("inf/softndk.inx");
    fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
}

/// What breaks a rule, with the rule's name in front.
fn problems(text: &str) -> Result<Vec<String>> {
    let inf = Inf::parse(text)?;
    let broken = |(name, rule): &Rule| rule(&inf).into_iter().map(|problem| format!("{name}: {problem}")).collect();
    Ok(RULES.iter().flat_map::<Vec<_>, _>(broken).collect())
}

/// Problems with the values of keys that may each have one value only.
fn expect(inf: &Inf, section: &str, wanted: &[(&str, &str)]) -> Vec<String> {
    let wrong =
        |(key, value): &&(&str, &str)| !inf.value(section, key).is_some_and(|it| it.eq_ignore_ascii_case(value));
    wanted.iter().filter(wrong).map(|(key, value)| format!("[{section}] wants {key} = {value}")).collect()
}

/// The lines of every section that a directive of `section` names: `AddReg = A, B`.
fn named<'inf>(inf: &'inf Inf, section: &str, directive: &str) -> Vec<&'inf file::Line> {
    inf.all(section, directive).flatten().flat_map(|name| inf.lines(name)).collect()
}
