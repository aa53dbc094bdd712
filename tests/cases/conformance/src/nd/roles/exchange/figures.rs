//! What was moved.

use ndk_abi::status::NTSTATUS;

use crate::nd::pair::{BIND, INVALIDATE, READ, RECEIVE, SEND, WRITE};

/// The kinds of request, in the order in which they are told.
const KINDS: [(i32, &str); 6] = [
    (SEND, "sends"),
    (RECEIVE, "shared receives"),
    (WRITE, "writes"),
    (READ, "reads"),
    (BIND, "binds"),
    (INVALIDATE, "invalidates"),
];

/// Requests that succeeded, by kind, and their bytes.
#[derive(Default)]
pub(super) struct Figures {
    counts: [(u64, u64); KINDS.len()],
    /// Times that the shared queue ran low.
    pub(super) refills: u64,
}

impl Figures {
    pub(super) fn add(&mut self, kind: i32, bytes: usize) {
        for (count, _) in self.counts.iter_mut().zip(KINDS).filter(|(_, (known, _))| *known == kind) {
            count.0 += 1;
            count.1 += bytes as u64;
        }
    }

    pub(super) fn requests(&self) -> u64 {
        self.counts.iter().map(|(requests, _)| requests).sum()
    }

    pub(super) fn to_string(&self, seconds: f64) -> String {
        let kinds = self.counts.iter().zip(KINDS).map(|((count, bytes), (_, name))| match bytes {
            0 => format!("{count} {name}"),
            bytes => format!("{count} {name} ({:.1} MiB)", *bytes as f64 / f64::from(1 << 20)),
        });
        let kinds: Vec<_> = kinds.collect();
        let (requests, refills) = (self.requests(), self.refills);
        format!("{requests} requests in {seconds:.1} s, data checked: {}; {refills} refills", kinds.join(", "))
    }
}

/// How requests ended, counted.
#[derive(Default)]
pub(super) struct StatusCounts(std::collections::BTreeMap<(i32, u32), usize>);

impl StatusCounts {
    pub(super) fn add(&mut self, kind: i32, status: NTSTATUS) {
        *self.0.entry((kind, status.to_u32())).or_default() += 1;
    }

    /// Kinds and statuses, once each.
    pub(super) fn statuses(&self) -> impl Iterator<Item = (i32, NTSTATUS)> {
        self.0.keys().map(|(kind, status)| (*kind, NTSTATUS::from_u32(*status)))
    }
}

impl std::fmt::Display for StatusCounts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.is_empty() {
            return write!(f, "nothing");
        }
        for (place, ((kind, status), count)) in self.0.iter().enumerate() {
            let name = KINDS.iter().find(|(known, _)| known == kind).map_or("requests", |(_, name)| name);
            let comma = if place == 0 { "" } else { ", " };
            write!(f, "{comma}{count} {name} {}", NTSTATUS::from_u32(*status))?;
        }
        Ok(())
    }
}
