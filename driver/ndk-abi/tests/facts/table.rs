//! The fact tables: what the documentation says, one fact a row.
//!
//! Their last column says where a fact is from. D: a page of the driver documentation. C: a conceptual page. L: the
//! SDK documentation. U: the user-mode NetworkDirect documentation (MIT). PDB: public symbols of Windows. H…: only a
//! number or an offset, found with a header of the kits; no header text is here.

/// One fact. Which columns mean what depends on the kind:
///
/// | kind | name | member | index | value |
/// |---|---|---|---|---|
/// | `struct` | structure | field, or `(sizeof)` | offset, or size | C type |
/// | `dispatch` | table | entry | slot | function type |
/// | `enum` | enumeration | value's name | - | number |
/// | `const` | group | name | - | number, GUID or formula |
/// | `fn` | function type | parameter, or `(return)` | position | C type and `[in opt]` |
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) member: String,
    pub(crate) index: String,
    pub(crate) value: String,
}

const TABLES: [(&str, &str); 7] = [
    ("ndkpi_abi.csv", include_str!("ndkpi_abi.csv")),
    ("ndis.csv", include_str!("ndis.csv")),
    ("nd_ioctl.csv", include_str!("nd_ioctl.csv")),
    ("softndk.csv", include_str!("softndk.csv")),
    ("status.csv", include_str!("status.csv")),
    ("wdm.csv", include_str!("wdm.csv")),
    ("wsk.csv", include_str!("wsk.csv")),
];

/// The rows of all tables.
pub(crate) fn all() -> Vec<Row> {
    TABLES.iter().flat_map(|(file, text)| parse(file, text)).collect()
}

fn parse(file: &str, text: &str) -> Vec<Row> {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let records = reader.records().map(|record| record.unwrap_or_else(|error| panic!("{file}: {error}")));
    records
        .map(|record| {
            let column = |n: usize| record[n].to_owned();
            Row { kind: column(0), name: column(1), member: column(2), index: column(3), value: column(4) }
        })
        .collect()
}

/// A number as the tables write it: hexadecimal or decimal, perhaps with a remark in brackets.
pub(crate) fn number(text: &str) -> Option<u64> {
    let text = text.split_whitespace().next()?;
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}
