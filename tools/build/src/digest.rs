//! Content hashes: keys of caches, and stamps that say what a generated tree was generated from.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

/// SHA-256 of named pieces of content; the name and the length of each piece count too.
#[derive(Default)]
pub struct Content(Sha256);

impl Content {
    /// Adds a piece.
    pub fn add(&mut self, name: &str, bytes: &[u8]) {
        self.0.update(format!("{name}\0{}\0", bytes.len()));
        self.0.update(bytes);
    }

    /// Adds a file, or every file below a directory in the order of their names.
    pub(crate) fn add_path(&mut self, path: &Path) -> Result<()> {
        if path.is_dir() {
            let mut entries = fs::read_dir(path)?.collect::<std::io::Result<Vec<_>>>()?;
            entries.sort_by_key(fs::DirEntry::file_name);
            return entries.iter().try_for_each(|entry| self.add_path(&entry.path()));
        }
        let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        self.add(&path.to_string_lossy(), &bytes);
        Ok(())
    }

    /// Lower-case hexadecimal.
    pub fn finish(self) -> String {
        self.0.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// True if the file `stamp` holds exactly `key`.
pub fn is_stamped(stamp: &Path, key: &str) -> bool {
    fs::read_to_string(stamp).is_ok_and(|found| found == key)
}

#[cfg(test)]
mod tests {
    use super::Content;

    #[test]
    fn pieces_do_not_run_into_each_other() {
        let key = |pieces: &[(&str, &[u8])]| {
            let mut content = Content::default();
            pieces.iter().for_each(|(name, bytes)| content.add(name, bytes));
            content.finish()
        };
        assert_eq!(key(&[("a", b"bc")]), key(&[("a", b"bc")]));
        assert_ne!(key(&[("a", b"bc")]), key(&[("ab", b"c")]));
        assert_ne!(key(&[("a", b"b"), ("a", b"c")]), key(&[("a", b"bac")]));
    }
}
