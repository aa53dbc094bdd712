//! Whose turn it is on the thread that serves the sockets: what the host tells of one socket leads to a bounded number of transfers,
//! whatever else its connection could send or receive at once. The rest is for its next turn.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeSet,
};

use mio::Token;

/// Transfers that the calls made in one turn may try at once.
const TRANSFERS: u32 = 4;

thread_local! {
    /// What is left of the turn; none on threads that take none.
    static LEFT: Cell<Option<u32>> = const { Cell::new(None) };
    /// Sockets that could go on, each for one turn.
    static NEXT: RefCell<BTreeSet<Token>> = const { RefCell::new(BTreeSet::new()) };
    /// Bytes that have come, or gone.
    static MOVED: Cell<usize> = const { Cell::new(0) };
}

/// A turn begins, on this thread.
pub(super) fn begin() {
    LEFT.set(Some(TRANSFERS));
}

/// Another transfer of a socket that is ready; whether it has to wait for the next turn.
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

/// The thread takes no more turns for now; the sockets that wait for their next one.
pub(super) fn end() -> BTreeSet<Token> {
    LEFT.set(None);
    NEXT.take()
}

/// So many bytes have come, or gone.
pub(super) fn moves(count: usize) {
    MOVED.set(MOVED.get().saturating_add(count));
}

/// The bytes that have come and gone since this was asked last.
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
