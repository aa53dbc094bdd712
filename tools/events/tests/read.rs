//! Events as the driver writes them, and bytes that are none.

mod encoded;

use encoded::{connected, description, listening};
use events::{Event, Malformed, provider_name};

const INFORMATIONAL: u8 = 4;
const CONNECTION: u64 = 1;

fn read(metadata: &[u8], data: &[u8]) -> Result<Event, Malformed> {
    Event::read(INFORMATIONAL, CONNECTION, metadata, data)
}

#[test]
fn an_event_is_shown_as_a_line_and_as_json() {
    let (metadata, data) = connected();
    let event = read(&metadata, &data).unwrap();
    assert_eq!(
        event.to_string(),
        "informational  Connected              Local=192.0.2.1:5445  Remote=unknown  QueuePair=7  Active=true  \
         Status=STATUS_CONNECTION_REFUSED (0xc0000236)  NetLuid=0x6000001000000  Code=0xff  \
         Counter=connects"
    );
    let json = serde_json::to_string(&event).unwrap();
    assert_eq!(
        json,
        "{\"event\":\"Connected\",\"level\":\"informational\",\"keywords\":[\"connection\"],\"fields\":{\
         \"Local\":\"192.0.2.1:5445\",\"Remote\":null,\"QueuePair\":7,\"Active\":true,\
         \"Status\":\"STATUS_CONNECTION_REFUSED (0xc0000236)\",\"NetLuid\":\"0x6000001000000\",\"Code\":\"0xff\",\
         \"Counter\":\"connects\"}}"
    );
}

#[test]
fn an_address_of_ipv6() {
    let (metadata, data) = listening();
    assert!(read(&metadata, &data).unwrap().to_string().ends_with("Local=[fd00::2]:5445"));
}

#[test]
fn a_provider_has_a_name() {
    assert_eq!(provider_name(&description(&[b"SoftNDK\0"])).as_deref(), Ok("SoftNDK"));
    assert_eq!(provider_name(b"\x09\0SoftNDK"), Err(Malformed::CutOff));
}

/// A description that is cut anywhere, or data that is, is no event; nor is more data.
// Shows T74.
#[test]
fn whatever_is_cut_off_is_noticed() {
    let (metadata, data) = connected();
    for length in 0..metadata.len() {
        assert!(read(&metadata[..length], &data).is_err(), "{length} bytes");
        if length >= 2 {
            // One that says so.
            let shorter = description(&[&metadata[2..length]]);
            assert!(read(&shorter, &data).is_err(), "{length} bytes that say so");
        }
    }
    for length in 0..data.len() {
        assert!(read(&metadata, &data[..length]).is_err(), "{length} bytes of data");
    }
    assert_eq!(read(&metadata, &[&*data, &[0]].concat()), Err(Malformed::TooLong(1)));
}

// Shows T74.
#[test]
fn other_types_and_wrong_addresses_are_refused() {
    let refused = |field: &[u8], data: &[u8]| read(&description(&[b"\0X\0", field]), data).unwrap_err();
    let field = || "F".to_owned();
    assert_eq!(refused(b"F\0\x0b", &[0; 4]), Malformed::Type { field: field(), input: 11, output: 0 });
    assert_eq!(refused(b"F\0\x88\x0d", &[0; 4]), Malformed::Type { field: field(), input: 8, output: 13 });
    assert_eq!(refused(b"F\0\x8e\x0a", &[1, 0, 2]), Malformed::Address(field()));
    assert_eq!(refused(b"F\0\x8e\x0a", &[&[40, 0][..], &[2; 40]].concat()), Malformed::Address(field()));
    assert_eq!(refused(b"\xff\0\x04", &[0]), Malformed::NotPrintable);
    assert_eq!(refused(b"F\0\x97\x23", &[1, 0, 0xff]), Malformed::NotPrintable);
    assert_eq!(refused(b"F\0\x97\x23", &[4, 0, 0x1b, b'[', b'2', b'J']), Malformed::NotPrintable);
    assert_eq!(refused(b"\x1b[2J\0\x04", &[0]), Malformed::NotPrintable);
}
