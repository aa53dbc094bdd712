//! The end.

use crate::report;

/// wdm/nf-wdm-kebugcheckex: any IRQL; does not return. Reports the code and ends the process that stands for the kernel.
#[unsafe(no_mangle)]
extern "system" fn KeBugCheckEx(code: u32, p1: usize, p2: usize, p3: usize, p4: usize) -> ! {
    report::violation(&format!("bug check {code:#010x} ({p1:#x}, {p2:#x}, {p3:#x}, {p4:#x})"));
    report::SoftNdkStandInReport();
    std::process::exit(code.cast_signed());
}

/// ntddk/nf-ntddk-kebugcheck: as `KeBugCheckEx` without parameters.
#[unsafe(no_mangle)]
extern "system" fn KeBugCheck(code: u32) -> ! {
    KeBugCheckEx(code, 0, 0, 0, 0)
}
