//! Credits (MS-SMBD 3.1.5.1, 3.1.5.8, 3.1.5.9): a credit is one posted receive of the peer, and allows one send.

/// The credits of one end.
pub(crate) struct Credits {
    /// SendCredits.
    send: u32,
    /// ReceiveCredits: posted receives, granted to the peer or not.
    receive: u32,
    /// ReceiveCreditTarget: the number of credits that the peer wants to hold.
    target: u32,
    /// ReceiveCreditMax.
    max: u32,
    /// Posted receives that are not granted to the peer yet.
    ungranted: u32,
    /// A message has to be sent to grant credits.
    grant_due: bool,
}

impl Credits {
    pub(crate) fn new(max: u16) -> Self {
        Self { send: 0, receive: 0, target: 0, max: max.into(), ungranted: 0, grant_due: false }
    }

    /// Stores the results of the negotiation.
    pub(crate) fn negotiated(&mut self, send: u16, target: u16) {
        self.send = send.into();
        self.target = u32::from(target).min(self.max);
    }

    /// The number of receives to post now.
    pub(crate) fn wanted_receives(&self) -> u32 {
        self.target.saturating_sub(self.receive)
    }

    /// Whether a waiting message needs a receive beyond the target: only a message that grants credits may spend the last credit, and there
    /// is nothing to grant. Otherwise, with two credits each way, both ends would stop, each after an empty message of the other. One
    /// receive is enough: the peer answers a message that takes its last receive.
    pub(crate) fn must_post(&self) -> bool {
        self.send == 1 && self.ungranted == 0 && self.receive <= self.max
    }

    /// Counts a posted receive.
    pub(crate) fn posted(&mut self) {
        self.receive = self.receive.saturating_add(1);
        self.ungranted = self.ungranted.saturating_add(1);
    }

    /// Takes all credits to grant, for the message that is being sent.
    pub(crate) fn take_grant(&mut self) -> u16 {
        let grant = u16::try_from(self.ungranted).unwrap_or(u16::MAX);
        self.ungranted = self.ungranted.saturating_sub(grant.into());
        self.grant_due = false;
        grant
    }

    /// Whether a message may be sent. The last credit is kept for a message that grants credits: otherwise both ends could wait for each
    /// other for ever.
    pub(crate) fn may_send(&self) -> bool {
        self.send > 1 || (self.send == 1 && self.ungranted > 0)
    }

    /// Spends a credit, and returns the credits that the message grants.
    pub(crate) fn spend(&mut self) -> u16 {
        self.send = self.send.saturating_sub(1);
        self.take_grant()
    }

    /// Whether a message, even an empty one, has to be sent to grant credits.
    pub(crate) fn grant_due(&self) -> bool {
        self.grant_due
    }

    /// Whether a message sent now would grant credits.
    pub(crate) fn has_grant(&self) -> bool {
        self.ungranted > 0
    }

    /// Called if there is nothing to grant: no message is due.
    pub(crate) fn forget_grant(&mut self) {
        self.grant_due = false;
    }

    /// Counts a received message. False: the peer had no credit for it.
    ///
    /// Messages that are sent anyway grant credits. A message that has only a grant is sent when the peer's target grows, when at most a
    /// quarter of the target's receives are still posted, as in Linux, or, if the received message has payload, when at most one receive is.
    /// Without payload the last rule does not apply: two idle ends would answer each other's empty messages without end.
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
