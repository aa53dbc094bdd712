//! Credits (MS-SMBD 3.1.5.1, 3.1.5.8, 3.1.5.9): one is one posted receive of the peer, and allows one send.

/// The credits of one end.
pub(crate) struct Credits {
    /// SendCredits.
    send: u32,
    /// ReceiveCredits: receives posted, whether the peer knows of them or not.
    receive: u32,
    /// ReceiveCreditTarget: what the peer wants to hold.
    target: u32,
    /// ReceiveCreditMax.
    max: u32,
    /// Receives posted that the peer was not told of yet.
    ungranted: u32,
    /// A message is to be sent for the sake of its grant.
    grant_due: bool,
}

impl Credits {
    pub(crate) fn new(max: u16) -> Self {
        Self { send: 0, receive: 0, target: 0, max: max.into(), ungranted: 0, grant_due: false }
    }

    /// What the negotiation gave.
    pub(crate) fn negotiated(&mut self, send: u16, target: u16) {
        self.send = send.into();
        self.target = u32::from(target).min(self.max);
    }

    /// Receives that should be posted now.
    pub(crate) fn wanted_receives(&self) -> u32 {
        self.target.saturating_sub(self.receive)
    }

    /// Whether a receive has to be posted beyond the target: a message waits, and only something to grant lets the last credit
    /// be spent. With two credits each way both ends would else fall silent, each after an empty message of the other. One is
    /// enough: the peer answers a message that takes its last receive.
    pub(crate) fn must_post(&self) -> bool {
        self.send == 1 && self.ungranted == 0 && self.receive <= self.max
    }

    /// A receive was posted.
    pub(crate) fn posted(&mut self) {
        self.receive = self.receive.saturating_add(1);
        self.ungranted = self.ungranted.saturating_add(1);
    }

    /// Takes all there is to grant, for the message that is being sent.
    pub(crate) fn take_grant(&mut self) -> u16 {
        let grant = u16::try_from(self.ungranted).unwrap_or(u16::MAX);
        self.ungranted = self.ungranted.saturating_sub(grant.into());
        self.grant_due = false;
        grant
    }

    /// Whether a message may be sent. The last credit is for a message that grants: both ends could else wait for each other
    /// for ever.
    pub(crate) fn may_send(&self) -> bool {
        self.send > 1 || (self.send == 1 && self.ungranted > 0)
    }

    /// Spends a credit and gives what the message grants.
    pub(crate) fn spend(&mut self) -> u16 {
        self.send = self.send.saturating_sub(1);
        self.take_grant()
    }

    /// Whether a message is to be sent, even if an empty one.
    pub(crate) fn grant_due(&self) -> bool {
        self.grant_due
    }

    /// Whether a message sent now would grant something.
    pub(crate) fn has_grant(&self) -> bool {
        self.ungranted > 0
    }

    /// There is nothing to grant after all.
    pub(crate) fn forget_grant(&mut self) {
        self.grant_due = false;
    }

    /// A message came. False: the peer had no credit for it.
    ///
    /// Grants go with messages that are sent anyway. Only when the peer runs low one is sent for it: at a quarter of its target
    /// as Linux does, and if it still sends payload then, before it holds its last credit. Empty messages alone do not cause
    /// more of them, or two idle ends would never be quiet.
    #[must_use]
    pub(crate) fn received(&mut self, requested: u16, granted: u16, payload: bool) -> bool {
        let Some(left) = self.receive.checked_sub(1) else { return false };
        self.receive = left;
        let target = u32::from(requested).min(self.max);
        let grown = target > self.target;
        self.target = target;
        self.send = self.send.saturating_add(granted.into());
        let low = self.target.wrapping_shr(2);
        let low = if payload { low.max(1) } else { low };
        self.grant_due |= grown || self.receive <= low;
        true
    }
}
