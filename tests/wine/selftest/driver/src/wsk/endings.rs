//! How connections end.

use ndk_abi::{sockaddr::AF_INET, status::STATUS_CONNECTION_RESET};

use super::{
    bytes::Much,
    checks::{pair, with_client},
    *,
};
use crate::text::Text;

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
