//! What the hostile user puts into rings, and asks of the control device.

use ndk_abi::{nd_ioctl::*, ndkpi::*, softndk_ioctl::*};
use users::{
    host::locked,
    rings::{INLINE_BYTES, SGES},
    user::{handle, work},
};
use zerocopy::IntoBytes as _;

use super::{
    attacker::{Attacker, Kind},
    operation::{Entry, Piece, Request},
};
use crate::Result;

/// Bytes of inline data; a little more than is allowed.
const MOST_INLINE: u8 = INLINE_BYTES as u8 + 4;
/// SGEs; one more than is allowed.
const MOST_SGES: usize = SGES as usize + 1;

impl Attacker<'_> {
    /// A request, and the words behind its head.
    pub(super) fn entry(&self, is_initiator: bool, entry: &Entry) -> (SOFTNDK_POST, Vec<u64>) {
        let operation = match (is_initiator, entry.operation % 16) {
            (false, 0..13) | (true, 15) => NdkOperationTypeReceive,
            (true, 0..6) => NdkOperationTypeSend,
            (true, 6..8) => NdkOperationTypeWrite,
            (true, 8..10) => NdkOperationTypeRead,
            (_, 10) => NDK_OPERATION_TYPE(SOFTNDK_POST_SEND_AND_INVALIDATE as i32),
            (_, 11) => NdkOperationTypeInvalidate,
            (_, 12) => NdkOperationTypeBind,
            (_, 13) => NdkOperationTypeFastRegister,
            _ => NDK_OPERATION_TYPE(entry.flags.into()),
        };
        let mut words: Vec<u64> = Vec::new();
        let inline = entry.inline.filter(|_| is_initiator).map(|inline| inline % MOST_INLINE);
        if let Some(inline) = inline {
            words.resize(usize::from(inline).div_ceil(8), entry.context.into());
        } else {
            for sge in entry.pieces.iter().take(MOST_SGES).map(|piece| self.sge(*piece)) {
                words.extend::<[u64; 2]>(zerocopy::transmute!(sge));
            }
        }
        let sges = if inline.is_some() { 0 } else { entry.pieces.len().min(MOST_SGES) as u32 };
        let is_inline = inline.is_some();
        let inline = u32::from(inline.unwrap_or(0));
        let (sges, inline) = match entry.counts {
            (0..8, wrong) => (wrong, inline),
            (8..16, wrong) => (sges, wrong),
            _ => (sges, inline),
        };
        let remote = self.sge(entry.remote);
        let flags = if entry.flags < 64 { u32::from(entry.flags) } else { 0 };
        let inline_flag = if is_inline { NDK_OP_FLAG_INLINE } else { 0 };
        let head = SOFTNDK_POST {
            Flags: flags & !NDK_OP_FLAG_INLINE | inline_flag,
            SgeCount: sges,
            InlineLength: inline,
            RemoteAddress: remote.Address,
            RemoteToken: remote.Token,
            ObjectHandle: if entry.remote.offset.is_multiple_of(2) { self.world.mw } else { self.memory.mr },
            MrHandle: self.memory.mr,
            BaseVirtualAddress: remote.Address,
            Length: remote.Length.into(),
            ..work(operation, 0, entry.context.into())
        };
        (head, words)
    }

    fn sge(&self, piece: Piece) -> SOFTNDK_SGE {
        let size = self.memory.pages.size() as u64;
        let good = self.memory.sge(u64::from(piece.offset) % size, u32::from(piece.length) % 512);
        match piece.token {
            0..192 => good,
            192..208 => SOFTNDK_SGE { Token: self.memory.tokens.RemoteToken, ..good },
            208..224 => SOFTNDK_SGE { Length: u32::from(piece.length) << 8, ..good },
            224..240 => SOFTNDK_SGE { Address: u64::from(piece.offset) << 48 | u64::from(piece.length), ..good },
            _ => SOFTNDK_SGE { Token: u32::from(piece.offset) << 16 | u32::from(piece.length), ..good },
        }
    }

    /// Sends a request that names one of the queues.
    pub(super) fn send(&self, number: u8, request: Request) -> Result<()> {
        let Some((kind, object)) = self.object(number) else { return Ok(()) };
        let simple = handle(object);
        let connector = handle(self.world.connector);
        let (code, input, output): (_, Vec<u8>, _) = match (request, kind) {
            (Request::Flush, _) => (IOCTL_ND_QP_FLUSH, simple.as_bytes().to_vec(), 0),
            (Request::Free, Kind::Cq) => (IOCTL_ND_CQ_FREE, simple.as_bytes().to_vec(), 0),
            (Request::Free, Kind::Srq) => (IOCTL_ND_SRQ_FREE, simple.as_bytes().to_vec(), 0),
            (Request::Free, _) => (IOCTL_ND_QP_FREE, simple.as_bytes().to_vec(), 0),
            (Request::Notify(_), Kind::Srq) => (IOCTL_ND_SRQ_NOTIFY, simple.as_bytes().to_vec(), 0),
            (Request::Notify(kind), _) => {
                let notify = ND_CQ_NOTIFY { Version: 1, Type: u32::from(kind) % 4, CqHandle: object };
                (IOCTL_ND_CQ_NOTIFY, notify.as_bytes().to_vec(), 0)
            }
            (Request::CancelIo, Kind::Srq) => (IOCTL_ND_SRQ_CANCEL_IO, simple.as_bytes().to_vec(), 0),
            (Request::CancelIo, _) => (IOCTL_ND_CQ_CANCEL_IO, simple.as_bytes().to_vec(), 0),
            (Request::Disconnect, _) => (IOCTL_ND_CONNECTOR_DISCONNECT, connector.as_bytes().to_vec(), 0),
            (Request::NotifyDisconnect, _) => (IOCTL_ND_CONNECTOR_NOTIFY_DISCONNECT, connector.as_bytes().to_vec(), 0),
            (Request::Bind, _) => {
                let bind = SOFTNDK_POST {
                    ObjectHandle: self.world.mw,
                    MrHandle: self.memory.mr,
                    BaseVirtualAddress: self.memory.address(),
                    Length: 64,
                    ..work(NdkOperationTypeBind, object, 1)
                };
                (IOCTL_SOFTNDK_POST, bind.as_bytes().to_vec(), size_of::<SOFTNDK_MW_TOKEN>())
            }
            (Request::Poll, _) => {
                let poll = SOFTNDK_POLL { Version: 1, MaxResults: 4, CqHandle: object };
                (IOCTL_SOFTNDK_POLL, poll.as_bytes().to_vec(), 4 * size_of::<SOFTNDK_RESULT>())
            }
            (Request::Deregister, _) => (IOCTL_ND_MR_DEREGISTER, handle(self.memory.mr).as_bytes().to_vec(), 0),
            (Request::CancelOldest, _) => {
                let oldest = locked(&self.owned).answers.first().map(|(_, answer)| answer.clone());
                oldest.iter().for_each(|answer| answer.shared.cancel(&self.user.file));
                return Ok(());
            }
        };
        self.note(code, &input, output)?;
        Ok(())
    }
}
