//! `ndkctl doctor`: why is it not RDMA?

mod checks;
pub(crate) mod inputs;
mod pairing;
mod predict;
mod rules;
#[cfg(test)]
mod tests;

use std::{fmt, path::PathBuf, process::ExitCode};

use anyhow::Context as _;
use serde::Serialize;

use crate::columns::Columns;
use inputs::Machine;
use pairing::Pairing;
use predict::Prediction;
use rules::{Check, Checked, RULES, Rule};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The SMB server, by the name or address that its shares are opened with; this machine is its client.
    server: Option<String>,
    /// Write what was looked at to files in FOLDER, for a bug report.
    #[arg(long, value_name = "FOLDER")]
    save: Option<PathBuf>,
    /// Look at what --save wrote to FOLDER instead of this machine; on any system.
    #[arg(long, value_name = "FOLDER", conflicts_with = "save")]
    from: Option<PathBuf>,
    /// What --save wrote on SERVER; of a Linux server a folder with its ksmbd.conf.
    #[arg(long, value_name = "FOLDER", requires = "server")]
    server_from: Option<PathBuf>,
}

/// What the doctor says.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    findings: Vec<Finding>,
    not_known: Vec<NotKnown>,
    notes: Vec<String>,
    /// `None`: there is no server, or it is not known.
    prediction: Option<Prediction>,
}

/// A cause that is there.
#[derive(Debug, Serialize)]
pub(crate) struct Finding {
    rule: &'static str,
    machine: String,
    what: String,
    why: &'static str,
    page: &'static str,
    mend: String,
}

/// Rules that could not be tried, all for one reason.
#[derive(Debug, Serialize)]
pub(crate) struct NotKnown {
    rules: Vec<&'static str>,
    machine: String,
    why: String,
}

/// How the report names the machine that is not the server.
const THIS: &str = "this machine";

pub(crate) fn execute(arguments: &Arguments, json: bool) -> anyhow::Result<ExitCode> {
    let Arguments { server, save, from, server_from } = arguments;
    let this = match from {
        Some(folder) => Machine::load(folder)?,
        None => Machine::here().context("cannot look at this machine; --from FOLDER looks at a recording")?,
    };
    anyhow::ensure!(this.is_windows(), "the recording is of no Windows machine: give it by --server-from");
    if let Some(folder) = save {
        this.save(folder)?;
    }
    let recorded = server_from.as_deref().map(Machine::load).transpose()?;
    let report = Report::new(&this, server.as_deref(), recorded.as_ref());
    crate::print(&report, json)?;
    Ok(if report.is_healthy() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Report {
    pub(crate) fn new(this: &Machine, server: Option<&str>, recorded: Option<&Machine>) -> Self {
        let mut report = Self { findings: Vec::new(), not_known: Vec::new(), notes: Vec::new(), prediction: None };
        let Some(name) = server else {
            // What this machine serves counts, unless it cannot serve RDMA at all.
            let serves = !checks::is_client_only(this).unwrap_or(false);
            if !serves {
                report.notes.push("As a client only: Windows 10 and 11 are no servers of SMB Direct.".to_owned());
            }
            report.note_server();
            report.check_machine(THIS, this, true, serves);
            return report;
        };
        report.check_machine(THIS, this, true, false);
        match recorded {
            Some(recorded) if recorded.is_windows() => report.check_machine(name, recorded, false, true),
            Some(_) => (),
            None => report.notes.push(format!(
                "{name} itself was not looked at: `ndkctl doctor --save FOLDER` there, and --server-from FOLDER here. Linux: a folder with its \
                 ksmbd.conf, which needs `server multi channel support = yes`."
            )),
        }
        let pairing = Pairing::new(name, this, recorded);
        for rule in RULES {
            if let Check::Pair(check) = rule.check {
                report.add(rule, THIS, check(&pairing));
            }
        }
        report.prediction = pairing.prediction().ok().cloned();
        if let Ok(configuration) = this.only::<inputs::SmbClientConfiguration>() {
            let above = configuration.window_size_threshold;
            report
                .notes
                .push(format!("The client opens more than its first connection above {above} outstanding requests."));
        }
        for row in pairing.rows().unwrap_or_default().iter().filter(|row| row.selected) {
            let by = if row.client_rdma_capable && row.server_rdma_capable { "RDMA" } else { "TCP" };
            report
                .notes
                .push(format!("Windows has selected {} to {} by {by}.", row.client_ip_address, row.server_ip_address));
        }
        report
    }

    /// Whether nothing was found, and all is known.
    pub(crate) fn is_healthy(&self) -> bool {
        self.findings.is_empty() && self.not_known.is_empty()
    }

    fn note_server(&mut self) {
        self.notes
            .push("`ndkctl doctor SERVER` says more: of a server, and the addresses that Windows will use.".to_owned());
    }

    fn check_machine(&mut self, name: &str, machine: &Machine, is_client: bool, is_server: bool) {
        for rule in RULES {
            match rule.check {
                Check::Either(check) => self.add(rule, name, check(machine)),
                Check::Client(check) if is_client => self.add(rule, name, check(machine)),
                Check::Server(check) if is_server => self.add(rule, name, check(machine)),
                _ => (),
            }
        }
    }

    fn add(&mut self, rule: &Rule, machine: &str, checked: Checked) {
        let machine = machine.to_owned();
        match checked {
            Ok(found) => self.findings.extend(found.into_iter().map(|found| Finding {
                rule: rule.name,
                machine: machine.clone(),
                what: found.what,
                why: rule.why,
                page: rule.page,
                // As a text of PowerShell in single quotes has it.
                mend: rule.mend.replace("{}", &found.name.replace('\'', "''")),
            })),
            Err(unknown) => {
                let why = unknown.to_string();
                match self.not_known.iter_mut().find(|known| known.machine == machine && known.why == why) {
                    Some(known) => known.rules.push(rule.name),
                    None => self.not_known.push(NotKnown { rules: vec![rule.name], machine, why }),
                }
            }
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Finding { rule, machine, what, why, page, mend } in &self.findings {
            writeln!(f, "{machine}: {what} ({rule})")?;
            writeln!(f, "  why   {why}")?;
            writeln!(f, "  page  {page}")?;
            writeln!(f, "  mend  {mend}\n")?;
        }
        for NotKnown { rules, machine, why } in &self.not_known {
            writeln!(f, "{machine}: not known: {why} ({})\n", rules.join(", "))?;
        }
        if self.is_healthy() {
            writeln!(f, "nothing found\n")?;
        }
        if let Some(prediction) = &self.prediction {
            let unless = if self.findings.is_empty() { "" } else { ", unless what was found is in the way" };
            writeln!(f, "By the interfaces that SMB lists Windows will use{unless}:")?;
            write!(f, "{prediction}")?;
        }
        for note in &self.notes {
            writeln!(f, "{note}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Prediction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ends = |pair: &predict::Pair| {
            let (client, server) = (&pair.client_name, &pair.server_name);
            [format!("{} ({client})", pair.client), format!("{} ({server})", pair.server)]
        };
        if self.chosen.is_empty() {
            writeln!(f, "no pair of addresses beyond its first connection\n")?;
        } else {
            let mut columns = Columns::new(["client", "server", "by", "connections", "Mbit/s"]);
            for predict::Chosen { pair, connections } in &self.chosen {
                let [client, server] = ends(pair);
                let by = if pair.rdma { "RDMA" } else { "TCP" };
                columns.row([
                    client,
                    server,
                    by.to_owned(),
                    connections.to_string(),
                    (pair.speed / 1_000_000).to_string(),
                ]);
            }
            writeln!(f, "{columns}")?;
        }
        if !self.left_out.is_empty() {
            writeln!(f, "It will not use, by MS-SMB2 3.2.5.14.11:")?;
            let mut columns = Columns::new(["client", "server", "because"]);
            for predict::LeftOut { pair, reason } in &self.left_out {
                let [client, server] = ends(pair);
                columns.row([client, server, reason.text().to_owned()]);
            }
            writeln!(f, "{columns}")?;
        }
        Ok(())
    }
}
