//! Looks at the whole driver.

use std::collections::BTreeMap;

use anyhow::Context as _;
use ndk_abi::softndk_ioctl::{
    IOCTL_SOFTNDK_ADAPTER, IOCTL_SOFTNDK_COUNTERS, SOFTNDK_ADAPTER, SOFTNDK_COUNTER, SOFTNDK_DIAGNOSTICS_QUERY,
    SOFTNDK_IOCTL_VERSION, SOFTNDK_LIST, SOFTNDK_LIST_END, SOFTNDK_LIST_QUERY,
};
use zerocopy::{FromBytes, IntoBytes as _};

use super::{Client, code_name};
use crate::error::{Error, Result};

const QUERY: SOFTNDK_DIAGNOSTICS_QUERY = SOFTNDK_DIAGNOSTICS_QUERY { Version: SOFTNDK_IOCTL_VERSION, Reserved: 0 };

/// Counters that are asked for at a time.
const AT_A_TIME: usize = 3;

/// The counters of an adapter.
#[derive(Debug)]
pub struct Counters(BTreeMap<String, u64>);

impl Counters {
    /// The value of one; an error: the adapter has none of that name.
    pub fn get(&self, name: &str) -> anyhow::Result<u64> {
        self.0.get(name).copied().with_context(|| format!("the adapter has no counter {name}"))
    }
}

impl Client {
    /// The counters of the adapter, by name.
    pub fn counters(&self) -> Result<Counters> {
        let name = |counter: &SOFTNDK_COUNTER| {
            let name = counter.Name.into_iter().take_while(|byte| *byte != 0).collect();
            String::from_utf8(name).unwrap_or_default()
        };
        let counters = self.list::<SOFTNDK_COUNTER>(IOCTL_SOFTNDK_COUNTERS, AT_A_TIME)?;
        Ok(Counters(counters.iter().map(|counter| (name(counter), counter.Value)).collect()))
    }

    /// The adapter and its limits.
    pub fn adapter_state(&self) -> Result<SOFTNDK_ADAPTER> {
        self.query(IOCTL_SOFTNDK_ADAPTER, &QUERY)
    }

    /// The part of a list that begins at `start`, of at most `most` entries, and the place of the next part.
    pub fn part<T: FromBytes>(&self, code: u32, start: u32, most: usize) -> Result<(Vec<T>, u32)> {
        let query = SOFTNDK_LIST_QUERY { Version: SOFTNDK_IOCTL_VERSION, Start: start };
        let room = size_of::<SOFTNDK_LIST>() + most * size_of::<T>();
        let output = self.begin(code, query.as_bytes(), room).finish()?.output;
        let wrong = || Error::WrongLength { request: code_name(code), returned: output.len(), expected: room };
        let (list, entries) = SOFTNDK_LIST::read(&output).ok_or_else(wrong)?;
        Ok((entries.collect(), list.Next))
    }

    /// A whole list, read `at_a_time` entries at a time.
    pub fn list<T: FromBytes>(&self, code: u32, at_a_time: usize) -> Result<Vec<T>> {
        let (mut all, mut start) = (Vec::new(), 0);
        while start != SOFTNDK_LIST_END {
            let (entries, next) = self.part(code, start, at_a_time)?;
            all.extend(entries);
            start = next;
        }
        Ok(all)
    }
}
