//! The comparison: what driver/ndk-abi declares, against the headers.

use ndk_abi::describe::{Kind, Layout};

use crate::headers::{Headers, published};

/// How it ended.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// Sizes and offsets that are the same.
    pub(crate) agreed: usize,
    /// The others, for people.
    pub(crate) differences: Vec<String>,
}

/// Compares each size and each offset.
pub(crate) fn compare(headers: &Headers, layouts: &[&Layout]) -> Outcome {
    let mut outcome = Outcome::default();
    for layout in layouts {
        let size = headers.size(layout);
        // Of a structure that grows with the version of Windows only the beginning is declared.
        let same = if layout.kind == Kind::Prefix { size >= Some(layout.size) } else { size == Some(layout.size) };
        outcome.note(same, || format!("{}: {:#x} bytes, in the headers {size:x?}", layout.name, layout.size));
        for field in published(layout) {
            let offset = headers.offset(layout, field);
            outcome.note(offset == Some(field.offset), || {
                format!("{}.{}: at {:#x}, in the headers {offset:x?}", layout.name, field.name, field.offset)
            });
        }
    }
    outcome
}

impl Outcome {
    fn note(&mut self, same: bool, difference: impl FnOnce() -> String) {
        if same {
            self.agreed += 1;
        } else {
            self.differences.push(difference());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use ndk_abi::{describe::Field, index::LAYOUTS};

    use super::*;
    use crate::headers::read;

    /// The C declarations of NDKPI that tests/clients/softndk-sim has.
    fn csim() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/clients/softndk-sim/c/ndk.h")
    }

    /// What of driver/ndk-abi they declare.
    fn declared() -> Vec<&'static Layout> {
        let text = ["ndk.h", "ndk_data.h"].map(|name| std::fs::read_to_string(csim().with_file_name(name)).unwrap());
        let text = text.concat();
        let declares =
            |name: &str| text.contains(&format!("}} {name};")) || text.contains(&format!("NDK_OBJECT({name})"));
        LAYOUTS.iter().copied().flatten().filter(|layout| declares(layout.name)).collect()
    }

    #[test]
    fn the_declarations_in_c_have_the_same_layouts() {
        let layouts = declared();
        let outcome = compare(&read(&csim(), &[], &layouts).unwrap(), &layouts);
        assert!(outcome.differences.is_empty(), "{:#?}", outcome.differences);
        assert_eq!(layouts.len(), 30, "every structure of those headers");
        println!("{} sizes and offsets agree", outcome.agreed);
    }

    #[test]
    fn structures_without_a_name_in_c_are_compared_where_they_are() {
        let header = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oid.h");
        let requests = LAYOUTS.iter().copied().flatten().filter(|layout| layout.name.starts_with("NDIS_OID_REQUEST"));
        let layouts: Vec<_> = requests.collect();
        let outcome = compare(&read(&header, &[], &layouts).unwrap(), &layouts);
        assert_eq!((outcome.differences, layouts.len()), (Vec::new(), 4));
    }

    /// Negative control: each size and each offset that is wrong is noticed, as a difference of its own.
    #[test]
    fn every_wrong_number_is_noticed() {
        let layouts = declared();
        let headers = read(&csim(), &[], &layouts).unwrap();
        let count = |layout: &Layout| compare(&headers, &[layout]).differences.len();
        for layout in layouts {
            assert_eq!(count(&Layout { size: layout.size + 8, ..*layout }), 1, "{}", layout.name);
            for at in 0..layout.fields.len() {
                let mut fields = layout.fields.to_vec();
                fields[at].offset += 4;
                let padding = usize::from(!fields[at].name.starts_with("Padding"));
                assert_eq!(count(&Layout { fields: fields.leak(), ..*layout }), padding, "{at} of {}", layout.name);
            }
        }
    }

    /// Negative control: headers that lack a structure or a field are refused, and the message says which.
    #[test]
    fn what_the_headers_lack_is_named() {
        let known = **declared().iter().find(|layout| layout.name == "NDK_RESULT").unwrap();
        let structure = Layout { name: "NDK_NOTHING", ..known };
        let fields = Box::leak(Box::new([Field { name: "Nowhere", ..known.fields[0] }]));
        let field = Layout { fields, ..known };
        for (layout, name) in [(structure, "NDK_NOTHING"), (field, "Nowhere")] {
            let error = format!("{:?}", read(&csim(), &[], &[&layout]).unwrap_err());
            assert!(error.contains(name), "{error}");
        }
    }
}
