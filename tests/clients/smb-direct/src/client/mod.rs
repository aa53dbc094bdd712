//! The client: requests to the server, with memory of its own for the server to read and write.

mod transfer;

use core::net::{IpAddr, SocketAddr};

use ndk_abi::status::{NTSTATUS, STATUS_DATA_ERROR, STATUS_QUOTA_EXCEEDED};
use ndk_consumer::{Adapter, Offer};
use platform::{Passive, Slice};

use crate::connection::{Connection, Message};
use crate::message::{Answer, ECHO, MAX_DESCRIPTORS, Request, decode, encode};
use crate::pattern::fill;
use crate::region::Region;
use crate::report::{Failure, Figures, Step};
use crate::settings::Settings;
use crate::{Connector, Kernel, Pd, PlatformOf, Ref, no_memory, shared};
use kernel_consumer::Bell;
use kernel_consumer::ConnectorEvents;
pub(crate) use transfer::{Direction, Plan, Transfer};

/// The most answers that wait to be taken.
const REQUESTS: usize = 16;
/// The inbound read limit: the value of Linux.
pub(crate) const INBOUND_READS: u32 = 32;

/// The client of one connection, with its memory regions.
pub(crate) struct Client<K: Kernel> {
    connector: Connector<K>,
    connection: Ref<Connection<K>, K>,
    regions: [Option<Region<K>>; MAX_DESCRIPTORS],
    /// Regions whose local invalidation is under way.
    invalidating: [bool; MAX_DESCRIPTORS],
    next_id: u64,
    /// In pool: the client itself is on the stack of a scenario.
    answers: Slice<Option<(Answer, Message<K>)>, PlatformOf<K>>,
    pub(crate) figures: Figures,
    _pd: Ref<Pd<K>, K>,
}

/// An echo that was sent.
pub(crate) struct Echo {
    id: u64,
    length: usize,
    seed: u64,
}

impl<K: Kernel> Client<K> {
    /// Makes the objects of a client. `regions` has the length of each region and its offset in the first page.
    pub(crate) fn new(
        adapter: &Ref<Adapter<PlatformOf<K>>, K>,
        bell: &Ref<Bell<PlatformOf<K>>, K>,
        settings: Settings,
        regions: &[(usize, usize)],
        passive: &Passive<'_>,
    ) -> Result<Self, NTSTATUS> {
        let pd = shared::<_, K>(Adapter::create_pd(adapter, passive)?)?;
        let mut made = [const { None }; MAX_DESCRIPTORS];
        for (place, (length, offset)) in made.iter_mut().zip(regions) {
            *place = Some(Region::new(adapter, &pd, *length, *offset, passive)?);
        }
        let connection = Connection::new(adapter, &pd, bell, settings, true, passive)?;
        let events = ConnectorEvents::new(adapter, bell)?;
        let connector = Connector::<K>::create_connector(adapter, events, passive)?;
        Ok(Self {
            connector,
            connection,
            regions: made,
            invalidating: [false; MAX_DESCRIPTORS],
            next_id: 1,
            answers: Slice::from_fn(REQUESTS, |_| None).map_err(no_memory)?,
            figures: Figures::default(),
            _pd: pd,
        })
    }

    pub(crate) fn connection(&self) -> &Ref<Connection<K>, K> {
        &self.connection
    }

    pub(crate) fn connector(&self) -> &Connector<K> {
        &self.connector
    }

    /// NdkConnect, from any port of a local address of the adapter.
    pub(crate) fn connect(&self, local: IpAddr, server: SocketAddr) {
        let from = SocketAddr::new(local, 0);
        let offer = Offer { inbound_reads: INBOUND_READS, outbound_reads: 0, private_data: &[] };
        self.connector.context().begin(|| self.connector.connect(self.connection.qp(), &from, &server, &offer));
    }

    /// NdkCompleteConnect.
    pub(crate) fn complete_connect(&self) {
        self.connector.context().begin(|| self.connector.complete_connect());
    }

    /// NdkDisconnect.
    pub(crate) fn disconnect(&self) {
        self.connector.context().begin(|| self.connector.disconnect());
    }

    fn new_id(&mut self) -> u64 {
        let id = self.next_id;
        self.next_id = id.wrapping_add(1);
        id
    }

    /// Sends an echo request with `length` bytes of payload, which the server sends back.
    pub(crate) fn echo(&mut self, length: usize, seed: u64) -> Result<Echo, Failure> {
        let id = self.new_id();
        let send = || {
            let mut payload = Slice::<u8, PlatformOf<K>>::filled(length, 0).map_err(no_memory)?;
            fill(&mut payload, seed, 0);
            let zero = 0.into();
            let request = Request {
                kind: ECHO.into(),
                channel: 0.into(),
                id: id.into(),
                offset: zero,
                length: (length as u64).into(),
                checksum: zero,
            };
            Connection::send(&self.connection, encode(&request, &payload)?, None)
        };
        send().map_err(Step::Transport.failed())?;
        Ok(Echo { id, length, seed })
    }

    /// Whether the answer to an echo has come. Fails if its payload is not the payload that was sent.
    pub(crate) fn echoed(&mut self, echo: &Echo) -> Result<bool, Failure> {
        let Some((_, message)) = self.take_answer(echo.id)? else { return Ok(false) };
        let (_, payload) = decode::<Answer>(&message.bytes).map_err(Step::Answer.failed())?;
        let mut sent =
            Slice::<u8, PlatformOf<K>>::filled(echo.length, 0).map_err(no_memory).map_err(Step::Answer.failed())?;
        fill(&mut sent, echo.seed, 0);
        if payload != &*sent {
            return Err(Failure { step: Step::Data, status: STATUS_DATA_ERROR });
        }
        self.figures.bytes_echoed = self.figures.bytes_echoed.saturating_add(echo.length as u64);
        Ok(true)
    }

    /// Takes the answer to a request, if it has come. Other answers are kept.
    fn take_answer(&mut self, id: u64) -> Result<Option<(Answer, Message<K>)>, Failure> {
        while let Some(message) = self.connection.take_message() {
            let (answer, _) = decode::<Answer>(&message.bytes).map_err(Step::Answer.failed())?;
            let place = self.answers.iter_mut().find(|place| place.is_none());
            *place.ok_or(Failure { step: Step::Answer, status: STATUS_QUOTA_EXCEEDED })? = Some((answer, message));
        }
        let is_it = |(answer, _): &(Answer, Message<K>)| answer.id.get() == id;
        let place = self.answers.iter_mut().find(|place| place.as_ref().is_some_and(is_it));
        Ok(place.and_then(Option::take))
    }

    /// Deregisters the message buffers and returns the counts. The connection has ended and is drained.
    pub(crate) fn release(&mut self, passive: &Passive<'_>) -> Result<Figures, NTSTATUS> {
        self.figures.add(&self.connection.take_figures());
        self.connection.release(passive)?;
        Ok(self.figures)
    }
}
