//! The scenarios of the consumer.

use core::ops::Range;

use ndk_abi::status::{
    NTSTATUS, STATUS_BUFFER_OVERFLOW, STATUS_CANCELLED, STATUS_CONNECTION_DISCONNECTED, STATUS_CONNECTION_INVALID,
    STATUS_INTERNAL_ERROR, STATUS_INVALID_PARAMETER, STATUS_NOT_SUPPORTED,
};
use ndk_consumer::OpenAdapters;
use platform::Passive;

use crate::client::{Direction, Echo, Plan, Transfer};
use crate::connection::Connection;
use crate::message::{CHANNEL_V1, CHANNEL_V1_INVALIDATE};
use crate::report::{Failure, Figures, Step};
use crate::server::Conduct;
use crate::settings::Settings;
use crate::world::World;
use crate::{Kernel, PlatformOf, Ref};
use kernel_consumer::Bell;

/// 8 MiB: the length of an SMB Direct read or write, and MaxReadWriteSize.
const WHOLE: usize = 8 << 20;
const MIB: usize = 1 << 20;

/// A scenario. The numbers are those of the test IOCTL; from 101 on the run has to fail, since one end misbehaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Scenario {
    /// Writes 8 MiB to the file and reads them back, each with one request; the answers invalidate the client's token.
    Transfer = 1,
    /// As Transfer, with 1 MiB; the client invalidates its tokens itself.
    LocalInvalidation = 2,
    /// Transfers over several regions that begin inside pages: the answer invalidates the first token or none, the client invalidates the
    /// others.
    Descriptors = 3,
    /// Four requests at a time, repeatedly over the same regions.
    Parallel = 4,
    /// 2000 echoes, with two credits each way.
    Credits = 5,
    /// Messages from no payload to many fragments, and a message that is too long.
    Fragments = 6,
    /// More messages than the initiator queue holds.
    SendQueue = 7,
    /// Keepalives, also between fragments.
    Keepalive = 8,
    /// The server disconnects during a write, then the client during another write; then a write and a read complete.
    MidTransfer = 9,
    /// Connect, transfer, disconnect, several times.
    Reconnect = 10,
    /// The server refuses a version, then a request beyond the end of the file. The connection survives the second refusal.
    Refused = 11,
    /// The server changes a byte of the data of a read.
    CorruptedRead = 101,
    /// The client changes a byte of the data of a write.
    CorruptedWrite = 102,
    /// The server invalidates another token than the first.
    WrongToken = 103,
}

impl Scenario {
    /// All scenarios.
    pub const ALL: [Self; 14] = [
        Self::Transfer,
        Self::LocalInvalidation,
        Self::Descriptors,
        Self::Parallel,
        Self::Credits,
        Self::Fragments,
        Self::SendQueue,
        Self::Keepalive,
        Self::MidTransfer,
        Self::Reconnect,
        Self::Refused,
        Self::CorruptedRead,
        Self::CorruptedWrite,
        Self::WrongToken,
    ];

    /// The scenario with this number.
    #[must_use]
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|scenario| *scenario as u32 == number)
    }

    fn settings(self) -> Settings {
        let settings = Settings::DEFAULT;
        match self {
            Self::Credits => Settings { credits: 2, ..settings },
            Self::Descriptors => Settings { credits: 32, ..settings },
            Self::Fragments | Self::Keepalive => Settings { credits: 32, fragmented_size: 131_072, ..settings },
            Self::SendQueue => Settings { credits: 64, initiator_depth: 8, send_slots: 4, ..settings },
            _ => settings,
        }
    }

    /// Bytes of the server's file.
    fn file_size(self) -> usize {
        match self {
            Self::Transfer | Self::MidTransfer | Self::Parallel | Self::Refused => WHOLE,
            Self::LocalInvalidation | Self::CorruptedRead | Self::CorruptedWrite => MIB,
            _ => 128 << 10,
        }
    }

    fn conduct(self) -> Conduct {
        match self {
            Self::MidTransfer => Conduct::DisconnectsOnce,
            Self::CorruptedRead => Conduct::CorruptsData,
            Self::WrongToken => Conduct::InvalidatesAnother,
            _ => Conduct::Honest,
        }
    }

    /// Runs both ends from their setup to their close. The counts are added to `figures`, also after a failure.
    pub(crate) fn perform<K: Kernel>(
        self,
        kernel: &K,
        adapters: &OpenAdapters<PlatformOf<K>>,
        bell: &Ref<Bell<PlatformOf<K>>, K>,
        figures: &mut Figures,
        passive: &Passive<'_>,
    ) -> Result<(), Failure> {
        let server = (self.settings(), self.conduct(), self.file_size());
        let mut world = World::new(kernel, adapters, bell, server, passive)?;
        let result = self.steps(&mut world).and_then(|()| world.close());
        figures.add(&world.take_figures());
        result
    }

    fn steps<K: Kernel>(self, world: &mut World<'_, K>) -> Result<(), Failure> {
        let settings = self.settings();
        match self {
            Self::Transfer => {
                world.connect(settings, &[(WHOLE, 0)])?;
                there_and_back(world, CHANNEL_V1_INVALIDATE, 0..1, WHOLE)?;
            }
            Self::LocalInvalidation => {
                world.connect(settings, &[(MIB, 0)])?;
                there_and_back(world, CHANNEL_V1, 0..1, MIB)?;
            }
            Self::Descriptors => {
                world.connect(settings, &[(8, 4088), (65_536, 24), (4096, 8), (8192, 2048)])?;
                there_and_back(world, CHANNEL_V1_INVALIDATE, 0..4, 8 + 65_536 + 4096 + 1000)?;
                there_and_back(world, CHANNEL_V1, 1..3, 65_536 + 1)?;
            }
            Self::Parallel => {
                world.connect(settings, &[(MIB, 0); 4])?;
                for round in 0..2 {
                    each_region(world, Direction::Write, round)?;
                    each_region(world, Direction::Read, round)?;
                }
            }
            Self::Credits => {
                world.connect(settings, &[])?;
                echoes(world, 2000, |number| number.wrapping_mul(7) % 3000, 8)?;
            }
            Self::Fragments => {
                world.connect(settings, &[])?;
                // Around the payload of one and of two messages, with and without the head, and up to the limit.
                const LENGTHS: [usize; 10] = [0, 1, 1299, 1300, 1301, 1316, 1317, 2640, 2641, 131_072 - 40];
                echoes(world, LENGTHS.len(), |number| LENGTHS.get(number).copied().unwrap_or(0), 1)?;
                echoes(world, 200, |number| number.wrapping_mul(97) % 9000, 16)?;
                let too_long = world.ask(|client| client.echo(131_072, 0).map(drop));
                expect(too_long, &[STATUS_BUFFER_OVERFLOW])?;
            }
            Self::SendQueue => {
                world.connect(settings, &[])?;
                echoes(world, 500, |number| number.wrapping_mul(31) % 5000, 16)?;
            }
            Self::Keepalive => {
                world.connect(settings, &[])?;
                keepalives(world)?;
                let echo = world.ask(|client| client.echo(100_000, 1))?;
                keepalives(world)?;
                world.until(Step::Transport, |client| Ok(client.echoed(&echo)?.then_some(())))?;
                keepalives(world)?;
            }
            Self::MidTransfer => return mid_transfer(world, settings),
            Self::Reconnect => {
                for _ in 0..5 {
                    world.connect(settings, &[(65_536, 0)])?;
                    there_and_back(world, CHANNEL_V1_INVALIDATE, 0..1, 65_536)?;
                    world.disconnect()?;
                }
                return Ok(());
            }
            Self::Refused => refused(world, settings)?,
            Self::CorruptedRead => {
                world.connect(settings, &[(MIB, 0)])?;
                there_and_back(world, CHANNEL_V1_INVALIDATE, 0..1, MIB)?;
            }
            Self::CorruptedWrite => {
                world.connect(settings, &[(MIB, 0)])?;
                let plan = Plan { corrupt: true, ..plan(Direction::Write, CHANNEL_V1_INVALIDATE, 0..1, MIB) };
                transfer(world, plan)?;
            }
            Self::WrongToken => {
                world.connect(settings, &[(4096, 0); 2])?;
                there_and_back(world, CHANNEL_V1_INVALIDATE, 0..2, 8192)?;
            }
        }
        world.disconnect()
    }
}

fn plan(direction: Direction, channel: u32, regions: Range<usize>, length: usize) -> Plan {
    Plan { direction, channel, regions, length, file_offset: 0, seed: length as u64, corrupt: false }
}

/// Performs one transfer to its end.
fn transfer<K: Kernel>(world: &mut World<'_, K>, plan: Plan) -> Result<(), Failure> {
    let mut transfer = world.ask(|client| client.begin(plan))?;
    world.until(Step::Transfer, |client| Ok(client.done(&mut transfer)?.then_some(())))
}

/// Writes to the file and reads the same bytes back.
fn there_and_back<K: Kernel>(
    world: &mut World<'_, K>,
    channel: u32,
    regions: Range<usize>,
    length: usize,
) -> Result<(), Failure> {
    transfer(world, plan(Direction::Write, channel, regions.clone(), length))?;
    transfer(world, plan(Direction::Read, channel, regions, length))
}

/// Transfers four regions at the same time, each to or from its own part of the file.
fn each_region<K: Kernel>(world: &mut World<'_, K>, direction: Direction, round: u64) -> Result<(), Failure> {
    let mut transfers: [Option<Transfer>; 4] = [const { None }; 4];
    for (index, place) in transfers.iter_mut().enumerate() {
        let plan = Plan {
            file_offset: index.saturating_mul(MIB),
            seed: round << 8 | index as u64,
            ..plan(direction, CHANNEL_V1_INVALIDATE, index..index.saturating_add(1), MIB)
        };
        *place = Some(world.ask(|client| client.begin(plan))?);
    }
    world.until(Step::Transfer, |client| {
        for place in &mut transfers {
            if let Some(transfer) = place
                && client.done(transfer)?
            {
                *place = None;
            }
        }
        Ok(transfers.iter().all(Option::is_none).then_some(()))
    })
}

/// Performs `count` echoes, at most `at_once` of them at a time. `length` maps the number of an echo to its length.
fn echoes<K: Kernel>(
    world: &mut World<'_, K>,
    count: usize,
    length: impl Fn(usize) -> usize,
    at_once: usize,
) -> Result<(), Failure> {
    let mut places: [Option<Echo>; 16] = [const { None }; 16];
    let mut begun = 0usize;
    world.until(Step::Transport, |client| {
        for place in places.iter_mut().take(at_once) {
            if let Some(echo) = place
                && client.echoed(echo)?
            {
                *place = None;
            }
            if place.is_none() && begun < count {
                *place = Some(client.echo(length(begun), begun as u64)?);
                begun = begun.saturating_add(1);
            }
        }
        Ok((begun == count && places.iter().all(Option::is_none)).then_some(()))
    })
}

/// Sends one keepalive from each side, and waits for the answers.
fn keepalives<K: Kernel>(world: &mut World<'_, K>) -> Result<(), Failure> {
    world.ask(|client| {
        Connection::keepalive(client.connection());
        Ok(())
    })?;
    world.until(Step::Transport, |client| Ok(client.connection().keepalive_answered().then_some(())))?;
    let of_server = world.server.connection().cloned();
    if let Some(connection) = of_server {
        Connection::keepalive(&connection);
        world.until(Step::Transport, |_| Ok(connection.keepalive_answered().then_some(())))?;
    }
    Ok(())
}

/// A write during which the server disconnects, a write during which the client disconnects, then a write and a read that complete.
fn mid_transfer<K: Kernel>(world: &mut World<'_, K>, settings: Settings) -> Result<(), Failure> {
    world.connect(settings, &[(WHOLE, 0)])?;
    let ended = transfer(world, plan(Direction::Write, CHANNEL_V1_INVALIDATE, 0..1, WHOLE));
    expect(ended, &[STATUS_CONNECTION_DISCONNECTED, STATUS_CONNECTION_INVALID, STATUS_CANCELLED])?;
    world.leave()?;

    world.connect(settings, &[(WHOLE, 0)])?;
    world.ask(|client| client.begin(plan(Direction::Write, CHANNEL_V1_INVALIDATE, 0..1, WHOLE)).map(drop))?;
    world.abandon()?;

    world.connect(settings, &[(WHOLE, 0)])?;
    there_and_back(world, CHANNEL_V1_INVALIDATE, 0..1, WHOLE)?;
    world.disconnect()
}

/// A client of a later version, then a request beyond the end of the file, then a write and a read that are served.
fn refused<K: Kernel>(world: &mut World<'_, K>, settings: Settings) -> Result<(), Failure> {
    let connected = world.connect(Settings { versions: (0x0200, 0x0300), ..settings }, &[]);
    expect(connected, &[STATUS_NOT_SUPPORTED])?;
    world.leave()?;

    world.connect(settings, &[(MIB, 0)])?;
    let beyond = Plan { file_offset: WHOLE, ..plan(Direction::Write, CHANNEL_V1_INVALIDATE, 0..1, MIB) };
    expect(transfer(world, beyond), &[STATUS_INVALID_PARAMETER])?;
    there_and_back(world, CHANNEL_V1_INVALIDATE, 0..1, MIB)
}

/// Succeeds if `result` is a failure with an allowed status.
fn expect(result: Result<(), Failure>, allowed: &[NTSTATUS]) -> Result<(), Failure> {
    match result {
        Err(failure) if allowed.contains(&failure.status) => Ok(()),
        Err(failure) => Err(failure),
        Ok(()) => Err(Failure { step: Step::Disconnect, status: STATUS_INTERNAL_ERROR }),
    }
}
