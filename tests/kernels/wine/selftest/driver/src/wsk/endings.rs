//! How connections end.

use ndk_abi::{
    sockaddr::AF_INET,
    status::{STATUS_CANCELLED, STATUS_CONNECTION_RESET},
};

use super::{
    bytes::Much,
    checks::{pair, with_client},
    *,
};
use crate::text::Text;

pub(crate) unsafe fn disconnects(text: &mut Text<'_>) {
    // SAFETY: one check at a time.
    unsafe {
        with_client(text, disconnect_behind);
        with_client(text, cut_off);
    }
}

/// The end of sending comes behind the sends that began before it.
unsafe fn disconnect_behind(client: &Client, text: &mut Text<'_>) {
    let mut requests = [const { Request::new() }; 4];
    let [sends @ .., ending] = requests.each_mut().map(|request| &raw mut *request);
    // SAFETY: memory that lives until all requests have ended.
    unsafe {
        let bytes = Bytes::new();
        for _ in 0..20 {
            let [active, passive] = pair(client, own(AF_INET, 0), text);
            sends.iter().for_each(|send| start_send(*send, active, bytes.part(0, 10)));
            start_disconnect(ending, active);
            let sent = sends.iter().all(|send| Request::end(*send) == (SUCCESS, 10));
            text.check(sent, "sends that began before a disconnect");
            text.check(Request::end(ending).0 == SUCCESS, "a disconnect behind sends");
            text.check(drain(passive, &bytes) == (SUCCESS, 10 * sends.len()), "what the peer has of them");
            text.check(close(active) == SUCCESS && close(passive) == SUCCESS, "closing");
        }
        bytes.free();
    }
}

/// A close that ends sends before their disconnect resets the connection: the peer must not take what it has for all.
unsafe fn cut_off(client: &Client, text: &mut Text<'_>) {
    let (mut sending, mut ending) = (Request::new(), Request::new());
    let (sending, ending) = (&raw mut sending, &raw mut ending);
    // SAFETY: memory that lives until all requests have ended.
    unsafe {
        let (bytes, much) = (Bytes::new(), Much::new());
        let [active, passive] = pair(client, own(AF_INET, 0), text);
        text.check(disconnect(passive) == SUCCESS, "the end of one way");
        text.check(receive(active, bytes.part(0, LENGTH)) == (SUCCESS, 0), "the end of one way, at the peer");
        start_send(sending, active, much.all());
        start_disconnect(ending, active);
        text.check(close(active) == SUCCESS, "a close with a disconnect under way");
        text.check(Request::end(sending).0 == STATUS_CANCELLED.0, "a send that waits when its socket is closed");
        text.check(Request::end(ending).0 == STATUS_CANCELLED.0, "a disconnect behind it");
        text.check(drain(passive, &bytes).0 == STATUS_CONNECTION_RESET.0, "a stream that was cut off");
        text.check(close(passive) == SUCCESS, "closing the peer");
        bytes.free();
        much.free();
    }
}

/// Receives until that fails, or the peer has finished: with which status, and how many bytes.
unsafe fn drain(socket: *mut WSK_SOCKET, bytes: &Bytes) -> (i32, usize) {
    let mut all = 0;
    loop {
        // SAFETY: a connection, bytes that live.
        let (status, count) = unsafe { receive(socket, bytes.part(0, LENGTH)) };
        if status != SUCCESS || count == 0 {
            return (status, all);
        }
        all += count;
    }
}

pub(crate) unsafe fn resets(text: &mut Text<'_>) {
    // SAFETY: one check at a time.
    unsafe { with_client(text, reset) };
}

/// All that a socket has under way fails when its peer has reset the connection, and so does what comes after.
unsafe fn reset(client: &Client, text: &mut Text<'_>) {
    const RESET: i32 = STATUS_CONNECTION_RESET.0;
    let (mut sending, mut receiving) = (Request::new(), Request::new());
    let (sending, receiving) = (&raw mut sending, &raw mut receiving);
    // SAFETY: memory that lives until all requests have ended.
    unsafe {
        let (bytes, much) = (Bytes::new(), Much::new());
        let [active, passive] = pair(client, own(AF_INET, 0), text);
        start_receive(receiving, active, bytes.part(0, LENGTH));
        start_send(sending, active, much.all());
        text.check(close(passive) == SUCCESS, "closing the peer");
        text.check(Request::end(sending).0 == RESET, "a send that waits when the peer resets");
        text.check(Request::end(receiving).0 == RESET, "a receive beside it");
        text.check(receive(active, bytes.part(0, LENGTH)).0 == RESET, "a receive after a reset");
        text.check(send(active, bytes.part(0, LENGTH)).0 == RESET, "a send after a reset");
        text.check(disconnect(active) == RESET, "a disconnect after a reset");
        text.check(close(active) == SUCCESS, "closing a socket that was reset");
        bytes.free();
        much.free();
    }
}
