//! Each scenario, and what it has to count.

use ndk_abi::status::{STATUS_DATA_ERROR, STATUS_INVALID_NETWORK_RESPONSE, STATUS_SUCCESS};
use smb_direct::{Figures, Report, Scenario, Step};

use crate::host::Host;

const MIB: u64 = 1 << 20;

/// The figures of a run that has to succeed.
#[track_caller]
fn succeed(scenario: Scenario) -> Figures {
    let _session = simkernel::boot();
    let Report { step, status, figures } = Host::new().run(scenario).unwrap();
    println!("{scenario:?}: {figures:#?}");
    assert_eq!((step, status), (Step::Done, STATUS_SUCCESS), "{figures:?}");
    assert_eq!(figures.messages_sent, figures.messages_received, "{figures:?}");
    figures
}

// Shows S114.
#[test]
fn eight_mebibytes_each_way() {
    let figures = succeed(Scenario::Transfer);
    assert_eq!((figures.bytes_written, figures.bytes_read), (8 * MIB, 8 * MIB));
    assert_eq!((figures.remote_invalidations, figures.local_invalidations), (2, 0));
    assert_eq!(figures.connections, 1);
}

#[test]
fn the_same_over_ipv6() {
    let _session = simkernel::boot();
    let report = Host::ipv6().run(Scenario::Transfer).unwrap();
    assert_eq!((report.step, report.status), (Step::Done, STATUS_SUCCESS));
}

#[test]
fn the_client_invalidates_what_the_server_did_not() {
    let figures = succeed(Scenario::LocalInvalidation);
    assert_eq!((figures.bytes_written, figures.bytes_read), (MIB, MIB));
    assert_eq!((figures.remote_invalidations, figures.local_invalidations), (0, 2));
}

#[test]
fn several_descriptors_are_one_buffer() {
    let figures = succeed(Scenario::Descriptors);
    assert_eq!(figures.bytes_written, 8 + 65_536 + 4096 + 1000 + 65_536 + 1);
    assert_eq!(figures.bytes_read, figures.bytes_written);
    // Of four regions the answer invalidates one; of the two with channel 1, none.
    assert_eq!((figures.remote_invalidations, figures.local_invalidations), (2, 2 * 3 + 2 * 2));
}

#[test]
fn requests_overlap() {
    let figures = succeed(Scenario::Parallel);
    assert_eq!((figures.bytes_written, figures.bytes_read), (8 * MIB, 8 * MIB));
    assert_eq!(figures.remote_invalidations, 16);
}

/// The rule that the last credit is spent on a message that grants keeps two credits each way from locking up.
#[test]
fn two_credits_are_enough() {
    let figures = succeed(Scenario::Credits);
    let expected: u64 = (0..2000).map(|number| number * 7 % 3000).sum();
    assert_eq!(figures.bytes_echoed, expected);
    assert!(figures.credit_stalls > 100, "{figures:?}");
}

// Shows S114.
#[test]
fn messages_are_cut_and_put_together() {
    let figures = succeed(Scenario::Fragments);
    assert!(figures.bytes_echoed > 131_000 + 200 * 4000, "{figures:?}");
}

#[test]
fn a_full_initiator_queue_is_waited_for() {
    let figures = succeed(Scenario::SendQueue);
    assert!(figures.queue_stalls > 10, "{figures:?}");
}

// Shows S114.
#[test]
fn keepalives_are_answered() {
    assert_eq!(succeed(Scenario::Keepalive).keepalives, 6);
}

#[test]
fn a_transfer_is_cut_off_and_done_again() {
    let _session = simkernel::boot();
    let Report { step, status, figures } = Host::new().run(Scenario::MidTransfer).unwrap();
    assert_eq!((step, status), (Step::Done, STATUS_SUCCESS), "{figures:?}");
    assert_eq!(figures.connections, 3);
    assert_eq!((figures.bytes_written, figures.bytes_read), (8 * MIB, 8 * MIB), "only the last transfer was finished");
    // All receives of three connections at least.
    assert!(figures.cancelled > 3 * 255, "{figures:?}");
}

#[test]
fn connections_come_and_go() {
    let figures = succeed(Scenario::Reconnect);
    assert_eq!((figures.connections, figures.bytes_read), (5, 5 * 65_536));
}

#[test]
fn refusals_are_heard() {
    let figures = succeed(Scenario::Refused);
    assert_eq!(figures.connections, 1);
    // The refusal of the request invalidates, too.
    assert_eq!(figures.remote_invalidations, 3);
    assert_eq!((figures.bytes_written, figures.bytes_read), (MIB, MIB));
}

/// Negative controls: the consumer must see what an end does wrong.
#[test]
fn wrong_data_and_wrong_tokens_are_found() {
    let cases = [
        (Scenario::CorruptedRead, Step::Data, STATUS_DATA_ERROR),
        (Scenario::CorruptedWrite, Step::Data, STATUS_DATA_ERROR),
        (Scenario::WrongToken, Step::Invalidation, STATUS_INVALID_NETWORK_RESPONSE),
    ];
    for (scenario, step, status) in cases {
        let _session = simkernel::boot();
        let report = Host::new().run(scenario).unwrap();
        assert_eq!((report.step, report.status), (step, status), "{scenario:?}: {report:?}");
    }
}

#[test]
fn numbers_name_scenarios() {
    for scenario in Scenario::ALL {
        assert_eq!(Scenario::from_number(scenario as u32), Some(scenario));
    }
    assert_eq!(Scenario::from_number(0), None);
    assert_eq!(Scenario::from_number(100), None);
}
