//! Layouts of C declarations. A generated header asks for each size and offset as the value of an enumerator; clang
//! works them out, and bindgen hands them over as it reads them.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::{Context, Result};
use bindgen::Builder;
use bindgen::callbacks::{EnumVariantCustomBehavior, EnumVariantValue, ParseCallbacks};
use ndk_abi::describe::{Field, Layout};

/// Structures that C gives no name of their own: the structure they are in, and where.
const NAMELESS: [(&str, &str, &str); 3] = [
    ("NDIS_OID_REQUEST_QUERY", "NDIS_OID_REQUEST", "DATA.QUERY_INFORMATION"),
    ("NDIS_OID_REQUEST_SET", "NDIS_OID_REQUEST", "DATA.SET_INFORMATION"),
    ("NDIS_OID_REQUEST_METHOD", "NDIS_OID_REQUEST", "DATA.METHOD_INFORMATION"),
];

/// Sizes and offsets, by the expressions that ask for them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Headers(Rc<RefCell<HashMap<String, u64>>>);

/// Reads what a header, and those it includes from these folders, declare of these structures, for x64 Windows. What
/// they do not declare is an error, which names all of it.
pub(crate) fn read(header: &Path, folders: &[PathBuf], layouts: &[&Layout]) -> Result<Headers> {
    let mut text = format!("#include \"{}\"\nenum softndk {{\n", header.display());
    for layout in layouts {
        writeln!(text, "{} = {},", enumerator(layout, None), size(layout))?;
        for field in published(layout) {
            writeln!(text, "{} = {},", enumerator(layout, Some(field)), offset(layout, field))?;
        }
    }
    text.push_str("};\n");
    let headers = Headers::default();
    let folders = folders.iter().map(|folder| format!("--include-directory={}", folder.display()));
    Builder::default()
        .header_contents("softndk.h", &text)
        .clang_args(["--target=x86_64-pc-windows-msvc", "-fms-compatibility", "-fms-extensions", "-fno-builtin", "-w"])
        .clang_arg("-ferror-limit=0")
        .clang_args(folders)
        .allowlist_type("softndk")
        .parse_callbacks(Box::new(headers.clone()))
        .generate()
        .context("the headers cannot be read, or lack a declaration")?;
    Ok(headers)
}

/// The fields that C declares, too: padding is ours.
pub(crate) fn published(layout: &Layout) -> impl Iterator<Item = &Field> {
    layout.fields.iter().filter(|field| !field.name.starts_with("Padding"))
}

impl Headers {
    /// Bytes of the structure in C.
    pub(crate) fn size(&self, layout: &Layout) -> Option<usize> {
        self.value(&enumerator(layout, None))
    }

    /// Bytes before the field in C.
    pub(crate) fn offset(&self, layout: &Layout, field: &Field) -> Option<usize> {
        self.value(&enumerator(layout, Some(field)))
    }

    fn value(&self, enumerator: &str) -> Option<usize> {
        self.0.borrow().get(enumerator).and_then(|value| usize::try_from(*value).ok())
    }
}

impl ParseCallbacks for Headers {
    fn enum_variant_behavior(
        &self,
        _enumeration: Option<&str>,
        enumerator: &str,
        value: EnumVariantValue,
    ) -> Option<EnumVariantCustomBehavior> {
        let value = match value {
            EnumVariantValue::Unsigned(value) => value,
            EnumVariantValue::Signed(value) => value.try_into().ok()?,
            EnumVariantValue::Boolean(_) => return None,
        };
        self.0.borrow_mut().insert(enumerator.to_owned(), value);
        None
    }
}

fn enumerator(layout: &Layout, field: Option<&Field>) -> String {
    format!("softndk_{}_{}", layout.name, field.map_or("sizeof", |field| field.name))
}

fn size(layout: &Layout) -> String {
    match NAMELESS.iter().find(|(name, ..)| *name == layout.name) {
        Some((_, outer, place)) => format!("sizeof((({outer} *)0)->{place})"),
        None => format!("sizeof({})", layout.name),
    }
}

fn offset(layout: &Layout, field: &Field) -> String {
    // In C this union has no name; its members lie where it does.
    let name = if (layout.name, field.name) == ("NDK_SGE", "u") { "VirtualAddress" } else { field.name };
    match NAMELESS.iter().find(|(name, ..)| *name == layout.name) {
        Some((_, outer, place)) => {
            format!("__builtin_offsetof({outer}, {place}.{name}) - __builtin_offsetof({outer}, {place})")
        }
        None => format!("__builtin_offsetof({}, {name})", layout.name),
    }
}
