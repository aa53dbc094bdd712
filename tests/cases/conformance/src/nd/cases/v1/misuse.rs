//! Calls that a program must not make, calls from several threads, and random calls.

use std::{cell::Cell, net::SocketAddr};

use anyhow::{Context as _, anyhow, ensure};
use nd_com::v1::ND_SGE;
use ndk_abi::status::{NTSTATUS, STATUS_CANCELLED, STATUS_SUCCESS};

use super::pair::{End, Pair, at};
use crate::{
    nd::{
        client::{
            Request, Shared,
            both::{CompletionQueue as _, Connector as _, QueuePair as _},
            v1::{Adapter, Connector, Cq, Descriptor, Endpoint, EndpointSize, Listen, Mr, Mw},
        },
        pair::{RECEIVE, SEND, WRITE, expect, expect_received},
        run::Nd,
    },
    pair::{ensure_same, pattern},
};

pub(in crate::nd) fn missing_arguments(nd: &Nd) -> anyhow::Result<()> {
    let pair = Pair::new(nd)?;
    let (a, region) = (&pair.a, pair.b.buffer(4096)?);
    let (_mw, window) = pair.b.expose(&region)?;
    ensure!(nd.provider_v1()?.open_nowhere(a.address).is_err(), "an adapter without a place for it");
    for (what, status) in a.adapter.create_nowhere() {
        ensure!(!status.is_success(), "{what} without a place for the object: {status}");
    }
    for (what, refused) in a.qp.without_lists(window) {
        ensure!(refused.is_err(), "{what} with an SGE, and no list of them");
    }
    for (what, refused) in a.qp.without_descriptors() {
        ensure!(refused.is_err(), "{what} without a descriptor");
    }
    for (what, status) in pair.b.connector.without_data() {
        ensure!(!status.is_success(), "{what}: {status}");
    }
    // A call may ask for a part of the data.
    pair.b.connector.data_in_part().context("GetConnectionData in parts")?;
    // None of that did any harm.
    pair.b.qp.receive(1, &[])?;
    a.qp.send(2, &[], 0)?;
    expect_received(pair.b.received()?, 1, 0)?;
    expect(a.initiated()?, SEND, 2, STATUS_SUCCESS)?;
    pair.quiet()
}

/// A life of a program in each thread, over and over.
pub(in crate::nd) fn lives(nd: &Nd) -> anyhow::Result<()> {
    const THREADS: usize = 4;
    const LIVES: usize = 3;
    let all = Shared::new(nd);
    let live = |number: usize| -> anyhow::Result<()> {
        for life in 0..LIVES {
            let seed = (number * LIVES + life) as u64;
            let pair = Pair::new(all.get())?;
            let (source, target) = (pair.a.buffer(20_000)?, pair.b.buffer(20_000)?);
            let (mw, window) = pair.b.expose(&target)?;
            source.memory().write(0, &pattern(seed, 20_000));
            pair.a.qp.write(1, &[source.sge(0..20_000)], window, 0, 0)?;
            pair.b.qp.receive(2, &[])?;
            pair.a.qp.send(3, &[], 0)?;
            expect(pair.a.initiated()?, WRITE, 1, STATUS_SUCCESS)?;
            expect(pair.a.initiated()?, SEND, 3, STATUS_SUCCESS)?;
            expect_received(pair.b.received()?, 2, 0)?;
            ensure_same(&target.memory().read(0..20_000), &pattern(seed, 20_000))?;
            let waits = pair.a.connector.notify_disconnect()?;
            // Different ends in different lives.
            match seed % 3 {
                0 => pair.b.connector.disconnect()?.finish()?,
                1 => drop((mw, target)),
                _ => {
                    pair.b.qp.receive(4, &[])?;
                    pair.b.qp.flush()?;
                    expect(pair.b.received()?, RECEIVE, 4, STATUS_CANCELLED)?;
                }
            }
            drop(pair);
            drop(waits);
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|number| scope.spawn(move || live(number))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| anyhow!("a thread panicked"))?)
    })
}

/// Numbers that look random (Marsaglia, xorshift), equal in each run.
struct Random(Cell<u64>);

impl Random {
    fn below(&self, limit: usize) -> usize {
        let mut next = self.0.get();
        next ^= next << 13;
        next ^= next >> 7;
        next ^= next << 17;
        self.0.set(next);
        (next >> 16) as usize % limit.max(1)
    }

    fn of<'a, T>(&self, all: &'a [T]) -> Option<&'a T> {
        all.get(self.below(all.len()))
    }

    /// One that is taken away now and then.
    fn lose<T>(&self, all: &mut Vec<T>) {
        if all.len() > 6 {
            all.swap_remove(self.below(all.len()));
        }
    }
}

/// All that a program has, of several adapters.
#[derive(Default)]
struct Things {
    adapters: Vec<Adapter>,
    queues: Vec<Cq>,
    connectors: Vec<Connector>,
    endpoints: Vec<Endpoint>,
    listens: Vec<(Listen, SocketAddr)>,
    memories: Vec<Mr>,
    windows: Vec<Mw>,
    descriptors: Vec<Descriptor>,
    requests: Vec<Request>,
    done: Done,
}

/// The counts of all rounds.
#[derive(Default)]
struct Done {
    requests: usize,
    successful_requests: usize,
    completions: usize,
    successful_completions: usize,
}

impl Done {
    fn ended(&mut self, status: NTSTATUS) {
        self.requests += 1;
        self.successful_requests += usize::from(status == STATUS_SUCCESS);
    }

    fn poll(&mut self, queue: &Cq, count: usize) -> anyhow::Result<()> {
        for found in queue.poll(count)? {
            self.completions += 1;
            self.successful_completions += usize::from(found.status == STATUS_SUCCESS);
        }
        Ok(())
    }
}

impl Things {
    /// Two adapters with two connections between them, and a window at each end of the first.
    fn connected(nd: &Nd) -> anyhow::Result<(Self, SocketAddr)> {
        let (Pair { a, b }, mut things) = (Pair::new(nd)?, Self::default());
        let second_end = |end: &End| end.on_same_adapter(&end.receive_cq, &end.initiator_cq, EndpointSize::default());
        let second = Pair::of(second_end(&a)?, second_end(&b)?)?;
        let address = a.address;
        for end in [a, b] {
            let memory = end.buffer(4096)?;
            let (window, descriptor) = end.expose(&memory)?;
            things.descriptors.push(descriptor);
            things.windows.push(window);
            things.memories.push(memory);
            let End { connector, qp, initiator_cq, receive_cq, adapter, .. } = end;
            things.adapters.push(adapter);
            things.queues.extend([receive_cq, initiator_cq]);
            things.connectors.push(connector);
            things.endpoints.push(qp);
        }
        things.connectors.extend([second.a.connector, second.b.connector]);
        things.endpoints.extend([second.a.qp, second.b.qp]);
        Ok((things, address))
    }

    /// Does anything with any of them. That calls are refused is right more often than not; what they lead to is looked at.
    fn step(&mut self, random: &Random, address: SocketAddr) -> anyhow::Result<()> {
        let (Some(adapter), flags) = (random.of(&self.adapters), [0, 1, 2, 4, 7, 8, 0x18, 0x20][random.below(8)])
        else {
            return Ok(());
        };
        let (adapter, context) = (adapter.clone(), random.below(1000));
        let mut sges = Vec::new();
        while random.below(3) > 0
            && let Some(memory) = random.of(&self.memories)
        {
            let start = random.below(4096);
            sges.push(ND_SGE { Length: random.below(4097 - start), ..memory.sge(start..start) });
        }
        let descriptor = random.of(&self.descriptors).copied();
        let descriptor = descriptor.unwrap_or(Descriptor { base: 0x1_0000, length: 64, token: 0x100 });
        let mut asked = None;
        match random.below(45) {
            0 => self.queues.extend(adapter.cq(1 + random.below(40))),
            1 => self.connectors.extend(adapter.connector()),
            2 | 3 => {
                let queues = (random.of(&self.queues), random.of(&self.queues));
                if let (Some(connector), (Some(inbound), Some(outbound))) = (random.of(&self.connectors), queues) {
                    let size =
                        EndpointSize { inbound: random.below(9), outbound: random.below(9), ..Default::default() };
                    self.endpoints.extend(connector.endpoint(inbound, outbound, size));
                }
            }
            4 => self
                .listens
                .extend(adapter.listen(random.below(3), 0).map(|(listen, port)| (listen, at(address, port)))),
            5 => {
                let memory = Mr::new(&adapter, 4096);
                memory.register()?;
                self.memories.push(memory);
            }
            6 => self.windows.extend(Mw::new(&adapter, context)),
            7 => asked = random.of(&self.queues).map(|queue| queue.notify(random.below(4) as u32)),
            8..=10 => {
                let (connector, endpoint) = (random.of(&self.connectors), random.of(&self.endpoints));
                if let (Some(connector), Some(endpoint), Some((_, to))) =
                    (connector, endpoint, random.of(&self.listens))
                {
                    asked = Some(connector.connect(endpoint, *to, &[1; 9][..random.below(9)]));
                }
            }
            11 | 12 => {
                if let (Some((listen, _)), Some(connector)) = (random.of(&self.listens), random.of(&self.connectors)) {
                    asked = Some(listen.connection_request(connector));
                }
            }
            13 | 14 => {
                if let (Some(connector), Some(endpoint)) = (random.of(&self.connectors), random.of(&self.endpoints)) {
                    asked = Some(connector.accept(endpoint, &[2; 5]));
                }
            }
            15 => {
                for connector in &self.connectors {
                    // Which of them has anything to complete is for the driver to know.
                    drop(connector.complete_connect());
                }
            }
            16 => asked = random.of(&self.connectors).map(Connector::notify_disconnect),
            17 if random.below(8) == 0 => asked = random.of(&self.connectors).map(Connector::disconnect),
            18 | 19 => {
                for queue in &self.queues {
                    self.done.poll(queue, random.below(5))?;
                }
            }
            20 => {
                drop(random.of(&self.queues).map(|queue| queue.resize(random.below(70))));
                drop(random.of(&self.connectors).map(|connector| connector.reject(&[3])));
            }
            21 => {
                drop(random.of(&self.queues).filter(|_| random.below(3) == 0).map(Cq::cancel));
                drop(random.of(&self.connectors).filter(|_| random.below(5) == 0).map(Connector::cancel));
                drop(random.of(&self.listens).filter(|_| random.below(5) == 0).map(|(listen, _)| listen.cancel()));
            }
            22 => match random.below(8) {
                0 => random.lose(&mut self.queues),
                1 => random.lose(&mut self.connectors),
                2 => random.lose(&mut self.endpoints),
                3 => random.lose(&mut self.listens),
                4 => random.lose(&mut self.memories),
                5 => random.lose(&mut self.windows),
                6 => random.lose(&mut self.descriptors),
                _ => self.reap_requests()?,
            },
            _ => self.post(random, context, &sges, descriptor, flags),
        }
        if let Some(Ok(mut request)) = asked {
            request.let_object_go();
            self.requests.push(request);
        }
        Ok(())
    }

    /// Looks at the requests that are over.
    fn reap_requests(&mut self) -> anyhow::Result<()> {
        for request in self.requests.extract_if(.., |request| request.is_over()) {
            let mut request = request;
            self.done.ended(request.status()?);
        }
        Ok(())
    }

    fn post(&mut self, random: &Random, context: usize, sges: &[ND_SGE], descriptor: Descriptor, flags: u32) {
        let Some(endpoint) = random.of(&self.endpoints) else { return };
        let offset = random.below(5000) as u64;
        let done = match random.below(12) {
            0..=2 => endpoint.receive(context, sges),
            3 | 4 => endpoint.send(context, sges, flags),
            5 => endpoint.send_and_invalidate(context, sges, descriptor, flags),
            6 => endpoint.read(context, sges, descriptor, offset, flags),
            7 => endpoint.write(context, sges, descriptor, offset, flags),
            8 | 9 => {
                if let (Some(memory), Some(window)) = (random.of(&self.memories), random.of(&self.windows)) {
                    let bound = endpoint.bind(context, memory, window, random.below(2048), random.below(4096), flags);
                    self.descriptors.extend(bound);
                }
                Ok(())
            }
            10 => random.of(&self.windows).map_or(Ok(()), |window| endpoint.invalidate(context, window, flags)),
            _ => {
                let act = [Endpoint::start_batch, Endpoint::submit_batch][random.below(2)];
                act(endpoint);
                if random.below(40) == 0 { endpoint.flush() } else { Ok(()) }
            }
        };
        drop(done);
    }
}

/// The rounds differ, but do not change from run to run. When all objects are released, all requests have ended; the run checks the rest.
pub(in crate::nd) fn random(nd: &Nd) -> anyhow::Result<()> {
    const ROUNDS: u64 = 3;
    const STEPS: usize = 300;
    let mut done = Done::default();
    for round in 1..=ROUNDS {
        let random = Random(Cell::new(round.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        let (mut things, address) = Things::connected(nd)?;
        things.done = done;
        for step in 0..STEPS {
            things.step(&random, address).with_context(|| format!("round {round}, step {step}"))?;
        }
        for queue in &things.queues {
            things.done.poll(queue, 1000).with_context(|| format!("round {round}"))?;
        }
        let mut requests = std::mem::take(&mut things.requests);
        done = std::mem::take(&mut things.done);
        drop(things);
        for request in &mut requests {
            done.ended(request.status().with_context(|| format!("round {round}: a request whose object is gone"))?);
        }
    }
    let Done { requests, successful_requests, completions, successful_completions } = done;
    ensure!(successful_requests > 0 && successful_completions > 0, "nothing of it all succeeded");
    nd.note(format!("{requests} requests, {successful_requests} of them successful"));
    nd.note(format!("{completions} completions, {successful_completions} of them successful"));
    Ok(())
}
