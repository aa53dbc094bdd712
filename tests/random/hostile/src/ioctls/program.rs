//! A file of a hostile user, and the requests that are right for it.

use nd_ioctl::Device;
use ndk_abi::{describe::ZeroInit as _, nd_ioctl::*, ndkpi::*, sockaddr::SOCKADDR_INET, softndk_ioctl::*};
use simkernel::Pages;
use users::{
    User, World,
    host::TestHost,
    rings::{self, Ring, Ringed},
    user::{Memory, accept, connect, handle, work},
    world::Case,
};
use zerocopy::IntoBytes as _;

/// Kinds of objects, as [`World::handles`] lists them.
pub(super) const KINDS: usize = 9;

/// A request that is right.
#[derive(Clone)]
pub(super) struct Right {
    pub(super) code: u32,
    pub(super) input: Vec<u8>,
    pub(super) output: usize,
    /// Where its handles are, and of which kind each is.
    pub(super) handles: Vec<(usize, usize)>,
}

pub(super) struct Program<'a> {
    pub(super) user: User<'a>,
    /// What names its context.
    pub(super) context: u64,
    /// Handles by kind.
    pub(super) handles: [Vec<u64>; KINDS],
    pub(super) rights: Vec<Right>,
    /// Memory that its requests name.
    pub(super) memory: Vec<Pages>,
}

/// What a create gives a handle of, as an index of [`World::handles`].
pub(super) fn kind_made(code: u32) -> Option<usize> {
    Some(match code {
        IOCTL_ND_ADAPTER_OPEN => 0,
        IOCTL_ND_PD_CREATE => 1,
        IOCTL_ND_CQ_CREATE => 2,
        IOCTL_ND_MR_CREATE | IOCTL_SOFTNDK_FAST_MR_CREATE => 3,
        IOCTL_ND_MW_CREATE => 4,
        IOCTL_ND_SRQ_CREATE => 5,
        IOCTL_ND_QP_CREATE | IOCTL_ND_QP_CREATE_WITH_SRQ => 6,
        IOCTL_ND_CONNECTOR_CREATE => 7,
        IOCTL_ND_LISTENER_CREATE => 8,
        _ => return None,
    })
}

/// The codes after which a handle is one no more.
pub(super) fn frees(code: u32) -> bool {
    matches!(
        code,
        IOCTL_ND_ADAPTER_CLOSE
            | IOCTL_ND_PD_FREE
            | IOCTL_ND_CQ_FREE
            | IOCTL_ND_MR_FREE
            | IOCTL_ND_MW_FREE
            | IOCTL_ND_SRQ_FREE
            | IOCTL_ND_QP_FREE
            | IOCTL_ND_CONNECTOR_FREE
            | IOCTL_ND_LISTENER_FREE
    )
}

impl<'a> Program<'a> {
    /// A file of a process with everything in it, which listens.
    pub(super) fn new(device: &'a Device<TestHost>, process: u64) -> Self {
        let user = User::new_of_process(device, process);
        let world = World::listening(&user);
        let ringed = Ringed::new(&user, &world).expect("rings");
        let memory = user.memory(world.pd, 2);
        let address = user.ask(IOCTL_ND_LISTENER_GET_ADDRESS, &handle(world.listener)).expect("an address");
        let spare = user.create(IOCTL_ND_CONNECTOR_CREATE, world.adapter);
        let mut handles = world.handles().map(|handle| vec![handle]);
        for (kind, handle) in
            [(2, ringed.cq), (3, memory.mr), (5, ringed.srq), (6, ringed.srq_qp), (6, ringed.qp), (7, spare)]
        {
            handles[kind].push(handle);
        }
        let mut cases = world.cases(&user);
        cases.extend(world.other_cases(&user));
        cases.extend(World::provider_cases());
        cases.extend(World::diagnostic_cases());
        cases.extend(requests(&world, &memory));
        cases.extend(connects(&world, address));
        let (with_rings, pages) = queues(&user, &world, &ringed);
        cases.extend(with_rings);
        let rights = cases.into_iter().map(|case| Right::new(case, &handles)).collect();
        let context = user.id();
        Self { user, context, handles, rights, memory: [vec![world.pages, memory.pages], pages].concat() }
    }

    /// A second file of the context, with its requests.
    pub(super) fn attached(&self) -> Self {
        Self {
            user: self.user.attached(),
            context: self.context,
            handles: self.handles.clone(),
            rights: self.rights.clone(),
            memory: self.memory.clone(),
        }
    }
}

impl Right {
    fn new(case: Case, known: &[Vec<u64>; KINDS]) -> Self {
        let kind_at = |place: &usize| {
            let handle = u64::from_le_bytes(case.input[*place..place + 8].try_into().expect("eight bytes"));
            (*place, known.iter().position(|of_kind| of_kind.contains(&handle)).unwrap_or(0))
        };
        let handles = case.handles.iter().map(kind_at).collect();
        Self { code: case.code, input: case.input, output: case.output, handles }
    }
}

/// Work with memory.
fn requests(world: &World, memory: &Memory) -> Vec<Case> {
    let sges = [memory.sge(0, 64), memory.sge(4096, 100)];
    let with = |head: SOFTNDK_POST, data: &[u8], handles, output| Case {
        code: IOCTL_SOFTNDK_POST,
        input: [head.as_bytes(), data].concat(),
        handles,
        output,
    };
    let remote = |operation| SOFTNDK_POST {
        SgeCount: 2,
        RemoteAddress: memory.address(),
        RemoteToken: memory.tokens.RemoteToken,
        ..work(operation, world.qp, 3)
    };
    let inline =
        SOFTNDK_POST { Flags: NDK_OP_FLAG_INLINE, InlineLength: 32, ..work(NdkOperationTypeSend, world.qp, 4) };
    let to_region = |operation| SOFTNDK_POST {
        ObjectHandle: memory.mr,
        BaseVirtualAddress: memory.address(),
        Length: 4096,
        ..work(operation, world.qp, 5)
    };
    let bound = SOFTNDK_POST {
        ObjectHandle: world.mw,
        MrHandle: memory.mr,
        BaseVirtualAddress: memory.address(),
        Length: 64,
        Flags: NDK_OP_FLAG_ALLOW_REMOTE_READ,
        ..work(NdkOperationTypeBind, world.qp, 6)
    };
    let srq = SOFTNDK_SRQ_POST { Version: 1, SgeCount: 2, SrqHandle: world.srq, RequestContext: 7 };
    let send_and_invalidate = NDK_OPERATION_TYPE(SOFTNDK_POST_SEND_AND_INVALIDATE as i32);
    vec![
        with(SOFTNDK_POST { SgeCount: 2, ..work(NdkOperationTypeSend, world.qp, 1) }, sges.as_bytes(), &[8], 0),
        with(SOFTNDK_POST { SgeCount: 2, ..work(NdkOperationTypeReceive, world.qp, 2) }, sges.as_bytes(), &[8], 0),
        with(remote(NdkOperationTypeWrite), sges.as_bytes(), &[8], 0),
        with(remote(NdkOperationTypeRead), sges.as_bytes(), &[8], 0),
        with(remote(send_and_invalidate), sges.as_bytes(), &[8], 0),
        with(inline, &[0x55; 32], &[8], 0),
        with(to_region(NdkOperationTypeFastRegister), &[], &[8, 0x30], 0),
        with(to_region(NdkOperationTypeInvalidate), &[], &[8, 0x30], 0),
        with(bound, &[], &[8, 0x30, 0x38], size_of::<SOFTNDK_MW_TOKEN>()),
        Case {
            code: IOCTL_SOFTNDK_SRQ_POST,
            input: [srq.as_bytes(), sges.as_bytes()].concat(),
            handles: &[8],
            output: 0,
        },
    ]
}

/// Requests of connectors that reach a listener.
fn connects(world: &World, address: SOCKADDR_INET) -> Vec<Case> {
    let data = [0xAB; 24];
    let case = |code, input| Case { code, input, handles: &[24, 32], output: 0 };
    vec![
        case(IOCTL_ND_CONNECTOR_CONNECT, connect(world.connector, world.qp, address, &data)),
        case(IOCTL_ND_CONNECTOR_ACCEPT, accept(world.connector, world.qp, &data)),
    ]
}

/// Queues with rings: to be made, and to be changed.
fn queues(user: &User<'_>, world: &World, ringed: &Ringed) -> (Vec<Case>, Vec<Pages>) {
    let descriptor = |rings: usize| size_of::<ND_RESOURCE_DESCRIPTOR>() + rings * size_of::<ND_MAPPING_RESULT>();
    let [completions, shared, receives, initiator] =
        [Ring::completions(user), Ring::receives(user), Ring::receives(user), Ring::initiator(user)];
    let case = |code, input: &[u8], rings: &[&Ring], handles| {
        let mappings: Vec<_> = rings.iter().map(|ring| ring.mapping()).collect();
        Case { code, input: rings::with_mappings(input, &mappings), handles, output: descriptor(rings.len()) }
    };
    let larger_cq = ND_CQ_MODIFY {
        Version: 1,
        QueueDepth: rings::DEPTH,
        CeMappingCount: 1,
        CbMappingsOffset: size_of::<ND_CQ_MODIFY>() as u32,
        CqHandle: ringed.cq,
    };
    let larger_srq = ND_SRQ_MODIFY {
        Version: 1,
        QueueDepth: rings::DEPTH,
        CeMappingCount: 1,
        CbMappingsOffset: size_of::<ND_SRQ_MODIFY>() as u32,
        NotifyThreshold: 2,
        SrqHandle: ringed.srq,
        ..ND_SRQ_MODIFY::ZERO
    };
    let qp = rings::create_qp(user, world, ringed.cq);
    let srq_qp = rings::create_srq_qp(user, world, ringed.cq, ringed.srq);
    let doorbell = |object| Case {
        code: IOCTL_SOFTNDK_DOORBELL,
        input: handle(object).as_bytes().to_vec(),
        handles: &[8],
        output: 0,
    };
    let cases = vec![
        case(IOCTL_ND_CQ_CREATE, rings::create_cq(world).as_bytes(), &[&completions], &[16]),
        case(IOCTL_ND_SRQ_CREATE, rings::create_srq(world).as_bytes(), &[&shared], &[24]),
        case(IOCTL_ND_QP_CREATE, qp.as_bytes(), &[&initiator, &receives], &[24, 32, 40]),
        case(IOCTL_ND_QP_CREATE_WITH_SRQ, srq_qp.as_bytes(), &[&initiator], &[24, 32, 40, 48]),
        case(IOCTL_ND_CQ_MODIFY, larger_cq.as_bytes(), &[&completions], &[16]),
        case(IOCTL_ND_SRQ_MODIFY, larger_srq.as_bytes(), &[&shared], &[24]),
        doorbell(ringed.qp),
        doorbell(ringed.cq),
        doorbell(ringed.srq),
    ];
    (cases, [completions, shared, receives, initiator].map(|ring| ring.pages).to_vec())
}
