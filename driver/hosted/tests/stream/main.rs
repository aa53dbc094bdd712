//! `platform::Stream` over the host's TCP: what a connection of the device is.

mod end;
mod process;
mod shared_memory;
mod soak;

use platform::{SocketError, Stream};

use end::{ANY, End, Said, bytes, close, connected, hear, turn};

#[test]
fn both_ends_send_much_and_finish() {
    let (ours, theirs) = (bytes(5 << 20, 3), bytes(3 << 20, 7));
    let ends = connected(ours.clone(), theirs.clone());
    assert!(hear(&ends[1].1) == Said::Ended(Ok(()), theirs));
    assert!(hear(&ends[2].1) == Said::Ended(Ok(()), ours));
    close(ends);
}

#[test]
fn the_close_of_one_end_is_a_reset_for_the_other() {
    let ends = connected(Vec::new(), Vec::new());
    End::close(&ends[1].0);
    assert_eq!(hear(&ends[1].1), Said::Closed);
    let Said::Ended(how, received) = hear(&ends[2].1) else { panic!("it did not end") };
    assert_eq!(received, []);
    // Wine may tell of an end first: its closesocket shuts down what it closes.
    let is_wine = std::env::var_os("WINELOADER").is_some();
    assert!(how == Err(SocketError::Reset) || is_wine && how == Ok(()), "{how:?}");
    let [listener, _, passive] = ends;
    for (end, hears) in [listener, passive] {
        End::close(&end);
        assert_eq!(hear(&hears), Said::Closed);
    }
}

#[test]
fn an_accept_is_canceled_by_the_close_of_its_listener() {
    let (listener, passive) = (End::new(Vec::new()), End::new(Vec::new()));
    Stream::listen(&listener.0, ANY);
    assert_eq!(hear(&listener.1), Said::Started(Ok(())));
    Stream::accept(&passive.0, &listener.0).unwrap();
    End::close(&listener.0);
    assert_eq!(hear(&passive.1), Said::Started(Err(SocketError::Canceled)));
    assert_eq!(hear(&listener.1), Said::Closed);
    End::close(&passive.0);
    while hear(&passive.1) != Said::Closed {}
}

#[test]
fn hundreds_at_once() {
    let _turn = turn();
    let all: Vec<_> = (1..300).map(|number| connected(bytes(number * 100, 3), bytes(number * 10, 7))).collect();
    for (number, ends) in (1..300).zip(&all) {
        assert!(hear(&ends[1].1) == Said::Ended(Ok(()), bytes(number * 10, 7)));
        assert!(hear(&ends[2].1) == Said::Ended(Ok(()), bytes(number * 100, 3)));
    }
    all.into_iter().for_each(close);
}
