//! What driver/softndk takes of wdk-sys is in the bindings of a real WDK: `tools/build/facts/bindings.txt` names all of it. Our headers lie over those of
//! mingw-w64, which have names that a kit lacks; a driver that used one would be built here, and not on Windows.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use proc_macro2::{TokenStream, TokenTree};

/// Names that `cargo xtask wdk` found, when it built the driver over the headers of WDK 10.0.22621.
const KNOWN: &str = include_str!("../../build/facts/bindings.txt");

/// The call by name of crate wdk-sys: its first argument names a function type and an index of the table.
const CALL: &str = "call_unsafe_wdf_function_binding";

/// What a source takes of wdk-sys: paths below it, in `use` or elsewhere.
fn taken(tokens: TokenStream, names: &mut BTreeSet<String>) {
    let tokens: Vec<_> = tokens.into_iter().collect();
    for (at, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Ident(name) if name == "wdk_sys" => below("", &tokens[at + 1..], names),
            TokenTree::Ident(name) if name == CALL => {
                if let Some(TokenTree::Group(arguments)) = tokens.get(at + 2) {
                    let function = arguments.stream().into_iter().next().unwrap().to_string();
                    names.insert(format!("PFN_{}", function.to_uppercase()));
                    names.insert(format!("_WDFFUNCENUM::{function}TableIndex"));
                }
            }
            TokenTree::Group(group) => taken(group.stream(), names),
            _ => {}
        }
    }
}

/// The paths that go on with `::`, a name or a group of such.
fn below(path: &str, tokens: &[TokenTree], names: &mut BTreeSet<String>) {
    let is_colon = |token: Option<&TokenTree>| matches!(token, Some(TokenTree::Punct(colon)) if colon.as_char() == ':');
    if !(is_colon(tokens.first()) && is_colon(tokens.get(1))) {
        names.extend((!path.is_empty()).then(|| path.to_owned()));
        return;
    }
    let join = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}::{name}") };
    match tokens.get(2) {
        Some(TokenTree::Ident(name)) => below(&join(&name.to_string()), &tokens[3..], names),
        Some(TokenTree::Group(group)) => {
            let inner: Vec<_> = group.stream().into_iter().collect();
            for part in inner.split(|token| matches!(token, TokenTree::Punct(comma) if comma.as_char() == ',')) {
                if let [TokenTree::Ident(name), rest @ ..] = part {
                    below(&join(&name.to_string()), rest, names);
                }
            }
        }
        other => panic!("wdk_sys::{path}: {other:?}; each name is wanted"),
    }
}

fn sources(folder: &Path, names: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, names);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            taken(fs::read_to_string(path).unwrap().parse().unwrap(), names);
        }
    }
}

#[test]
fn the_driver_takes_what_a_kit_has() {
    let mut taken = BTreeSet::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../driver/softndk/src"), &mut taken);
    let known: BTreeSet<_> = KNOWN.lines().map(str::to_owned).collect();
    let new: Vec<_> = taken.difference(&known).collect();
    assert!(new.is_empty(), "after `cargo xtask wdk --headers` has built with them, facts/bindings.txt gets {new:#?}");
    let gone: Vec<_> = known.difference(&taken).collect();
    assert!(gone.is_empty(), "facts/bindings.txt loses what is no longer used: {gone:#?}");
}

/// Negative control.
#[test]
fn every_form_is_seen() {
    let source = r#"
        use wdk_sys::{_WDFFUNCENUM::A, ntddk::{B, C as D}, E};
        use wdk_sys::F;
        // use wdk_sys::No;
        fn f(x: wdk_sys::G) -> &'static str { unsafe { call_unsafe_wdf_function_binding!(WdfH, x, wdk_sys::ntddk::I()) }; "wdk_sys::No" }
    "#;
    let mut names = BTreeSet::new();
    taken(source.parse().unwrap(), &mut names);
    let expected = [
        "E",
        "F",
        "G",
        "PFN_WDFH",
        "_WDFFUNCENUM::A",
        "_WDFFUNCENUM::WdfHTableIndex",
        "ntddk::B",
        "ntddk::C",
        "ntddk::I",
    ];
    assert!(names.iter().eq(expected), "{names:?}");
}
