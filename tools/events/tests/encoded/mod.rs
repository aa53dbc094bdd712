//! Events as the driver writes them: what describes each, and its data. For the tests of ndkctl, too.

/// A description: its length, what it consists of.
pub(crate) fn description(parts: &[&[u8]]) -> Vec<u8> {
    let content = parts.concat();
    let length = u16::try_from(content.len() + 2).unwrap();
    [&length.to_le_bytes(), &*content].concat()
}

/// "Connected" with a field of each type.
pub(crate) fn connected() -> (Vec<u8>, Vec<u8>) {
    let metadata = description(&[
        b"\0Connected\0",
        b"Local\0\x8e\x0a",
        b"Remote\0\x8e\x0a",
        b"QueuePair\0\x08",
        b"Active\0\x84\x03",
        b"Status\0\x94\x0e",
        b"NetLuid\0\x15",
        b"Code\0\x84\x04",
        b"Counter\0\x97\x23",
    ]);
    let data = [
        &[16, 0, 2, 0, 0x15, 0x45, 192, 0, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0][..],
        &[0, 0],
        &7_u32.to_le_bytes(),
        &[1],
        &0xC000_0236_u32.to_le_bytes(),
        &0x0006_0000_0100_0000_u64.to_le_bytes(),
        &[0xff],
        b"\x08\0connects",
    ]
    .concat();
    (metadata, data)
}

/// "Listening" on an address of IPv6.
pub(crate) fn listening() -> (Vec<u8>, Vec<u8>) {
    let metadata = description(&[b"\0Listening\0", b"Local\0\x8e\x0a"]);
    let mut data = vec![28, 0, 23, 0, 0x15, 0x45];
    data.extend([0; 4]);
    data.extend("fd00::2".parse::<std::net::Ipv6Addr>().unwrap().octets());
    data.extend([0; 4]);
    (metadata, data)
}
