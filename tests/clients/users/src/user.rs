//! A user program: an open file, and what it sends.
//!
//! Conformance has a client of its own, whose objects free themselves: here an object is only a handle, as a test may free it twice, or name it
//! where it has no place. A request is dispatched in the thread that sends it, as a seeded schedule has to know all threads.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use nd_ioctl::{Device, File};
use ndk_abi::{
    describe::ZeroInit,
    nd_ioctl::*,
    ndkpi::NDK_OPERATION_TYPE,
    sockaddr::SOCKADDR_INET,
    softndk_ioctl::*,
    status::{NTSTATUS, STATUS_PENDING, STATUS_SUCCESS},
    wdm::GROUP_AFFINITY,
};
use simkernel::Pages;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::{
    host::{ADAPTER_ID, TestHost, in_process},
    request::{Shared, TestRequest},
};

/// The process of a user, unless it is another.
const PROCESS: u64 = 0x1d0;

/// Longer than anything takes.
const LIMIT: Duration = Duration::from_secs(10);

pub struct User<'a> {
    pub file: Arc<File<TestHost>>,
    /// The process that sends its requests.
    pub process: u64,
    /// Requests until its process is killed.
    lives: AtomicU32,
    pub device: &'a Device<TestHost>,
}

/// A request that was sent.
pub struct Answer {
    pub returned: NTSTATUS,
    pub shared: Arc<Shared>,
}

impl Answer {
    /// The request's status; the request must end.
    pub fn wait(&self) -> NTSTATUS {
        let (status, ..) = self.shared.wait(LIMIT).expect("the request never ended");
        assert!(self.returned == STATUS_PENDING || self.returned == status, "{} then {status}", self.returned);
        assert_eq!(self.returned == STATUS_PENDING, self.shared.was_marked_pending());
        assert!(!self.returned.is_warning(), "the sender of a request that returns {status} is told twice");
        status
    }

    pub fn output(&self) -> Vec<u8> {
        self.wait();
        self.shared.result().unwrap().2
    }

    pub fn is_pending(&self) -> bool {
        self.shared.result().is_none()
    }
}

/// A registered buffer of the user.
pub struct Memory {
    pub pages: Pages,
    pub mr: u64,
    pub tokens: SOFTNDK_MR_TOKENS,
}

impl Memory {
    pub fn address(&self) -> u64 {
        self.pages.address(0).addr().get() as u64
    }

    pub fn sge(&self, offset: u64, length: u32) -> SOFTNDK_SGE {
        SOFTNDK_SGE { Address: self.address() + offset, Length: length, Token: self.tokens.LocalToken }
    }
}

pub fn handle(handle: u64) -> ND_HANDLE {
    ND_HANDLE { Version: ND_IOCTL_VERSION, Reserved: 0, Handle: handle }
}

pub fn inet(address: &str) -> SOCKADDR_INET {
    SOCKADDR_INET::new(address.parse::<SocketAddr>().unwrap())
}

impl<'a> User<'a> {
    /// A file with the provider not initialised.
    pub fn stranger(device: &'a Device<TestHost>) -> Self {
        Self::of_process(device, PROCESS)
    }

    /// As [`User::stranger`], of this process.
    pub fn of_process(device: &'a Device<TestHost>, process: u64) -> Self {
        let file = Arc::new(device.open(process).unwrap());
        Self { file, process, lives: AtomicU32::new(i32::MAX.cast_unsigned()), device }
    }

    pub fn new(device: &'a Device<TestHost>) -> Self {
        Self::new_of_process(device, PROCESS)
    }

    /// As [`User::new`], of this process.
    pub fn new_of_process(device: &'a Device<TestHost>, process: u64) -> Self {
        let user = Self::of_process(device, process);
        assert_eq!(user.call(IOCTL_ND_PROVIDER_INIT, &handle(0)), STATUS_SUCCESS);
        user
    }

    /// Its process is killed before the request after `requests` more.
    pub fn dies_after(&self, requests: u32) {
        self.lives.store(requests, Ordering::Relaxed);
    }

    /// Whether it was not killed yet.
    pub fn lives(&self) -> bool {
        self.lives.load(Ordering::Relaxed) <= i32::MAX.cast_unsigned()
    }

    /// What names its context.
    pub fn id(&self) -> u64 {
        self.ask::<_, SOFTNDK_FILE_ID>(IOCTL_SOFTNDK_FILE_ID, &handle(0)).unwrap().Id
    }

    /// A second file of the context.
    pub fn attached(&self) -> Self {
        let second = Self::of_process(self.device, self.process);
        assert_eq!(second.call(IOCTL_SOFTNDK_ATTACH, &handle(self.id())), STATUS_SUCCESS);
        second
    }

    pub fn send_bytes(&self, code: u32, input: &[u8], output: usize) -> Answer {
        let shared = Arc::new(Shared::default());
        self.send_shared(code, input, output, shared)
    }

    pub fn send_shared(&self, code: u32, input: &[u8], output: usize, shared: Arc<Shared>) -> Answer {
        if self.lives.fetch_sub(1, Ordering::Relaxed) == 0 {
            self.file.cleanup(&simkernel::passive());
        }
        let request = TestRequest::new(code, input, output, shared.clone());
        let returned = in_process(self.process, || self.file.dispatch(request, self.process, &simkernel::passive()));
        Answer { returned, shared }
    }

    /// Another process sends it, which has a handle of the file.
    pub fn send_from(&self, process: u64, code: u32, input: &[u8], output: usize) -> Answer {
        let shared = Arc::new(Shared::default());
        let request = TestRequest::new(code, input, output, shared.clone());
        let returned = in_process(process, || self.file.dispatch(request, process, &simkernel::passive()));
        Answer { returned, shared }
    }

    pub fn send<T: IntoBytes + Immutable>(&self, code: u32, input: &T) -> Answer {
        self.send_bytes(code, input.as_bytes(), 0)
    }

    /// Sends and waits: the status.
    pub fn call<T: IntoBytes + Immutable>(&self, code: u32, input: &T) -> NTSTATUS {
        self.send(code, input).wait()
    }

    /// Sends and waits: the output.
    pub fn ask<T: IntoBytes + Immutable, R: FromBytes>(&self, code: u32, input: &T) -> Result<R, NTSTATUS> {
        let answer = self.send_bytes(code, input.as_bytes(), size_of::<R>());
        match answer.wait() {
            STATUS_SUCCESS => Ok(R::read_from_bytes(&answer.output()).expect("an output of the right size")),
            status => Err(status),
        }
    }

    pub fn adapter(&self) -> u64 {
        let input = ND_OPEN_ADAPTER { Version: 1, AdapterId: ADAPTER_ID, ..ND_OPEN_ADAPTER::ZERO };
        self.ask::<_, ND_RESOURCE_DESCRIPTOR>(IOCTL_ND_ADAPTER_OPEN, &input).unwrap().Handle
    }

    pub fn create(&self, code: u32, parent: u64) -> u64 {
        self.ask(code, &handle(parent)).unwrap()
    }

    pub fn cq(&self, adapter: u64, depth: u32) -> u64 {
        let input = ND_CREATE_CQ { Version: 1, QueueDepth: depth, AdapterHandle: adapter, ..ND_CREATE_CQ::ZERO };
        self.ask::<_, ND_RESOURCE_DESCRIPTOR>(IOCTL_ND_CQ_CREATE, &input).unwrap().Handle
    }

    pub fn srq(&self, pd: u64, depth: u32, threshold: u32) -> u64 {
        let input = ND_CREATE_SRQ {
            Version: 1,
            QueueDepth: depth,
            MaxRequestSge: 4,
            NotifyThreshold: threshold,
            PdHandle: pd,
            Affinity: GROUP_AFFINITY::ZERO,
            ..ND_CREATE_SRQ::ZERO
        };
        self.ask::<_, ND_RESOURCE_DESCRIPTOR>(IOCTL_ND_SRQ_CREATE, &input).unwrap().Handle
    }

    pub fn qp_header(&self, pd: u64, cq: u64) -> ND_CREATE_QP_HDR {
        ND_CREATE_QP_HDR {
            Version: 1,
            CbMaxInlineData: 256,
            InitiatorQueueDepth: 32,
            MaxInitiatorRequestSge: 4,
            ReceiveCqHandle: cq,
            InitiatorCqHandle: cq,
            PdHandle: pd,
            ..ND_CREATE_QP_HDR::ZERO
        }
    }

    pub fn qp(&self, pd: u64, cq: u64) -> u64 {
        let input = ND_CREATE_QP { Header: self.qp_header(pd, cq), ReceiveQueueDepth: 32, MaxReceiveRequestSge: 4 };
        self.ask::<_, ND_RESOURCE_DESCRIPTOR>(IOCTL_ND_QP_CREATE, &input).unwrap().Handle
    }

    pub fn qp_with_srq(&self, pd: u64, cq: u64, srq: u64) -> u64 {
        let input = ND_CREATE_QP_WITH_SRQ { Header: self.qp_header(pd, cq), SrqHandle: srq };
        self.ask::<_, ND_RESOURCE_DESCRIPTOR>(IOCTL_ND_QP_CREATE_WITH_SRQ, &input).unwrap().Handle
    }

    /// New memory, registered for everything.
    pub fn memory(&self, pd: u64, pages: usize) -> Memory {
        let pages = self.device.host().map(pages);
        let mr = self.create(IOCTL_ND_MR_CREATE, pd);
        let flags = ND_MR_FLAG_ALLOW_LOCAL_WRITE | ND_MR_FLAG_ALLOW_REMOTE_READ | ND_MR_FLAG_ALLOW_REMOTE_WRITE;
        let tokens = self.ask(IOCTL_ND_MR_REGISTER, &registration(mr, &pages, flags)).unwrap();
        Memory { pages, mr, tokens }
    }

    pub fn post(&self, post: &SOFTNDK_POST, sges: &[SOFTNDK_SGE], inline: &[u8]) -> NTSTATUS {
        let mut input = post.as_bytes().to_vec();
        input.extend_from_slice(sges.as_bytes());
        input.extend_from_slice(inline);
        self.send_bytes(IOCTL_SOFTNDK_POST, &input, 0).wait()
    }

    pub fn poll(&self, cq: u64, max: usize) -> Vec<SOFTNDK_RESULT> {
        let input = SOFTNDK_POLL { Version: 1, MaxResults: max as u32, CqHandle: cq };
        let answer = self.send_bytes(IOCTL_SOFTNDK_POLL, input.as_bytes(), max * size_of::<SOFTNDK_RESULT>());
        assert_eq!(answer.wait(), STATUS_SUCCESS);
        let bytes = answer.output();
        bytes
            .chunks_exact(size_of::<SOFTNDK_RESULT>())
            .map(|one| SOFTNDK_RESULT::read_from_bytes(one).unwrap())
            .collect()
    }

    /// Polls until there are `count` completions.
    pub fn completions(&self, cq: u64, count: usize) -> Vec<SOFTNDK_RESULT> {
        let mut all = Vec::new();
        let deadline = std::time::Instant::now() + LIMIT;
        while all.len() < count {
            all.extend(self.poll(cq, count - all.len()));
            assert!(std::time::Instant::now() < deadline, "only {} of {count} completions came", all.len());
            std::thread::yield_now();
        }
        all
    }

    pub fn notify(&self, cq: u64, kind: u32) -> Answer {
        self.send(IOCTL_ND_CQ_NOTIFY, &ND_CQ_NOTIFY { Version: 1, Type: kind, CqHandle: cq })
    }

    /// A listener at an address with a port of the provider's choice: the handle and the address.
    pub fn listener(&self, adapter: u64, address: &str, backlog: u32) -> (u64, SOCKADDR_INET) {
        let listener = self.create(IOCTL_ND_LISTENER_CREATE, adapter);
        assert_eq!(self.call(IOCTL_ND_LISTENER_BIND, &bind(listener, address)), STATUS_SUCCESS);
        let listen = ND_LISTEN { Version: 1, Backlog: backlog, ListenerHandle: listener };
        assert_eq!(self.call(IOCTL_ND_LISTENER_LISTEN, &listen), STATUS_SUCCESS);
        (listener, self.ask(IOCTL_ND_LISTENER_GET_ADDRESS, &handle(listener)).unwrap())
    }

    pub fn get_request(&self, listener: u64, connector: u64) -> Answer {
        let input =
            ND_GET_CONNECTION_REQUEST { Version: 1, Reserved: 0, ListenerHandle: listener, ConnectorHandle: connector };
        self.send(IOCTL_ND_LISTENER_GET_CONNECTION_REQUEST, &input)
    }

    pub fn connect(&self, connector: u64, qp: u64, to: SOCKADDR_INET, data: &[u8]) -> Answer {
        self.send_bytes(IOCTL_ND_CONNECTOR_CONNECT, &connect(connector, qp, to, data), 0)
    }

    pub fn accept(&self, connector: u64, qp: u64, data: &[u8]) -> Answer {
        self.send_bytes(IOCTL_ND_CONNECTOR_ACCEPT, &accept(connector, qp, data), 0)
    }
}

impl Drop for User<'_> {
    /// The process ends.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.file.cleanup(&simkernel::passive());
        }
    }
}

pub fn bind(object: u64, address: &str) -> ND_BIND {
    ND_BIND { Version: 1, Handle: object, Address: inet(address), ..ND_BIND::ZERO }
}

/// The input of a connect, with its private data.
pub fn connect(connector: u64, qp: u64, to: SOCKADDR_INET, data: &[u8]) -> Vec<u8> {
    let input = ND_CONNECT {
        Version: 1,
        ReadLimits: ND_READ_LIMITS { Inbound: 4, Outbound: 4 },
        CbPrivateDataLength: data.len() as u32,
        CbPrivateDataOffset: size_of::<ND_CONNECT>() as u32,
        ConnectorHandle: connector,
        QpHandle: qp,
        DestinationAddress: to,
        ..ND_CONNECT::ZERO
    };
    [input.as_bytes(), data].concat()
}

/// The input of an accept, with its private data.
pub fn accept(connector: u64, qp: u64, data: &[u8]) -> Vec<u8> {
    let input = ND_ACCEPT {
        Version: 1,
        ReadLimits: ND_READ_LIMITS { Inbound: 2, Outbound: 2 },
        CbPrivateDataLength: data.len() as u32,
        CbPrivateDataOffset: size_of::<ND_ACCEPT>() as u32,
        ConnectorHandle: connector,
        QpHandle: qp,
        ..ND_ACCEPT::ZERO
    };
    [input.as_bytes(), data].concat()
}

pub fn registration(mr: u64, pages: &Pages, flags: u32) -> ND_MR_REGISTER {
    let address = pages.address(0).addr().get() as u64;
    ND_MR_REGISTER {
        Header: ND_MR_REGISTER_HDR {
            Version: 1,
            Flags: flags,
            CbLength: pages.size() as u64,
            TargetAddress: address,
            MrHandle: mr,
        },
        Address: address,
    }
}

pub fn work(operation: NDK_OPERATION_TYPE, qp: u64, context: u64) -> SOFTNDK_POST {
    SOFTNDK_POST {
        Version: 1,
        Operation: operation.0 as u32,
        QpHandle: qp,
        RequestContext: context,
        ..SOFTNDK_POST::ZERO
    }
}
