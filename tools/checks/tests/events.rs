//! docs/events.md, the events that the driver writes, and what reads them agree.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use tracelogging::Guid;

/// Level, keywords, fields.
type Entry = (String, Vec<String>, Vec<String>);

fn read(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The events that the driver's source has: `event! { "Name", Level, KEYWORD | KEYWORD, kind("Field", ..), .. }`.
fn written(source: &str) -> BTreeMap<String, Entry> {
    let entry = |text: &str| {
        let text = text.split_once('}').expect("an end").0;
        let [name, level, keywords, fields] = text.splitn(4, ',').collect::<Vec<_>>()[..] else { panic!("{text}") };
        let sorted = |mut keywords: Vec<String>| {
            keywords.sort();
            keywords
        };
        let keywords = keywords.split('|').map(|keyword| keyword.trim().to_lowercase()).collect();
        let fields = fields.split('"').skip(1).step_by(2).map(str::to_owned).collect();
        (name.trim().trim_matches('"').to_owned(), (level.trim().to_lowercase(), sorted(keywords), fields))
    };
    source.split("event! {").skip(1).map(entry).collect()
}

/// The rows of the documented table.
fn documented(text: &str) -> BTreeMap<String, Entry> {
    let table = text.split_once("| event | level |").expect("the table").1;
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let list = |cell: &str| cell.split(", ").map(str::to_owned).collect::<Vec<_>>();
    let entry = |row: &str| {
        let [_, name, level, keywords, fields, ..] = row.split('|').map(str::trim).collect::<Vec<_>>()[..] else {
            panic!("{row}")
        };
        let mut keywords = list(keywords);
        keywords.sort();
        (name.to_owned(), (level.to_owned(), keywords, list(fields)))
    };
    rows.map(entry).collect()
}

/// The `const NAME: u64 = 0x..;` of the driver's source.
fn keywords(source: &str) -> Vec<(u64, String)> {
    let keyword = |line: &str| {
        let (name, value) = line.strip_prefix("const ")?.split_once(": u64 = 0x")?;
        Some((u64::from_str_radix(value.strip_suffix(';')?, 16).ok()?, name.to_lowercase()))
    };
    source.lines().filter_map(keyword).collect()
}

// Shows S1505, T71.
#[test]
fn the_table_has_the_events_of_the_driver() {
    let (source, text) = (read("driver/softndk/src/events.rs"), read("docs/events.md"));
    let found = written(&source);
    assert!(found.len() >= 17, "{found:?}");
    assert_eq!(found, documented(&text));
    let known = keywords(&source);
    assert_eq!(known, events::KEYWORDS.map(|(bit, name)| (bit, name.to_owned())));
    for (bit, name) in known {
        assert!(text.contains(&format!("| {name} | {bit:#x} |")), "{name}");
    }
}

// Shows S1505.
#[test]
fn the_provider_has_its_name_and_guid() {
    let guid = Guid::from_name(events::PROVIDER);
    assert_eq!(guid, Guid::from_u128(&events::PROVIDER_ID));
    let guid = guid.to_utf8_bytes();
    let guid = std::str::from_utf8(&guid).unwrap();
    assert!(
        read("driver/softndk/src/events.rs").contains(&format!("define_provider!(PROVIDER, {:?});", events::PROVIDER))
    );
    assert!(read("docs/events.md").contains(&format!("`{guid}`")), "{guid}");
    assert!(read("tools/collect-logs.ps1").contains(guid), "{guid}");
}

/// An event that is not documented, or otherwise.
#[test]
fn a_difference_is_noticed() {
    let (source, text) = (read("driver/softndk/src/events.rs"), read("docs/events.md"));
    let planted =
        source.replacen("event! { \"AdapterStopped\", Informational", "event! { \"AdapterStopped\", Error", 1);
    assert_ne!(written(&planted), documented(&text));
    let planted = source.replacen("u32(\"Depth\"", "u32(\"Deep\"", 1);
    assert_ne!(written(&planted), documented(&text));
}
