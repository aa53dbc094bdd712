//! A send whose receiver is not ready: it has no receive. InfiniBand calls that RNR.

use platform::Platform;

use super::Progress;
use crate::{
    Access, Flags, QueuePair, Status,
    request::{Piece, SgeList},
};

impl<P: Platform> QueuePair<P> {
    /// What becomes of the current send, for which the peer has no receive. When it begins to wait its own SGEs are looked at, which
    /// are its error whatever the peer has, as with hardware.
    pub(super) fn awaits_receive(&self) -> Progress {
        match self.own_data() {
            Ok(()) => Progress::NoReceive,
            Err(error) => Progress::Failed(error),
        }
    }

    /// Whether the data of the current send may be read, if it does not wait already.
    fn own_data(&self) -> Status {
        let state = self.state.lock();
        let Some((slot, &request)) = state.current() else { return Ok(()) };
        if state.awaits_receive || request.flags.contains(Flags::INLINE) {
            return Ok(());
        }
        let sges = SgeList::copy_of(state.sges_of(slot, &request, self.sizes().sges).unwrap_or_default())?;
        drop(state);
        for sge in sges.as_slice().iter().filter(|sge| sge.length > 0) {
            let piece = Piece { address: sge.address, length: sge.length, token: sge.token };
            self.local(piece, sge.length, Access::empty())?;
        }
        Ok(())
    }
}
