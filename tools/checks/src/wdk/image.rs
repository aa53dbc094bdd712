//! Two links of the driver: the same image, but for what the linker says of the link.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;

use anyhow::{Context, Result, bail, ensure};
use build::paths;
use iced_x86::{Decoder, DecoderOptions, OpKind};
use object::LittleEndian as LE;
use object::pe::{IMAGE_DIRECTORY_ENTRY_DEBUG, IMAGE_DIRECTORY_ENTRY_EXCEPTION, ImageDebugDirectory};
use object::read::pe::PeFile64;
use object::{Object, ObjectSection, slice_from_all_bytes};

/// Of functions that differ so many are named.
const NAMED: usize = 10;

/// What both have: all that the loader maps (code, constants, variables and imports), or the functions in another order, which the linker
/// gives them when rustc divides the crate otherwise. Else an error names the functions that differ.
pub(super) fn compare(ours: &[u8], theirs: &[u8]) -> Result<String> {
    let (our_functions, their_functions) = (functions(ours)?, functions(theirs)?);
    let count = our_functions.len();
    if without_link(ours)? == without_link(theirs)? {
        return Ok(format!("{count} alike; so are constants and data"));
    }
    ensure!(count == their_functions.len(), "{} functions, not {count}", their_functions.len());
    let ours: Vec<_> = our_functions.iter().map(|at| (at.start, instructions(ours, at))).collect();
    let theirs: Vec<_> = their_functions.iter().map(|at| instructions(theirs, at)).collect();
    ensure!(
        !ours.iter().map(|(_, function)| function).eq(&theirs),
        "every function has the same instructions, but what they address differs"
    );
    let mut left: BTreeMap<_, usize> = BTreeMap::new();
    theirs.iter().for_each(|function| *left.entry(function).or_default() += 1);
    let mut is_there =
        |function| left.get_mut(function).is_some_and(|left| left.checked_sub(1).map(|less| *left = less).is_some());
    let differ: Vec<_> =
        ours.iter().filter(|(_, function)| !is_there(function)).map(|(at, _)| format!("{at:#x}")).collect();
    if differ.is_empty() {
        return Ok(format!("{count} alike, in another order, so that constants and data were not compared"));
    }
    let named = differ.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    bail!("{} functions differ, in ours at {named} (softndk.map names them)", differ.len())
}

/// Changes the driver that was built, and looks whether the comparison says so.
pub fn planted() -> Result<()> {
    let driver = fs::read(paths::dist().join("softndk.sys"))?;
    compare(&driver, &driver)?;
    let count = functions(&driver)?.len();
    ensure!(count > 500, "{count} functions");
    let file = PeFile64::parse(&*driver)?;
    let function = functions(&driver)?.into_iter().max_by_key(|function| function.len()).context("no functions")?;
    let (code, _) = file.section_table().pe_file_range_at(function.start).context("a function outside of the file")?;
    let data = file.section_by_name(".rdata").and_then(|section| section.file_range()).context("no constants")?;
    let time = u64::from(file.dos_header().nt_headers_offset()) + 8;
    let named = format!("1 functions differ, in ours at {:#x} ", function.start);
    for (what, at, expected) in [
        ("the time", time, None),
        ("the last byte of a function", u64::from(code) + function.len() as u64 - 1, Some(&*named)),
        ("a constant", data.0 + data.1 / 2, Some("what they address")),
    ] {
        let mut changed = driver.clone();
        *changed.get_mut(at as usize).context("outside of the file")? ^= 0x40;
        let error = compare(&driver, &changed).err().map(|error| error.to_string());
        let noticed = match (&error, expected) {
            (None, None) => true,
            (Some(error), Some(expected)) => error.contains(expected),
            _ => false,
        };
        ensure!(noticed, "{what}: {error:?}");
    }
    Ok(())
}

/// The image without the time of the link and the name and number of its symbols' file.
fn without_link(image: &[u8]) -> Result<Vec<u8>> {
    let file = PeFile64::parse(image)?;
    let (mut bytes, sections) = (image.to_vec(), file.section_table());
    let header = file.dos_header().nt_headers_offset() as usize;
    // Signature, then IMAGE_FILE_HEADER: TimeDateStamp is its third field.
    let mut links = vec![(header + 8, 4)];
    if let Some(directory) = file.data_directory(IMAGE_DIRECTORY_ENTRY_DEBUG) {
        let (at, length) = directory.file_range(&sections)?;
        links.push((at as usize, length as usize));
        let entries = slice_from_all_bytes::<ImageDebugDirectory>(directory.data(image, &sections)?);
        for entry in entries.ok().context("a cut-off debug directory")? {
            links.push((entry.pointer_to_raw_data.get(LE) as usize, entry.size_of_data.get(LE) as usize));
        }
    }
    for (at, length) in links {
        bytes.get_mut(at..at + length).context("a debug directory outside of the file")?.fill(0);
    }
    Ok(bytes)
}

/// Where each function that the unwinder knows begins and ends, from the image's base.
fn functions(image: &[u8]) -> Result<Vec<Range<u32>>> {
    let file = PeFile64::parse(image)?;
    let table = file.data_directory(IMAGE_DIRECTORY_ENTRY_EXCEPTION).context("no table of functions")?;
    let entries = table.data(image, &file.section_table())?.chunks_exact(12);
    let number = |entry: &[u8], at: usize| entry.get(at..).and_then(|rest| rest.first_chunk()).copied();
    let range = |entry: &[u8]| Some(u32::from_le_bytes(number(entry, 0)?)..u32::from_le_bytes(number(entry, 4)?));
    entries.map(range).collect::<Option<_>>().context("a cut-off table of functions")
}

/// A function's bytes, without where its instructions find what is not within it: that moves with the size of other functions.
fn instructions(image: &[u8], function: &Range<u32>) -> Option<Vec<u8>> {
    let file = PeFile64::parse(image).ok()?;
    let code = file.section_table().pe_data_at(image, function.start)?.get(..function.len())?;
    let mut bytes = code.to_vec();
    let mut decoder = Decoder::with_ip(64, code, function.start.into(), DecoderOptions::NONE);
    while decoder.can_decode() {
        let start = decoder.position();
        let instruction = decoder.decode();
        let offsets = decoder.get_constant_offsets(&instruction);
        let leaves = instruction.op0_kind() == OpKind::NearBranch64
            && !(u64::from(function.start)..u64::from(function.end)).contains(&instruction.near_branch_target());
        if instruction.is_ip_rel_memory_operand() {
            let at = start + offsets.displacement_offset();
            bytes.get_mut(at..at + offsets.displacement_size())?.fill(0);
        } else if leaves {
            let at = start + offsets.immediate_offset();
            bytes.get_mut(at..at + offsets.immediate_size())?.fill(0);
        }
    }
    Some(bytes)
}
