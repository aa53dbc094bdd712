//! What is checked between two processes, for each place that they can be in. Names are written out, so that tags can stand at them.

use crate::computers::Count;

/// The checks in one place, by name.
pub(crate) struct Checks {
    /// The cases with two roles.
    pub(crate) played: &'static str,
    /// `ndharness ping` and `ndharness perf`.
    pub(crate) compared: &'static str,
    pub(crate) kills: &'static [Kill],
}

/// One process is killed in mid-traffic.
pub(crate) struct Kill {
    pub(crate) name: &'static str,
    /// Both processes use it.
    pub(crate) path: &'static str,
    /// The process that serves is killed, not the one that connects.
    pub(crate) kills_server: bool,
}

impl Kill {
    const fn connect(name: &'static str, path: &'static str) -> Self {
        Self { name, path, kills_server: false }
    }

    const fn serve(name: &'static str, path: &'static str) -> Self {
        Self { name, path, kills_server: true }
    }
}

impl Count {
    /// What is checked there.
    pub(crate) const fn checks(self) -> &'static Checks {
        match self {
            Self::One => &ONE,
            Self::Two => &TWO,
            Self::Driverless => &DRIVERLESS,
            Self::Mixed => &MIXED,
        }
    }
}

const ONE: Checks = Checks {
    // Shows S1006.
    played: "two processes on one computer play their roles and leave nothing behind",
    // Shows S1007.
    compared: "ndharness ping and perf between two processes on one computer measure what they say, and compare the data",
    kills: &[
        Kill::connect("killing connect on rings on one computer: the other is told, nothing is left", "rings"),
        // Shows S1006.
        Kill::serve("killing serve on rings on one computer: the other is told, nothing is left", "rings"),
        // Shows S1006.
        Kill::connect("killing connect on plain on one computer: the other is told, nothing is left", "plain"),
        Kill::serve("killing serve on plain on one computer: the other is told, nothing is left", "plain"),
    ],
};

const TWO: Checks = Checks {
    // Shows S801.
    played: "two processes on two computers play their roles and leave nothing behind",
    compared: "ndharness ping and perf between two processes on two computers measure what they say, and compare the data",
    kills: &[
        Kill::connect("killing connect on rings on two computers: the other is told, nothing is left", "rings"),
        Kill::serve("killing serve on rings on two computers: the other is told, nothing is left", "rings"),
        Kill::connect("killing connect on plain on two computers: the other is told, nothing is left", "plain"),
        Kill::serve("killing serve on plain on two computers: the other is told, nothing is left", "plain"),
    ],
};

/// No driver has to clean up after each of the kills: two are enough.
const DRIVERLESS: Checks = Checks {
    // Shows S1103, T57.
    played: "two processes without a driver play their roles and leave nothing behind",
    compared: "ndharness ping and perf between two processes without a driver measure what they say, and compare the data",
    kills: &[
        // Shows T60.
        Kill::connect("killing connect on rings without a driver: the other is told, nothing is left", "rings"),
        Kill::serve("killing serve on plain without a driver: the other is told, nothing is left", "plain"),
    ],
};

const MIXED: Checks = Checks {
    // Shows S1103.
    played: "two processes with and without a driver play their roles and leave nothing behind",
    compared: "ndharness ping and perf between two processes with and without a driver measure what they say, and compare the data",
    kills: &[
        // Shows T60.
        Kill::serve("killing serve on plain with and without a driver: the other is told, nothing is left", "plain"),
    ],
};
