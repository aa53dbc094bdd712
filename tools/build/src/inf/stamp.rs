//! What stampinf makes of the INF, for where there is none.

use anyhow::{Context, Result};
use toml::Table;

use crate::command::output;
use crate::paths;

/// The INF of x64, with today's date, the driver's version, and the KMDF that it is built for.
pub fn stamped() -> Result<String> {
    let manifest = std::fs::read_to_string(paths::root().join("driver/softndk/Cargo.toml"))?.parse::<Table>()?;
    let package = &manifest["package"];
    let version = package["version"].as_str().context("the driver has no version")?;
    let model = &package["metadata"]["wdk"]["driver-model"];
    let kmdf = format!("{}.{}", model["kmdf-version-major"], model["target-kmdf-version-minor"]);
    let date = output(std::process::Command::new("date").arg("+%m/%d/%Y"))?;
    Ok(stamp(&super::source()?, &format!("{},{version}.0", date.trim()), &kmdf))
}

fn stamp(source: &str, version: &str, kmdf: &str) -> String {
    let stamped = source.lines().map(|line| match line.starts_with("DriverVer") {
        true => format!("DriverVer = {version}\r\n"),
        false => format!("{line}\r\n"),
    });
    stamped.collect::<String>().replace("$ARCH$", "amd64").replace("$KMDFVERSION$", kmdf)
}

#[cfg(test)]
mod tests {
    use super::{stamp, stamped};

    #[test]
    fn what_stampinf_fills_in_is_filled_in() {
        assert_eq!(
            stamp("DriverVer = ; stampinf\nx = NT$ARCH$.10, $KMDFVERSION$\n", "11/22/2026,1.2.3.0", "1.33"),
            "DriverVer = 11/22/2026,1.2.3.0\r\nx = NTamd64.10, 1.33\r\n",
        );
    }

    #[test]
    fn the_versions_are_those_of_the_manifest() {
        let text = stamped().unwrap();
        assert!(text.contains("KmdfLibraryVersion = 1.33\r\n") && text.contains(",0.1.0.0\r\n"), "{text}");
        assert!(!text.contains("ARCH$"), "{text}");
    }
}
