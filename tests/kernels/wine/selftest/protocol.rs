//! What the test driver and its runner agree on.

/// METHOD_BUFFERED, FILE_ANY_ACCESS, of device type FILE_DEVICE_NETWORK.
const fn code(function: u32) -> u32 {
    0x12 << 16 | (0x800 + function) << 2
}

/// Runs one group of checks: in, its number (u32); out, text that says what failed, empty if nothing did.
pub const RUN: u32 = code(1);
/// Pends for ever, until cancelled.
pub const PEND: u32 = code(2);
/// Locks user memory: in, [`Memory`]; out, the first eight bytes of it. Then adds one to the u64 at its start until unlocked.
pub const LOCK: u32 = code(3);
/// Unlocks it: in, the slot (u32).
pub const UNLOCK: u32 = code(4);
/// Out: how often IRP_MJ_CLEANUP came, how often IRP_MJ_CLOSE, and how many requests are pended or blocked (three u32).
pub const CLOSES: u32 = code(5);
/// Blocks in the dispatch routine: in, milliseconds (u32).
pub const BLOCK: u32 = code(6);
/// Pends until [`RELEASE`], also when it is cancelled. One at a time.
pub const KEEP: u32 = code(7);
/// Completes what [`KEEP`] has pended.
pub const RELEASE: u32 = code(8);
/// Ends with a warning, STATUS_BUFFER_OVERFLOW, in the dispatch routine.
pub const WARN: u32 = code(9);

/// Name of the device.
pub const DEVICE: &str = "SoftNdkSelfTest";

/// Parameter of the service: 1 has the driver start wrongly. Each structure that it gives NDIS comes with wrong headers first, attributes
/// come in the wrong order, and no mandatory OID is listed.
pub const WRONG_START: &str = "WrongStart";

/// Memory of the caller.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Memory {
    pub address: u64,
    pub length: u32,
    /// 0 or 1.
    pub slot: u32,
}

/// Groups of checks that must pass, in order.
pub const CHECKS: [&str; 28] = [
    "irql",
    "cr8",
    "spin locks",
    "pool",
    "dpc",
    "timers",
    "work items",
    "mdl",
    "rundown",
    "push locks",
    "waits",
    "kmdf",
    "mutexes",
    "wsk: streams",
    "wsk: requests that end early",
    "wsk: a thousand connections",
    "wsk: sends to another computer",
    "wsk: any port",
    "wsk: resets",
    "wsk: disconnects",
    "dpc: one at a time on a processor",
    "wsk: requests that end within their calls",
    "wsk: datagrams",
    "wsk: datagrams that are retained",
    "wsk: datagrams that are not accepted",
    "wsk: datagram sockets that end",
    "ndis: received lists that come back in all ways",
    "ndis: pauses that wait for received lists",
];

/// Violations that must be caught: each is committed by the driver and must be counted.
pub const PLANTED: [&str; 127] = [
    "waiting at DISPATCH_LEVEL",
    "releasing a spin lock not held",
    "taking a spin lock twice",
    "lowering IRQL with a spin lock held",
    "paged pool at DISPATCH_LEVEL",
    "freeing pool twice",
    "freeing pool with the wrong tag",
    "writing beyond a pool block",
    "raising to a lower level",
    "a DPC routine that returns at another level",
    "freeing an MDL with its pages locked",
    "setting attributes outside MiniportInitializeEx",
    "an unfilled KMDF function",
    "freeing pool with a timer in it that is set",
    "WskRegister at DISPATCH_LEVEL",
    "a WSK request without a completion routine",
    "a completion routine that does not keep its IRP",
    "a completion routine that calls WSK",
    "WskConnect before WskBind",
    "WskBind after WskCloseSocket",
    "WskSend of more bytes than the MDLs describe",
    "a thousand WskSends to another computer, one at a time",
    "registering a trace provider twice",
    "an event whose data is cut off",
    "an event of a provider that is not registered any more",
    "a send that is never completed",
    "a send that is completed twice",
    "a send that is completed without a status",
    "a send that is completed with other frames",
    "a send that is completed at DISPATCH_LEVEL by its flags only",
    "a send to a paused adapter that succeeds",
    "a pause that does not wait for a send",
    "NdisMPauseComplete without a pause",
    "NdisMRestartComplete without a restart",
    "a receive while the adapter is pausing",
    "a receive of a wrong number of lists",
    "a receive without its adapter's handle",
    "statistics that do not count what was sent",
    "OID_NDK_STATISTICS with a spin lock",
    "an OID request that is completed and did not pend",
    "OID_NDK_SET_STATE that pends",
    "NetEventNDKEnable from the OID request handler",
    "connections that are not pairs",
    "answers with a header of another type",
    "answers with a header of another revision",
    "answers with a header of another size",
    "mandatory OIDs that are not supported",
    "sends of frames of a wrong length that succeed",
    "statistics that do not count errors",
    "a receive of a frame that is too short",
    "a receive of a frame that is too long",
    "power OIDs that fail",
    "an adapter that does not wake up",
    "a status of an adapter that is halted",
    "a socket whose owner is no process",
    "a type of objects that the kernel does not know",
    "freeing cache-aware rundown protection at DISPATCH_LEVEL",
    "waiting for rundown at DISPATCH_LEVEL",
    "registering a trace provider at APC_LEVEL",
    "binding to a KMDF of no release",
    "an OID request that is never completed",
    "WskCloseSocket twice",
    "WskGetLocalAddress while the socket is being closed",
    "a WSK request whose completion routine is not called at an error",
    "WskSend after WskDisconnect",
    "WskDisconnect twice",
    "WskConnect of a datagram socket",
    "WskSendMessages before WskBind",
    "callbacks that are enabled by an IRP",
    "callbacks of another NPI",
    "callbacks that are enabled by too short an input",
    "callbacks that are enabled before WskBind",
    "callbacks of a socket without functions",
    "callbacks of another event",
    "WskControlSocket above DISPATCH_LEVEL",
    "WskSendMessages of more bytes than the MDLs describe",
    "WskSendMessages to an address of another family",
    "a WskReceiveFromEvent that fails",
    "a WskReceiveFromEvent that returns at another level",
    "WskRelease of a list that WskReceiveFromEvent does not keep",
    "WskCloseSocket before WskRelease",
    "WskRelease twice",
    "WskRelease of another list than was retained",
    "WskRelease after WskCloseSocket",
    "a write to datagrams that were given back",
    "a pool of lists above DISPATCH_LEVEL",
    "a pool of lists of a handle that is no adapter's",
    "a pool of lists without a tag, of a protocol",
    "freeing a pool with a list in it",
    "freeing a pool of lists twice",
    "a list with its NET_BUFFER of a pool without those",
    "a list of more bytes than its MDLs describe",
    "freeing a list twice",
    "freeing a list that the protocol has",
    "freeing a list that leads to another NET_BUFFER",
    "a receive of a list that was freed",
    "a receive of a list that the protocol has",
    "a receive of a list of no pool",
    "a receive at DISPATCH_LEVEL by its flags only",
    "a receive with a flag that there is not",
    "a receive at a port that there is not",
    "a receive of a list without a status",
    "a receive of a list of two frames",
    "a receive of a frame that is longer than its MDLs",
    "a received frame that changes while the protocol has it",
    "a received list that changes while the protocol has it",
    "a pause that does not wait for received lists",
    "a pause that ends within a receive",
    "a receive of a paused adapter",
    "a thread that goes on receiving while the adapter is pausing",
    "WskSendMessages without a datagram",
    "a large send that comes back as it was",
    "large sends that are off",
    "a large send that is not what it says",
    "offloads by wrong settings",
    "offloads of which NDIS is not told",
    "a size of datagrams for which WskControlSocket was not asked",
    "control information of another type with a send",
    "control information that is too short",
    "datagrams of no bytes",
    "a size of datagrams that is asked for with two bytes",
    "a received unit that is no TCP segment",
    "a received unit while they are off, with wrong checksums and flags",
    "a received unit without data",
    "a received list that is no unit, with duplicate acknowledgments",
    "a received unit that is longer than its packet",
    "a received unit of one segment",
];

/// Number of the request that leaks: 100 bytes of pool, one MDL, one list with its pool, one registration with WSK.
pub const LEAK: u32 = 1000;
/// Number of the request that has the adapter removed by surprise, which this driver takes no notice of.
pub const REMOVE: u32 = 1001;
/// Numbers of planted violations start here.
pub const FIRST_PLANTED: u32 = 100;
