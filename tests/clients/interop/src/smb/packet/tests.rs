//! Vectors are laid out by hand from MS-SMB2 2.2.1.2 and 2.2.19 to 2.2.22.

use super::*;

/// A header, with this command, flags and message number 7.
fn header(command: u16, flags: u32) -> Vec<u8> {
    let mut message = b"\xFESMB".to_vec();
    message.extend([64, 0, 1, 0, 0, 0, 0, 0]);
    message.extend(command.to_le_bytes());
    message.extend([1, 0]);
    message.extend(flags.to_le_bytes());
    message.extend([0; 4]);
    message.extend(7_u64.to_le_bytes());
    message.resize(HEADER, 0);
    message
}

fn read(length: u32) -> Vec<u8> {
    let mut message = header(READ, 0);
    message.extend([49, 0, 0x50, 0]);
    message.extend(length.to_le_bytes());
    message.extend(0x1122_3344_u64.to_le_bytes());
    message.extend([0xF1; 16]);
    message.extend([0; 16]);
    message.push(0);
    message
}

fn write(data: &[u8]) -> Vec<u8> {
    let mut message = header(WRITE, 0);
    message.extend([49, 0, 0x70, 0]);
    message.extend((data.len() as u32).to_le_bytes());
    message.extend(0x1122_3344_u64.to_le_bytes());
    message.extend([0xF1; 16]);
    message.extend([0; 16]);
    message.extend(data);
    message
}

fn read_response(status: u32, data: &[u8]) -> Vec<u8> {
    let mut message = header(READ, FLAG_RESPONSE);
    put(&mut message, 8, &status.to_le_bytes());
    message.extend([17, 0, 0x50, 0]);
    message.extend((data.len() as u32).to_le_bytes());
    message.extend([0; 8]);
    message.extend(data);
    message
}

/// Offset 0x1000, token 0xAABBCC01, length 8.
const MEMORY: [u8; DESCRIPTOR] = [0, 0x10, 0, 0, 0, 0, 0, 0, 1, 0xCC, 0xBB, 0xAA, 8, 0, 0, 0];
const DESCRIBED: Descriptor = Descriptor { address: 0x1000, token: 0xAABB_CC01, length: 8 };

#[test]
fn messages_of_tcp_begin_with_their_length() {
    let mut stream = Vec::new();
    send(&mut stream, b"abc").unwrap();
    assert_eq!(stream, b"\0\0\0\x03abc");
    let mut rest = stream.as_slice();
    assert_eq!(receive(&mut rest).unwrap().as_deref(), Some(&b"abc"[..]));
    assert_eq!(receive(&mut rest).unwrap(), None);
    for broken in [&b"\0\0\0"[..], b"\0\0\0\x03ab", b"\0\0\0\0", b"\x81\0\0\x44aaaa", b"\x7F\xFF\xFF\xFF"] {
        assert!(receive(&mut &broken[..]).is_err(), "{broken:?}");
    }
    assert!(send(&mut Vec::new(), &[]).is_err());
    assert!(send(&mut Vec::new(), &vec![0; LONGEST + 1]).is_err());
}

#[test]
fn a_read_goes_by_rdma_and_back() {
    let inline = read(8);
    assert_eq!(request(&inline).unwrap(), Kind::Read { length: 8, rdma: None });
    assert_eq!(message_id(&inline).unwrap(), 7);
    let rdma = read_by_rdma(&inline, Channel::Invalidate, &MEMORY);
    assert_eq!(rdma[100..], [&[2, 0, 0, 0, 0, 0, 0, 0, 0x70, 0, 16, 0][..], &MEMORY].concat());
    assert_eq!(rdma[..100], inline[..100]);
    assert_eq!(request(&rdma).unwrap(), Kind::Read { length: 8, rdma: Some((Channel::Invalidate, DESCRIBED)) });
    assert_eq!(read_inline(&rdma), inline);
}

#[test]
fn a_write_goes_by_rdma_and_back() {
    let inline = write(b"12345678");
    assert_eq!(request(&inline).unwrap(), Kind::Write { length: 8, rdma: None });
    assert_eq!(written(&inline).unwrap(), b"12345678");
    let rdma = write_by_rdma(&inline, Channel::Rdma, &MEMORY).unwrap();
    assert_eq!(rdma[66..72], [0; 6]);
    assert_eq!(rdma[96..], [&[1, 0, 0, 0, 8, 0, 0, 0, 0x70, 0, 16, 0, 0, 0, 0, 0][..], &MEMORY].concat());
    assert_eq!(request(&rdma).unwrap(), Kind::Write { length: 8, rdma: Some((Channel::Rdma, DESCRIBED)) });
    assert_eq!(write_inline(&rdma, b"12345678"), inline);
}

#[test]
fn responses_to_reads_go_by_rdma_and_back() {
    let inline = read_response(0, b"12345678");
    assert_eq!(read_data(&inline).unwrap(), Some(&b"12345678"[..]));
    let rdma = response_by_rdma(&inline, 8);
    assert_eq!(rdma[66..80], [0x50, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(bytes_by_rdma(&rdma).unwrap(), Some(8));
    assert_eq!(response_inline(&rdma, b"12345678"), inline);
    // STATUS_END_OF_FILE.
    let failed = read_response(0xC000_0011, b"");
    assert_eq!((read_data(&failed).unwrap(), bytes_by_rdma(&failed).unwrap()), (None, None));
    assert_eq!((answers(&inline).unwrap(), answers(&failed).unwrap()), (Some(7), Some(7)));
    assert_eq!(answers(&read_response(STATUS_PENDING, b"")).unwrap(), None);
}

#[test]
fn what_may_not_be_changed_is_passed_on() {
    let mut signed = read(8);
    put(&mut signed, 16, &FLAG_SIGNED.to_le_bytes());
    let mut compound = write(b"1");
    put(&mut compound, 20, &120_u32.to_le_bytes());
    let others =
        [b"\xFDSMB encrypted".to_vec(), b"\xFFSMB".to_vec(), signed, compound, header(3, 0), read_response(0, b"1")];
    for message in others {
        assert_eq!(request(&message).unwrap(), Kind::Other, "{message:x?}");
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let changed = |message: &[u8], at: usize, bytes: &[u8]| {
        let mut message = message.to_vec();
        put(&mut message, at, bytes);
        message
    };
    let (inline_write, inline_read) = (write(b"12345678"), read(8));
    let rdma_write = write_by_rdma(&inline_write, Channel::Rdma, &MEMORY).unwrap();
    let rdma_read = read_by_rdma(&inline_read, Channel::Rdma, &MEMORY);
    let wrong = [
        b"\xFESMB".to_vec(),
        inline_read[..90].to_vec(),
        inline_read[..BUFFER - 1].to_vec(),
        // More data than there is, data that begins in the request, or behind the end.
        changed(&inline_write, 68, &[9]),
        changed(&inline_write, 66, &[0x40]),
        changed(&inline_write, 66, &[0xFF, 0xFF]),
        // No such channel; a descriptor that ends behind the message, or begins in the request; none, and one and a half.
        changed(&rdma_write, 96, &[3]),
        changed(&rdma_write, 104, &[0x71]),
        changed(&rdma_read, 108, &[0x40]),
        changed(&rdma_read, 110, &[0]),
        changed(&rdma_read, 110, &[24]),
    ];
    for message in wrong {
        assert!(request(&message).is_err(), "{message:x?}");
    }
    let response = read_response(0, b"1234");
    assert!(read_data(&changed(&response, 68, &[5])).is_err());
    assert!(read_data(&changed(&response, 66, &[0x40])).is_err());
    assert!(read_data(&response[..79]).is_err());
    // Data inline as well as by RDMA.
    assert!(bytes_by_rdma(&response).is_err());
    assert!(bytes_by_rdma(&changed(&response, 16, &[9])).is_err());
}
