//! Records in, a pcapng file out.

use std::{
    borrow::Cow,
    collections::{HashMap, VecDeque},
    io::{self, Write},
    net::SocketAddr,
    time::Duration,
};

use ndk_abi::{
    softndk_ioctl::{
        SOFTNDK_CAPTURE, SOFTNDK_CAPTURE_ENDED, SOFTNDK_CAPTURE_FAILED, SOFTNDK_CAPTURE_FAULT, SOFTNDK_CAPTURE_MORE,
        SOFTNDK_CAPTURE_NOT_READY, SOFTNDK_CAPTURE_RECORD, SOFTNDK_CAPTURE_SEGMENT, SOFTNDK_CAPTURE_STREAM,
    },
    status::NTSTATUS,
};
use pcap_file::{
    DataLink, PcapError,
    pcapng::{
        PcapNgWriter,
        blocks::{
            enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption},
            interface_description::{InterfaceDescriptionBlock, InterfaceDescriptionOption},
            interface_statistics::{InterfaceStatisticsBlock, InterfaceStatisticsOption},
        },
    },
};
use zerocopy::FromBytes as _;

use crate::conversation::{Conversation, Direction, Packet};

/// 1 January 1970, in units of 100 ns since 1601.
const EPOCH: u64 = 116_444_736_000_000_000;

/// Conversations that have ended and whose end is not written yet, at most.
const ENDED: usize = 64;

/// What a writer has written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Packets in the file.
    pub packets: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// Records that the adapter has dropped, as it had no room for them.
    pub dropped: u64,
}

/// Writes a capture.
pub struct Writer<W: Write> {
    file: PcapNgWriter<W>,
    conversations: HashMap<Direction, Conversation>,
    /// Conversations whose end is not written yet, as bytes may come behind it; the oldest first.
    ended: VecDeque<Direction>,
    /// What happened without a connection: for the next packet.
    comments: Vec<String>,
    last: u64,
    figures: Figures,
}

impl<W: Write> Writer<W> {
    /// Begins a file.
    pub fn new(to: W) -> io::Result<Self> {
        let mut file = PcapNgWriter::new(to).map_err(io_error)?;
        let options = vec![
            InterfaceDescriptionOption::IfName(Cow::Borrowed("SoftNDK")),
            // Nanoseconds: pcap-file writes no other unit.
            InterfaceDescriptionOption::IfTsResol(9),
        ];
        let interface = InterfaceDescriptionBlock { linktype: DataLink::RAW, snaplen: 0, options };
        let bytes = file.write_pcapng_block(interface).map_err(io_error)? as u64;
        let figures = Figures { bytes, ..Figures::default() };
        Ok(Self {
            file,
            conversations: HashMap::new(),
            ended: VecDeque::new(),
            comments: Vec::new(),
            last: EPOCH,
            figures,
        })
    }

    /// Writes what IOCTL_SOFTNDK_CAPTURE has returned, and returns the number of its records.
    pub fn write(&mut self, output: &[u8]) -> io::Result<u32> {
        let malformed = || io::Error::new(io::ErrorKind::InvalidData, "no answer to IOCTL_SOFTNDK_CAPTURE");
        let (capture, mut rest) = SOFTNDK_CAPTURE::read_from_prefix(output).map_err(|_| malformed())?;
        if capture.Dropped > self.figures.dropped {
            self.comments.push(format!("{} records were dropped before this", capture.Dropped - self.figures.dropped));
            self.figures.dropped = capture.Dropped;
        }
        for _ in 0..capture.Count {
            let (record, behind) = SOFTNDK_CAPTURE_RECORD::read_from_prefix(rest).map_err(|_| malformed())?;
            let length = record.Captured as usize;
            let data = behind.get(..length).ok_or_else(malformed)?;
            rest = behind.get(length.next_multiple_of(8)..).ok_or_else(malformed)?;
            self.record(&record, data)?;
        }
        Ok(capture.Count)
    }

    fn record(&mut self, record: &SOFTNDK_CAPTURE_RECORD, data: &[u8]) -> io::Result<()> {
        self.last = record.Time;
        let address = |address: SocketAddr| (address.port() != 0).then_some(address);
        let [source, destination] =
            [record.Source, record.Destination].map(|side| side.socket_addr().and_then(address));
        let comment = match record.Kind {
            SOFTNDK_CAPTURE_FAILED => {
                let status = NTSTATUS::from_u32(record.Value);
                Some(format!("a request has failed: {status}"))
            }
            SOFTNDK_CAPTURE_NOT_READY => Some("receiver not ready: a message waits for a receive".to_owned()),
            SOFTNDK_CAPTURE_FAULT => {
                let text = String::from_utf8_lossy(data);
                Some(format!("fault rule {} has fired: {}", record.Value, text.trim_end_matches('\0')))
            }
            _ => None,
        };
        let (Some(source), Some(destination)) = (source, destination) else {
            self.comments.extend(comment);
            return Ok(());
        };
        let pair = (source.min(destination), source.max(destination));
        let conversation = self.conversations.entry(pair).or_insert_with(|| Conversation::new(pair));
        let time = record.Time;
        let packets = match (record.Kind, comment) {
            (_, Some(comment)) => {
                conversation.comment(comment);
                Vec::new()
            }
            (SOFTNDK_CAPTURE_STREAM, _) => conversation.stream(time, source, record.Value as usize, data, record.Left),
            (SOFTNDK_CAPTURE_MORE, _) => conversation.more(source, data, record.Left),
            (SOFTNDK_CAPTURE_SEGMENT, _) => conversation.segment(time, source, record.Value, data),
            (SOFTNDK_CAPTURE_ENDED, _) => {
                conversation.ended(time, source, record.Value);
                self.ended.push_back(pair);
                self.end_oldest()
            }
            // Of a newer driver.
            _ => Vec::new(),
        };
        packets.into_iter().try_for_each(|packet| self.packet(packet))
    }

    /// The packets of the oldest end, if more than [`ENDED`] wait; its conversation is over, unless it has begun anew.
    fn end_oldest(&mut self) -> Vec<Packet> {
        if self.ended.len() <= ENDED {
            return Vec::new();
        }
        let oldest = self.ended.pop_front().and_then(|pair| self.conversations.remove_entry(&pair));
        let Some((pair, mut conversation)) = oldest else { return Vec::new() };
        if conversation.is_open() {
            self.conversations.insert(pair, conversation);
            return Vec::new();
        }
        let packets = conversation.finish();
        self.comments.extend(conversation.left_comments());
        packets
    }

    fn packet(&mut self, packet: Packet) -> io::Result<()> {
        let comments = self.comments.drain(..).chain(packet.comments);
        let options = comments.map(|comment| EnhancedPacketOption::Comment(Cow::Owned(comment))).collect();
        let block = EnhancedPacketBlock {
            interface_id: 0,
            timestamp: Duration::from_nanos(packet.time.saturating_sub(EPOCH).saturating_mul(100)),
            original_len: u32::try_from(packet.length).unwrap_or(u32::MAX),
            data: Cow::Owned(packet.bytes),
            options,
        };
        self.figures.bytes += self.file.write_pcapng_block(block).map_err(io_error)? as u64;
        self.figures.packets += 1;
        Ok(())
    }

    /// What was written so far.
    pub fn figures(&self) -> Figures {
        self.figures
    }

    /// The file, for a flush.
    pub fn get_mut(&mut self) -> &mut W {
        self.file.get_mut()
    }

    /// Ends the file: writes what is left of its connections, and how many records were dropped.
    pub fn finish(mut self) -> io::Result<Figures> {
        let mut conversations = std::mem::take(&mut self.conversations);
        for conversation in conversations.values_mut() {
            conversation.finish().into_iter().try_for_each(|packet| self.packet(packet))?;
            self.comments.extend(conversation.left_comments());
        }
        self.end()
    }

    /// Ends the file; the capture goes on in another one.
    pub fn next(&mut self, to: W) -> io::Result<Figures> {
        let ended = self.end()?;
        let next = Self::new(to)?;
        self.file = next.file;
        self.figures = Figures { dropped: ended.dropped, ..next.figures };
        self.conversations.values_mut().for_each(Conversation::go_on);
        Ok(ended)
    }

    fn end(&mut self) -> io::Result<Figures> {
        let comments = self.comments.drain(..).map(|comment| InterfaceStatisticsOption::Comment(Cow::Owned(comment)));
        let options = comments.chain([InterfaceStatisticsOption::IsbIfDrop(self.figures.dropped)]).collect();
        let nanoseconds = self.last.saturating_sub(EPOCH).saturating_mul(100);
        // The upper half of a time is first in the file; pcap-file writes the number as it is.
        let timestamp = if cfg!(target_endian = "little") { nanoseconds.rotate_left(32) } else { nanoseconds };
        let block = InterfaceStatisticsBlock { interface_id: 0, timestamp, options };
        self.figures.bytes += self.file.write_pcapng_block(block).map_err(io_error)? as u64;
        self.file.get_mut().flush()?;
        Ok(self.figures)
    }
}

fn io_error(error: PcapError) -> io::Error {
    match error {
        PcapError::IoError(error) => error,
        error => io::Error::other(error),
    }
}
