//! The control device.

use core::{
    ffi::c_void,
    sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering},
};

use ndk_abi::{describe::ZeroInit, ndis::*, status::NTSTATUS, wdm::UNICODE_STRING};

use crate::{
    checks, imports, memory, miniport, planted,
    protocol::{
        BLOCK, CLOSES, DEVICE, FIRST_PLANTED, KEEP, LEAK, LOCK, Memory, PEND, RELEASE, REMOVE, RUN, UNLOCK, WARN,
    },
    text::Text,
};

/// `IRP` (wdm.h), as far as it is used.
#[repr(C)]
struct Irp {
    head: [u8; 0x18],
    system_buffer: *mut u8,
    gap: [u8; 0x10],
    status: i32,
    information: usize,
    modes: [u8; 4],
    cancel: u8,
    cancel_irql: u8,
    gap2: [u8; 0x22],
    cancel_routine: AtomicUsize,
    rest: [u8; 0x48],
    location: *mut StackLocation,
}

const _: () = assert!(core::mem::offset_of!(Irp, system_buffer) == 0x18);
const _: () = assert!(core::mem::offset_of!(Irp, status) == 0x30);
const _: () = assert!(core::mem::offset_of!(Irp, cancel) == 0x44);
const _: () = assert!(core::mem::offset_of!(Irp, cancel_routine) == 0x68);
const _: () = assert!(core::mem::offset_of!(Irp, location) == 0xB8);

/// `IO_STACK_LOCATION` (wdm.h), for device control.
#[repr(C)]
struct StackLocation {
    major: u8,
    minor: u8,
    flags: u8,
    control: u8,
    gap: u32,
    output_length: u32,
    gap2: u32,
    input_length: u32,
    gap3: u32,
    code: u32,
}

const _: () = assert!(core::mem::offset_of!(StackLocation, output_length) == 0x08);
const _: () = assert!(core::mem::offset_of!(StackLocation, input_length) == 0x10);
const _: () = assert!(core::mem::offset_of!(StackLocation, code) == 0x18);

static HANDLE: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
static CLEANUPS: AtomicU32 = AtomicU32::new(0);
static CLOSED: AtomicU32 = AtomicU32::new(0);
static PENDED: AtomicU32 = AtomicU32::new(0);
static KEPT: AtomicPtr<Irp> = AtomicPtr::new(core::ptr::null_mut());

/// Of `DEVICE_OBJECT` (wdm.h).
const CHARACTERISTICS: usize = 0x34;
const FILE_DEVICE_SECURE_OPEN: u32 = 0x100;

const SUCCESS: i32 = 0;
const PENDING: i32 = 0x103;
const CANCELLED: i32 = 0xC000_0120_u32.cast_signed();
const BUFFER_OVERFLOW: i32 = 0x8000_0005_u32.cast_signed();
const INVALID_DEVICE_REQUEST: i32 = 0xC000_0010_u32.cast_signed();
const BUFFER_TOO_SMALL: i32 = 0xC000_0023_u32.cast_signed();

/// A counted string of ASCII characters.
pub(crate) fn unicode(text: &str, buffer: &mut [u16; 64]) -> UNICODE_STRING {
    let mut length = 0;
    for (place, character) in buffer.iter_mut().zip(text.encode_utf16()) {
        *place = character;
        length += 2;
    }
    UNICODE_STRING { Length: length, MaximumLength: length, Buffer: buffer.as_mut_ptr() }
}

/// Joins a prefix and the device's name.
fn name(prefix: &str, buffer: &mut [u16; 64]) -> UNICODE_STRING {
    let mut both = [0_u8; 64];
    let mut length = 0;
    for (place, byte) in both.iter_mut().zip(prefix.bytes().chain(DEVICE.bytes())) {
        *place = byte;
        length += 1;
    }
    unicode(core::str::from_utf8(both.get(..length).unwrap_or_default()).unwrap_or_default(), buffer)
}

/// Registers the device.
///
/// # Safety
/// Called in MiniportInitializeEx.
pub(crate) unsafe fn create() -> i32 {
    let (mut device_buffer, mut link_buffer, mut sddl_buffer) = ([0; 64], [0; 64], [0; 64]);
    let mut device_name = name("\\Device\\", &mut device_buffer);
    let mut link = name("\\DosDevices\\", &mut link_buffer);
    let sddl = unicode("D:P(A;;GA;;;SY)(A;;GA;;;BA)", &mut sddl_buffer);
    let mut functions: [Option<DRIVER_DISPATCH>; 28] = [None; 28];
    for (index, function) in functions.iter_mut().enumerate() {
        *function = match index {
            0x00 => Some(create_file),
            0x02 => Some(close),
            0x0E => Some(device_control),
            0x12 => Some(cleanup),
            _ => None,
        };
    }
    let attributes = NDIS_DEVICE_OBJECT_ATTRIBUTES {
        Header: NDIS_OBJECT_HEADER::new(
            NDIS_OBJECT_TYPE_DEVICE_OBJECT_ATTRIBUTES,
            NDIS_DEVICE_OBJECT_ATTRIBUTES_REVISION_1,
            NDIS_SIZEOF_DEVICE_OBJECT_ATTRIBUTES_REVISION_1,
        ),
        DeviceName: &mut device_name,
        SymbolicName: &mut link,
        MajorFunctions: functions.as_mut_ptr(),
        DefaultSDDLString: &sddl,
        ..NDIS_DEVICE_OBJECT_ATTRIBUTES::ZERO
    };
    let mut device = core::ptr::null_mut::<c_void>();
    // SAFETY: as documented.
    let status =
        unsafe { imports::NdisRegisterDeviceEx(miniport::driver_handle(), &attributes, &mut device, HANDLE.as_ptr()) };
    if status == SUCCESS {
        // SAFETY: the device just made, and the place of `Characteristics` in it (wdm.h).
        unsafe { *device.byte_add(CHARACTERISTICS).cast::<u32>() |= FILE_DEVICE_SECURE_OPEN };
    }
    status
}

/// Deregisters it.
///
/// # Safety
/// Called once, in MiniportHaltEx.
pub(crate) unsafe fn delete() {
    // SAFETY: registered in MiniportInitializeEx.
    unsafe { imports::NdisDeregisterDeviceEx(HANDLE.load(Ordering::Relaxed)) };
}

unsafe fn complete(irp: *mut Irp, status: i32, information: usize) -> NTSTATUS {
    // SAFETY: the caller owns the IRP and gives it up.
    unsafe {
        (*irp).status = status;
        (*irp).information = information;
        imports::IofCompleteRequest(irp.cast(), 0);
    }
    NTSTATUS(status)
}

unsafe extern "system" fn create_file(_device: *mut c_void, irp: *mut c_void) -> NTSTATUS {
    // SAFETY: the I/O manager's IRP.
    unsafe { complete(irp.cast(), SUCCESS, 0) }
}

unsafe extern "system" fn cleanup(_device: *mut c_void, irp: *mut c_void) -> NTSTATUS {
    CLEANUPS.fetch_add(1, Ordering::Relaxed);
    for slot in 0..memory::SLOTS {
        memory::unlock(slot);
    }
    // SAFETY: the I/O manager's IRP.
    unsafe { complete(irp.cast(), SUCCESS, 0) }
}

unsafe extern "system" fn close(_device: *mut c_void, irp: *mut c_void) -> NTSTATUS {
    CLOSED.fetch_add(1, Ordering::Relaxed);
    // SAFETY: the I/O manager's IRP.
    unsafe { complete(irp.cast(), SUCCESS, 0) }
}

unsafe extern "system" fn cancelled(_device: *mut c_void, irp: *mut Irp) {
    // SAFETY: the IRP is this routine's; the cancel lock is held on entry.
    unsafe {
        imports::IoReleaseCancelSpinLock((*irp).cancel_irql);
        PENDED.fetch_sub(1, Ordering::Relaxed);
        complete(irp, CANCELLED, 0);
    }
}

/// Pends an IRP until it is cancelled (kernel/cancel-routines): the routine first, then a look at the flag.
unsafe fn pend(irp: *mut Irp) -> NTSTATUS {
    // SAFETY: the caller owns the IRP; after the exchange it belongs to whoever takes the routine back.
    unsafe {
        (*(*irp).location).control |= 1;
        PENDED.fetch_add(1, Ordering::Relaxed);
        (*irp).cancel_routine.store(cancelled as *const () as usize, Ordering::SeqCst);
        if (&raw const (*irp).cancel).read_volatile() != 0 && (*irp).cancel_routine.swap(0, Ordering::SeqCst) != 0 {
            PENDED.fetch_sub(1, Ordering::Relaxed);
            complete(irp, CANCELLED, 0);
        }
    }
    NTSTATUS(PENDING)
}

/// Pends an IRP that nobody can cancel.
unsafe fn keep(irp: *mut Irp) -> NTSTATUS {
    // SAFETY: the caller owns the IRP, until it is in its place.
    unsafe { (*(*irp).location).control |= 1 };
    PENDED.fetch_add(1, Ordering::Relaxed);
    KEPT.store(irp, Ordering::Release);
    NTSTATUS(PENDING)
}

/// Completes it.
fn release() {
    let irp = KEPT.swap(core::ptr::null_mut(), Ordering::Acquire);
    if !irp.is_null() {
        PENDED.fetch_sub(1, Ordering::Relaxed);
        // SAFETY: an IRP of `keep`, whose place it has left.
        unsafe { complete(irp, SUCCESS, 0) };
    }
}

unsafe extern "system" fn device_control(_device: *mut c_void, irp: *mut c_void) -> NTSTATUS {
    let irp = irp.cast::<Irp>();
    // SAFETY: the I/O manager's IRP, of method BUFFERED: input and output share the system buffer.
    unsafe {
        let location = &*(*irp).location;
        let (code, input, output) = (location.code, location.input_length as usize, location.output_length as usize);
        if code == PEND {
            return pend(irp);
        }
        if code == KEEP {
            return keep(irp);
        }
        let needed = if code == LOCK { size_of::<Memory>() } else { 4 };
        if input < needed && ![CLOSES, RELEASE, WARN].contains(&code) {
            return complete(irp, BUFFER_TOO_SMALL, 0);
        }
        let buffer = (*irp).system_buffer;
        let number = if input >= 4 { buffer.cast::<u32>().read_unaligned() } else { 0 };
        match code {
            RUN => {
                let bytes = core::slice::from_raw_parts_mut(buffer, output);
                let mut text = Text::new(bytes);
                match number {
                    LEAK => planted::leak(),
                    REMOVE => planted::remove(),
                    FIRST_PLANTED.. => planted::commit(number - FIRST_PLANTED, &mut text),
                    _ => checks::run(number, &mut text),
                }
                let length = text.length;
                complete(irp, SUCCESS, length)
            }
            LOCK => match memory::lock(buffer.cast::<Memory>().read_unaligned()) {
                Ok(found) if output >= 8 => {
                    buffer.cast::<u64>().write_unaligned(found);
                    complete(irp, SUCCESS, 8)
                }
                Ok(_) => complete(irp, SUCCESS, 0),
                Err(status) => complete(irp, status, 0),
            },
            UNLOCK => {
                memory::unlock(number as usize);
                complete(irp, SUCCESS, 0)
            }
            CLOSES if output >= 12 => {
                let counts = [&CLEANUPS, &CLOSED, &PENDED].map(|count| count.load(Ordering::Relaxed));
                buffer.cast::<[u32; 3]>().write_unaligned(counts);
                complete(irp, SUCCESS, 12)
            }
            BLOCK => {
                PENDED.fetch_add(1, Ordering::Relaxed);
                checks::sleep(number.into());
                PENDED.fetch_sub(1, Ordering::Relaxed);
                complete(irp, SUCCESS, 0)
            }
            RELEASE => {
                release();
                complete(irp, SUCCESS, 0)
            }
            WARN => complete(irp, BUFFER_OVERFLOW, 0),
            _ => complete(irp, INVALID_DEVICE_REQUEST, 0),
        }
    }
}
