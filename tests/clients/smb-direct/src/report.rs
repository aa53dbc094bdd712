//! The result of a run.

use ndk_abi::status::NTSTATUS;

/// The steps of a run. The numbers are those of the test IOCTLs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Step {
    /// The run has reached its end.
    Done = 0,
    /// Opening the adapter and creating objects.
    Prepare = 1,
    /// NdkListen, NdkConnect, NdkAccept, NdkCompleteConnect.
    Connect = 2,
    /// The negotiation of MS-SMBD.
    Negotiate = 3,
    /// Sends, receives, credits, fragments.
    Transport = 4,
    /// NdkFastRegister and the request.
    Request = 5,
    /// The server's reads and writes.
    Transfer = 6,
    /// The answer to a request.
    Answer = 7,
    /// The check of which tokens the server invalidated, and the client's own invalidations.
    Invalidation = 8,
    /// The check of the data: the data differ from the data that were sent.
    Data = 9,
    /// The disconnect, and the completion of all posted requests.
    Disconnect = 10,
    /// The run or the link was stopped.
    Stopped = 11,
}

/// Where and why a run, or a [`Link`](crate::Link), ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The step that failed.
    pub step: Step,
    /// Why it failed.
    pub status: NTSTATUS,
}

impl Step {
    /// All steps, in the order of their numbers.
    const ALL: [Self; 12] = [
        Self::Done,
        Self::Prepare,
        Self::Connect,
        Self::Negotiate,
        Self::Transport,
        Self::Request,
        Self::Transfer,
        Self::Answer,
        Self::Invalidation,
        Self::Data,
        Self::Disconnect,
        Self::Stopped,
    ];

    /// The step with this number.
    #[must_use]
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|step| *step as u32 == number)
    }

    /// The failure of this step with an NTSTATUS, for `map_err`.
    pub(crate) fn failed(self) -> impl Fn(NTSTATUS) -> Failure {
        move |status| Failure { step: self, status }
    }
}

/// Counts of a run, over both ends unless a field says otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Bytes of the client that the server read by RDMA, checked.
    pub bytes_written: u64,
    /// Bytes that the server wrote to the client by RDMA, checked.
    pub bytes_read: u64,
    /// Bytes of upper messages that came back unchanged.
    pub bytes_echoed: u64,
    /// Messages sent.
    pub messages_sent: u64,
    /// Messages received.
    pub messages_received: u64,
    /// Times that a message waited for a credit.
    pub credit_stalls: u64,
    /// Times that a message waited for room in the initiator queue.
    pub queue_stalls: u64,
    /// Keepalives that were answered.
    pub keepalives: u64,
    /// Tokens of the client that the server invalidated.
    pub remote_invalidations: u64,
    /// Tokens that the client invalidated itself.
    pub local_invalidations: u64,
    /// Posted requests that completed with STATUS_CANCELLED.
    pub cancelled: u64,
    /// Connections established.
    pub connections: u64,
}

impl Figures {
    /// Adds the counts of `other`.
    pub(crate) fn add(&mut self, other: &Self) {
        for (mine, others) in [
            (&mut self.bytes_written, other.bytes_written),
            (&mut self.bytes_read, other.bytes_read),
            (&mut self.bytes_echoed, other.bytes_echoed),
            (&mut self.messages_sent, other.messages_sent),
            (&mut self.messages_received, other.messages_received),
            (&mut self.credit_stalls, other.credit_stalls),
            (&mut self.queue_stalls, other.queue_stalls),
            (&mut self.keepalives, other.keepalives),
            (&mut self.remote_invalidations, other.remote_invalidations),
            (&mut self.local_invalidations, other.local_invalidations),
            (&mut self.cancelled, other.cancelled),
            (&mut self.connections, other.connections),
        ] {
            *mine = mine.saturating_add(others);
        }
    }
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// [`Step::Done`], or the step that failed.
    pub step: Step,
    /// STATUS_SUCCESS, or why the step failed.
    pub status: NTSTATUS,
    /// The counts until the end of the run.
    pub figures: Figures,
}
