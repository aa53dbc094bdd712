//! The negotiation (MS-SMBD 3.1.5.2, 3.1.5.6, 3.1.5.7).

use ndk_abi::status::{
    NTSTATUS, STATUS_INVALID_NETWORK_RESPONSE, STATUS_NOT_SUPPORTED, STATUS_REQUEST_NOT_ACCEPTED, STATUS_SUCCESS,
};
use zerocopy::{FromZeros, IntoBytes};

use super::{Connection, Phase, State, Watch};
use crate::Kernel;
use crate::settings::Settings;
use crate::wire::{MIN_FRAGMENTED_SIZE, MIN_RECEIVE_SIZE, NegotiateRequest, NegotiateResponse, VERSION};

/// The limits on which both ends agreed.
#[derive(Clone, Copy, Default)]
pub(super) struct Terms {
    /// Bytes of one message to the peer.
    pub(super) send_size: u32,
    /// Bytes of one upper message to the peer.
    pub(super) fragmented_size: u32,
    /// Bytes of one RDMA transfer.
    pub(super) read_write_size: u32,
}

/// The checks that both messages have to pass.
fn acceptable(credits: u16, receive_size: u32, fragmented_size: u32) -> bool {
    credits > 0 && receive_size >= MIN_RECEIVE_SIZE && fragmented_size >= MIN_FRAGMENTED_SIZE
}

/// Why a request is refused.
enum Refusal {
    /// The peer gets a response with the status; then the connection ends.
    Version,
    /// The connection ends.
    Parameters,
}

fn check_request(settings: &Settings, request: &NegotiateRequest) -> Result<(), Refusal> {
    let (lowest, highest) = settings.versions;
    if request.min_version.get() > highest || request.max_version.get() < lowest {
        return Err(Refusal::Version);
    }
    let sizes = (request.max_receive_size.get(), request.max_fragmented_size.get());
    if !acceptable(request.credits_requested.get(), sizes.0, sizes.1) {
        return Err(Refusal::Parameters);
    }
    Ok(())
}

fn check_response(settings: &Settings, response: &NegotiateResponse) -> Result<(), NTSTATUS> {
    let status = NTSTATUS::from_u32(response.status.get());
    if status != STATUS_SUCCESS {
        return Err(status);
    }
    let sizes = (response.max_receive_size.get(), response.max_fragmented_size.get());
    let good = response.negotiated_version.get() == VERSION
        && acceptable(response.credits_requested.get(), sizes.0, sizes.1)
        && response.credits_granted.get() > 0
        && response.preferred_send_size.get() <= settings.receive_size;
    if good { Ok(()) } else { Err(STATUS_INVALID_NETWORK_RESPONSE) }
}

impl<K: Kernel> Connection<K> {
    /// Sends the negotiate request, the first message of the active side.
    pub(super) fn request(&self, state: &mut State<K>) -> Result<(), NTSTATUS> {
        let settings = &self.settings;
        let request = NegotiateRequest {
            min_version: settings.versions.0.into(),
            max_version: settings.versions.1.into(),
            reserved: 0.into(),
            credits_requested: settings.credits.into(),
            preferred_send_size: settings.send_size.into(),
            max_receive_size: settings.receive_size.into(),
            max_fragmented_size: settings.fragmented_size.into(),
        };
        self.send_negotiation(state, request.as_bytes())
    }

    /// Handles the first message of the peer.
    pub(super) fn negotiate(&self, state: &mut State<K>, slot: u32, length: u32) -> Result<(), NTSTATUS> {
        let result = if state.phase == Phase::Active {
            self.response_received(state, slot, length)
        } else {
            self.request_received(state, slot, length)
        };
        // From here on the slot of the negotiation is a spare slot.
        state.free.give_back(slot);
        self.bell.ring();
        result
    }

    fn request_received(&self, state: &mut State<K>, slot: u32, length: u32) -> Result<(), NTSTATUS> {
        if (length as usize) < size_of::<NegotiateRequest>() {
            return Err(STATUS_INVALID_NETWORK_RESPONSE);
        }
        let mut request = NegotiateRequest::new_zeroed();
        self.qp.context().read_receive(slot, 0, request.as_mut_bytes())?;
        let settings = &self.settings;
        let mut response = NegotiateResponse::new_zeroed();
        response.min_version = settings.versions.0.into();
        response.max_version = settings.versions.1.into();
        match check_request(settings, &request) {
            Ok(()) => {}
            Err(Refusal::Version) => {
                response.status = STATUS_NOT_SUPPORTED.to_u32().into();
                self.send_negotiation(state, response.as_bytes())?;
                return Err(STATUS_NOT_SUPPORTED);
            }
            Err(Refusal::Parameters) => return Err(STATUS_REQUEST_NOT_ACCEPTED),
        }
        state.terms = Terms {
            send_size: settings.send_size.min(request.max_receive_size.get()),
            fragmented_size: request.max_fragmented_size.get(),
            read_write_size: settings.read_write_size,
        };
        // The passive side may send after the first message of the active side has granted credits.
        state.credits.negotiated(0, request.credits_requested.get());
        self.refill(state)?;
        response.negotiated_version = VERSION.into();
        response.credits_requested = settings.credits.into();
        response.credits_granted = state.credits.take_grant().into();
        response.max_read_write_size = settings.read_write_size.into();
        response.preferred_send_size = state.terms.send_size.into();
        let receive_size = settings.receive_size.min(request.preferred_send_size.get()).max(MIN_RECEIVE_SIZE);
        response.max_receive_size = receive_size.into();
        response.max_fragmented_size = settings.fragmented_size.into();
        self.establish(state);
        self.send_negotiation(state, response.as_bytes())
    }

    fn response_received(&self, state: &mut State<K>, slot: u32, length: u32) -> Result<(), NTSTATUS> {
        if (length as usize) < size_of::<NegotiateResponse>() {
            return Err(STATUS_INVALID_NETWORK_RESPONSE);
        }
        let mut response = NegotiateResponse::new_zeroed();
        self.qp.context().read_receive(slot, 0, response.as_mut_bytes())?;
        check_response(&self.settings, &response)?;
        state.terms = Terms {
            send_size: self.settings.send_size.min(response.max_receive_size.get()),
            fragmented_size: response.max_fragmented_size.get(),
            read_write_size: response.max_read_write_size.get(),
        };
        state.credits.negotiated(response.credits_granted.get(), response.credits_requested.get());
        // The first message grants these receives.
        self.refill(state)?;
        self.establish(state);
        Ok(())
    }

    fn establish(&self, state: &mut State<K>) {
        state.phase = Phase::Established;
        Watch::start(&self.watch, self.settings.keepalive_interval);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good_request() -> NegotiateRequest {
        NegotiateRequest {
            min_version: VERSION.into(),
            max_version: VERSION.into(),
            reserved: 0.into(),
            credits_requested: 1.into(),
            preferred_send_size: 1364.into(),
            max_receive_size: MIN_RECEIVE_SIZE.into(),
            max_fragmented_size: MIN_FRAGMENTED_SIZE.into(),
        }
    }

    fn good_response() -> NegotiateResponse {
        NegotiateResponse {
            min_version: VERSION.into(),
            max_version: VERSION.into(),
            negotiated_version: VERSION.into(),
            reserved: 0.into(),
            credits_requested: 1.into(),
            credits_granted: 1.into(),
            status: 0.into(),
            max_read_write_size: (1 << 20).into(),
            preferred_send_size: Settings::DEFAULT.receive_size.into(),
            max_receive_size: MIN_RECEIVE_SIZE.into(),
            max_fragmented_size: MIN_FRAGMENTED_SIZE.into(),
        }
    }

    #[test]
    fn requests_at_and_below_the_minimum() {
        let check = |change: fn(&mut NegotiateRequest)| {
            let mut request = good_request();
            change(&mut request);
            check_request(&Settings::DEFAULT, &request)
        };
        assert!(check(|_| ()).is_ok());
        let wrong = |result| matches!(result, Err(Refusal::Parameters));
        assert!(wrong(check(|request| request.credits_requested = 0.into())));
        assert!(wrong(check(|request| request.max_receive_size = 127.into())));
        assert!(wrong(check(|request| request.max_fragmented_size = 131_071.into())));
        let foreign = |result| matches!(result, Err(Refusal::Version));
        assert!(foreign(check(|request| (request.min_version, request.max_version) = (0x200.into(), 0x300.into()))));
        assert!(foreign(check(|request| (request.min_version, request.max_version) = (0.into(), 0xFF.into()))));
        assert!(check(|request| (request.min_version, request.max_version) = (0.into(), 0x300.into())).is_ok());
    }

    #[test]
    fn responses_at_and_below_the_minimum() {
        let check = |change: fn(&mut NegotiateResponse)| {
            let mut response = good_response();
            change(&mut response);
            check_response(&Settings::DEFAULT, &response)
        };
        assert_eq!(check(|_| ()), Ok(()));
        assert_eq!(check(|response| response.status = 0xC000_00BB.into()), Err(STATUS_NOT_SUPPORTED));
        let wrong: [fn(&mut NegotiateResponse); 6] = [
            |response| response.negotiated_version = 0x200.into(),
            |response| response.credits_granted = 0.into(),
            |response| response.credits_requested = 0.into(),
            |response| response.max_receive_size = 127.into(),
            |response| response.max_fragmented_size = 131_071.into(),
            |response| response.preferred_send_size = Settings::DEFAULT.receive_size.saturating_add(1).into(),
        ];
        for change in wrong {
            assert_eq!(check(change), Err(STATUS_INVALID_NETWORK_RESPONSE));
        }
    }
}
