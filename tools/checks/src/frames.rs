//! How much stack each function of the driver takes, by what it has the unwinder know.

use std::fs;

use anyhow::{Context, Result, bail, ensure};
use build::paths;
use object::pe::IMAGE_DIRECTORY_ENTRY_EXCEPTION;
use object::read::pe::PeFile64;

/// Bytes that one function may take: a sixth of the stack that the kernel has for all drivers that call each other.
const LIMIT: u32 = 24 * 1024 / 6;

/// `RUNTIME_FUNCTION`: begin, end, and where its `UNWIND_INFO` is.
const ENTRY: usize = 12;
/// `UNW_FLAG_CHAININFO`: what follows is of the function's first part.
const CHAINED: u8 = 4;
/// The driver's are not chained at all; so many would be a circle.
const MOST_CHAINED: usize = 32;

/// A function, or a part of one, that begins at an offset from the module's base.
struct Frame {
    function: u32,
    bytes: u32,
    /// Offset of its `UNWIND_INFO`.
    info: u32,
}

/// Checks each function of a driver that was built, which lies there in target/dist.
pub fn check(driver: &str) -> Result<()> {
    let frames = frames(&fs::read(paths::dist().join(driver))?)?;
    let problems = problems(&frames);
    ensure!(problems.is_empty(), "more than {LIMIT} bytes of stack:\n  {}", problems.join("\n  "));
    Ok(())
}

/// The check, on the driver with the size of one frame changed in its bytes.
pub fn planted() -> Result<()> {
    /// An `UNWIND_INFO` of one code, `UWOP_ALLOC_LARGE`, whose number follows. That of a function with a large frame is not shorter.
    const LARGE: [u8; 6] = [1, 0, 2, 0, 0, 1];
    let mut driver = fs::read(paths::dist().join("softndk.sys"))?;
    let before = frames(&driver)?;
    let chosen = before.iter().max_by_key(|frame| frame.bytes).context("no functions")?;
    let sections = PeFile64::parse(&*driver)?.section_table();
    let (at, _) = sections.pe_file_range_at(chosen.info).context("an UNWIND_INFO outside of the file")?;
    let planted = [&LARGE[..], &0xFFFF_u16.to_le_bytes()].concat();
    let place = driver.get_mut(at as usize..).and_then(|rest| rest.get_mut(..planted.len()));
    place.context("a cut-off UNWIND_INFO")?.copy_from_slice(&planted);
    let problems = problems(&frames(&driver)?);
    let expected = problem(&Frame { bytes: 8 * 0xFFFF, ..*chosen });
    ensure!(problems.contains(&expected), "not caught; found {problems:?}");
    Ok(())
}

fn problems(frames: &[Frame]) -> Vec<String> {
    frames.iter().filter(|frame| frame.bytes > LIMIT).map(problem).collect()
}

fn problem(frame: &Frame) -> String {
    format!("{} by the function at {:#x}", frame.bytes, frame.function)
}

fn frames(driver: &[u8]) -> Result<Vec<Frame>> {
    let file = PeFile64::parse(driver)?;
    let sections = file.section_table();
    let memory = |offset: u32| sections.pe_data_at(driver, offset);
    let table = file.data_directory(IMAGE_DIRECTORY_ENTRY_EXCEPTION).context("no table of functions")?;
    let (entries, length) = table.address_range();
    let entries = memory(entries).and_then(|bytes| bytes.get(..length as usize)).context("a cut-off table")?;
    let frame = |entry: &[u8]| {
        let (function, info) = (number(entry, 0)?, number(entry, 8)?);
        let bytes = frame_of(&memory, info).with_context(|| format!("the function at {function:#x}"))?;
        Ok(Frame { function, bytes, info })
    };
    let frames = entries.chunks_exact(ENTRY).map(frame).collect::<Result<Vec<_>>>()?;
    ensure!(!frames.is_empty(), "no functions");
    Ok(frames)
}

/// What the prologue of an `UNWIND_INFO` takes, without the address to return to.
fn frame_of<'data>(memory: &impl Fn(u32) -> Option<&'data [u8]>, mut info: u32) -> Result<u32> {
    let mut bytes = 0;
    for _ in 0..MOST_CHAINED {
        let unwind = memory(info).context("no UNWIND_INFO")?;
        let [head, _, count, _, rest @ ..] = unwind else { bail!("a cut-off UNWIND_INFO") };
        ensure!(head & 7 == 1, "an UNWIND_INFO of version {}", head & 7);
        let slots = usize::from(*count);
        bytes += allocated(rest.get(..2 * slots).context("a cut-off UNWIND_INFO")?)?;
        if (head >> 3) & CHAINED == 0 {
            return Ok(bytes);
        }
        info = number(rest, 2 * slots.next_multiple_of(2) + 8)?;
    }
    bail!("an endless chain of UNWIND_INFOs")
}

/// The sum of what its codes allocate.
fn allocated(codes: &[u8]) -> Result<u32> {
    let mut slots = codes.chunks_exact(2).map(|slot| u16::from_le_bytes([slot[0], slot[1]]));
    let mut bytes = 0;
    while let Some(code) = slots.next() {
        let mut next = || slots.next().map(u32::from).context("a cut-off UNWIND_CODE");
        bytes += match ((code >> 8) & 0xF, u32::from(code >> 12)) {
            // UWOP_PUSH_NONVOL
            (0, _) => 8,
            // UWOP_ALLOC_LARGE
            (1, 0) => 8 * next()?,
            (1, _) => next()? | (next()? << 16),
            // UWOP_ALLOC_SMALL
            (2, size) => 8 * size + 8,
            // UWOP_SET_FPREG
            (3, _) => 0,
            // UWOP_SAVE_NONVOL, UWOP_SAVE_XMM128
            (4 | 8, _) => {
                next()?;
                0
            }
            // The same, far away.
            (5 | 9, _) => {
                next()?;
                next()?;
                0
            }
            (other, _) => bail!("an UNWIND_CODE of the kind {other}"),
        };
    }
    Ok(bytes)
}

fn number(bytes: &[u8], at: usize) -> Result<u32> {
    let number = bytes.get(at..).and_then(|rest| rest.first_chunk()).context("a cut-off RUNTIME_FUNCTION")?;
    Ok(u32::from_le_bytes(*number))
}

#[cfg(test)]
mod tests {
    use super::{Frame, LIMIT, frame_of, problems};

    fn of(info: &[u8]) -> Option<u32> {
        frame_of(&|offset| info.get(offset as usize..), 0).ok()
    }

    #[test]
    fn each_code_counts_what_it_takes() {
        assert_eq!(of(&[1, 0, 0, 0]), Some(0));
        assert_eq!(of(&[1, 5, 2, 0, 5, 0x72, 1, 0x60]), Some(8 * 8 + 8), "pushq, subq $64");
        assert_eq!(of(&[1, 7, 2, 0, 7, 0x01, 19, 0]), Some(152), "subq $152");
        assert_eq!(of(&[1, 7, 3, 0, 7, 0x11, 0, 0, 1, 0]), Some(65_536));
        assert_eq!(of(&[1, 9, 5, 0, 9, 0x64, 8, 0, 7, 0x68, 2, 0, 5, 0x02]), Some(8), "saves take nothing");
    }

    #[test]
    fn a_part_of_a_function_has_what_the_first_has() {
        let chained = [0x21, 0, 1, 0, 1, 0x60, 0, 0, 9, 0, 0, 0, 9, 0, 0, 0, 20, 0, 0, 0, 1, 0, 1, 0, 1, 0x12];
        assert_eq!(of(&chained), Some(8 + 16));
    }

    #[test]
    fn what_it_does_not_know_is_an_error() {
        for info in [&[2, 0, 0, 0][..], &[1, 0, 1, 0, 0, 0x06], &[1, 0, 1, 0, 0, 0x01], &[1, 0, 2, 0, 0], &[1]] {
            assert_eq!(of(info), None);
        }
        // A circle.
        assert_eq!(of(&[0x21, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]), None);
    }

    #[test]
    fn only_what_is_beyond_the_limit_is_a_problem() {
        let frame = |function, bytes| Frame { function, bytes, info: 0 };
        assert_eq!(problems(&[frame(0x1000, LIMIT), frame(0x2000, 8)]), Vec::<String>::new());
        assert_eq!(problems(&[frame(0x1000, LIMIT + 8)]), ["4104 by the function at 0x1000"]);
    }
}
