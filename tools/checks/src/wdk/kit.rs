//! The headers of a WDK, in a folder of the user's. They name each other without regard to case, so the compiler reads them through an
//! overlay of its file system that has none; nothing is copied.

use std::collections::BTreeMap;
use std::fs;
#[cfg(unix)]
use std::os::unix::fs::symlink;
#[cfg(windows)]
use std::os::windows::fs::symlink_dir as symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use build::digest::{Content, is_stamped};
use build::paths;
use build::wdk_root::{self, KIT};
use serde_json::{Value, json};

/// Of the KMDF for which the driver is built.
const WDF: &str = "wdf/kmdf/1.33";

pub(super) struct Kit {
    /// What wdk-build takes for a WDK content root: empty folders where the overlay has headers, and our import libraries.
    pub(super) root: PathBuf,
    /// Where cargo builds over it.
    pub(super) target: PathBuf,
    overlay: PathBuf,
    /// By name in lower case.
    files: BTreeMap<String, PathBuf>,
}

impl Kit {
    /// From the Include folder of an installed kit, or a folder with its parts km, shared and wdf.
    pub(super) fn open(folder: &Path) -> Result<Self> {
        let headers = headers(folder)?;
        let wdf = folder.join(WDF);
        let needs = "microsoft/Windows-Driver-Frameworks has it in src/publicinc";
        ensure!(wdf.join("wdf.h").is_file(), "{} has no {WDF}/wdf.h; {needs}", folder.display());
        let root = paths::cross().join("target/kit");
        let include = root.join("Include");
        let mut files = BTreeMap::new();
        let mut content = Content::default();
        let parts = [
            (headers.join("km"), include.join(KIT).join("km")),
            (headers.join("shared"), include.join(KIT).join("shared")),
            (wdf, include.join(WDF)),
        ];
        let tree = |(from, to): &(PathBuf, PathBuf)| tree(from, to, &mut files, &mut content);
        let roots = parts.iter().map(tree).collect::<Result<Vec<_>>>()?;
        for folder in [include.join(KIT).join("km/crt"), include.join(KIT).join("km/ufx/1.1")] {
            fs::create_dir_all(folder)?;
        }
        for (_, folder) in parts {
            fs::create_dir_all(folder)?;
        }
        let libraries = wdk_root::prepare()?.join("Lib");
        if !root.join("Lib").exists() {
            symlink(libraries, root.join("Lib"))?;
        }
        let overlay = root.join("overlay.json");
        let names = json!({ "version": 0, "case-sensitive": "false", "roots": roots });
        fs::write(&overlay, serde_json::to_string(&names)?)?;
        let target = root.join("build");
        let (stamp, key) = (root.join("stamp"), content.finish());
        if !is_stamped(&stamp, &key) {
            // cargo does not know which headers were read before.
            wdk_root::clean("wdk-sys", &target)?;
            fs::write(stamp, key)?;
        }
        Ok(Self { root, target, overlay, files })
    }

    /// What clang has to be told.
    pub(super) fn flags(&self) -> String {
        format!("-ivfsoverlay {}", self.overlay.display())
    }

    /// Where it looks for headers.
    pub(super) fn folders(&self) -> [PathBuf; 4] {
        let include = self.root.join("Include");
        let km = include.join(KIT).join("km");
        [km.join("crt"), km, include.join(KIT).join("shared"), include.join(WDF)]
    }

    /// The text of a header.
    pub(super) fn header(&self, name: &str) -> Result<String> {
        let path = self.files.get(name).with_context(|| format!("the kit has no {name}"))?;
        let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// The folder of km and shared: this one, or below it that of the newest version.
fn headers(folder: &Path) -> Result<PathBuf> {
    let has_them = |folder: &PathBuf| folder.join("km/ntddk.h").is_file() && folder.join("shared").is_dir();
    let entries = fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let versions = entries.map_while(Result::ok).map(|entry| entry.path());
    let newest = versions.filter(has_them).max_by_key(|path| version(path));
    let here = Some(folder.to_path_buf()).filter(has_them);
    here.or(newest).with_context(|| {
        format!("{} is no Include folder of a WDK: neither km/ntddk.h and shared nor 10.*/km/ntddk.h", folder.display())
    })
}

/// The numbers of a folder's name.
fn version(path: &Path) -> Vec<u32> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.split('.').filter_map(|part| part.parse().ok()).collect()
}

/// A folder in the overlay's notation.
fn tree(from: &Path, to: &Path, files: &mut BTreeMap<String, PathBuf>, content: &mut Content) -> Result<Value> {
    let mut contents = Vec::new();
    let mut entries = fs::read_dir(from)
        .with_context(|| format!("cannot list {}", from.display()))?
        .collect::<Result<Vec<_>, _>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_str().context("a file name that is not UTF-8")?;
        if path.is_dir() {
            contents.push(tree(&path, Path::new(name), files, content)?);
            continue;
        }
        let about = path.metadata()?;
        content.add(&path.to_string_lossy(), format!("{} {:?}", about.len(), about.modified()?).as_bytes());
        contents.push(json!({ "type": "file", "name": name, "external-contents": path.canonicalize()? }));
        files.insert(name.to_lowercase(), path);
    }
    Ok(json!({ "type": "directory", "name": to, "contents": contents }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kit_is_found_in_both_forms_and_the_newest_is_taken() {
        let place = std::env::temp_dir().join(format!("softndk-include-{}", std::process::id()));
        let put = |file: &str| {
            let file = place.join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "").unwrap();
        };
        assert!(headers(&place).is_err(), "not there");
        for file in ["10.0.9999.0/km/ntddk.h", "10.0.9999.0/shared/ntdef.h", "10.0.22621.0/shared/ntdef.h", "wdf/a"] {
            put(file);
        }
        assert_eq!(headers(&place).unwrap(), place.join("10.0.9999.0"), "the other has no km");
        put("10.0.22621.0/km/ntddk.h");
        assert_eq!(headers(&place).unwrap(), place.join("10.0.22621.0"));
        put("km/ntddk.h");
        put("shared/ntdef.h");
        assert_eq!(headers(&place).unwrap(), place);
        let error = format!("{:#}", Kit::open(&place).err().unwrap());
        assert!(error.contains("wdf/kmdf/1.33/wdf.h"), "{error}");
        fs::remove_dir_all(place).unwrap();
    }
}
