//! Exports of the ntoskrnl stand-in: its own and Wine's behind it. Contracts are those of the WDK pages of the same names.
#![expect(missing_docs, reason = "documented in the WDK under the same names")]

use std::ffi::{c_char, c_void};

use super::{DEVICE_OBJECT, DRIVER_OBJECT, FILE_OBJECT, IRP, UNICODE_STRING};

/// A DPC or timer routine.
pub type DeferredRoutine = unsafe extern "system" fn(*mut c_void, *mut c_void, *mut c_void, *mut c_void);
/// A work item routine.
pub type WorkItemRoutine = unsafe extern "system" fn(*mut DEVICE_OBJECT, *mut c_void);

#[link(name = "ntoskrnl.exe", kind = "raw-dylib", modifiers = "+verbatim")]
unsafe extern "C" {
    pub fn DbgPrint(format: *const c_char, ...) -> i32;
}

#[link(name = "ntoskrnl.exe", kind = "raw-dylib", modifiers = "+verbatim")]
unsafe extern "system" {
    pub fn SoftNdkStandInObject(kind: *const c_char, delta: i32);
    pub fn SoftNdkStandInViolation(message: *const c_char);
    pub fn SoftNdkStandInIsSystemProcess(process: *mut c_void) -> u8;
    pub fn SoftNdkStandInReport();
    pub fn SoftNdkStandInTrace();
    pub fn SoftNdkStandInPool();
    pub fn SoftNdkStandInSpinLocksTaken() -> u64;
    pub fn SoftNdkStandInRunDpcs(most: u32);
    pub fn SoftNdkStandInIrp(irp: *mut IRP, file: *mut FILE_OBJECT) -> u64;
    pub fn SoftNdkStandInHasIrp(irp: *mut IRP, number: u64) -> u8;
    pub fn SoftNdkStandInAwaitRequests(file: *mut FILE_OBJECT, limit: u32) -> u8;

    pub fn KeGetCurrentIrql() -> u8;
    pub fn KfRaiseIrql(level: u8) -> u8;
    pub fn KeLowerIrql(level: u8);
    pub fn KeAreApcsDisabled() -> u8;

    pub fn KeAcquireSpinLockRaiseToDpc(lock: *mut usize) -> u8;
    pub fn KeReleaseSpinLock(lock: *mut usize, irql: u8);

    pub fn KeInitializeDpc(dpc: *mut c_void, routine: DeferredRoutine, context: *mut c_void);
    pub fn KeInsertQueueDpc(dpc: *mut c_void, argument1: *mut c_void, argument2: *mut c_void) -> u8;
    pub fn KeRemoveQueueDpc(dpc: *mut c_void) -> u8;
    pub fn KeFlushQueuedDpcs();

    pub fn KeInitializeTimerEx(timer: *mut c_void, kind: i32);
    pub fn KeSetTimerEx(timer: *mut c_void, due: i64, period: i32, dpc: *mut c_void) -> u8;
    pub fn KeCancelTimer(timer: *mut c_void) -> u8;

    pub fn IoAllocateWorkItem(device: *mut c_void) -> *mut c_void;
    pub fn IoQueueWorkItem(item: *mut c_void, routine: WorkItemRoutine, queue: i32, context: *mut c_void);
    pub fn IoFreeWorkItem(item: *mut c_void);

    pub fn ExAllocatePoolWithTag(pool: i32, size: usize, tag: u32) -> *mut c_void;
    pub fn ExFreePoolWithTag(block: *mut c_void, tag: u32);

    pub fn IoCreateDevice(
        driver: *mut DRIVER_OBJECT,
        extension: u32,
        name: *const UNICODE_STRING,
        kind: u32,
        characteristics: u32,
        exclusive: u8,
        device: *mut *mut DEVICE_OBJECT,
    ) -> i32;
    pub fn IoDeleteDevice(device: *mut DEVICE_OBJECT);
    pub fn IoCreateSymbolicLink(link: *const UNICODE_STRING, target: *const UNICODE_STRING) -> i32;
    pub fn IoDeleteSymbolicLink(link: *const UNICODE_STRING) -> i32;
    pub fn IoAttachDeviceToDeviceStack(source: *mut DEVICE_OBJECT, target: *mut DEVICE_OBJECT) -> *mut DEVICE_OBJECT;
    pub fn IoDetachDevice(target: *mut DEVICE_OBJECT);
    pub fn IofCallDriver(device: *mut DEVICE_OBJECT, irp: *mut IRP) -> i32;
    pub fn IofCompleteRequest(irp: *mut IRP, boost: i8);
    pub fn IoAcquireCancelSpinLock(irql: *mut u8);
    pub fn IoReleaseCancelSpinLock(irql: u8);
    pub fn IoAllocateIrp(stack_size: i8, charge_quota: u8) -> *mut IRP;
    pub fn IoFreeIrp(irp: *mut IRP);
    pub fn IoGetRequestorProcess(irp: *mut IRP) -> *mut c_void;
    pub fn IoGetRequestorProcessId(irp: *mut IRP) -> u32;
    pub fn PsGetThreadId(thread: isize) -> usize;
    pub fn KeStackAttachProcess(process: *mut c_void, state: *mut c_void);
    pub fn KeUnstackDetachProcess(state: *mut c_void);
    pub fn ObfReferenceObject(object: *mut c_void) -> isize;
    pub fn ObfDereferenceObject(object: *mut c_void) -> isize;
    pub fn KeBugCheckEx(code: u32, p1: usize, p2: usize, p3: usize, p4: usize) -> !;
}
