//! Requests that make some sense, thrown at the device in random order, several clients at a time. Each has to end or to
//! pend, the device has to go on, and nothing may be left when the files close.
//!
//! The fields are found by the layouts that `ndk_abi::index` gives, so new fields are covered without being told.

use std::{net::SocketAddr, time::Duration};

use conformance::{
    Bench, File, Pending, Transport as _,
    memory::Memory,
    pair::{Pair, exchange, pattern},
    sim::Simulated,
};
use ndk_abi::{
    describe::Layout, index, nd_ioctl::*, sockaddr::SOCKADDR_INET, softndk_ioctl::*, status::STATUS_SUCCESS,
};
use zerocopy::IntoBytes as _;

/// Code, input structure, what it makes.
const REQUESTS: &[(u32, &str, Option<&str>)] = &[
    (IOCTL_ND_PROVIDER_RESOLVE_ADDRESS, "ND_RESOLVE_ADDRESS", None),
    (IOCTL_ND_ADAPTER_OPEN, "ND_OPEN_ADAPTER", Some("Adapter")),
    (IOCTL_ND_ADAPTER_CLOSE, "ND_HANDLE Adapter", None),
    (IOCTL_ND_ADAPTER_QUERY, "ND_ADAPTER_QUERY", None),
    (IOCTL_ND_PD_CREATE, "ND_HANDLE Adapter", Some("Pd")),
    (IOCTL_ND_PD_FREE, "ND_HANDLE Pd", None),
    (IOCTL_ND_CQ_CREATE, "ND_CREATE_CQ", Some("Cq")),
    (IOCTL_ND_CQ_FREE, "ND_HANDLE Cq", None),
    (IOCTL_ND_CQ_CANCEL_IO, "ND_HANDLE Cq", None),
    (IOCTL_ND_CQ_MODIFY, "ND_CQ_MODIFY", None),
    (IOCTL_ND_CQ_NOTIFY, "ND_CQ_NOTIFY", None),
    (IOCTL_ND_MR_CREATE, "ND_HANDLE Pd", Some("Mr")),
    (IOCTL_ND_MR_FREE, "ND_HANDLE Mr", None),
    (IOCTL_ND_MR_REGISTER, "ND_MR_REGISTER", None),
    (IOCTL_ND_MR_DEREGISTER, "ND_HANDLE Mr", None),
    (IOCTL_ND_SRQ_CREATE, "ND_CREATE_SRQ", Some("Srq")),
    (IOCTL_ND_SRQ_FREE, "ND_HANDLE Srq", None),
    (IOCTL_ND_SRQ_MODIFY, "ND_SRQ_MODIFY", None),
    (IOCTL_ND_SRQ_NOTIFY, "ND_HANDLE Srq", None),
    (IOCTL_ND_CONNECTOR_CREATE, "ND_HANDLE Adapter", Some("Connector")),
    (IOCTL_ND_CONNECTOR_FREE, "ND_HANDLE Connector", None),
    (IOCTL_ND_CONNECTOR_CANCEL_IO, "ND_HANDLE Connector", None),
    (IOCTL_ND_CONNECTOR_BIND, "ND_BIND Connector", None),
    (IOCTL_ND_CONNECTOR_CONNECT, "ND_CONNECT", None),
    (IOCTL_ND_CONNECTOR_COMPLETE_CONNECT, "ND_HANDLE Connector", None),
    (IOCTL_ND_CONNECTOR_ACCEPT, "ND_ACCEPT", None),
    (IOCTL_ND_CONNECTOR_REJECT, "ND_REJECT", None),
    (IOCTL_ND_CONNECTOR_GET_READ_LIMITS, "ND_HANDLE Connector", None),
    (IOCTL_ND_CONNECTOR_GET_PRIVATE_DATA, "ND_HANDLE Connector", None),
    (IOCTL_ND_CONNECTOR_GET_PEER_ADDRESS, "ND_HANDLE Connector", None),
    (IOCTL_ND_CONNECTOR_GET_ADDRESS, "ND_HANDLE Connector", None),
    (IOCTL_ND_CONNECTOR_NOTIFY_DISCONNECT, "ND_HANDLE Connector", None),
    (IOCTL_ND_CONNECTOR_DISCONNECT, "ND_HANDLE Connector", None),
    (IOCTL_ND_LISTENER_CREATE, "ND_HANDLE Adapter", Some("Listener")),
    (IOCTL_ND_LISTENER_FREE, "ND_HANDLE Listener", None),
    (IOCTL_ND_LISTENER_BIND, "ND_BIND Listener", None),
    (IOCTL_ND_LISTENER_LISTEN, "ND_LISTEN", None),
    (IOCTL_ND_LISTENER_GET_ADDRESS, "ND_HANDLE Listener", None),
    (IOCTL_ND_LISTENER_GET_CONNECTION_REQUEST, "ND_GET_CONNECTION_REQUEST", None),
    (IOCTL_ND_QP_CREATE, "ND_CREATE_QP", Some("Qp")),
    (IOCTL_ND_QP_CREATE_WITH_SRQ, "ND_CREATE_QP_WITH_SRQ", Some("Qp")),
    (IOCTL_ND_QP_FREE, "ND_HANDLE Qp", None),
    (IOCTL_ND_QP_FLUSH, "ND_HANDLE Qp", None),
    (IOCTL_SOFTNDK_POST, "SOFTNDK_POST", None),
    (IOCTL_SOFTNDK_SRQ_POST, "SOFTNDK_SRQ_POST", None),
    (IOCTL_SOFTNDK_POLL, "SOFTNDK_POLL", None),
    (IOCTL_SOFTNDK_FAST_MR_CREATE, "SOFTNDK_FAST_MR_CREATE", Some("Mr")),
];

const FREES: &[u32] = &[
    IOCTL_ND_ADAPTER_CLOSE,
    IOCTL_ND_PD_FREE,
    IOCTL_ND_CQ_FREE,
    IOCTL_ND_MR_FREE,
    IOCTL_ND_SRQ_FREE,
    IOCTL_ND_CONNECTOR_FREE,
    IOCTL_ND_LISTENER_FREE,
    IOCTL_ND_QP_FREE,
];

/// Two out of three requests are among those that advance things.
const OFTEN: &[u32] = &[
    IOCTL_ND_LISTENER_BIND,
    IOCTL_ND_LISTENER_LISTEN,
    IOCTL_ND_CONNECTOR_BIND,
    IOCTL_ND_CONNECTOR_CONNECT,
    IOCTL_ND_LISTENER_GET_CONNECTION_REQUEST,
    IOCTL_ND_CONNECTOR_ACCEPT,
    IOCTL_ND_CONNECTOR_COMPLETE_CONNECT,
    IOCTL_SOFTNDK_POST,
    IOCTL_SOFTNDK_POST,
    IOCTL_SOFTNDK_POST,
    IOCTL_SOFTNDK_POLL,
    IOCTL_ND_CQ_NOTIFY,
    IOCTL_ND_MR_REGISTER,
    IOCTL_ND_CONNECTOR_CONNECT,
    IOCTL_ND_LISTENER_GET_CONNECTION_REQUEST,
    IOCTL_ND_CONNECTOR_ACCEPT,
    IOCTL_ND_CONNECTOR_COMPLETE_CONNECT,
];

/// xorshift64 (Marsaglia): a failure repeats with its seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() >> 11) as usize % end
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// True once in `times`.
    fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }
}

/// A client that knows what it has made.
struct Player<'a> {
    file: Box<dyn File>,
    handles: Vec<(&'static str, u64)>,
    tokens: Vec<u32>,
    pended: Vec<(u32, Box<dyn Pending>)>,
    adapter: u64,
    address: SocketAddr,
    memory: &'a Memory,
}

impl Player<'_> {
    fn input(&self, random: &mut Random, description: &str) -> Vec<u8> {
        let (name, target) = description.split_once(' ').unwrap_or((description, ""));
        let mut input = Vec::new();
        self.fill(random, layout(name), target, &mut input);
        if random.once_in(200) {
            input.truncate(random.below(input.len() + 1));
        }
        let tail: Vec<u8> = (0..random.pick(&[0, 0, 2, 3])).flat_map(|_| self.sge(random)).collect();
        input.extend(tail);
        input
    }

    fn fill(&self, random: &mut Random, layout: &Layout, target: &str, out: &mut Vec<u8>) {
        let start = out.len();
        for field in layout.fields {
            out.resize(start + field.offset, 0);
            let type_name = (field.type_name)().rsplit("::").next().unwrap_or_default();
            if type_name == "SOCKADDR_INET" {
                let port = random.pick(&[0, 50_000, 50_000, 50_000, 50_000]);
                out.extend(SOCKADDR_INET::new(SocketAddr::new(self.address.ip(), port)).as_bytes());
            } else if let Some(inner) = find_layout(type_name) {
                self.fill(random, inner, target, out);
            } else {
                let value = self.value(random, field.name, target);
                out.extend(&value.to_le_bytes()[..field.size.min(8)]);
            }
        }
        out.resize(start + layout.size, 0);
    }

    fn value(&self, random: &mut Random, field: &str, target: &str) -> u64 {
        if random.once_in(60) {
            return random.pick(&[0, 1, u64::MAX, 1 << 31, 1 << 63, 0xffff_ffff, 0x7fff_ffff_ffff_f000]);
        }
        let offset = random.pick(&[0, 1, 4096, 5000]);
        let address = self.memory.address(0) + offset;
        match field {
            "Version" => 1,
            "InfoVersion" => ND_VERSION_2.into(),
            "AdapterId" => self.adapter,
            "Handle" => self.handle(random, target),
            "ObjectHandle" => self.handle(random, "Mr"),
            "CeMappingCount" | "CbMappingsOffset" | "InlineLength" => 0,
            "SgeCount" => random.pick(&[0, 1, 2]),
            "Address" | "TargetAddress" | "RemoteAddress" | "BaseVirtualAddress" => address,
            "Length" | "CbLength" => random.pick(&[1, 64, 4096, 8192]),
            "Token" | "RemoteToken" => {
                self.tokens.get(random.below(self.tokens.len() + 1)).copied().unwrap_or(7).into()
            }
            "Operation" => random.pick(&[1, 1, 2, 2, 4, 0x10, 0x20, 0x40, 0x8002]),
            "Type" => random.pick(&[0, 1, 2]),
            "Flags" => random.pick(&[0, 0, 7, 0x38, 0x200, 1, 4]),
            "CbPrivateDataLength" => random.pick(&[0, 0, 5]),
            "CbPrivateDataOffset" => random.pick(&[0, 24]),
            _ => match field.strip_suffix("Handle") {
                Some(kind) => self.handle(random, kind.trim_start_matches("Receive").trim_start_matches("Initiator")),
                None if random.once_in(20) => random.pick(&[0, 64]),
                None => random.pick(&[1, 2, 4, 16]),
            },
        }
    }

    fn handle(&self, random: &mut Random, kind: &str) -> u64 {
        let fitting: Vec<_> = self.handles.iter().filter(|(found, _)| *found == kind).collect();
        match fitting.len() {
            0 => random.next(),
            // Objects of different adapters and domains do not go together, so most have the same.
            _ if ["Adapter", "Pd"].contains(&kind) && !random.once_in(30) => fitting[0].1,
            count => fitting[count - 1 - random.below(count.min(4))].1,
        }
    }

    fn sge(&self, random: &mut Random) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.fill(random, layout("SOFTNDK_SGE"), "", &mut bytes);
        bytes
    }

    /// The codes of pended requests that have succeeded meanwhile.
    fn finished(&mut self) -> Vec<u32> {
        let mut succeeded = Vec::new();
        self.pended.retain_mut(|(code, request)| match request.wait(Duration::ZERO) {
            None => true,
            Some(completion) => {
                succeeded.extend((completion.status == STATUS_SUCCESS).then_some(*code));
                false
            }
        });
        succeeded
    }

    /// Sends one request. Returns its code if it succeeded at once.
    fn play(&mut self, random: &mut Random) -> Option<u32> {
        let mut code = if random.once_in(3) { random.pick(REQUESTS).0 } else { random.pick(OFTEN) };
        if FREES.contains(&code) && !random.once_in(8) {
            code = random.pick(OFTEN);
        }
        let (_, description, makes) = *REQUESTS.iter().find(|request| request.0 == code).unwrap();
        let input = self.input(random, description);
        let room = if random.once_in(20) { random.pick(&[0, 8, 40]) } else { 2048 };
        let mut request = self.file.submit(code, &input, room);
        let Some(completion) = request.wait(Duration::ZERO) else {
            self.pended.push((code, request));
            if self.pended.len() > 20 {
                let (_, victim) = self.pended.swap_remove(random.below(20));
                victim.cancel();
            }
            return None;
        };
        if completion.status != STATUS_SUCCESS {
            return None;
        }
        let word =
            |at: usize| completion.output.get(at..at + 4).map(|word| u32::from_le_bytes(word.try_into().unwrap()));
        if let Some(kind) = makes
            && let (Some(low), Some(high)) = (word(0), word(4))
        {
            self.handles.push((kind, u64::from(high) << 32 | u64::from(low)));
        }
        let object = input.get(8..16).map(|handle| u64::from_le_bytes(handle.try_into().unwrap()));
        match code {
            IOCTL_ND_MR_REGISTER => self.tokens.extend(word(0)),
            IOCTL_SOFTNDK_FAST_MR_CREATE => self.tokens.extend(word(8)),
            _ if FREES.contains(&code) => self.handles.retain(|(_, handle)| Some(*handle) != object),
            _ => {}
        }
        Some(code)
    }
}

fn find_layout(name: &str) -> Option<&'static Layout> {
    index::LAYOUTS.iter().flat_map(|list| list.iter()).find(|layout| layout.name == name)
}

fn layout(name: &str) -> &'static Layout {
    find_layout(name).unwrap_or_else(|| panic!("no layout {name}"))
}

fn play(seed: u64) -> Vec<u32> {
    let simulated = Simulated::boot();
    let bench = Bench::new(&simulated, Duration::from_secs(10));
    let client = bench.client().unwrap();
    let address = bench.address(&client).unwrap();
    let adapter = client.resolve(address).unwrap();
    drop(client);
    let memory = Memory::new(16 * 4096);
    let mut random = Random(seed);
    let mut succeeded = Vec::new();
    let mut players: Vec<Player<'_>> = Vec::new();
    for turn in 0..6000 {
        // Clients come and go, with whatever they have open.
        if players.len() < 3 {
            let file = simulated.open().unwrap();
            let init = ND_HANDLE { Version: ND_IOCTL_VERSION, Reserved: 0, Handle: 0 };
            let ended = file.submit(IOCTL_ND_PROVIDER_INIT, init.as_bytes(), 0).wait(Duration::from_secs(10));
            assert!(ended.is_some_and(|ended| ended.status == STATUS_SUCCESS), "PROVIDER_INIT, turn {turn}");
            let (handles, tokens, pended) = (Vec::new(), Vec::new(), Vec::new());
            players.push(Player { file, handles, tokens, pended, adapter, address, memory: &memory });
        }
        let who = random.below(players.len());
        succeeded.extend(players[who].play(&mut random));
        succeeded.extend(players[who].finished());
        if random.once_in(1500) {
            drop(players.swap_remove(who));
        }
    }
    drop(players);
    // The device still serves.
    let pair = Pair::new(&bench).unwrap();
    exchange(&pair.a, &pair.b, &pattern(seed, 5000)).unwrap();
    drop(pair);
    assert_eq!(bench.left_behind(), Vec::<String>::new(), "seed {seed:#x}");
    drop(bench);
    assert_eq!(Box::new(simulated).close(), Vec::<String>::new(), "seed {seed:#x}");
    succeeded
}

#[test]
fn random_requests_do_no_harm() {
    let mut succeeded = Vec::new();
    for seed in 1..=6_u64 {
        succeeded.extend(play(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
    }
    // It tests something only if requests get through, each kind of them.
    let never: Vec<_> = REQUESTS.iter().filter(|request| !succeeded.contains(&request.0)).map(|it| it.1).collect();
    assert!(never.len() <= 3, "only {} requests succeeded, none of {never:?}", succeeded.len());
}
