//! `cargo xtask picture`: docs/pieces.svg, which shows where each crate of the product sits.

use std::fmt::Write as _;
use std::fs;

use anyhow::{Context, Result};
use build::paths;

/// Where the picture is.
const FILE: &str = "docs/pieces.svg";

const WIDTH: u32 = 880;
const HEIGHT: u32 = 744;

/// A box of the picture.
struct Piece {
    /// Left, top, width, height.
    at: (u32, u32, u32, u32),
    title: &'static str,
    /// The crates in it.
    crates: &'static [&'static str],
    text: &'static str,
    /// Not ours: Windows, or a program of others.
    foreign: bool,
}

const fn ours(
    at: (u32, u32, u32, u32),
    title: &'static str,
    crates: &'static [&'static str],
    text: &'static str,
) -> Piece {
    Piece { at, title, crates, text, foreign: false }
}

const fn foreign(at: (u32, u32, u32, u32), title: &'static str, text: &'static str) -> Piece {
    Piece { at, title, crates: &[], text, foreign: true }
}

const PIECES: [Piece; 14] = [
    foreign((20, 20, 260, 56), "programs", "MPI and others of NetworkDirect"),
    ours(
        (20, 96, 260, 74),
        "softnd.dll",
        &["softnd", "nd-com", "nd-device", "capture"],
        "NetworkDirect version 2 and 1",
    ),
    ours((300, 96, 260, 74), "ndkctl.exe", &[], "what the driver has and does"),
    ours((580, 96, 280, 74), "ndharness.exe", &[], "every case, latency and bandwidth"),
    ours(
        (20, 216, 260, 74),
        "control device",
        &["nd-ioctl", "nd-rings", "ndk-consumer"],
        "ND IOCTLs, rings in user memory",
    ),
    foreign((300, 216, 560, 74), "SMB Direct, storage", "consumers in the kernel"),
    ours((20, 310, 840, 56), "NDKPI dispatch tables", &["ndk-provider", "ndk-abi"], ""),
    ours((20, 386, 460, 74), "RDMA device", &["soft-rdma", "fault-rules"], "queue pairs, memory, connections"),
    ours((500, 386, 170, 74), "iWARP frames", &["iwarp"], "MPA, DDP, RDMAP"),
    ours((690, 386, 170, 74), "the cable", &["vxlan", "task-offload"], "Ethernet in UDP"),
    ours((20, 480, 840, 74), "what the device needs of a kernel", &["platform"], "memory, locks, DPCs, timers, TCP"),
    ours((20, 574, 540, 74), "softndk.sys", &["softndk"], "NDIS, KMDF, Winsock Kernel"),
    ours((580, 574, 280, 74), "or a process", &["hosted"], "without a driver, on Windows and Linux"),
    foreign((20, 668, 840, 56), "TCP", "another SoftNDK, Linux siw"),
];

/// Writes it.
pub fn write() -> Result<()> {
    fs::write(paths::root().join(FILE), svg()).with_context(|| format!("cannot write {FILE}"))?;
    println!("{FILE}");
    Ok(())
}

fn svg() -> String {
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{HEIGHT}\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"13\">\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <line x1=\"0\" y1=\"193\" x2=\"{WIDTH}\" y2=\"193\" stroke=\"#888888\" stroke-dasharray=\"6 4\"/>\n\
         <text x=\"{0}\" y=\"187\" text-anchor=\"end\" fill=\"#666666\">user mode</text>\n\
         <text x=\"{0}\" y=\"207\" text-anchor=\"end\" fill=\"#666666\">kernel, or the process of the program</text>\n",
        WIDTH - 20
    );
    for piece in &PIECES {
        let (x, y, width, height) = piece.at;
        let (fill, stroke) = if piece.foreign { ("#f2f2f2", "#999999") } else { ("#e8f0fb", "#3b6ea5") };
        let _infallible = writeln!(
            svg,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"6\" fill=\"{fill}\" stroke=\"{stroke}\"/>"
        );
        let lines = [
            (piece.title.to_owned(), "bold", "#111111"),
            (piece.crates.join(", "), "normal", "#3b6ea5"),
            (piece.text.to_owned(), "normal", "#333333"),
        ];
        for (row, (text, weight, colour)) in lines.iter().filter(|(text, ..)| !text.is_empty()).enumerate() {
            let baseline = y + 22 + 20 * u32::try_from(row).unwrap_or(0);
            let _infallible = writeln!(
                svg,
                "<text x=\"{}\" y=\"{baseline}\" font-weight=\"{weight}\" fill=\"{colour}\">{text}</text>",
                x + 12
            );
        }
    }
    svg + "</svg>\n"
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    /// The names of the packages below a folder.
    fn packages(folder: &Path, names: &mut BTreeSet<String>) {
        for entry in fs::read_dir(folder).expect("a folder").flatten() {
            let path = entry.path();
            if path.is_dir() && entry.file_name() != "target" {
                packages(&path, names);
            } else if entry.file_name() == "Cargo.toml" {
                let text = fs::read_to_string(&path).expect("a manifest");
                let name = text.lines().find_map(|line| line.strip_prefix("name = ")).expect("a name");
                names.insert(name.trim_matches('"').to_owned());
            }
        }
    }

    #[test]
    fn the_picture_has_each_crate_once() {
        let mut there = BTreeSet::new();
        packages(&paths::root().join("driver"), &mut there);
        packages(&paths::root().join("netdirect"), &mut there);
        let shown: Vec<_> = PIECES.iter().flat_map(|piece| piece.crates).map(|&name| name.to_owned()).collect();
        assert_eq!(shown.len(), there.len(), "{shown:?}");
        assert_eq!(shown.into_iter().collect::<BTreeSet<_>>(), there);
    }

    #[test]
    fn the_picture_is_the_one_that_the_command_makes() {
        let there = fs::read_to_string(paths::root().join(FILE)).expect(FILE);
        assert!(there == svg(), "{FILE}: run `cargo xtask picture`");
    }
}
