//! Fault rules: of the loaded driver, by ndkctl and by its parameters, and of the device without a driver.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use build::command::{outcome, said, step};
use build::paths;
use checks::tally::Tally;
use serde_json::Value;

use crate::ndkctl::{ndkctl, shown};
use crate::session::{self, Session};

const LIMIT: Duration = Duration::from_secs(120);

/// A case of each front end that connects and sends.
const CASES: [[&str; 6]; 4] = [
    ["run", "--front-end", "nd2", "--path", "rings", "messages::inline"],
    ["run", "--front-end", "nd2", "--path", "plain", "messages::inline"],
    ["run", "--front-end", "nd1", "--path", "rings", "endpoint::batch"],
    ["run", "--front-end", "ioctl", "--path", "rings", "send::page"],
];

const RULE: &str = "on send times 1 do fail STATUS_IO_TIMEOUT";
/// Rules that fire in each case.
const FIRE: [&str; 3] = ["on connect times 1 do send-timeout 9s", "on accept times 1 do send-timeout 9s", RULE];
/// Rules that fire in no case, and whether their points are passed.
const REST: [(&str, bool); 5] = [
    ("on listen after 99 do fail STATUS_SHARING_VIOLATION", true),
    ("on complete after 9999 do overrun", true),
    ("on send where bytes>=99999999 do reset", false),
    ("on bind do reset", false),
    ("on post do fail STATUS_CONNECTION_INVALID", false),
];

/// The driver's.
pub(crate) fn run(tally: &mut Tally) {
    let refused = step("setting fault rules where fault injection is off", refused);
    // Shows S1706, T93.
    tally.check("fault rules are refused where fault injection is off, and wrong ones where it is on", refused);
    let fired = step("failing requests by fault rules", fired);
    // Shows S1706.
    tally
        .check("fault rules of ndkctl and of the parameter FaultRules fire for each front end, and are counted", fired);
    let played = step("playing the recipes of docs/faults.md", recipes);
    // Shows S1706, S1708, S1709.
    tally.check("the recipes of docs/faults.md do what they say", played);
}

fn refused() -> Result<()> {
    let mut session = Session::start(&session::addresses(&[])?)?;
    session.set_keyword("FaultRules", "no rule, which does not count")?;
    session.load()?;
    let refused = |session: &Session, rule: &str, why: &[&str]| {
        let output = ndkctl(session, &["faults", "set", rule])?;
        let text = said(&output);
        ensure!(output.status.code() == Some(2) && why.iter().all(|why| text.contains(why)), "{rule}: {text}");
        Ok(())
    };
    refused(&session, RULE, &["STATUS_NOT_SUPPORTED", "FaultInjection"])?;
    ensure!(rules(&session)?.is_empty(), "rules without fault injection");
    ensure!(session.unload()?.is_clean(), "something is left");
    session.set_keyword("FaultInjection", "1")?;
    let (status, report) = session.load_in_vain()?;
    ensure!(status.contains("STATUS_INVALID_PARAMETER") && report.is_clean(), "wrong FaultRules: {status}, {report}");
    session.set_keyword("FaultRules", "# none")?;
    session.load()?;
    refused(
        &session,
        "on sends do reset",
        &["rule 1, column 4: expected one of listen, connect,", "\n  on sends do reset\n     ^"],
    )?;
    refused(&session, &["on send do reset"; 33].join(";"), &["STATUS_INVALID_PARAMETER", "at most 32"])?;
    ensure!(session.unload()?.is_clean(), "something is left");
    Ok(())
}

fn fired() -> Result<()> {
    let mut session = Session::start(&session::addresses(&[])?)?;
    session.set_keyword("FaultInjection", "1")?;
    session.set_keyword("FaultRules", "on connect times 1 do fail STATUS_CONNECTION_REFUSED; on write do reset")?;
    session.load()?;
    play(&session, CASES[0], false).context("FaultRules")?;
    ensure!(counts(&session)? == [(1, 1), (0, 0)], "{}", shown(&session, &["faults"])?);
    asserted(&session, false)?;
    for case in CASES {
        set(&session, &FIRE)?;
        asserted(&session, false)?;
        play(&session, case, false)?;
        asserted(&session, true).with_context(|| case.join(" "))?;
        set(&session, &REST.map(|(rule, _)| rule))?;
        play(&session, case, true)?;
        let counts = counts(&session)?;
        let expected = REST.iter().zip(&counts).all(|((_, passed), count)| (count.0 > 0, count.1) == (*passed, 0));
        ensure!(expected, "{}: {counts:?}", case.join(" "));
    }
    let faults = shown(&session, &["stats"])?["faults"].clone();
    ensure!(faults == FIRE.len() * CASES.len() + 1, "{faults} faults");
    let cleared = ndkctl(&session, &["faults", "clear"])?;
    ensure!(cleared.status.success() && rules(&session)?.is_empty(), "{}", said(&cleared));
    let report = session.unload()?;
    ensure!(report.is_clean(), "left behind: {report}");
    Ok(())
}

/// Plays the recipes of docs/faults.md, line by line. A line with the comment "fails" has to fail, any other has to succeed.
fn recipes() -> Result<()> {
    let page = fs::read_to_string(paths::root().join("docs/faults.md"))?;
    let (_, recipes) = page.split_once("## Test your consumer with it").context("the page has no recipes")?;
    let blocks: Vec<_> = recipes.split("```").skip(1).step_by(2).collect();
    ensure!(blocks.len() == 5, "{} recipes", blocks.len());
    let mut session = Session::start(&session::addresses(&[])?)?;
    session.set_keyword("FaultInjection", "1")?;
    session.load()?;
    for line in blocks.iter().flat_map(|block| block.lines()).filter(|line| !line.is_empty()) {
        let (command, comment) = line.split_once('#').unwrap_or((line, ""));
        let quoted = command.split('"').enumerate();
        let words = quoted.flat_map(|(nth, text)| match nth % 2 {
            0 => text.split_whitespace().collect(),
            _ => vec![text],
        });
        let words: Vec<_> = words.collect();
        let [program, arguments @ ..] = &words[..] else { bail!("no command: {line}") };
        let output = outcome(session.program(&format!("{program}.exe")).args(arguments), 10 * LIMIT)?;
        let text = said(&output);
        ensure!(output.status.success() != (comment.trim() == "fails"), "{line}: {}\n{text}", output.status);
        // The case passes six of the points, with their statuses, and tells each failure.
        let swept = "18 runs by rules of the driver: 0 hung, 0 crashed, 0 left objects; 0 ended with 0 all the same";
        ensure!(!line.contains(" sweep ") || text.contains(swept), "{text}");
    }
    let report = session.unload()?;
    ensure!(report.is_clean(), "left behind: {report}");
    Ok(())
}

/// The device of a process.
pub(crate) fn without_driver() -> Result<()> {
    let session = Session::start(&session::addresses(&[])?)?;
    for (rules, passes, says) in [
        (RULE, false, "SoftNDK: fault rule 1 has fired with STATUS_IO_TIMEOUT"),
        ("on send times 1 do disconnect", false, "SoftNDK: fault rule 1 has fired"),
        ("on write do reset", true, ""),
        ("on write to reset", false, "SOFTND_FAULTS: rule 1, column 10: expected `where`"),
    ] {
        let output = outcome(session.program("ndharness.exe").args(CASES[0]).env("SOFTND_FAULTS", rules), LIMIT)?;
        let text = said(&output);
        ensure!(output.status.success() == passes && text.contains(says), "{rules}: {text}");
        ensure!(passes != text.contains("SoftNDK: fault rule") || rules.contains(" to "), "{rules}: {text}");
    }
    Ok(())
}

fn set(session: &Session, rules: &[&str]) -> Result<()> {
    let set = ndkctl(session, &[&["faults", "set"], rules].concat())?;
    ensure!(set.status.success(), "{}", said(&set));
    Ok(())
}

fn play(session: &Session, case: [&str; 6], passes: bool) -> Result<()> {
    let output = outcome(session.program("ndharness.exe").args(case), LIMIT)?;
    ensure!(
        output.status.success() == passes,
        "{} should {}: {}",
        case.join(" "),
        if passes { "pass" } else { "fail" },
        said(&output)
    );
    Ok(())
}

/// `ndkctl faults assert` succeeds only if the rules have fired.
fn asserted(session: &Session, fired: bool) -> Result<()> {
    let output = ndkctl(session, &["faults", "assert"])?;
    ensure!(output.status.code() == Some(if fired { 0 } else { 1 }), "{}", said(&output));
    Ok(())
}

fn rules(session: &Session) -> Result<Vec<Value>> {
    let found = shown(session, &["faults"])?;
    found["rules"].as_array().cloned().with_context(|| found.to_string())
}

/// What each rule has passed and fired.
fn counts(session: &Session) -> Result<Vec<(u64, u64)>> {
    let number = |rule: &Value, name: &str| rule[name].as_u64().unwrap_or(u64::MAX);
    Ok(rules(session)?.iter().map(|rule| (number(rule, "passed"), number(rule, "fired"))).collect())
}
