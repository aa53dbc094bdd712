//! What is done.

use clap::{Args, ValueEnum, builder::RangedU64ValueParser};

/// What is done.
#[derive(Args, Clone, Copy, Debug)]
pub struct Plan {
    /// Bytes that are read and written in each round
    #[arg(long, default_value_t = 64, value_parser = RangedU64ValueParser::<usize>::new().range(1..=u32::MAX.into()))]
    pub size: usize,
    /// Rounds; a server fails if there are fewer or more
    #[arg(long, default_value_t = 100)]
    pub count: u32,
    /// Server: reads that are under way at once, each of a part, and writes
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=16))]
    pub parts: u8,
    /// Client: let the server have its memory by windows that are bound anew for each message, which it has to invalidate
    #[arg(long)]
    pub windows: bool,
    /// Client: wait for messages with solicited event only
    #[arg(long)]
    pub solicited: bool,
    /// Change a byte in the last round, which whoever compares must notice
    #[arg(long)]
    pub corrupt: bool,
    /// Server: its messages solicit an event
    #[arg(long)]
    pub solicit: bool,
    /// Server: its messages invalidate the client's token that was just used, which not all verbs can do.
    #[arg(skip)]
    pub invalidate: bool,
    /// Client: break a rule in the first round, so that this device has to terminate the connection
    #[arg(long)]
    pub fault: Option<Fault>,
}

/// What a client does wrong, for the peer to run into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Fault {
    /// The token of the source is none
    SourceToken,
    /// The source begins one byte later than it does
    SourceBounds,
    /// The source may not be read
    SourceAccess,
    /// The token of the sink is none
    SinkToken,
    /// The sink begins one byte later than it does
    SinkBounds,
    /// The sink may not be written
    SinkAccess,
    /// There is no receive for the peer's message
    NoReceive,
    /// The receive is shorter than the peer's message
    ShortReceive,
    /// The window of the source is the one that the peer has invalidated in the round before; needs `--windows`
    Invalidated,
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::Plan;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        plan: Plan,
    }

    /// A byte is changed, and a size is sent in 32 bits.
    #[test]
    fn there_is_data_of_a_size_that_can_be_told() {
        let size = |size: &str| Line::try_parse_from(["rping", "--size", size]).map(|line| line.plan.size).ok();
        assert_eq!(["1", "4294967295", "0", "4294967296"].map(size), [Some(1), Some(0xffff_ffff), None, None]);
    }
}
