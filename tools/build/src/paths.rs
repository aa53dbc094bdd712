//! Where things lie, in the tree and on the machine.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The root of the tree this program was built from.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").components().fold(PathBuf::new(), |mut path, part| {
        if part == std::path::Component::ParentDir {
            path.pop();
        } else {
            path.push(part);
        }
        path
    })
}

/// The Linux build of the driver.
pub fn cross() -> PathBuf {
    root().join("tools/cross")
}

/// What `cargo xtask build` makes.
pub fn dist() -> PathBuf {
    root().join("target/dist")
}

/// What outlives a checkout: `$XDG_CACHE_HOME/softndk`, or `~/.cache/softndk`.
pub(crate) fn cache() -> Result<PathBuf> {
    let base = match std::env::var_os("XDG_CACHE_HOME").filter(|value| !value.is_empty()) {
        Some(base) => PathBuf::from(base),
        None => std::env::home_dir().context("neither XDG_CACHE_HOME nor a home directory is set")?.join(".cache"),
    };
    Ok(base.join("softndk"))
}
