//! Fairness between sockets on the thread that serves them: one event of a socket leads to a bounded number of
//! transfers, even if its connection could send or receive more at once. The socket continues in its next turn.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeSet,
};

use mio::Token;

/// The most transfers that one turn tries at once.
const TRANSFERS: u32 = 4;

thread_local! {
    /// The transfers left in the turn; `None` while this thread serves no sockets.
    static LEFT: Cell<Option<u32>> = const { Cell::new(None) };
    /// Sockets that used up their turn and get another one.
    static NEXT: RefCell<BTreeSet<Token>> = const { RefCell::new(BTreeSet::new()) };
    /// The bytes received and sent since [`moved`] was called last.
    static MOVED: Cell<usize> = const { Cell::new(0) };
}

/// Begins a turn on this thread.
pub(super) fn begin() {
    LEFT.set(Some(TRANSFERS));
}

/// Counts a transfer that a ready socket is about to try. True: the turn is used up, and the transfer waits for the
/// socket's next turn.
pub(super) fn is_over(token: Option<Token>) -> bool {
    match LEFT.get() {
        None => false,
        Some(0) => {
            NEXT.with_borrow_mut(|next| next.extend(token));
            true
        }
        Some(left) => {
            LEFT.set(Some(left - 1));
            false
        }
    }
}

/// Ends the turns of this thread; returns the sockets that get another one.
pub(super) fn end() -> BTreeSet<Token> {
    LEFT.set(None);
    NEXT.take()
}

/// Counts bytes received or sent.
pub(super) fn moves(count: usize) {
    MOVED.set(MOVED.get().saturating_add(count));
}

/// The bytes received and sent since the last call.
pub(super) fn moved() -> usize {
    MOVED.take()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_that_defers_much_has_one_turn_next() {
        let token = Some(Token(1));
        begin();
        assert!((0..TRANSFERS).all(|_| !is_over(token)));
        assert!((0..4).all(|_| is_over(token)));
        assert!(is_over(Some(Token(2))));
        assert_eq!(end(), [Token(1), Token(2)].into());
        assert!(!is_over(token) && end().is_empty());
    }
}
