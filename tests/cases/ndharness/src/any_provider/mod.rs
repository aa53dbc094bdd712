//! Any provider of NetworkDirect: the cases that need nothing but its published interfaces, and a report that its user can send.

mod findings;
#[cfg(windows)]
mod run;
#[cfg(windows)]
mod version_of_file;

use std::{convert::Infallible, path::PathBuf, str::FromStr};

pub(crate) use findings::Findings;
#[cfg(windows)]
pub(crate) use run::{Way, Which, run, serve};

use crate::provider;

/// What a user names a provider by.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(not(any(windows, test)), expect(dead_code, reason = "providers are for Windows"))]
pub(crate) enum Named {
    /// The identifier of its entry in the Winsock catalog.
    Entry(u128),
    /// Its DLL.
    Library(PathBuf),
}

impl FromStr for Named {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(provider::read(text).map_or_else(|| Self::Library(text.into()), Self::Entry))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identifier_is_of_the_catalog_anything_else_a_file() {
        let named = |text: &str| text.parse::<Named>().unwrap();
        assert_eq!(named("{00000000-0000-0000-0000-000000000001}"), Named::Entry(1));
        assert_eq!(named("softnd.dll"), Named::Library("softnd.dll".into()));
        assert_eq!(named(r"C:\a\00000000"), Named::Library(r"C:\a\00000000".into()));
    }
}
