//! Segments that break two rules.

use iwarp::terminate::Cause;
use peer::{
    device::BASE,
    frames::{answer, read, send, send_part, write},
};
use soft_rdma::Error;

use super::{
    breaks::{Break, ddp_version, opcode, queue, rdmap_version},
    check::Headers::{All, Ddp, None},
};

pub(crate) fn all() -> Vec<Break> {
    let of = Break::new;
    vec![
        Break {
            needs_crc: true,
            ..of("CRC, then version", Cause::CRC, None, |_| vec![ddp_version(send(1, b"xxxx"), 2)])
        },
        of("version of DDP, then of RDMAP", Cause::UNTAGGED_VERSION, None, |_| {
            vec![ddp_version(rdmap_version(send(1, b"xxxx"), 2), 2)]
        }),
        of("version of RDMAP, then opcode", Cause::RDMAP_VERSION, None, |_| {
            vec![rdmap_version(opcode(send(1, b"xxxx"), 9), 3)]
        }),
        of("opcode, then queue", Cause::OPCODE, None, |_| vec![opcode(queue(send(1, b"xxxx"), 7), 9)]),
        of("queue, then number", Cause::QUEUE, Ddp, |_| vec![queue(send(9, b"xxxx"), 7)]),
        Break {
            receives: Vec::new(),
            statuses: Vec::new(),
            ..of("number, then no receive", Cause::MESSAGE_NUMBER, Ddp, |_| vec![send(9, b"xxxx")])
        },
        of("number, then offset", Cause::MESSAGE_NUMBER, Ddp, |_| vec![send_part(true, 9, 9, b"xxxx")]),
        Break {
            receives: Vec::new(),
            statuses: Vec::new(),
            waits: true,
            ..of("no receive, then offset", Cause::NO_BUFFER, Ddp, |_| vec![send_part(true, 1, 9, b"xxxx")])
        },
        of("offset, then length", Cause::MESSAGE_OFFSET, Ddp, |_| vec![send_part(true, 1, 9, &[b'x'; 65])]),
        of("number of a read, then its length", Cause::MESSAGE_NUMBER, Ddp, |to| {
            vec![[read(9, 8, to.all.token(), BASE), vec![0]].concat()]
        }),
        of("tag, then end of all", Cause::TAGGED_STAG, Ddp, |to| vec![write(to.gone, u64::MAX, b"xxxx")]),
        of("domain, then end of all", Cause::TAGGED_NOT_OF_STREAM, Ddp, |to| {
            vec![write(to.foreign.token(), u64::MAX, b"xxxx")]
        }),
        of("end of all, then right", Cause::TAGGED_WRAP, Ddp, |to| {
            vec![write(to.not_written.token(), u64::MAX, b"xxxx")]
        }),
        of("bounds, then right", Cause::TAGGED_BOUNDS, Ddp, |to| vec![write(to.not_written.token(), 0, b"xxxx")]),
        of("tag of a read, then end of all", Cause::STAG, All, |to| vec![read(1, 8, to.gone, u64::MAX)]),
        of("right of a read, then end of all", Cause::ACCESS, All, |to| {
            vec![read(1, 8, to.not_read.token(), u64::MAX)]
        }),
        of("right of a read, then bounds", Cause::ACCESS, All, |to| vec![read(1, 8, to.not_read.token(), 0)]),
        of("right of a read by a window, then bounds", Cause::ACCESS, All, |to| {
            vec![read(1, 8, to.write_only_window.token(), 0)]
        }),
        of("domain of a read, then bounds", Cause::NOT_OF_STREAM, All, |to| vec![read(1, 8, to.foreign.token(), 0)]),
        of("end of all of a read, then bounds", Cause::WRAP, All, |to| vec![read(1, 8, to.all.token(), u64::MAX)]),
        Break {
            reads: true,
            statuses: vec![(10, Err(Error::Canceled)), (1, Err(Error::Canceled))],
            ..of("tag of an answer, then its place", Cause::TAGGED_STAG, Ddp, |_| vec![answer(true, 9, 9, b"xxxx")])
        },
    ]
}
