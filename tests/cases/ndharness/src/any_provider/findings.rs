//! What a run found out about a provider, beside the results of cases.
#![cfg_attr(not(windows), allow(dead_code, reason = "providers are for Windows"))]

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use ndk_abi::status::NTSTATUS;
use serde::Serialize;

/// All of it.
#[derive(Serialize)]
pub(crate) struct Findings {
    /// The name of its DLL, without the folder.
    pub(crate) library: String,
    /// The version of that file, if it has one.
    pub(crate) file_version: Option<String>,
    /// The class that DllGetClassObject was asked for.
    pub(crate) class: String,
    /// Of the interfaces: nd1 or nd2.
    pub(crate) interfaces: &'static str,
    /// The local address.
    pub(crate) address: String,
    /// What the adapter's Query tells.
    pub(crate) limits: Vec<Limit>,
    /// The statuses of methods, and of completions by the kind of the request.
    pub(crate) statuses: Vec<Status>,
    /// How requests began.
    pub(crate) requests: Vec<Requests>,
    /// The cases about order, and their results.
    pub(crate) orders: Vec<Order>,
    /// The cases that need more than the published interfaces.
    pub(crate) left_out: Vec<LeftOut>,
}

#[derive(Serialize)]
pub(crate) struct Limit {
    pub(crate) field: &'static str,
    pub(crate) value: u64,
}

#[derive(Serialize)]
pub(crate) struct Status {
    method: &'static str,
    status: &'static str,
    code: String,
    /// The case that saw it first.
    case: String,
}

/// How the requests of a method began.
#[derive(Serialize)]
pub(crate) struct Requests {
    pub(crate) method: &'static str,
    /// ND_PENDING.
    pub(crate) pended: u64,
    /// ND_SUCCESS.
    pub(crate) over_at_once: u64,
    /// Any other status.
    pub(crate) refused: u64,
}

#[derive(Serialize)]
pub(crate) struct Order {
    pub(crate) case: String,
    pub(crate) shows: &'static str,
    pub(crate) passed: bool,
}

#[derive(Serialize)]
pub(crate) struct LeftOut {
    pub(crate) case: &'static str,
    pub(crate) why: &'static str,
}

/// Statuses by method, each with the case that saw it first.
#[derive(Default)]
pub(crate) struct Statuses(BTreeMap<(&'static str, u32), String>);

impl Statuses {
    /// Adds what a case has seen.
    pub(crate) fn add(&mut self, case: &str, seen: BTreeSet<(&'static str, u32)>) {
        for one in seen {
            self.0.entry(one).or_insert_with(|| case.to_owned());
        }
    }

    /// As the report has them.
    pub(crate) fn into_rows(self) -> Vec<Status> {
        let row = |((method, status), case)| Status {
            method,
            status: NTSTATUS::from_u32(status).name().unwrap_or("-"),
            code: format!("{status:#010x}"),
            case,
        };
        self.0.into_iter().map(row).collect()
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = self.file_version.as_deref().unwrap_or("unknown");
        writeln!(f, "\nprovider:     {}, file version {version}, class {}", self.library, self.class)?;
        writeln!(f, "interfaces:   {}", self.interfaces)?;
        writeln!(f, "address:      {}", self.address)?;
        writeln!(f, "\nlimit")?;
        for Limit { field, value } in &self.limits {
            writeln!(f, "{field:26}  {value} ({value:#x})")?;
        }
        writeln!(f, "\n{:43} {:34} {:10}  seen first by", "method or request", "status", "")?;
        for Status { method, status, code, case } in &self.statuses {
            writeln!(f, "{method:43} {status:34} {code}  {case}")?;
        }
        writeln!(f, "\n{:43} {:>10} {:>12} {:>10}", "method", "pended", "over at once", "refused")?;
        for Requests { method, pended, over_at_once, refused } in &self.requests {
            writeln!(f, "{method:43} {pended:>10} {over_at_once:>12} {refused:>10}")?;
        }
        writeln!(f, "\norder")?;
        for Order { case, shows, passed } in &self.orders {
            writeln!(f, "{}  {case:32}  {shows}", if *passed { "pass" } else { "FAIL" })?;
        }
        writeln!(f, "\nleft out")?;
        self.left_out.iter().try_for_each(|LeftOut { case, why }| writeln!(f, "{case:32}  {why}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_has_its_name_and_the_case_that_saw_it_first() {
        let mut statuses = Statuses::default();
        statuses.add("a::b", [("IND2Adapter::Query", 0x8000_0005)].into());
        statuses.add("a::c", [("IND2Adapter::Query", 0x8000_0005), ("IND2Adapter::Query", 0xe000_1234)].into());
        let rows = serde_json::to_value(statuses.into_rows()).unwrap();
        let row = |status: &str, code: &str, case: &str| serde_json::json!({ "method": "IND2Adapter::Query", "status": status, "code": code, "case": case });
        assert_eq!(rows[0], row("STATUS_BUFFER_OVERFLOW", "0x80000005", "a::b"));
        assert_eq!(rows[1], row("-", "0xe0001234", "a::c"));
    }

    #[test]
    fn the_report_has_limits_orders_and_what_was_left_out() {
        let findings = Findings {
            library: "a.dll".to_owned(),
            file_version: None,
            class: "{b}".to_owned(),
            interfaces: "nd2",
            address: "10.0.0.1".to_owned(),
            limits: vec![Limit { field: "MaxReadSge", value: 32 }],
            statuses: Vec::new(),
            requests: vec![Requests { method: "IND2Connector::Connect", pended: 7, over_at_once: 1, refused: 0 }],
            orders: vec![Order { case: "a::b".to_owned(), shows: "a thing", passed: false }],
            left_out: vec![LeftOut { case: "a::c", why: "it needs a thing" }],
        };
        let text = findings.to_string();
        for line in
            ["a.dll, file version unknown, class {b}", "MaxReadSge                  32 (0x20)", "FAIL  a::b", "a::c  "]
        {
            assert!(text.contains(line), "{line}: {text}");
        }
        assert!(
            text.lines().any(|line| line.split_whitespace().eq(["IND2Connector::Connect", "7", "1", "0"])),
            "{text}"
        );
    }
}
