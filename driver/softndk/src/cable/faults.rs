//! Fault rules for frames of the cable.

use ndk_provider::Fault;
use platform::Addresses;
use task_offload::packet::Packet;

use super::Cable;

impl Cable {
    /// Has a frame pass its point, and changes a bit of it if a rule says so. IRQL <= DISPATCH.
    pub(super) fn pass_frame(&self, is_received: bool, frame: &mut [u8]) -> Option<Fault> {
        let mut packet = None;
        let fault = self.provider.pass_frame(is_received, frame.len(), || {
            packet = Packet::of(frame);
            let (local, remote) = packet.map(|packet| (packet.source, packet.destination)).unzip();
            let addresses =
                if is_received { Addresses { local: remote, remote: local } } else { Addresses { local, remote } };
            (addresses, packet.is_some_and(|packet| packet.is_tcp()))
        });
        if let (Some(Fault::Corrupt), Some(packet)) = (fault, packet) {
            // Else two ends of a patch cable could undo what the other did.
            packet.corrupt(frame, if is_received { 2 } else { 1 });
        }
        fault
    }
}
