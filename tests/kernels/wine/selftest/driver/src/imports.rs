//! What this driver imports. Contracts are those of the WDK pages of the same names.

use core::ffi::c_void;

use ndk_abi::{
    ndis::{
        NDIS_CONFIGURATION_OBJECT, NDIS_CONFIGURATION_PARAMETER, NDIS_DEVICE_OBJECT_ATTRIBUTES, NDIS_HANDLE,
        NDIS_MINIPORT_DRIVER_CHARACTERISTICS, NDIS_OID_REQUEST, NDIS_PARAMETER_TYPE, NDIS_STATUS_INDICATION,
        NET_BUFFER_LIST, NET_BUFFER_LIST_POOL_PARAMETERS, NET_PNP_EVENT_NOTIFICATION,
    },
    wdm::{MDL, UNICODE_STRING},
    wsk::{WSK_CLIENT_NPI, WSK_PROVIDER_NPI, WSK_REGISTRATION},
};

pub(crate) type DpcRoutine = unsafe extern "system" fn(*mut Kdpc, *mut c_void, *mut c_void, *mut c_void);
pub(crate) type WorkRoutine = unsafe extern "system" fn(*mut c_void, *mut c_void);
pub(crate) type ExTimerRoutine = unsafe extern "system" fn(*mut c_void, *mut c_void);
pub(crate) type ThreadRoutine = unsafe extern "system" fn(*mut c_void);

/// KDPC, KTIMER: opaque storage of their size.
#[repr(C, align(8))]
pub(crate) struct Kdpc(pub(crate) [u64; 8]);
#[repr(C, align(8))]
pub(crate) struct Ktimer(pub(crate) [u64; 8]);
/// EVENT_DESCRIPTOR.
#[repr(C)]
pub(crate) struct EventDescriptor {
    pub(crate) id: u16,
    pub(crate) version: u8,
    pub(crate) channel: u8,
    pub(crate) level: u8,
    pub(crate) opcode: u8,
    pub(crate) task: u16,
    pub(crate) keywords: u64,
}
/// EVENT_DATA_DESCRIPTOR.
#[repr(C)]
pub(crate) struct EventDataDescriptor {
    pub(crate) address: u64,
    pub(crate) bytes: u32,
    pub(crate) kind: u32,
}
/// KEVENT, 0x18 bytes.
#[repr(C, align(8))]
pub(crate) struct Kevent(pub(crate) [u64; 3]);
/// KLOCK_QUEUE_HANDLE, 0x18 bytes.
#[repr(C, align(8))]
pub(crate) struct QueueHandle(pub(crate) [u64; 3]);

#[link(name = "ntoskrnl.exe", kind = "raw-dylib", modifiers = "+verbatim")]
unsafe extern "system" {
    pub(crate) fn SoftNdkStandInViolationCount() -> u64;
    pub(crate) fn SoftNdkStandInRunDpcs(most: u32);

    /// PEPROCESS.
    pub(crate) static PsInitialSystemProcess: *mut c_void;
    /// POBJECT_TYPE.
    pub(crate) static IoFileObjectType: *mut c_void;
    pub(crate) fn ObReferenceObjectByHandle(
        handle: *mut c_void,
        access: u32,
        kind: *mut c_void,
        mode: u8,
        object: *mut *mut c_void,
        information: *mut c_void,
    ) -> i32;

    pub(crate) fn EtwRegister(id: &[u8; 16], callback: Option<DpcRoutine>, context: usize, handle: &mut u64) -> i32;
    pub(crate) fn EtwUnregister(handle: u64) -> i32;
    pub(crate) fn EtwWriteTransfer(
        handle: u64,
        event: &EventDescriptor,
        activity: *const c_void,
        related: *const c_void,
        count: u32,
        data: *const EventDataDescriptor,
    ) -> i32;

    pub(crate) fn KeBugCheckEx(code: u32, p1: usize, p2: usize, p3: usize, p4: usize) -> !;
    pub(crate) fn KeGetCurrentIrql() -> u8;
    pub(crate) fn KfRaiseIrql(level: u8) -> u8;
    pub(crate) fn KeLowerIrql(level: u8);

    pub(crate) fn KeAcquireSpinLockRaiseToDpc(lock: *mut usize) -> u8;
    pub(crate) fn KeReleaseSpinLock(lock: *mut usize, irql: u8);
    pub(crate) fn KeAcquireSpinLockAtDpcLevel(lock: *mut usize);
    pub(crate) fn KeReleaseSpinLockFromDpcLevel(lock: *mut usize);
    pub(crate) fn KeTryToAcquireSpinLockAtDpcLevel(lock: *mut usize) -> u8;
    pub(crate) fn KeAcquireInStackQueuedSpinLock(lock: *mut usize, handle: *mut QueueHandle);
    pub(crate) fn KeReleaseInStackQueuedSpinLock(handle: *mut QueueHandle);

    pub(crate) fn ExAllocatePool2(flags: u64, size: usize, tag: u32) -> *mut u8;
    pub(crate) fn ExFreePoolWithTag(block: *mut u8, tag: u32);

    pub(crate) fn KeInitializeDpc(dpc: *mut Kdpc, routine: DpcRoutine, context: *mut c_void);
    pub(crate) fn KeInsertQueueDpc(dpc: *mut Kdpc, argument1: *mut c_void, argument2: *mut c_void) -> u8;
    pub(crate) fn KeRemoveQueueDpc(dpc: *mut Kdpc) -> u8;
    pub(crate) fn KeFlushQueuedDpcs();
    pub(crate) fn KeSetTargetProcessorDpcEx(dpc: *mut Kdpc, number: *const [u8; 4]) -> i32;
    pub(crate) fn KeQueryActiveProcessorCountEx(group: u16) -> u32;
    pub(crate) fn KeGetCurrentProcessorNumberEx(number: *mut [u8; 4]) -> u32;

    pub(crate) fn KeInitializeTimerEx(timer: *mut Ktimer, kind: i32);
    pub(crate) fn KeSetTimerEx(timer: *mut Ktimer, due: i64, period: i32, dpc: *mut Kdpc) -> u8;
    pub(crate) fn KeCancelTimer(timer: *mut Ktimer) -> u8;
    pub(crate) fn ExAllocateTimer(callback: ExTimerRoutine, context: *mut c_void, attributes: u32) -> *mut c_void;
    pub(crate) fn ExSetTimer(timer: *mut c_void, due: i64, period: i64, parameters: *const c_void) -> u8;
    pub(crate) fn ExDeleteTimer(timer: *mut c_void, cancel: u8, wait: u8, parameters: *const c_void) -> u8;

    pub(crate) fn KeInitializeEvent(event: *mut Kevent, kind: i32, state: u8);
    pub(crate) fn KeSetEvent(event: *mut Kevent, increment: i32, wait: u8) -> i32;
    pub(crate) fn KeWaitForSingleObject(
        object: *mut c_void,
        reason: i32,
        mode: i8,
        alertable: u8,
        timeout: *const i64,
    ) -> i32;
    pub(crate) fn KeInitializeMutex(mutex: *mut [u64; 7], level: u32);
    pub(crate) fn KeReleaseMutex(mutex: *mut [u64; 7], wait: u8) -> i32;
    pub(crate) fn KeDelayExecutionThread(mode: i8, alertable: u8, interval: *const i64) -> i32;

    pub(crate) fn IoAllocateWorkItem(device: *mut c_void) -> *mut c_void;
    pub(crate) fn IoQueueWorkItem(item: *mut c_void, routine: WorkRoutine, queue: i32, context: *mut c_void);
    pub(crate) fn IoFreeWorkItem(item: *mut c_void);

    pub(crate) fn IoAllocateMdl(
        address: *mut c_void,
        length: u32,
        secondary: u8,
        quota: u8,
        irp: *mut c_void,
    ) -> *mut MDL;
    pub(crate) fn IoFreeMdl(mdl: *mut MDL);
    pub(crate) fn MmBuildMdlForNonPagedPool(mdl: *mut MDL);
    pub(crate) fn MmProbeAndLockPages(mdl: *mut MDL, mode: i8, operation: i32);
    pub(crate) fn MmUnlockPages(mdl: *mut MDL);
    pub(crate) fn MmMapLockedPagesSpecifyCache(
        mdl: *mut MDL,
        mode: i8,
        cache: i32,
        address: *mut c_void,
        bug_check: u32,
        priority: u32,
    ) -> *mut c_void;
    pub(crate) fn IoBuildPartialMdl(source: *mut MDL, target: *mut MDL, address: *mut c_void, length: u32);

    pub(crate) fn ExInitializeRundownProtection(reference: *mut usize);
    pub(crate) fn ExAcquireRundownProtection(reference: *mut usize) -> u8;
    pub(crate) fn ExReleaseRundownProtection(reference: *mut usize);
    pub(crate) fn ExWaitForRundownProtectionRelease(reference: *mut usize);
    pub(crate) fn ExAllocateCacheAwareRundownProtection(pool: i32, tag: u32) -> *mut usize;
    pub(crate) fn ExFreeCacheAwareRundownProtection(reference: *mut usize);

    pub(crate) fn KeEnterCriticalRegion();
    pub(crate) fn KeLeaveCriticalRegion();
    pub(crate) fn ExAcquirePushLockExclusiveEx(lock: *mut usize, flags: u32);
    pub(crate) fn ExReleasePushLockExclusiveEx(lock: *mut usize, flags: u32);
    pub(crate) fn ExAcquirePushLockSharedEx(lock: *mut usize, flags: u32);
    pub(crate) fn ExReleasePushLockSharedEx(lock: *mut usize, flags: u32);

    pub(crate) fn PsCreateSystemThread(
        handle: *mut usize,
        access: u32,
        attributes: *const c_void,
        process: usize,
        client: *mut c_void,
        routine: ThreadRoutine,
        context: *mut c_void,
    ) -> i32;
    pub(crate) fn ZwClose(handle: usize) -> i32;
    pub(crate) fn PsGetCurrentThreadId() -> *mut c_void;

    pub(crate) fn IofCompleteRequest(irp: *mut c_void, boost: i8);
    pub(crate) fn IoReleaseCancelSpinLock(irql: u8);
    pub(crate) fn IoInitializeIrp(irp: *mut c_void, size: u16, stack: i8);
    pub(crate) fn IoCancelIrp(irp: *mut c_void) -> u8;
}

#[link(name = "netio.sys", kind = "raw-dylib", modifiers = "+verbatim")]
unsafe extern "system" {
    pub(crate) fn WskRegister(npi: *mut WSK_CLIENT_NPI, registration: *mut WSK_REGISTRATION) -> i32;
    pub(crate) fn WskDeregister(registration: *mut WSK_REGISTRATION);
    pub(crate) fn WskCaptureProviderNPI(
        registration: *mut WSK_REGISTRATION,
        wait: u32,
        npi: *mut WSK_PROVIDER_NPI,
    ) -> i32;
    pub(crate) fn WskReleaseProviderNPI(registration: *mut WSK_REGISTRATION);
}

/// Sends of all kinds.
pub(crate) const CHECK_SENDS: u32 = 0;
/// Pauses and restarts, with sends in progress.
pub(crate) const CHECK_PAUSES: u32 = 1;
/// A pause with a send that the miniport has.
pub(crate) const CHECK_PAUSE_WITH_SEND: u32 = 2;
/// OID requests.
pub(crate) const CHECK_OIDS: u32 = 3;
/// RDMA turned off and on.
pub(crate) const CHECK_NDK: u32 = 4;
/// The computer sleeps and wakes up, until the adapter does too.
pub(crate) const CHECK_SLEEP: u32 = 5;
/// The adapter is removed by surprise, and gone.
pub(crate) const CHECK_REMOVAL: u32 = 6;
/// The protocol keeps what is indicated until the next pause.
pub(crate) const HOLD_RECEIVES: u32 = 7;
/// A pause with lists that the protocol has.
pub(crate) const CHECK_PAUSE_WITH_RECEIVES: u32 = 8;
/// Added to one of them: what a miniport may take seconds for it has to do in milliseconds.
pub(crate) const IN_A_HURRY: u32 = 0x100;

#[link(name = "ndis.sys", kind = "raw-dylib", modifiers = "+verbatim")]
unsafe extern "system" {
    pub(crate) fn NdisMRegisterMiniportDriver(
        object: *mut c_void,
        path: *mut UNICODE_STRING,
        context: NDIS_HANDLE,
        characteristics: *mut NDIS_MINIPORT_DRIVER_CHARACTERISTICS,
        handle: *mut NDIS_HANDLE,
    ) -> i32;
    pub(crate) fn NdisMDeregisterMiniportDriver(handle: NDIS_HANDLE);
    pub(crate) fn NdisSetOptionalHandlers(handle: NDIS_HANDLE, handlers: *const c_void) -> i32;
    pub(crate) fn NdisMSetMiniportAttributes(handle: NDIS_HANDLE, attributes: *const c_void) -> i32;
    pub(crate) fn NdisRegisterDeviceEx(
        handle: NDIS_HANDLE,
        attributes: *const NDIS_DEVICE_OBJECT_ATTRIBUTES,
        device: *mut *mut c_void,
        device_handle: *mut NDIS_HANDLE,
    ) -> i32;
    pub(crate) fn NdisDeregisterDeviceEx(handle: NDIS_HANDLE);
    pub(crate) fn NdisOpenConfigurationEx(
        object: *const NDIS_CONFIGURATION_OBJECT,
        configuration: *mut NDIS_HANDLE,
    ) -> i32;
    pub(crate) fn NdisReadConfiguration(
        status: *mut i32,
        value: *mut *mut NDIS_CONFIGURATION_PARAMETER,
        configuration: NDIS_HANDLE,
        keyword: *const UNICODE_STRING,
        kind: NDIS_PARAMETER_TYPE,
    );
    pub(crate) fn NdisCloseConfiguration(configuration: NDIS_HANDLE);
    pub(crate) fn NdisMGetDeviceProperty(
        handle: NDIS_HANDLE,
        physical: *mut *mut c_void,
        functional: *mut *mut c_void,
        next: *mut *mut c_void,
        resources: *mut *mut c_void,
        translated: *mut *mut c_void,
    );
    pub(crate) fn NdisMSendNetBufferListsComplete(handle: NDIS_HANDLE, list: *mut NET_BUFFER_LIST, flags: u32);
    pub(crate) fn NdisMNetPnPEvent(handle: NDIS_HANDLE, event: *const NET_PNP_EVENT_NOTIFICATION) -> i32;
    pub(crate) fn NdisAllocateIoWorkItem(handle: NDIS_HANDLE) -> NDIS_HANDLE;
    pub(crate) fn NdisQueueIoWorkItem(
        item: NDIS_HANDLE,
        routine: unsafe extern "system" fn(*mut c_void, NDIS_HANDLE),
        context: *mut c_void,
    );
    pub(crate) fn NdisFreeIoWorkItem(item: NDIS_HANDLE);
    pub(crate) fn NdisMRestartComplete(handle: NDIS_HANDLE, status: i32);
    pub(crate) fn NdisMPauseComplete(handle: NDIS_HANDLE);
    pub(crate) fn NdisMIndicateStatusEx(handle: NDIS_HANDLE, indication: *const NDIS_STATUS_INDICATION);
    pub(crate) fn NdisMOidRequestComplete(handle: NDIS_HANDLE, request: *mut NDIS_OID_REQUEST, status: i32);
    pub(crate) fn NdisMIndicateReceiveNetBufferLists(
        handle: NDIS_HANDLE,
        list: *mut NET_BUFFER_LIST,
        port: u32,
        count: u32,
        flags: u32,
    );
    pub(crate) fn NdisAllocateNetBufferListPool(
        handle: NDIS_HANDLE,
        parameters: *const NET_BUFFER_LIST_POOL_PARAMETERS,
    ) -> NDIS_HANDLE;
    pub(crate) fn NdisFreeNetBufferListPool(pool: NDIS_HANDLE);
    pub(crate) fn NdisAllocateNetBufferAndNetBufferList(
        pool: NDIS_HANDLE,
        context_size: u16,
        context_backfill: u16,
        chain: *mut MDL,
        offset: u32,
        length: usize,
    ) -> *mut NET_BUFFER_LIST;
    pub(crate) fn NdisFreeNetBufferList(list: *mut NET_BUFFER_LIST);
    pub(crate) fn NdisAllocateMdl(handle: NDIS_HANDLE, address: *mut c_void, length: u32) -> *mut MDL;
    pub(crate) fn NdisFreeMdl(mdl: *mut MDL);
    /// A check of the adapter, by its number below.
    pub(crate) fn SoftNdkStandInExercise(what: u32);
}

#[link(name = "wdfldr.sys", kind = "raw-dylib", modifiers = "+verbatim")]
unsafe extern "system" {
    pub(crate) fn WdfVersionBind(
        driver: *mut c_void,
        path: *mut UNICODE_STRING,
        info: *mut c_void,
        globals: *mut *mut c_void,
    ) -> i32;
    pub(crate) fn WdfVersionUnbind(path: *mut UNICODE_STRING, info: *mut c_void, globals: *mut c_void) -> i32;
}
