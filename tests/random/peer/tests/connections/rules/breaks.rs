//! The rules, each broken: the table of inbound checks of RFC 5041 section 7 and RFC 5040 section 7, with the codes of RFC 6580.

use iwarp::terminate::Cause;
use peer::{
    Arc,
    device::{BASE, Side},
    establish::Scene,
    frames::{READS, answer, read, send, send_and_invalidate, send_part, write},
};
use simkernel::SimKernel;
use soft_rdma::{Access, BindRange, Error, MemoryRegion, MemoryWindow, Post, ProtectionDomain, Sge, Status};

use super::check::Headers;

type Region = Arc<MemoryRegion<SimKernel>>;

/// What a peer may name.
pub(crate) struct Targets {
    /// All rights, all pages.
    pub(crate) all: Region,
    /// As `all`, of another protection domain.
    pub(crate) foreign: Region,
    /// No right to write, no right to read.
    pub(crate) not_written: Region,
    pub(crate) not_read: Region,
    /// It could be registered by a request, and is not.
    pub(crate) fast: Region,
    /// Bound once over `all`, and invalidated.
    window: Arc<MemoryWindow<SimKernel>>,
    /// Bound over `all`, without the right to read.
    pub(crate) write_only_window: Arc<MemoryWindow<SimKernel>>,
    /// Bytes of all pages.
    pub(crate) size: u64,
    /// What was deregistered.
    pub(crate) gone: u32,
    pub(crate) privileged: u32,
}

impl Targets {
    pub(crate) fn new(scene: &Scene) -> Self {
        let side = scene.side();
        let other = ProtectionDomain::new(&scene.adapter).unwrap();
        let remote = Access::LOCAL_WRITE | Access::REMOTE_READ | Access::REMOTE_WRITE;
        let gone = side.region_of(&side.pd, remote).unwrap();
        let fast = MemoryRegion::new(&side.pd, true).unwrap();
        MemoryRegion::initialize_fast(&fast, 4, true).unwrap();
        let all = side.region_of(&side.pd, remote).unwrap();
        let size = side.pages.size() as u64;
        let write_only_window = MemoryWindow::new(&side.pd).unwrap();
        let bind_range = BindRange { address: BASE, length: size, access: Access::REMOTE_WRITE };
        let window = MemoryWindow::new(&side.pd).unwrap();
        for bound in [&write_only_window, &window] {
            side.post(1, &[], Post::Bind(bound, &all, bind_range)).unwrap();
        }
        side.post(1, &[], Post::InvalidateWindow(&window)).unwrap();
        assert_eq!(side.completed(3), [(1, Ok(())); 3]);
        Self {
            all,
            foreign: side.region_of(&other, remote).unwrap(),
            not_written: side.region_of(&side.pd, remote.difference(Access::REMOTE_WRITE)).unwrap(),
            not_read: side.region_of(&side.pd, remote.difference(Access::REMOTE_READ)).unwrap(),
            fast,
            window,
            write_only_window,
            size,
            gone: gone.token(),
            privileged: ProtectionDomain::privileged_token(&side.pd).unwrap(),
        }
    }
}

/// A rule that is broken.
#[derive(Clone)]
pub(crate) struct Break {
    pub(crate) name: &'static str,
    /// Offsets and lengths of receives, whose contexts count from 1.
    pub(crate) receives: Vec<(usize, u32)>,
    /// A receive with a memory that is none.
    pub(crate) bad_receive: Option<fn(&Side, &Targets) -> Sge>,
    /// The device reads 16 bytes, to offset 0x8000, with the context 10.
    pub(crate) reads: bool,
    /// ULPDUs; the last one is wrong.
    pub(crate) sends: fn(&Targets) -> Vec<Vec<u8>>,
    /// The CRC of the last is wrong, too.
    pub(crate) needs_crc: bool,
    /// The device terminates five seconds after the message: it waits for a receive.
    pub(crate) waits: bool,
    /// The peer's bytes do not leave at once.
    pub(crate) floods: bool,
    pub(crate) cause: Cause,
    pub(crate) headers: Headers,
    /// Contexts and statuses.
    pub(crate) statuses: Vec<(usize, Status)>,
    /// What is placed rightly: offset, length, and the byte it is.
    pub(crate) placed: Vec<(usize, usize, u8)>,
}

/// A receive that is posted, and cancelled in the end.
pub(crate) const RECEIVE: (usize, u32) = (0x100, 64);
const CANCELED: Status = Err(Error::Canceled);

impl Break {
    pub(crate) fn new(name: &'static str, cause: Cause, headers: Headers, sends: fn(&Targets) -> Vec<Vec<u8>>) -> Self {
        Self {
            name,
            receives: vec![RECEIVE],
            bad_receive: None,
            reads: false,
            sends,
            needs_crc: false,
            waits: false,
            floods: false,
            cause,
            headers,
            statuses: vec![(1, CANCELED)],
            placed: Vec::new(),
        }
    }
}

/// The bits of the control bytes (RFC 5041 section 4.1, RFC 5040 section 4.1).
const TAGGED: u8 = 0x80;
const DV: u8 = 0x03;
const RV: u8 = 0xC0;

/// A ULPDU with other bits in its control bytes.
pub(crate) fn with(mut ulpdu: Vec<u8>, byte: usize, mask: u8, bits: u8) -> Vec<u8> {
    ulpdu[byte] = ulpdu[byte] & !mask | bits;
    ulpdu
}

/// Another version of DDP, of RDMAP; another opcode.
pub(crate) fn ddp_version(ulpdu: Vec<u8>, version: u8) -> Vec<u8> {
    with(ulpdu, 0, DV, version)
}

pub(crate) fn rdmap_version(ulpdu: Vec<u8>, version: u8) -> Vec<u8> {
    with(ulpdu, 1, RV, version << 6)
}

pub(crate) fn opcode(ulpdu: Vec<u8>, opcode: u8) -> Vec<u8> {
    with(ulpdu, 1, 0xf, opcode)
}

/// Another number of a queue.
pub(crate) fn queue(mut ulpdu: Vec<u8>, queue: u32) -> Vec<u8> {
    ulpdu[6..10].copy_from_slice(&queue.to_be_bytes());
    ulpdu
}

pub(crate) fn of_headers() -> Vec<Break> {
    let of = |name, cause, sends| Break::new(name, cause, Headers::None, sends);
    let mut breaks = vec![
        of("no bytes", Cause::LENGTH, |_| vec![vec![]]),
        of("half a control", Cause::LENGTH, |_| vec![vec![0x41]]),
        of("short header of a write", Cause::LENGTH, |to| vec![write(to.all.token(), BASE, &[])[..13].to_vec()]),
        of("short header of an answer", Cause::LENGTH, |_| vec![answer(true, 1, 0, &[])[..13].to_vec()]),
        of("short header of a send", Cause::LENGTH, |_| vec![send(1, &[])[..17].to_vec()]),
        of("short header of a read", Cause::LENGTH, |to| vec![read(1, 8, to.all.token(), BASE)[..45].to_vec()]),
        of("version 2 of DDP, tagged", Cause::TAGGED_VERSION, |to| {
            vec![ddp_version(write(to.all.token(), BASE, b"xxxx"), 2)]
        }),
        of("version 0 of DDP, tagged", Cause::TAGGED_VERSION, |to| {
            vec![ddp_version(write(to.all.token(), BASE, b"xxxx"), 0)]
        }),
        of("version 2 of DDP, untagged", Cause::UNTAGGED_VERSION, |_| vec![ddp_version(send(1, b"xxxx"), 2)]),
        of("version 0 of DDP, untagged", Cause::UNTAGGED_VERSION, |_| vec![ddp_version(send(1, b"xxxx"), 0)]),
        of("version 2 of RDMAP", Cause::RDMAP_VERSION, |_| vec![rdmap_version(send(1, b"xxxx"), 2)]),
        of("version 0 of RDMAP", Cause::RDMAP_VERSION, |to| {
            vec![rdmap_version(write(to.all.token(), BASE, b"xxxx"), 0)]
        }),
        of("immediate data", Cause::OPCODE, |_| vec![opcode(send(1, &[0; 8]), 8)]),
        of("an atomic operation", Cause::OPCODE, |_| vec![opcode(queue(send(1, &[0; 52]), 1), 10)]),
        of("opcode 15", Cause::OPCODE, |_| vec![opcode(send(1, b"xxxx"), 15)]),
        of("opcode 15, tagged", Cause::OPCODE, |to| vec![opcode(write(to.all.token(), BASE, b"xxxx"), 15)]),
        of("an untagged write", Cause::OPCODE, |_| vec![opcode(send(1, b"xxxx"), 0)]),
        of("an untagged answer", Cause::OPCODE, |_| vec![opcode(send(1, b"xxxx"), 2)]),
        of("a tagged send", Cause::OPCODE, |_| vec![with(send(1, b"xxxx"), 0, TAGGED, TAGGED)]),
        of("a tagged read", Cause::OPCODE, |to| vec![with(read(1, 8, to.all.token(), BASE), 0, TAGGED, TAGGED)]),
    ];
    let crc = of("its CRC", Cause::CRC, |_| vec![send(1, b"xxxx")]);
    breaks.push(Break { needs_crc: true, ..crc });
    let crc = of("the CRC of a write", Cause::CRC, |to| vec![write(to.all.token(), BASE, b"xxxx")]);
    breaks.push(Break { needs_crc: true, ..crc });
    breaks
}

pub(crate) fn of_untagged() -> Vec<Break> {
    let of = |name, cause, sends| Break::new(name, cause, Headers::Ddp, sends);
    let after_one = |what: Break| Break {
        receives: vec![(0, 4), RECEIVE],
        statuses: vec![(1, Ok(())), (2, CANCELED)],
        placed: vec![(0, 4, b'o')],
        ..what
    };
    let within_one = |what: Break| Break { placed: vec![(0x100, 8, b'p')], ..what };
    vec![
        of("a send of queue 1", Cause::QUEUE, |_| vec![queue(send(1, b"xxxx"), 1)]),
        of("a send of queue 3", Cause::QUEUE, |_| vec![queue(send(1, b"xxxx"), 3)]),
        of("a send of the last queue", Cause::QUEUE, |_| vec![queue(send(1, b"xxxx"), u32::MAX)]),
        of("a read of queue 0", Cause::QUEUE, |to| vec![queue(read(1, 8, to.all.token(), BASE), 0)]),
        of("a Terminate of queue 0", Cause::QUEUE, |_| vec![opcode(send(1, &[0; 4]), 7)]),
        of("send 0", Cause::MESSAGE_NUMBER, |_| vec![send(0, b"xxxx")]),
        of("send 2 before 1", Cause::MESSAGE_NUMBER, |_| vec![send(2, b"xxxx")]),
        of("the last send", Cause::MESSAGE_NUMBER, |_| vec![send(u32::MAX, b"xxxx")]),
        after_one(of("send 1 twice", Cause::MESSAGE_NUMBER, |_| vec![send(1, b"oooo"), send(1, b"xxxx")])),
        within_one(of("two numbers of one send", Cause::MESSAGE_NUMBER, |_| {
            vec![send_part(false, 1, 0, b"pppppppp"), send_part(true, 2, 8, b"xxxx")]
        })),
        of("read 2 before 1", Cause::MESSAGE_NUMBER, |to| vec![read(2, 8, to.all.token(), BASE)]),
        of("read 0", Cause::MESSAGE_NUMBER, |to| vec![read(0, 8, to.all.token(), BASE)]),
        Break {
            receives: Vec::new(),
            statuses: Vec::new(),
            waits: true,
            ..of("no receive", Cause::NO_BUFFER, |_| vec![send(1, b"xxxx")])
        },
        Break {
            receives: Vec::new(),
            statuses: Vec::new(),
            waits: true,
            ..of("no receive for nothing", Cause::NO_BUFFER, |_| vec![send(1, &[])])
        },
        Break {
            receives: vec![(0, 4)],
            statuses: vec![(1, Ok(()))],
            placed: vec![(0, 4, b'o')],
            waits: true,
            ..of("no second receive", Cause::NO_BUFFER, |_| vec![send(1, b"oooo"), send_part(false, 2, 0, b"xxxx")])
        },
        of("a send that begins at 8", Cause::MESSAGE_OFFSET, |_| vec![send_part(true, 1, 8, b"xxxx")]),
        within_one(of("a gap in a send", Cause::MESSAGE_OFFSET, |_| {
            vec![send_part(false, 1, 0, b"pppppppp"), send_part(true, 1, 12, b"xxxx")]
        })),
        within_one(of("parts of a send that overlap", Cause::MESSAGE_OFFSET, |_| {
            vec![send_part(false, 1, 0, b"pppppppp"), send_part(true, 1, 4, b"xxxx")]
        })),
        within_one(of("the first part of a send twice", Cause::MESSAGE_OFFSET, |_| {
            vec![send_part(false, 1, 0, b"pppppppp"), send_part(true, 1, 0, b"xxxx")]
        })),
        of("a read that begins at 4", Cause::MESSAGE_OFFSET, |to| {
            let mut late = read(1, 8, to.all.token(), BASE);
            late[17] = 4;
            vec![late]
        }),
        Break {
            statuses: vec![(1, Err(Error::BufferOverflow))],
            ..of("a send that is too long", Cause::UNTAGGED_TOO_LONG, |_| vec![send(1, &[b'x'; 65])])
        },
        Break {
            statuses: vec![(1, Err(Error::BufferOverflow))],
            placed: vec![(0x100, 60, b'p')],
            ..of("a send whose second part is too long", Cause::UNTAGGED_TOO_LONG, |_| {
                vec![send_part(false, 1, 0, &[b'p'; 60]), send_part(false, 1, 60, &[b'x'; 5])]
            })
        },
        Break {
            receives: vec![(0x100, 0)],
            statuses: vec![(1, Err(Error::BufferOverflow))],
            ..of("a send to a receive without room", Cause::UNTAGGED_TOO_LONG, |_| vec![send(1, b"x")])
        },
        of("a read with data behind it", Cause::UNTAGGED_TOO_LONG, |to| {
            vec![[read(1, 8, to.all.token(), BASE), vec![0]].concat()]
        }),
        of("a part of a read", Cause::UNTAGGED_TOO_LONG, |to| vec![with(read(1, 8, to.all.token(), BASE), 0, 0x40, 0)]),
        Break {
            floods: true,
            ..of("more reads than agreed", Cause::NO_BUFFER, |to| {
                let size = to.size as u32;
                (0..=u32::from(READS) + 8).map(|number| read(number + 1, size, to.all.token(), BASE)).collect()
            })
        },
        Break {
            receives: Vec::new(),
            bad_receive: Some(|side, to| Sge { token: to.gone, ..side.sge(0, 64) }),
            statuses: vec![(1, Err(Error::AccessViolation))],
            headers: Headers::None,
            ..of("a receive without memory", Cause::DDP_LOCAL, |_| vec![send(1, b"xxxx")])
        },
    ]
}

pub(crate) fn of_tagged() -> Vec<Break> {
    let of = |name, cause, sends| Break::new(name, cause, Headers::Ddp, sends);
    let after_one = |what: Break| Break { placed: vec![(0x40, 4, b'p')], ..what };
    vec![
        of("a write to tag 0", Cause::TAGGED_STAG, |_| vec![write(0, BASE, b"xxxx")]),
        of("a write to the last tag", Cause::TAGGED_STAG, |_| vec![write(u32::MAX, BASE, b"xxxx")]),
        of("a write to another key of the tag", Cause::TAGGED_STAG, |to| {
            vec![write(to.all.token() ^ 1, BASE, b"xxxx")]
        }),
        of("a write to what was deregistered", Cause::TAGGED_STAG, |to| vec![write(to.gone, BASE, b"xxxx")]),
        of("a write to what is not registered", Cause::TAGGED_STAG, |to| vec![write(to.fast.token(), BASE, b"xxxx")]),
        after_one(of("a second part to another tag", Cause::TAGGED_STAG, |to| {
            let first = with(write(to.all.token(), BASE + 0x40, b"pppp"), 0, 0x40, 0);
            vec![first, write(to.gone, BASE + 0x44, b"xxxx")]
        })),
        of("a write to another domain", Cause::TAGGED_NOT_OF_STREAM, |to| {
            vec![write(to.foreign.token(), BASE, b"xxxx")]
        }),
        of("a write to the privileged tag", Cause::TAGGED_NOT_OF_STREAM, |to| {
            vec![write(to.privileged, BASE, b"xxxx")]
        }),
        of("a write to a window that is not bound", Cause::TAGGED_STAG, |to| {
            vec![write(to.window.token(), BASE, b"xxxx")]
        }),
        of("a write over the end of all", Cause::TAGGED_WRAP, |to| vec![write(to.all.token(), u64::MAX - 3, b"xxxxx")]),
        of("a write before the region", Cause::TAGGED_BOUNDS, |to| vec![write(to.all.token(), BASE - 1, b"xxxx")]),
        of("a write behind the region", Cause::TAGGED_BOUNDS, |to| vec![write(to.all.token(), BASE + to.size, b"x")]),
        of("a write over the end", Cause::TAGGED_BOUNDS, |to| vec![write(to.all.token(), BASE + to.size - 3, b"xxxx")]),
        of("a write at 0", Cause::TAGGED_BOUNDS, |to| vec![write(to.all.token(), 0, b"xxxx")]),
        after_one(of("a second write out of bounds", Cause::TAGGED_BOUNDS, |to| {
            vec![write(to.all.token(), BASE + 0x40, b"pppp"), write(to.all.token(), BASE + to.size, b"xxxx")]
        })),
        of("a write to what is not written", Cause::ACCESS, |to| vec![write(to.not_written.token(), BASE, b"xxxx")]),
        Break {
            headers: Headers::None,
            ..of("an answer that nobody awaits", Cause::OPCODE, |_| vec![answer(true, 1, 0, b"xxxx")])
        },
    ]
}

pub(crate) fn of_answers() -> Vec<Break> {
    let of = |name, cause, sends| Break {
        reads: true,
        statuses: vec![(10, CANCELED), (1, CANCELED)],
        ..Break::new(name, cause, Headers::Ddp, sends)
    };
    let after_one = |what: Break| Break { placed: vec![(0x8000, 8, b'p')], ..what };
    let mut breaks = vec![
        of("another tag in an answer", Cause::TAGGED_STAG, |_| vec![answer(true, 2, 0, &[b'x'; 16])]),
        of("the tag of a region in an answer", Cause::TAGGED_STAG, |to| {
            vec![answer(true, to.all.token(), BASE, &[b'x'; 16])]
        }),
        of("an answer that begins at 1", Cause::TAGGED_BOUNDS, |_| vec![answer(true, 1, 1, &[b'x'; 15])]),
        of("an answer that is too long", Cause::TAGGED_BOUNDS, |_| vec![answer(true, 1, 0, &[b'x'; 17])]),
        of("an answer that is too short", Cause::TAGGED_BOUNDS, |_| vec![answer(true, 1, 0, &[b'x'; 15])]),
        of("an answer without data", Cause::TAGGED_BOUNDS, |_| vec![answer(true, 1, 0, &[])]),
        of("an answer that does not end", Cause::TAGGED_BOUNDS, |_| vec![answer(false, 1, 0, &[b'x'; 16])]),
        after_one(of("a gap in an answer", Cause::TAGGED_BOUNDS, |_| {
            vec![answer(false, 1, 0, &[b'p'; 8]), answer(true, 1, 9, &[b'x'; 7])]
        })),
        after_one(of("a part of an answer twice", Cause::TAGGED_BOUNDS, |_| {
            vec![answer(false, 1, 0, &[b'p'; 8]), answer(true, 1, 0, &[b'x'; 8])]
        })),
        after_one(of("a second part that is too long", Cause::TAGGED_BOUNDS, |_| {
            vec![answer(false, 1, 0, &[b'p'; 8]), answer(true, 1, 8, &[b'x'; 9])]
        })),
    ];
    breaks.push(Break {
        headers: Headers::None,
        statuses: vec![(10, Ok(())), (1, CANCELED)],
        placed: vec![(0x8000, 16, b'p')],
        ..of("an answer twice", Cause::OPCODE, |_| {
            vec![answer(true, 1, 0, &[b'p'; 16]), answer(true, 1, 0, &[b'x'; 16])]
        })
    });
    breaks
}

pub(crate) fn of_reads() -> Vec<Break> {
    let of = |name, cause, sends| Break::new(name, cause, Headers::All, sends);
    vec![
        of("a read of tag 0", Cause::STAG, |_| vec![read(1, 8, 0, BASE)]),
        of("a read of another key of the tag", Cause::STAG, |to| vec![read(1, 8, to.all.token() ^ 1, BASE)]),
        of("a read of what was deregistered", Cause::STAG, |to| vec![read(1, 8, to.gone, BASE)]),
        of("a read of what is not registered", Cause::STAG, |to| vec![read(1, 8, to.fast.token(), BASE)]),
        of("a read by a window that is not bound", Cause::STAG, |to| vec![read(1, 8, to.window.token(), BASE)]),
        of("a read of another domain", Cause::NOT_OF_STREAM, |to| vec![read(1, 8, to.foreign.token(), BASE)]),
        of("a read of the privileged tag", Cause::NOT_OF_STREAM, |to| vec![read(1, 8, to.privileged, BASE)]),
        of("a read of what is not read", Cause::ACCESS, |to| vec![read(1, 8, to.not_read.token(), BASE)]),
        of("a read over the end of all", Cause::WRAP, |to| vec![read(1, 9, to.all.token(), u64::MAX - 7)]),
        of("a read before the region", Cause::BOUNDS, |to| vec![read(1, 8, to.all.token(), BASE - 1)]),
        of("a read over the end", Cause::BOUNDS, |to| vec![read(1, 8, to.all.token(), BASE + to.size - 7)]),
        of("a read of too much", Cause::BOUNDS, |to| vec![read(1, u32::MAX, to.all.token(), BASE)]),
        of("a second read of tag 0", Cause::STAG, |to| vec![read(1, 8, to.all.token(), BASE), read(2, 8, 0, BASE)]),
    ]
}

pub(crate) fn of_invalidations() -> Vec<Break> {
    let of =
        |name, cause, sends| Break { placed: vec![(0x100, 4, b'p')], ..Break::new(name, cause, Headers::Ddp, sends) };
    vec![
        of("an invalidation of tag 0", Cause::NOT_INVALIDATED, |_| vec![send_and_invalidate(1, 0, b"pppp")]),
        of("an invalidation of what was deregistered", Cause::NOT_INVALIDATED, |to| {
            vec![send_and_invalidate(1, to.gone, b"pppp")]
        }),
        of("an invalidation of a plain region", Cause::NOT_INVALIDATED, |to| {
            vec![send_and_invalidate(1, to.all.token(), b"pppp")]
        }),
        of("an invalidation of what is not registered", Cause::NOT_INVALIDATED, |to| {
            vec![send_and_invalidate(1, to.fast.token(), b"pppp")]
        }),
        of("an invalidation of another domain", Cause::PROTECTED_FROM_INVALIDATION, |to| {
            vec![send_and_invalidate(1, to.foreign.token(), b"pppp")]
        }),
        of("an invalidation of the privileged tag", Cause::PROTECTED_FROM_INVALIDATION, |to| {
            vec![send_and_invalidate(1, to.privileged, b"pppp")]
        }),
    ]
}
