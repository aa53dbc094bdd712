//! Clocks and processors.

use windows_sys::Win32::System::Performance::{QueryPerformanceCounter, QueryPerformanceFrequency};
use windows_sys::Win32::System::SystemInformation::GetSystemTimePreciseAsFileTime;

use crate::{
    base::status,
    dpc::ProcessorNumber,
    irql::{self, APC_LEVEL},
    report::violation,
};

const ALL_PROCESSOR_GROUPS: u16 = 0xFFFF;

/// wdm/nf-wdm-kequeryperformancecounter: any IRQL; Wine has it in hal.dll only.
#[unsafe(no_mangle)]
unsafe extern "system" fn KeQueryPerformanceCounter(frequency: *mut i64) -> i64 {
    if !frequency.is_null() {
        // SAFETY: the caller gives a place for the frequency.
        unsafe { QueryPerformanceFrequency(frequency) };
    }
    let mut counter = 0;
    // SAFETY: a valid place for the result.
    unsafe { QueryPerformanceCounter(&mut counter) };
    counter
}

/// Time since the machine started, in 100 ns, from the performance counter: Wine 8 has no QueryInterruptTimePrecise.
fn interrupt_time() -> u64 {
    let mut frequency = 0;
    // SAFETY: a valid place for the frequency.
    let counter = unsafe { KeQueryPerformanceCounter(&mut frequency) };
    (i128::from(counter) * 10_000_000 / i128::from(frequency.max(1))) as u64
}

/// wdm/nf-wdm-kequeryinterrupttime: any IRQL; 100 ns units.
#[unsafe(no_mangle)]
extern "system" fn KeQueryInterruptTime() -> u64 {
    interrupt_time()
}

/// wdm/nf-wdm-kequeryinterrupttimeprecise: any IRQL; 100 ns units, and the performance counter at that time.
#[unsafe(no_mangle)]
unsafe extern "system" fn KeQueryInterruptTimePrecise(counter: *mut i64) -> u64 {
    // SAFETY: the caller gives a place for the counter.
    unsafe { QueryPerformanceCounter(counter) };
    interrupt_time()
}

/// wdm/nf-wdm-kequeryunbiasedinterrupttime: any IRQL; the machine never sleeps here.
#[unsafe(no_mangle)]
extern "system" fn KeQueryUnbiasedInterruptTime() -> u64 {
    interrupt_time()
}

/// wdm/nf-wdm-kequerysystemtimeprecise: any IRQL; 100 ns since 1601, UTC.
#[unsafe(no_mangle)]
unsafe extern "system" fn KeQuerySystemTimePrecise(time: *mut i64) {
    // SAFETY: a FILETIME is the same 64 bits, aligned to 4; the caller gives a place for them.
    unsafe { GetSystemTimePreciseAsFileTime(time.cast()) };
}

/// wdm/nf-wdm-kestallexecutionprocessor: any IRQL; busy for that many microseconds.
#[unsafe(no_mangle)]
extern "system" fn KeStallExecutionProcessor(microseconds: u32) {
    let start = std::time::Instant::now();
    while start.elapsed() < std::time::Duration::from_micros(microseconds.into()) {
        std::hint::spin_loop();
    }
}

fn count(group: u16) -> u32 {
    if group == 0 || group == ALL_PROCESSOR_GROUPS { irql::processor_count() as u32 } else { 0 }
}

/// wdm/nf-wdm-kequeryactiveprocessorcountex: any IRQL; 0 for a group that does not exist.
#[unsafe(no_mangle)]
extern "system" fn KeQueryActiveProcessorCountEx(group: u16) -> u32 {
    count(group)
}

/// wdm/nf-wdm-kequerymaximumprocessorcountex: any IRQL; no processor is ever added.
#[unsafe(no_mangle)]
extern "system" fn KeQueryMaximumProcessorCountEx(group: u16) -> u32 {
    count(group)
}

/// wdm/nf-wdm-kequeryactiveprocessorcount: any IRQL; stores the affinity mask if asked.
#[unsafe(no_mangle)]
unsafe extern "system" fn KeQueryActiveProcessorCount(affinity: *mut usize) -> u32 {
    if !affinity.is_null() {
        // SAFETY: the caller gives a place for the mask.
        unsafe { affinity.write(affinity_mask()) };
    }
    count(0)
}

fn affinity_mask() -> usize {
    usize::MAX >> (usize::BITS as usize - irql::processor_count())
}

/// wdm/nf-wdm-kequeryactivegroupcount: any IRQL.
#[unsafe(no_mangle)]
extern "system" fn KeQueryActiveGroupCount() -> u16 {
    1
}

/// wdm/nf-wdm-kequerygroupaffinity: any IRQL; 0 for a group that does not exist.
#[unsafe(no_mangle)]
extern "system" fn KeQueryGroupAffinity(group: u16) -> usize {
    if group == 0 { affinity_mask() } else { 0 }
}

/// wdm/nf-wdm-kegetcurrentprocessornumberex: any IRQL; the system-wide index, stable at DISPATCH_LEVEL only.
#[unsafe(no_mangle)]
unsafe extern "system" fn KeGetCurrentProcessorNumberEx(number: *mut ProcessorNumber) -> u32 {
    let index = irql::current_processor();
    if !number.is_null() {
        // SAFETY: the caller gives a place for the number.
        unsafe { number.write(ProcessorNumber { group: 0, number: index as u8, reserved: 0 }) };
    }
    index as u32
}

/// wdm/nf-wdm-kegetprocessornumberfromindex: any IRQL; STATUS_INVALID_PARAMETER for an index that does not exist.
#[unsafe(no_mangle)]
unsafe extern "system" fn KeGetProcessorNumberFromIndex(index: u32, number: *mut ProcessorNumber) -> i32 {
    if index as usize >= irql::processor_count() {
        return status::INVALID_PARAMETER;
    }
    // SAFETY: the caller gives a place for the number.
    unsafe { number.write(ProcessorNumber { group: 0, number: index as u8, reserved: 0 }) };
    status::SUCCESS
}

/// `GROUP_AFFINITY` (ntdef.h).
#[repr(C)]
struct GroupAffinity {
    mask: usize,
    group: u16,
    reserved: [u16; 3],
}

/// wdm/nf-wdm-kesetsystemgroupaffinitythread: at most APC_LEVEL, as wdm.h has it, so that it counts at once; here one processor of group
/// 0. What is invalid changes nothing.
#[unsafe(no_mangle)]
unsafe extern "system" fn KeSetSystemGroupAffinityThread(affinity: *const GroupAffinity, before: *mut GroupAffinity) {
    irql::at_most(APC_LEVEL, "KeSetSystemGroupAffinityThread");
    // SAFETY: the caller gives an affinity.
    let affinity = unsafe { &*affinity };
    let valid = affinity.group == 0 && affinity.reserved == [0; 3] && affinity.mask & !affinity_mask() == 0;
    if !valid || affinity.mask.count_ones() != 1 || !before.is_null() {
        violation(
            "KeSetSystemGroupAffinityThread: not one processor that there is, or the affinity before is asked for",
        );
        return;
    }
    irql::stay_on_processor(affinity.mask.trailing_zeros() as usize);
}

/// wdm/nf-wdm-kegetprocessorindexfromnumber: any IRQL; INVALID_PROCESSOR_INDEX for a number that does not exist.
#[unsafe(no_mangle)]
unsafe extern "system" fn KeGetProcessorIndexFromNumber(number: *const ProcessorNumber) -> u32 {
    // SAFETY: the caller gives a number.
    let number = unsafe { &*number };
    if number.group == 0 && usize::from(number.number) < irql::processor_count() {
        number.number.into()
    } else {
        u32::MAX
    }
}
