//! The C declarations of `c/ndk.h` against the fact table of the ABI, by static assertions: what a C program is compiled
//! with is what the provider's tables are.

use std::{fmt::Write, fs, path::Path};

use crate::program;

/// One row of the fact table: kind, name, member, index or offset, value or type.
type Row = [String; 5];

fn facts() -> Vec<Row> {
    let file = program::folder().join("../../../driver/ndk-abi/tests/facts/ndkpi_abi.csv");
    let mut reader = csv::Reader::from_path(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let rows = reader.records().map(|record| {
        let record = record.expect("a row");
        std::array::from_fn(|column| record.get(column).unwrap_or_default().to_owned())
    });
    rows.collect()
}

/// Whether a C consumer on the host has this name. The rest is NDIS's, and not declared.
fn declared([kind, name, member, ..]: &Row) -> bool {
    match kind.as_str() {
        "const" => ["NDK_CQ_NOTIFY", "NDK_MR_FLAG", "NDK_OP_FLAG", "NDK_ADAPTER_FLAG", "NTSTATUS", "NDIS_STATUS"]
            .contains(&name.as_str()),
        // The extension is not offered; the two typedefs are in no table; the handlers are NDIS's.
        "fn" => {
            let others = ["NDK_FN_GET_RSS_PROCESSOR_INFO", "NDK_FN_DISCONNECT_EX", "NDK_FN_QUERY_ADAPTER_INFO_EX"];
            name.starts_with("NDK_FN_") && !others.contains(&name.as_str())
        }
        "struct" | "enum" | "dispatch" => {
            name.starts_with("NDK_")
                && !name.starts_with("NDK_WMI")
                && !name.starts_with("NDK_EXTENSION_ADAPTER")
                && !member.is_empty()
        }
        _ => false,
    }
}

/// The assertions of some facts, and how many there are.
fn assertions(rows: &[Row]) -> (String, usize) {
    let mut source = String::from("#include \"ndk.h\"\n");
    let mut count = 0;
    let mut claim = |claim: String| {
        count += 1;
        writeln!(source, "_Static_assert({claim}, \"\");").expect("memory");
    };
    let pointer = size_of::<usize>();
    for [kind, name, member, index, value] in rows {
        match kind.as_str() {
            "struct" if member == "(sizeof)" => claim(format!("sizeof({name}) == {index}")),
            "struct" if value.starts_with("union") => {
                claim(format!("offsetof({name}, VirtualAddress) == {index}"));
                claim(format!("offsetof({name}, LogicalAddress) == {index}"));
            }
            "struct" => {
                claim(format!("offsetof({name}, {member}) == {index}"));
                claim(same_type(&format!("(({name} *)0)->{member}"), &c_type(value)));
            }
            "dispatch" => {
                claim(format!("offsetof({name}, {member}) == {index} * {pointer}"));
                claim(same_type(&format!("(({name} *)0)->{member}"), &format!("{value} *")));
            }
            "enum" => {
                claim(format!("{member} == {value}"));
                claim(format!("sizeof(enum {name}) == 4"));
            }
            "const" if value.len() == "0x12345678".len() => claim(format!("{member} == (NTSTATUS){value}")),
            "const" => claim(format!("{member} == {value}")),
            _ => {}
        }
    }
    for table in rows.chunk_by(|a, b| a[0] == b[0] && a[1] == b[1]) {
        let [kind, name, ..] = &table[0];
        match kind.as_str() {
            "dispatch" => claim(format!("sizeof({name}) == {} * {pointer}", table.len())),
            "fn" => {
                let mut types = table.iter().map(|[.., value]| c_type(value));
                let returns = types.next().expect("a return type");
                let parameters: Vec<_> = types.collect();
                let written = format!("{returns} ({})", parameters.join(", "));
                claim(format!("__builtin_types_compatible_p({name}, {written})"));
            }
            _ => {}
        }
    }
    (source, count)
}

fn same_type(expression: &str, c: &str) -> String {
    format!("__builtin_types_compatible_p(__typeof__({expression}), __typeof__({c}))")
}

/// A type of the fact table as C has it. Callbacks are pointers to the functions named.
fn c_type(value: &str) -> String {
    let value = value.split(" [").next().unwrap_or(value);
    let constant = value.strip_prefix("CONST ").map(|rest| match rest {
        "PVOID" => "const void *".to_owned(),
        "PSOCKADDR" => "const PSOCKADDR".to_owned(),
        rest => format!("const {rest}"),
    });
    let value = constant.unwrap_or_else(|| value.to_owned());
    if value.starts_with("NDK_FN_") { format!("{value} *") } else { value }
}

fn check(rows: &[Row], file: &str) -> Result<usize, String> {
    let (source, count) = assertions(rows);
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(file);
    fs::write(&path, source).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    program::accepts(&path).map(|()| count)
}

// Shows S113.
#[test]
fn the_c_declarations_are_the_documentation() {
    let rows: Vec<_> = facts().into_iter().filter(declared).collect();
    let slots = rows.iter().filter(|row| row[0] == "dispatch").count();
    assert_eq!(slots, 70);
    let count = check(&rows, "declarations.c").unwrap_or_else(|error| panic!("{error}"));
    println!("{count} assertions about {} facts, {slots} slots among them", rows.len());
}

/// Negative control of the above: a fact that is wrong is noticed, whatever its kind.
#[test]
fn a_wrong_fact_is_noticed() {
    let rows: Vec<_> = facts().into_iter().filter(declared).collect();
    let of = |name: &str| rows.iter().filter(|row| row[1] == name).cloned().collect::<Vec<_>>();
    let corruptions: [(&str, usize, usize, &str); 7] = [
        ("NDK_RESULT_EX", 0, 3, "0x20"),
        ("NDK_SGE", 2, 3, "0x4"),
        ("NDK_SGE", 2, 4, "USHORT"),
        ("NDK_QP_DISPATCH", 3, 3, "4"),
        ("NDK_QP_DISPATCH", 3, 4, "NDK_FN_RECEIVE"),
        ("NDK_OP_FLAG", 9, 4, "0x100"),
        ("NDK_FN_SEND_AND_INVALIDATE", 5, 4, "UINT64"),
    ];
    for (at, (name, row, column, wrong)) in corruptions.into_iter().enumerate() {
        let mut facts = of(name);
        assert!(check(&facts, "right.c").is_ok(), "{name}");
        facts[row][column] = wrong.to_owned();
        assert!(check(&facts, &format!("wrong-{at}.c")).is_err(), "{:?}", facts[row]);
    }
}
