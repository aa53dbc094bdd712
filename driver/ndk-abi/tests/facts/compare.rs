//! Compares the tables with the crate, both ways: each fact must be declared, each declaration must be a fact.

use std::collections::{BTreeMap, BTreeSet};

use ndk_abi::{
    describe::{Field, Kind, Layout, Number, Prototype},
    index,
};
use ndk_abi::{ndis, ndkpi, wdm::GUID};

use crate::ctypes::{Place, Types, short};
use crate::table::{Row, number};

/// The crate's declarations by name.
pub(crate) struct Crate {
    layouts: BTreeMap<&'static str, &'static Layout>,
    numbers: BTreeMap<&'static str, &'static Number>,
    prototypes: BTreeMap<&'static str, &'static Prototype>,
    types: Types,
}

/// What does not agree, for people.
#[derive(Debug)]
pub(crate) struct Differences {
    /// Facts the crate declares otherwise, or not at all.
    pub(crate) contradictions: Vec<String>,
    /// Declarations that no table has.
    pub(crate) undocumented: Vec<&'static str>,
}

impl Differences {
    pub(crate) fn count(&self) -> usize {
        self.contradictions.len() + self.undocumented.len()
    }
}

/// Facts of one name.
type Group<'a> = Vec<&'a Row>;

const GUIDS: [(&str, GUID); 3] = [
    ("GUID_NDIS_NDK_CAPABILITIES", ndis::GUID_NDIS_NDK_CAPABILITIES),
    ("GUID_NDIS_NDK_STATE", ndis::GUID_NDIS_NDK_STATE),
    ("NDK_EXTENSION_ID_ADAPTER_RSS_DISPATCH", ndkpi::NDK_EXTENSION_ID_ADAPTER_RSS_DISPATCH),
];

/// Sizes that depend on a count, written `head + entry*n`.
type SizeFor = fn(usize) -> Option<usize>;
const FORMULAS: [(&str, SizeFor); 2] = [
    ("NDIS_SIZEOF_NDK_CONNECTIONS_REVISION_1(n)", ndis::NDIS_SIZEOF_NDK_CONNECTIONS_REVISION_1),
    ("NDIS_SIZEOF_NDK_LOCAL_ENDPOINTS_REVISION_1(n)", ndis::NDIS_SIZEOF_NDK_LOCAL_ENDPOINTS_REVISION_1),
];

impl Crate {
    pub(crate) fn load() -> Self {
        let layouts = by_name(index::LAYOUTS, |layout| layout.name);
        let numbers = by_name(index::NUMBERS, |number| number.name);
        let prototypes = by_name(index::PROTOTYPES, |prototype| prototype.name);
        Self { layouts, numbers, prototypes, types: Types::of_the_crate() }
    }

    /// Compares. Both lists are empty if the crate and the tables say the same.
    pub(crate) fn differences(&self, rows: &[Row]) -> Differences {
        let mut out = Vec::new();
        let mut known = BTreeSet::new();
        let mut groups: BTreeMap<(&str, &str), Group<'_>> = BTreeMap::new();
        for row in rows {
            let group = groups.entry((&row.kind, &row.name)).or_default();
            if group.iter().any(|other| other.member == row.member) {
                out.push(format!("{}.{}: documented twice", row.name, row.member));
            }
            group.push(row);
        }
        for ((kind, name), group) in &groups {
            known.insert(*name);
            match *kind {
                "struct" => self.structure(name, Kind::Struct, group, &mut out),
                "prefix" => self.structure(name, Kind::Prefix, group, &mut out),
                "dispatch" => self.table(name, group, &mut out),
                "fn" => self.prototype(name, group, &mut out),
                "enum" | "const" => {
                    for row in group {
                        known.insert(&row.member);
                        self.constant(row, &mut out);
                    }
                }
                other => out.push(format!("{name}: unknown kind {other}")),
            }
        }
        let declared = self.layouts.keys().chain(self.numbers.keys()).chain(self.prototypes.keys());
        let undocumented = declared.copied().chain(GUIDS.map(|(name, _)| name)).chain(FORMULAS.map(|(name, _)| name));
        Differences { contradictions: out, undocumented: undocumented.filter(|name| !known.contains(name)).collect() }
    }

    fn structure(&self, name: &str, kind: Kind, group: &Group<'_>, out: &mut Vec<String>) {
        let Some(layout) = self.layouts.get(name).filter(|layout| layout.kind == kind) else {
            out.push(format!("{name}: not declared"));
            return;
        };
        let (sizes, fields): (Group<'_>, Group<'_>) = group.iter().partition(|row| row.member == "(sizeof)");
        match sizes.as_slice() {
            [size] if size.value != "struct" => out.push(format!("{name}: {} is no struct", size.value)),
            [size] if number(&size.index) == Some(layout.size as u64) => {}
            [size] => out.push(format!("{name}: {:#x} bytes, documented {}", layout.size, size.index)),
            _ => out.push(format!("{name}: {} sizes documented", sizes.len())),
        }
        self.fields(name, layout, &fields, Place::Field, 1, out);
    }

    fn table(&self, name: &str, group: &Group<'_>, out: &mut Vec<String>) {
        let Some(layout) = self.layouts.get(name).filter(|layout| layout.kind == Kind::Table) else {
            out.push(format!("{name}: not declared"));
            return;
        };
        if layout.size != 8 * group.len() {
            out.push(format!("{name}: {:#x} bytes, documented {} slots", layout.size, group.len()));
        }
        self.fields(name, layout, group, Place::Slot, 8, out);
    }

    /// Fields or slots; the index column counts in units of `unit` bytes.
    fn fields(&self, name: &str, layout: &Layout, facts: &Group<'_>, place: Place, unit: u64, out: &mut Vec<String>) {
        let documented = |field: &&Field| !facts.iter().any(|row| row.member == field.name);
        for field in layout.fields.iter().filter(documented).filter(|field| !field.name.starts_with("Padding")) {
            out.push(format!("{name}.{}: not in the tables", field.name));
        }
        for row in facts {
            let Some(field) = layout.fields.iter().find(|field| field.name == row.member) else {
                out.push(format!("{name}.{}: not declared", row.member));
                continue;
            };
            if number(&row.index).map(|index| index * unit) != Some(field.offset as u64) {
                out.push(format!("{name}.{}: at {:#x}, documented {}", row.member, field.offset, row.index));
            }
            self.same_type(&format!("{name}.{}", row.member), &row.value, place, (field.type_name)(), out);
        }
    }

    fn prototype(&self, name: &str, group: &Group<'_>, out: &mut Vec<String>) {
        let Some(prototype) = self.prototypes.get(name) else {
            out.push(format!("{name}: not declared"));
            return;
        };
        let (results, parameters): (Group<'_>, Group<'_>) = group.iter().partition(|row| row.member == "(return)");
        match results.as_slice() {
            [result] => {
                self.same_type(name, &result.value, Place::Parameter, (prototype.result)(), out);
                if result.index != "-" {
                    out.push(format!("{name}: a result has no position"));
                }
            }
            // The table knows the parameters of these two only.
            [] if name.ends_with("_NDK_ADAPTER") => {}
            _ => out.push(format!("{name}: {} results documented", results.len())),
        }
        if parameters.len() != prototype.parameters.len() {
            out.push(format!("{name}: {} parameters, documented {}", prototype.parameters.len(), parameters.len()));
        }
        for (position, (row, parameter)) in parameters.iter().zip(prototype.parameters).enumerate() {
            let place = format!("{name}({})", row.member);
            if row.member != parameter.name || number(&row.index) != Some(position as u64) {
                out.push(format!("{place}: parameter {position} is {}, documented {}", parameter.name, row.index));
            }
            self.same_type(&place, &row.value, Place::Parameter, (parameter.type_name)(), out);
        }
    }

    fn same_type(&self, what: &str, c: &str, place: Place, rust: &str, out: &mut Vec<String>) {
        let rust = short(rust);
        match self.types.rust(c, place) {
            Some(expected) if expected == rust => {}
            Some(expected) => out.push(format!("{what}: is {rust}, {c} is {expected}")),
            None => out.push(format!("{what}: no Rust type for {c}")),
        }
    }

    fn constant(&self, row: &Row, out: &mut Vec<String>) {
        let name = row.member.as_str();
        let same = if let Some((_, guid)) = GUIDS.iter().find(|(guid, _)| *guid == name) {
            u128::from_str_radix(&row.value.replace('-', ""), 16).is_ok_and(|digits| GUID::from_u128(digits) == *guid)
        } else if let Some((_, size)) = FORMULAS.iter().find(|(formula, _)| *formula == name) {
            formula(&row.value).is_some_and(|(head, entry)| {
                [0, 1, 7, 1000].iter().all(|n| size(*n).map(|size| size as u64) == Some(head + entry * *n as u64))
            })
        } else {
            let declared = self.numbers.get(name);
            if row.kind == "enum" && declared.is_some_and(|declared| declared.of != row.name) {
                out.push(format!("{name}: not a value of {}", row.name));
            }
            declared.is_some_and(|declared| number(&row.value) == Some(declared.value))
        };
        if !same {
            out.push(format!("{name}: documented {}, declared {:?}", row.value, self.numbers.get(name)));
        }
    }
}

/// Head and entry size of `head + entry*n`.
fn formula(text: &str) -> Option<(u64, u64)> {
    let (head, entry) = text.split_once(" + ")?;
    Some((number(head)?, number(entry.strip_suffix("*n")?)?))
}

fn by_name<T>(lists: &'static [&'static [T]], name: fn(&T) -> &'static str) -> BTreeMap<&'static str, &'static T> {
    let mut map = BTreeMap::new();
    for item in lists.iter().copied().flatten() {
        assert!(map.insert(name(item), item).is_none(), "{} is declared twice", name(item));
    }
    map
}
