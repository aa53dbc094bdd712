//! Identifiers and tables of methods as NDSPI publishes them: a program has the numbers only.

use std::mem::{offset_of, size_of};

use nd_com::{v1::*, v2::*};
use windows_core::{GUID, IUnknown_Vtbl, Interface};

/// An interface as this crate declares it.
struct Declared {
    name: &'static str,
    iid: GUID,
    /// Methods of the interfaces that it is derived from.
    inherited: usize,
    /// Its own methods, and where they are in the table.
    methods: Vec<(&'static str, usize)>,
    /// Of the table.
    size: usize,
}

macro_rules! declared {
    ($($interface:ident: $base:ident, $table:ident [$($method:ident)*];)*) => {
        [$(Declared {
            name: stringify!($interface),
            iid: $interface::IID,
            inherited: size_of::<$base>() / size_of::<usize>(),
            methods: vec![$((stringify!($method), offset_of!($table, $method))),*],
            size: size_of::<$table>(),
        }),*]
    };
}

/// With the methods in their documented order.
fn interfaces() -> [Declared; 18] {
    declared! {
        IND2Overlapped: IUnknown_Vtbl, IND2Overlapped_Vtbl [CancelOverlappedRequests GetOverlappedResult];
        IND2CompletionQueue: IND2Overlapped_Vtbl, IND2CompletionQueue_Vtbl
            [GetNotifyAffinity Resize Notify GetResults];
        IND2SharedReceiveQueue: IND2Overlapped_Vtbl, IND2SharedReceiveQueue_Vtbl
            [GetNotifyAffinity Modify Notify Receive];
        IND2MemoryWindow: IUnknown_Vtbl, IND2MemoryWindow_Vtbl [GetRemoteToken];
        IND2MemoryRegion: IND2Overlapped_Vtbl, IND2MemoryRegion_Vtbl
            [Register Deregister GetLocalToken GetRemoteToken];
        IND2QueuePair: IUnknown_Vtbl, IND2QueuePair_Vtbl [Flush Send Receive Bind Invalidate Read Write];
        IND2Connector: IND2Overlapped_Vtbl, IND2Connector_Vtbl
            [Bind Connect CompleteConnect Accept Reject GetReadLimits GetPrivateData GetLocalAddress GetPeerAddress
             NotifyDisconnect Disconnect];
        IND2Listener: IND2Overlapped_Vtbl, IND2Listener_Vtbl [Bind Listen GetLocalAddress GetConnectionRequest];
        IND2Adapter: IUnknown_Vtbl, IND2Adapter_Vtbl
            [CreateOverlappedFile Query QueryAddressList CreateCompletionQueue CreateMemoryRegion CreateMemoryWindow
             CreateSharedReceiveQueue CreateQueuePair CreateQueuePairWithSrq CreateConnector CreateListener];
        IND2Provider: IUnknown_Vtbl, IND2Provider_Vtbl [QueryAddressList ResolveAddress OpenAdapter];
        INDOverlapped: IUnknown_Vtbl, INDOverlapped_Vtbl [CancelOverlappedRequests GetOverlappedResult];
        INDCompletionQueue: INDOverlapped_Vtbl, INDCompletionQueue_Vtbl [Resize Notify GetResults];
        INDMemoryWindow: IUnknown_Vtbl, INDMemoryWindow_Vtbl [];
        INDEndpoint: IUnknown_Vtbl, INDEndpoint_Vtbl
            [Flush StartRequestBatch SubmitRequestBatch Send SendAndInvalidate Receive Bind Invalidate Read Write];
        INDConnector: INDOverlapped_Vtbl, INDConnector_Vtbl
            [CreateEndpoint Connect CompleteConnect Accept Reject GetConnectionData GetLocalAddress GetPeerAddress
             NotifyDisconnect Disconnect];
        INDListen: INDOverlapped_Vtbl, INDListen_Vtbl [GetConnectionRequest];
        INDAdapter: INDOverlapped_Vtbl, INDAdapter_Vtbl
            [GetFileHandle Query Control CreateCompletionQueue RegisterMemory DeregisterMemory CreateMemoryWindow
             CreateConnector Listen];
        INDProvider: IUnknown_Vtbl, INDProvider_Vtbl [QueryAddressList OpenAdapter];
    }
}

/// The published identifiers, and the slot of the last method.
const PUBLISHED: [(&str, u128, usize); 18] = [
    ("IND2Overlapped", 0xABF72719_B016_4A40_A6F7_622791A7044C, 4),
    ("IND2CompletionQueue", 0x20CC445E_64A0_4CBB_AA75_F6A7251FDA9E, 8),
    ("IND2SharedReceiveQueue", 0xAABD67DC_459A_4DB1_826B_56CFCC278883, 8),
    ("IND2MemoryWindow", 0x070FE1F5_0AB5_4361_88DB_974BA704D4B9, 3),
    ("IND2MemoryRegion", 0x55DFEA2F_BC56_4982_8A45_0301BE46C413, 8),
    ("IND2QueuePair", 0xEEF2F332_B75D_4063_BCE3_3A0BAD2D02CE, 9),
    ("IND2Connector", 0x7DD615C4_6B4C_4866_950C_F3B1D25A5302, 15),
    ("IND2Listener", 0x65D23D83_3A57_4E02_86A4_350165C2D130, 8),
    ("IND2Adapter", 0xD89C798C_4823_4D69_846C_DFDCCFF9E5F3, 13),
    ("IND2Provider", 0x49EAE6C1_76C4_46D0_8003_5C2EAA2C9A8E, 5),
    ("INDOverlapped", 0xC859E15E_75E2_4FE3_8D6D_0DFF36F02442, 4),
    ("INDCompletionQueue", 0x1245A633_2A32_473A_830C_E05D1F869D02, 7),
    ("INDMemoryWindow", 0x070FE1F5_0AB5_4361_88DB_974BA704D4B9, 2),
    ("INDEndpoint", 0xDBD00EAB_B679_44A9_BD65_E82F3DE12D1A, 12),
    ("INDConnector", 0x1BCAF2D1_E274_4AEB_AC57_CD5D4376E0B7, 14),
    ("INDListen", 0xBB902588_BA3F_4441_9FE1_3B6795E4E668, 5),
    ("INDAdapter", 0xA023C5A0_5B73_43BC_8D20_33AA07E9510F, 13),
    ("INDProvider", 0x0C5DD316_5FDF_47E6_B2D0_2A6EDA8D39DD, 4),
];

/// What is not as published.
fn wrong(declared: &[Declared]) -> Vec<&'static str> {
    let is_published = |one: &&Declared| {
        let slots = one.methods.iter().map(|(_, at)| at / size_of::<usize>());
        let last = one.size / size_of::<usize>() - 1;
        one.inherited + one.methods.len() == last + 1
            && slots.eq(one.inherited..=last)
            && PUBLISHED.contains(&(one.name, one.iid.to_u128(), last))
    };
    declared.iter().filter(|one| !is_published(one)).map(|one| one.name).collect()
}

// Shows N6.
#[test]
fn interfaces_are_as_published() {
    assert_eq!(wrong(&interfaces()), [""; 0]);
}

/// The negative control: whatever is changed of an interface is noticed.
#[test]
fn a_changed_interface_is_noticed() {
    for number in 0..interfaces().len() {
        let mut changes = 0;
        let mut changed = |change: fn(&mut Declared)| {
            let mut all = interfaces();
            change(&mut all[number]);
            assert_eq!(wrong(&all), [all[number].name]);
            changes += 1;
        };
        changed(|one| one.iid.data4[7] ^= 1);
        changed(|one| one.size += size_of::<usize>());
        changed(|one| one.inherited += 1);
        if interfaces()[number].methods.len() > 1 {
            changed(|one| one.methods.swap(0, 1));
        }
        assert!(changes >= 3);
    }
}
