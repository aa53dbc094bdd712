//! What a PE module imports and exports, and whether an export of Wine's does anything.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use iced_x86::{Decoder, DecoderOptions, FlowControl, Mnemonic, OpKind};
use object::LittleEndian as LE;
use object::pe::{IMAGE_DIRECTORY_ENTRY_EXPORT, ImageNtHeaders64, Subsystem};
use object::read::pe::{ExportTarget, ImageNtHeaders, ImageOptionalHeader, Import, PeFile64};

/// An export by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Export {
    /// Code or data of the module itself, at this offset from its base.
    Own(u32),
    /// Another module's export: module name in lower case with its extension, and name.
    Forward(String, String),
}

/// How much of a function there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Substance {
    /// Code that does not call itself a stub.
    Real,
    /// The thunk that winebuild makes for `@ stub`: the process ends when it is called.
    Absent,
    /// Code that says "stub" in a message: it returns without having done its work.
    Hollow,
}

/// A module as the loader sees it.
pub struct Module {
    bytes: Vec<u8>,
    base: u64,
    subsystem: Subsystem,
    exports: BTreeMap<String, Export>,
    imports: BTreeMap<String, BTreeSet<String>>,
}

impl Module {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self> {
        let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        Self::parse(bytes).with_context(|| format!("cannot understand {}", path.display()))
    }

    /// A module from the bytes of its file.
    pub fn parse(bytes: Vec<u8>) -> Result<Self> {
        let file = PeFile64::parse(&*bytes)?;
        let header = file.nt_headers().optional_header();
        let (base, subsystem) = (header.image_base(), header.subsystem());
        let (exports, imports) = (exports(&file)?, imports(&file)?);
        Ok(Self { base, subsystem, exports, imports, bytes })
    }

    /// `IMAGE_SUBSYSTEM_NATIVE` is a driver's.
    pub(crate) fn subsystem(&self) -> Subsystem {
        self.subsystem
    }

    pub(crate) fn export(&self, name: &str) -> Option<&Export> {
        self.exports.get(name)
    }

    /// Imported names by module, in lower case.
    pub fn imports(&self) -> &BTreeMap<String, BTreeSet<String>> {
        &self.imports
    }

    /// Looks at the code of an own export.
    pub(crate) fn substance(&self, name: &str, entry: u32) -> Result<Substance> {
        let sections = PeFile64::parse(&*self.bytes)?.section_table();
        let memory = |address: u64| {
            let offset = u32::try_from(address.wrapping_sub(self.base)).ok()?;
            sections.pe_data_at(&*self.bytes, offset)
        };
        Ok(substance(memory, name, self.base + u64::from(entry)))
    }

    /// A module of these tables and no code.
    #[cfg(test)]
    pub(crate) fn of_tables(exports: &[(&str, Export)], imports: &[(&str, &[&str])]) -> Self {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Self {
            bytes: Vec::new(),
            base: 0,
            subsystem: object::pe::IMAGE_SUBSYSTEM_NATIVE,
            exports: exports.iter().map(|(name, export)| ((*name).to_owned(), export.clone())).collect(),
            imports: imports.iter().map(|(module, of)| ((*module).to_owned(), names(of))).collect(),
        }
    }
}

/// Only messages tell Wine's hollow functions from real ones, so this follows every jump from the entry, but no call,
/// and reads the strings whose addresses are taken. `memory` gives the bytes from an address on.
fn substance<'data>(memory: impl Fn(u64) -> Option<&'data [u8]>, name: &str, entry: u64) -> Substance {
    const ENOUGH: usize = 4096;
    let (mut open, mut seen, mut strings) = (vec![entry], BTreeSet::new(), Vec::new());
    while let Some(mut address) = open.pop() {
        while seen.len() < ENOUGH && seen.insert(address) {
            let Some(code) = memory(address) else { break };
            let instruction = Decoder::with_ip(64, code, address, DecoderOptions::NONE).decode();
            if instruction.mnemonic() == Mnemonic::Lea && instruction.is_ip_rel_memory_operand() {
                let data = memory(instruction.ip_rel_memory_address());
                strings.extend(data.and_then(|data| data.split(|byte| *byte == 0).next()));
            }
            let flow = instruction.flow_control();
            // winebuild's thunk does nothing but pass the module's and the function's name to what raises.
            if flow == FlowControl::Call && seen.len() <= 4 && matches!(*strings, [_, own] if own == name.as_bytes()) {
                return Substance::Absent;
            }
            let jumps = matches!(flow, FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch);
            if jumps && instruction.op0_kind() == OpKind::NearBranch64 {
                open.push(instruction.near_branch_target());
            }
            let goes_on =
                [FlowControl::Next, FlowControl::ConditionalBranch, FlowControl::Call, FlowControl::IndirectCall];
            if !goes_on.contains(&flow) {
                break;
            }
            address = instruction.next_ip();
        }
    }
    let stub = |text: &&[u8]| String::from_utf8_lossy(text).to_lowercase().contains("stub");
    if strings.iter().any(stub) { Substance::Hollow } else { Substance::Real }
}

fn exports(file: &PeFile64) -> Result<BTreeMap<String, Export>> {
    let has_table = file.data_directory(IMAGE_DIRECTORY_ENTRY_EXPORT).is_some();
    let Some(table) = file.export_table()?.filter(|_| has_table) else { return Ok(BTreeMap::new()) };
    let mut exports = BTreeMap::new();
    for export in table.exports()? {
        let Some(name) = export.name else { continue };
        let target = match export.target {
            ExportTarget::Address(address) => Export::Own(address),
            ExportTarget::ForwardByName(module, name) => forward(module, &text(name)),
            ExportTarget::ForwardByOrdinal(module, ordinal) => forward(module, &format!("#{ordinal}")),
        };
        exports.insert(text(name), target);
    }
    Ok(exports)
}

/// A forwarder names its module without the extension if that is `.dll`.
fn forward(module: &[u8], name: &str) -> Export {
    let mut module = text(module).to_lowercase();
    if !module.contains('.') {
        module.push_str(".dll");
    }
    Export::Forward(module, name.to_owned())
}

fn imports(file: &PeFile64) -> Result<BTreeMap<String, BTreeSet<String>>> {
    let mut imports = BTreeMap::<String, BTreeSet<String>>::new();
    let Some(table) = file.import_table()? else { return Ok(imports) };
    let mut descriptors = table.descriptors()?;
    while let Some(descriptor) = descriptors.next()? {
        let module = text(table.name(descriptor.name.get(LE))?).to_lowercase();
        let mut thunks = table.thunks(descriptor.original_first_thunk.get(LE))?;
        let names = imports.entry(module).or_default();
        while let Some(thunk) = thunks.next::<ImageNtHeaders64>()? {
            names.insert(match table.import::<ImageNtHeaders64>(thunk)? {
                Import::Ordinal(ordinal) => format!("#{ordinal}"),
                Import::Name(_, name) => text(name),
            });
        }
    }
    ensure!(!imports.contains_key(""), "an import from a module without a name");
    Ok(imports)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::{Substance, substance};

    /// Code at 0, what it points to at 0x40 and 0x60.
    fn of(code: &[u8], first: &str, second: &str) -> Substance {
        let mut image = [0; 0x80];
        image[..code.len()].copy_from_slice(code);
        image[0x40..0x40 + first.len()].copy_from_slice(first.as_bytes());
        image[0x60..0x60 + second.len()].copy_from_slice(second.as_bytes());
        substance(|address| image.get(usize::try_from(address).ok()?..), "IoFly", 0)
    }

    /// sub rsp, 0x28; lea rcx, [0x40]; lea rdx, [0x60]; call; nop
    const THUNK: [u8; 24] = [
        0x48, 0x83, 0xec, 0x28, 0x48, 0x8d, 0x0d, 0x35, 0, 0, 0, 0x48, 0x8d, 0x15, 0x4e, 0, 0, 0, 0xe8, 0x40, 0, 0, 0,
        0x90,
    ];

    #[test]
    fn a_thunk_that_raises_is_absent() {
        assert_eq!(of(&THUNK, "ntoskrnl.exe", "IoFly"), Substance::Absent);
    }

    #[test]
    fn code_with_a_stub_message_is_hollow_even_behind_a_jump() {
        assert_eq!(of(&THUNK, "(%p) stub!", "other"), Substance::Hollow);
        // je +1; ret; lea rdx, [0x60]; ret
        let code = [0x74, 0x01, 0xc3, 0x48, 0x8d, 0x15, 0x56, 0, 0, 0, 0xc3];
        assert_eq!(of(&code, "", "semi-stub"), Substance::Hollow);
    }

    #[test]
    fn other_code_is_real() {
        assert_eq!(of(&[0xc3], "stub", "stub"), Substance::Real);
        assert_eq!(of(&THUNK, "%p", "no such"), Substance::Real);
    }
}
