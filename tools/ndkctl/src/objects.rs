//! `ndkctl objects`.

use std::fmt;

use serde::Serialize;

use crate::{
    columns::Columns,
    driver::{self, Driver},
};

/// The number of objects of each kind.
#[derive(Debug, Serialize)]
pub(crate) struct Objects {
    pub(crate) objects: Vec<Kind>,
}

/// The objects of one kind.
#[derive(Debug, Serialize)]
pub(crate) struct Kind {
    pub(crate) kind: &'static str,
    pub(crate) alive: u32,
    /// The limit in NDIS_NDK_CAPABILITIES; `None`: there is none for this kind.
    pub(crate) limit: Option<u32>,
}

impl Objects {
    pub(crate) fn read(driver: &dyn Driver) -> anyhow::Result<Self> {
        let (found, most) = (driver::diagnostics(driver)?, driver::adapter(driver)?);
        let objects = [
            ("open adapters", found.Adapters, None),
            ("protection domains", found.Pds, Some(most.MaxPdCount)),
            ("completion queues", found.Cqs, Some(most.MaxCqCount)),
            ("memory regions", found.Mrs, Some(most.MaxMrCount)),
            ("memory windows", found.Mws, Some(most.MaxMwCount)),
            ("shared receive queues", found.Srqs, Some(most.MaxSrqCount)),
            ("queue pairs", found.Qps, Some(most.MaxQpCount)),
            ("connectors", found.Connectors, None),
            ("listeners", found.Listeners, None),
            ("shared endpoints", found.SharedEndpoints, None),
        ];
        Ok(Self { objects: objects.map(|(kind, alive, limit)| Kind { kind, alive, limit }).into() })
    }

    /// The number of objects of all kinds.
    pub(crate) fn count(&self) -> u64 {
        self.objects.iter().map(|kind| u64::from(kind.alive)).sum()
    }
}

impl fmt::Display for Objects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut columns = Columns::new(["kind", "alive", "at most"]);
        for Kind { kind, alive, limit } in &self.objects {
            let limit = limit.map_or_else(|| "-".to_owned(), |limit| limit.to_string());
            columns.row([(*kind).to_owned(), alive.to_string(), limit]);
        }
        write!(f, "{columns}")
    }
}
