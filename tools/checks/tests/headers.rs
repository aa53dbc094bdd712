//! Our WDF headers of tools/cross include what the kit's do and no more, so that what a build on Windows lacks a build here
//! lacks, too.

use std::fs;
use std::path::Path;

/// The headers that wdf.h of KMDF 1.33 does not include, of those in its folder; it includes the other 38
/// (microsoft/Windows-Driver-Frameworks, src/publicinc/wdf/kmdf/1.33; the same in WDK 10.0.22621).
const NOT_IN_WDF_H: [&str; 4] = ["wdfinstaller.h", "wdfminiport.h", "wdftraceenums.h", "wdfusb.h"];

/// Those of them that the text of a header includes.
fn wrong_includes(text: &str) -> Vec<&'static str> {
    let includes: Vec<_> = text.lines().filter_map(|line| line.trim_start().strip_prefix("#include")).collect();
    // Windows does not care for case.
    let includes = |name: &&str| includes.iter().any(|include| include.to_lowercase().contains(*name));
    NOT_IN_WDF_H.into_iter().filter(includes).collect()
}

#[test]
fn wdf_h_includes_what_the_kit_s_does() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cross/include/wdf");
    let headers: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(headers.iter().any(|header| header.ends_with("wdf.h")), "{headers:?}");
    for header in headers {
        let text = fs::read_to_string(&header).unwrap();
        assert_eq!(wrong_includes(&text), Vec::<&str>::new(), "{}", header.display());
    }
}

/// Negative control.
#[test]
fn an_include_that_the_kit_lacks_is_noticed() {
    assert_eq!(wrong_includes("#include \"wdftypes.h\"\n #include <WdfMiniport.h>\n"), ["wdfminiport.h"]);
}
