//! The test of what softndk.sys tells ETW: its events, as the stand-in has read and kept them, are what was done to it.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::run;
use crate::session::{self, Session};

const INFORMATIONAL: u8 = 4;
const ERROR: u8 = 2;
const VERBOSE: u8 = 5;

/// Events from the start of the driver to its end; none while nobody asks; only errors when only these are asked for.
pub(crate) fn are_told() -> Result<()> {
    let mut session = Session::start(&session::addresses(&[])?)?;
    session.trace(INFORMATIONAL)?;
    session.load()?;
    session.set_rdma(false)?;
    session.set_rdma(true)?;
    play(
        &session,
        &["send::page", "connector::nobody_listens", "connector::rejected", "send::bad_local_token", "cq::overrun"],
    )?;
    session.trace(0)?;
    let events = session.events()?;
    told(&events).with_context(|| listed(&events))?;

    play(&session, &["send::page"])?;
    session.trace(ERROR)?;
    let more = session.events()?;
    ensure!(more.len() == events.len(), "events that nobody asked for:\n{}", listed(&more[events.len()..]));
    play(&session, &["cq::overrun"])?;
    session.trace(VERBOSE)?;
    let errors = session.events()?.split_off(events.len());
    let only = errors.iter().all(|event| event["level"] == "error") && has(&errors, "CompletionQueueFailed", &[]);
    ensure!(only, "of errors only:\n{}", listed(&errors));

    play(&session, &["send::page", "srq::two_queue_pairs"])?;
    let report = session.unload()?;
    let all = session.events()?.split_off(events.len() + errors.len());
    let success = |operation: &str| [("Operation", operation.into()), ("Status", "STATUS_SUCCESS (0x00000000)".into())];
    let page = [("Bytes", 4096.into()), ("Count", 1.into())];
    let requests = ["0x1", "0x2"].iter().all(|operation| has(&all, "Posted", &success(operation)));
    let requests = requests && has(&all, "Completed", &success("0x2")) && has(&all, "Completed", &page);
    let shared = has(&all, "PostedShared", &[("Status", "STATUS_SUCCESS (0x00000000)".into())]);
    ensure!(requests && shared && has(&all, "AdapterStopped", &[]), "with requests:\n{}", listed(&all));
    let counters = [("Counter", "cq_errors".into()), ("Value", 2.into())];
    ensure!(has(&all, "Counted", &counters), "two completion queues failed:\n{}", listed(&all));
    ensure!(report.is_clean(), "left behind: {report}");

    // What is looked for is missed where it is not.
    for gone in ["AdapterStarted", "RdmaChanged", "Connected", "CompletionQueueFailed"] {
        let fewer: Vec<_> = events.iter().filter(|event| event["event"] != gone).cloned().collect();
        ensure!(told(&fewer).is_err(), "{gone} is not missed");
    }
    Ok(())
}

fn play(session: &Session, cases: &[&str]) -> Result<()> {
    let outcome = run::harness(session, &[&["run", "--path", "plain", "--json"], cases].concat(), run::CASE_LIMIT)?;
    let played = outcome["passed"].as_u64() == Some(cases.len() as u64);
    ensure!(played, "{}", outcome["cases"]);
    Ok(())
}

/// What has to be there, after all that was done.
fn told(events: &[Value]) -> Result<()> {
    let luid = &events.first().context("no events")?["fields"]["NetLuid"];
    let on = |rdma: bool| [("NetLuid", luid.clone()), ("Rdma", rdma.into())];
    ensure!(events[0]["event"] == "AdapterStarted" && luid.is_string(), "the adapter is not the first");
    let changed: Vec<_> = events.iter().filter(|event| event["event"] == "RdmaChanged").collect();
    let turned = [false, true].map(|rdma| has(events, "RdmaChanged", &on(rdma)));
    ensure!(changed.len() == 2 && turned == [true; 2], "RDMA was turned off, and on");

    let refused = [("Active", true.into()), ("Status", "STATUS_CONNECTION_REFUSED (0xc0000236)".into())];
    ensure!(has(events, "ConnectFailed", &refused), "nobody listened");
    for name in ["Listening", "ListenEnded", "Requested", "Rejected", "Disconnected", "ConnectionBroken"] {
        ensure!(has(events, name, &[]), "no {name}");
    }
    for active in [false, true] {
        ensure!(has(events, "Connected", &[("Active", active.into())]), "no side with Active={active}");
    }
    let violation = [("Operation", "0x2".into()), ("Status", "STATUS_ACCESS_VIOLATION (0xc0000005)".into())];
    ensure!(has(events, "RequestFailed", &violation), "a send had a wrong token");
    let overrun = [("Status", "STATUS_BUFFER_OVERFLOW (0x80000005)".into())];
    ensure!(has(events, "CompletionQueueFailed", &overrun), "a completion queue has overrun");
    // The two sides of a connection name each other.
    let connected: Vec<_> = events.iter().filter(|event| event["event"] == "Connected").collect();
    let ends = |event: &Value, names: [&str; 2]| names.map(|name| event["fields"][name].clone());
    let paired = connected.iter().all(|event| {
        let sought = ends(event, ["Remote", "Local"]);
        connected.iter().any(|other| ends(other, ["Local", "Remote"]) == sought)
    });
    ensure!(paired, "a side of a connection has no other");
    Ok(())
}

/// Whether there is such an event with these fields.
fn has(events: &[Value], name: &str, fields: &[(&str, Value)]) -> bool {
    let fits = |event: &&Value| fields.iter().all(|(field, value)| event["fields"][*field] == *value);
    events.iter().filter(|event| event["event"] == name).any(|event| fits(&event))
}

fn listed(events: &[Value]) -> String {
    events.iter().map(|event| format!("{event}\n")).collect()
}
