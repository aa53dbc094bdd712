//! One object of each kind, and a valid input for each code.

use ndk_abi::{
    describe::ZeroInit,
    nd_ioctl::*,
    ndkpi::{NdkOperationTypeBind, NdkOperationTypeSend},
    softndk_ioctl::*,
    status::STATUS_SUCCESS,
};
use zerocopy::{Immutable, IntoBytes};

use crate::{
    User,
    host::{ADAPTER_ID, ADDRESSES},
    user::{bind, handle, inet, registration, work},
};

pub struct World {
    pub adapter: u64,
    pub pd: u64,
    pub cq: u64,
    pub mr: u64,
    pub mw: u64,
    pub srq: u64,
    pub qp: u64,
    pub connector: u64,
    pub listener: u64,
    pub pages: simkernel::Pages,
}

/// A code, an input that is valid as far as it goes, the offsets of its handles, and the size of the output.
#[derive(Clone)]
pub struct Case {
    pub code: u32,
    pub input: Vec<u8>,
    pub handles: &'static [usize],
    pub output: usize,
}

impl World {
    pub fn new(user: &User<'_>) -> Self {
        let adapter = user.adapter();
        let pd = user.create(IOCTL_ND_PD_CREATE, adapter);
        let cq = user.cq(adapter, 8);
        Self {
            adapter,
            pd,
            cq,
            mr: user.create(IOCTL_ND_MR_CREATE, pd),
            mw: user.create(IOCTL_ND_MW_CREATE, pd),
            srq: user.srq(pd, 8, 0),
            qp: user.qp(pd, cq),
            connector: user.create(IOCTL_ND_CONNECTOR_CREATE, adapter),
            listener: user.create(IOCTL_ND_LISTENER_CREATE, adapter),
            pages: user.device.host().map(2),
        }
    }

    /// One that listens, for requests that pend.
    pub fn listening(user: &User<'_>) -> Self {
        let world = Self::new(user);
        assert_eq!(user.call(IOCTL_ND_LISTENER_BIND, &bind(world.listener, "10.1.2.3:0")), STATUS_SUCCESS);
        let listen = ND_LISTEN { Version: 1, Backlog: 2, ListenerHandle: world.listener };
        assert_eq!(user.call(IOCTL_ND_LISTENER_LISTEN, &listen), STATUS_SUCCESS);
        world
    }

    pub fn handles(&self) -> [u64; 9] {
        [self.adapter, self.pd, self.cq, self.mr, self.mw, self.srq, self.qp, self.connector, self.listener]
    }

    /// All codes that take a handle, with handles of this world. The codes that free objects are last.
    pub fn cases(&self, user: &User<'_>) -> Vec<Case> {
        let one = |code, object: u64, output| case(code, &handle(object), &[8], output);
        let create_cq = ND_CREATE_CQ { Version: 1, QueueDepth: 4, AdapterHandle: self.adapter, ..ZeroInit::ZERO };
        let create_srq =
            ND_CREATE_SRQ { Version: 1, QueueDepth: 4, MaxRequestSge: 1, PdHandle: self.pd, ..ZeroInit::ZERO };
        let header = user.qp_header(self.pd, self.cq);
        let create_qp = ND_CREATE_QP { Header: header, ReceiveQueueDepth: 4, MaxReceiveRequestSge: 1 };
        let create_qp_with_srq = ND_CREATE_QP_WITH_SRQ { Header: header, SrqHandle: self.srq };
        let cq_modify = ND_CQ_MODIFY { Version: 1, QueueDepth: 9, CqHandle: self.cq, ..ZeroInit::ZERO };
        let srq_modify = ND_SRQ_MODIFY { Version: 1, QueueDepth: 9, SrqHandle: self.srq, ..ZeroInit::ZERO };
        let query = ND_ADAPTER_QUERY { Version: 1, InfoVersion: ND_VERSION_2, AdapterHandle: self.adapter };
        let notify = ND_CQ_NOTIFY { Version: 1, Type: ND_CQ_NOTIFY_ANY, CqHandle: self.cq };
        let connect = ND_CONNECT {
            Version: 1,
            ConnectorHandle: self.connector,
            QpHandle: self.qp,
            DestinationAddress: inet("10.1.2.3:9"),
            ..ZeroInit::ZERO
        };
        let accept = ND_ACCEPT { Version: 1, ConnectorHandle: self.connector, QpHandle: self.qp, ..ZeroInit::ZERO };
        let reject = ND_REJECT { Version: 1, ConnectorHandle: self.connector, ..ZeroInit::ZERO };
        let listen = ND_LISTEN { Version: 1, Backlog: 1, ListenerHandle: self.listener };
        let get = ND_GET_CONNECTION_REQUEST {
            Version: 1,
            Reserved: 0,
            ListenerHandle: self.listener,
            ConnectorHandle: self.connector,
        };
        let fast = SOFTNDK_FAST_MR_CREATE {
            Version: 1,
            RemoteAccess: 0,
            PdHandle: self.pd,
            Address: self.pages.address(0).addr().get() as u64,
            Length: 4096,
        };
        let bound = SOFTNDK_POST {
            ObjectHandle: self.mw,
            MrHandle: self.mr,
            BaseVirtualAddress: self.pages.address(0).addr().get() as u64,
            Length: 8,
            ..work(NdkOperationTypeBind, self.qp, 1)
        };
        let srq_post = SOFTNDK_SRQ_POST { Version: 1, SgeCount: 0, SrqHandle: self.srq, RequestContext: 1 };
        let poll = SOFTNDK_POLL { Version: 1, MaxResults: 4, CqHandle: self.cq };
        let moderate = SOFTNDK_CQ_MODERATE { Version: 1, Interval: 9, CqHandle: self.cq, Count: 9, Reserved: 0 };
        let descriptor = size_of::<ND_RESOURCE_DESCRIPTOR>();
        vec![
            case(IOCTL_ND_ADAPTER_QUERY, &query, &[8], size_of::<ND2_ADAPTER_INFO>()),
            one(IOCTL_ND_ADAPTER_QUERY_ADDRESS_LIST, self.adapter, ADDRESSES.len() * 28),
            one(IOCTL_ND_PD_CREATE, self.adapter, 8),
            case(IOCTL_ND_CQ_CREATE, &create_cq, &[16], descriptor),
            one(IOCTL_ND_CQ_GET_AFFINITY, self.cq, 16),
            one(IOCTL_ND_CQ_CANCEL_IO, self.cq, 0),
            case(IOCTL_ND_CQ_MODIFY, &cq_modify, &[16], descriptor),
            case(IOCTL_ND_CQ_NOTIFY, &notify, &[8], 0),
            one(IOCTL_ND_MR_CREATE, self.pd, 8),
            one(IOCTL_ND_MR_CANCEL_IO, self.mr, 0),
            case(IOCTL_ND_MR_REGISTER, &registration(self.mr, &self.pages, ND_MR_FLAG_ALLOW_REMOTE_READ), &[24], 8),
            one(IOCTL_SOFTNDK_MR_QUERY, self.mr, size_of::<SOFTNDK_MR_TOKENS>()),
            one(IOCTL_ND_MR_DEREGISTER, self.mr, 0),
            one(IOCTL_ND_MW_CREATE, self.pd, 8),
            case(IOCTL_ND_SRQ_CREATE, &create_srq, &[24], descriptor),
            one(IOCTL_ND_SRQ_GET_AFFINITY, self.srq, 16),
            one(IOCTL_ND_SRQ_CANCEL_IO, self.srq, 0),
            case(IOCTL_ND_SRQ_MODIFY, &srq_modify, &[24], descriptor),
            one(IOCTL_ND_SRQ_NOTIFY, self.srq, 0),
            one(IOCTL_ND_CONNECTOR_CREATE, self.adapter, 8),
            one(IOCTL_ND_CONNECTOR_CANCEL_IO, self.connector, 0),
            case(IOCTL_ND_CONNECTOR_BIND, &bind(self.connector, "10.1.2.3:0"), &[8], 0),
            case(IOCTL_ND_CONNECTOR_CONNECT, &connect, &[24, 32], 0),
            one(IOCTL_ND_CONNECTOR_COMPLETE_CONNECT, self.connector, 0),
            case(IOCTL_ND_CONNECTOR_ACCEPT, &accept, &[24, 32], 0),
            case(IOCTL_ND_CONNECTOR_REJECT, &reject, &[16], 0),
            one(IOCTL_ND_CONNECTOR_GET_READ_LIMITS, self.connector, 8),
            one(IOCTL_ND_CONNECTOR_GET_PRIVATE_DATA, self.connector, 508),
            one(IOCTL_ND_CONNECTOR_GET_PEER_ADDRESS, self.connector, 28),
            one(IOCTL_ND_CONNECTOR_GET_ADDRESS, self.connector, 28),
            one(IOCTL_ND_CONNECTOR_NOTIFY_DISCONNECT, self.connector, 0),
            one(IOCTL_ND_CONNECTOR_DISCONNECT, self.connector, 0),
            one(IOCTL_ND_LISTENER_CREATE, self.adapter, 8),
            one(IOCTL_ND_LISTENER_CANCEL_IO, self.listener, 0),
            case(IOCTL_ND_LISTENER_BIND, &bind(self.listener, "[::1]:0"), &[8], 0),
            case(IOCTL_ND_LISTENER_LISTEN, &listen, &[8], 0),
            one(IOCTL_ND_LISTENER_GET_ADDRESS, self.listener, 28),
            case(IOCTL_ND_LISTENER_GET_CONNECTION_REQUEST, &get, &[8, 16], 0),
            case(IOCTL_ND_QP_CREATE, &create_qp, &[24, 32, 40], descriptor),
            case(IOCTL_ND_QP_CREATE_WITH_SRQ, &create_qp_with_srq, &[24, 32, 40, 48], descriptor),
            one(IOCTL_ND_QP_FLUSH, self.qp, 0),
            case(IOCTL_SOFTNDK_POST, &work(NdkOperationTypeSend, self.qp, 1), &[8], 0),
            case(IOCTL_SOFTNDK_POST, &bound, &[8, 0x30, 0x38], size_of::<SOFTNDK_MW_TOKEN>()),
            case(IOCTL_SOFTNDK_SRQ_POST, &srq_post, &[8], 0),
            case(IOCTL_SOFTNDK_POLL, &poll, &[8], 4 * size_of::<SOFTNDK_RESULT>()),
            case(IOCTL_SOFTNDK_CQ_MODERATE, &moderate, &[8], 0),
            case(IOCTL_SOFTNDK_FAST_MR_CREATE, &fast, &[8], size_of::<SOFTNDK_FAST_MR>()),
            one(IOCTL_ND_LISTENER_FREE, self.listener, 0),
            one(IOCTL_ND_CONNECTOR_FREE, self.connector, 0),
            one(IOCTL_ND_QP_FREE, self.qp, 0),
            one(IOCTL_ND_SRQ_FREE, self.srq, 0),
            one(IOCTL_ND_MW_FREE, self.mw, 0),
            one(IOCTL_ND_MR_FREE, self.mr, 0),
            one(IOCTL_ND_CQ_FREE, self.cq, 0),
            one(IOCTL_ND_PD_FREE, self.pd, 0),
            one(IOCTL_ND_ADAPTER_CLOSE, self.adapter, 0),
        ]
    }

    /// The remaining codes: for fresh files, for objects of several types, for the whole driver.
    pub fn other_cases(&self, user: &User<'_>) -> Vec<Case> {
        let diagnostics = SOFTNDK_DIAGNOSTICS_QUERY { Version: 1, Reserved: 0 };
        let smb_direct = SOFTNDK_TEST_SMB_DIRECT { Version: 1, Scenario: 0 };
        let link = SOFTNDK_TEST_LINK { Version: 1, Operation: SOFTNDK_TEST_LINK_NEXT, ..ZeroInit::ZERO };
        let perf = SOFTNDK_TEST_PERF { Version: 1, What: SOFTNDK_TEST_PERF_SERVE, Microseconds: 1, ..ZeroInit::ZERO };
        let capture = SOFTNDK_START_CAPTURE { Version: 1, Bytes: 4096, ..ZeroInit::ZERO };
        let plant = SOFTNDK_TEST_PLANT { Version: 1, Kind: SOFTNDK_TEST_PLANT_LEAK_POOL };
        vec![
            case(IOCTL_ND_PROVIDER_INIT, &handle(0), &[], 0),
            case(IOCTL_SOFTNDK_ATTACH, &handle(user.id()), &[], 0),
            case(IOCTL_SOFTNDK_DOORBELL, &handle(self.cq), &[], 0),
            case(IOCTL_SOFTNDK_DIAGNOSTICS, &diagnostics, &[], size_of::<SOFTNDK_DIAGNOSTICS>()),
            case(IOCTL_SOFTNDK_TEST_SMB_DIRECT, &smb_direct, &[], size_of::<SOFTNDK_TEST_SMB_DIRECT_RESULT>()),
            case(IOCTL_SOFTNDK_TEST_LINK, &link, &[], size_of::<SOFTNDK_TEST_LINK_RESULT>()),
            case(IOCTL_SOFTNDK_TEST_PERF, &perf, &[], size_of::<SOFTNDK_TEST_PERF_RESULT>()),
            case(IOCTL_SOFTNDK_TEST_PLANT, &plant, &[], 0),
            case(IOCTL_SOFTNDK_SET_FAULT_RULES, &diagnostics, &[], 0),
            case(IOCTL_SOFTNDK_START_CAPTURE, &capture, &[], 0),
            case(IOCTL_SOFTNDK_CAPTURE, &diagnostics, &[], 4096),
        ]
    }

    /// The codes that take none.
    pub fn provider_cases() -> Vec<Case> {
        let resolve = ND_RESOLVE_ADDRESS { Version: 1, Reserved: 0, Address: inet("10.1.2.3:0") };
        let open = ND_OPEN_ADAPTER { Version: 1, AdapterId: ADAPTER_ID, ..ZeroInit::ZERO };
        vec![
            case(IOCTL_ND_PROVIDER_BIND_FILE, &handle(0), &[], 0),
            case(IOCTL_SOFTNDK_FILE_ID, &handle(0), &[], size_of::<SOFTNDK_FILE_ID>()),
            case(IOCTL_SOFTNDK_NOP, &handle(0), &[], 0),
            case(IOCTL_ND_PROVIDER_QUERY_ADDRESS_LIST, &handle(0), &[], ADDRESSES.len() * 28),
            case(IOCTL_ND_PROVIDER_RESOLVE_ADDRESS, &resolve, &[], 8),
            case(IOCTL_ND_ADAPTER_OPEN, &open, &[], size_of::<ND_RESOURCE_DESCRIPTOR>()),
        ]
    }

    /// Looks at the whole driver, which work without a provider context too.
    pub fn diagnostic_cases() -> Vec<Case> {
        let query = SOFTNDK_DIAGNOSTICS_QUERY { Version: 1, Reserved: 0 };
        let list = SOFTNDK_LIST_QUERY { Version: 1, Start: 0 };
        vec![
            case(IOCTL_SOFTNDK_DIAGNOSTICS, &query, &[], size_of::<SOFTNDK_DIAGNOSTICS>()),
            case(IOCTL_SOFTNDK_COUNTERS, &list, &[], size_of::<SOFTNDK_LIST>() + 4 * size_of::<SOFTNDK_COUNTER>()),
            case(IOCTL_SOFTNDK_ADAPTER, &query, &[], size_of::<SOFTNDK_ADAPTER>()),
            case(IOCTL_SOFTNDK_ADDRESSES, &list, &[], size_of::<SOFTNDK_LIST>() + 28),
            case(IOCTL_SOFTNDK_ENDPOINTS, &list, &[], size_of::<SOFTNDK_LIST>() + 3 * size_of::<SOFTNDK_ENDPOINT>()),
            case(IOCTL_SOFTNDK_CABLE, &query, &[], SOFTNDK_CABLE_LENGTH),
            case(IOCTL_SOFTNDK_FAULT_RULES, &list, &[], size_of::<SOFTNDK_LIST>() + size_of::<SOFTNDK_FAULT_RULE>()),
        ]
    }
}

fn case<T: IntoBytes + Immutable>(code: u32, input: &T, handles: &'static [usize], output: usize) -> Case {
    Case { code, input: input.as_bytes().to_vec(), handles, output }
}
