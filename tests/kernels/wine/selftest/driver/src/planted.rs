//! What a driver must not do: committed on purpose, in the order of `protocol::PLANTED`, to see it caught.

use core::ffi::c_void;

use crate::{
    attributes::{FRAME, HEADER, MTU},
    checks::{NON_PAGED, PAGED, Storage, TAG, irql, sleep},
    fault::Fault,
    imports::*,
    kmdf, miniport, receive,
    text::Text,
    tracing, wrong, wsk,
};

/// Commits one violation. Says so if it was not counted.
pub(crate) fn commit(number: u32, text: &mut Text<'_>) {
    // SAFETY: no preconditions.
    let before = unsafe { SoftNdkStandInViolationCount() };
    // SAFETY: wrong on purpose; the stand-ins survive each of these.
    unsafe {
        match number {
            0 => wait_at_dispatch(),
            1 => release_free_lock(),
            2 => take_lock_twice(),
            3 => lower_with_lock(),
            4 => paged_at_dispatch(),
            5 => free_twice(),
            6 => free_with_wrong_tag(),
            7 => write_beyond(),
            8 => raise_to_lower(),
            9 => unbalanced_dpc(),
            10 => free_locked_mdl(),
            11 => miniport::set_attributes_late(),
            12 => kmdf::call_missing(),
            13 => free_with_timer(),
            14 => wsk::planted::register_at_dispatch(),
            15 => wsk::planted::without_routine(),
            16 => wsk::planted::not_kept(),
            17 => wsk::planted::call_in_routine(),
            18 => wsk::planted::connect_unbound(),
            19 => wsk::planted::use_closed(),
            20 => wsk::planted::send_more_than_described(),
            21 => wsk::planted::send_one_at_a_time(),
            22 => tracing::register_twice(),
            23 => tracing::write_cut_off(),
            24 => tracing::write_late(),
            25 => hold_send(),
            26 => Fault::CompletesTwice.during(CHECK_SENDS),
            27 => Fault::SetsNoStatus.during(CHECK_SENDS),
            28 => Fault::ChangesFrames.during(CHECK_SENDS),
            29 => Fault::SaysDispatchLevel.during(CHECK_SENDS),
            30 => Fault::SendsWhilePaused.during(CHECK_PAUSES),
            31 => Fault::HoldsSends.during(CHECK_PAUSE_WITH_SEND),
            32 => NdisMPauseComplete(miniport::adapter_handle()),
            33 => NdisMRestartComplete(miniport::adapter_handle(), 0),
            34 => Fault::ReceivesWhilePaused.during(CHECK_PAUSE_WITH_SEND),
            35 => receive::indicate(miniport::adapter_handle(), 2, FRAME),
            36 => receive::indicate(core::ptr::null_mut(), 1, FRAME),
            37 => Fault::CountsNothing.during(CHECK_SENDS),
            38 => Fault::TakesLock.during(CHECK_OIDS),
            39 => Fault::CompletesWhatDidNotPend.during(CHECK_OIDS),
            40 => Fault::PendsSetState.during(CHECK_NDK),
            41 => Fault::RaisesEventInHandler.during(CHECK_NDK),
            42 => Fault::ListsNoPairs.during(CHECK_OIDS),
            43 => Fault::AnswersWithType.during(CHECK_OIDS),
            44 => Fault::AnswersWithRevision.during(CHECK_OIDS),
            45 => Fault::AnswersWithSize.during(CHECK_OIDS),
            46 => Fault::AnswersNothing.during(CHECK_OIDS),
            47 => Fault::TakesAnyLength.during(CHECK_SENDS),
            48 => Fault::CountsNoErrors.during(CHECK_SENDS),
            49 => receive::indicate(miniport::adapter_handle(), 1, HEADER - 1),
            50 => receive::indicate(miniport::adapter_handle(), 1, HEADER + MTU + 1),
            51 => Fault::RefusesPower.during(CHECK_OIDS),
            52 => Fault::DoesNotWake.during(CHECK_SLEEP),
            53 => indicate_after_sleep(),
            54 => wsk::planted::own_by_nobody(),
            55 => refer_by_wrong_type(),
            56 => free_rundown_at_dispatch(),
            57 => wait_for_rundown_at_dispatch(),
            58 => tracing::register_at_apc_level(),
            59 => kmdf::bind_to_no_release(),
            60 => Fault::KeepsRequest.during(CHECK_OIDS | IN_A_HURRY),
            61 => wsk::planted::close_twice(),
            62 => wsk::planted::use_closing(),
            63 => wsk::planted::on_success_only(),
            64 => wsk::planted::send_after_disconnect(),
            65 => wsk::planted::disconnect_twice(),
            66 => wsk::datagrams::planted::connect(),
            67 => wsk::datagrams::planted::send_unbound(),
            68 => wsk::datagrams::planted::enable_by_irp(),
            69 => wsk::datagrams::planted::enable_other_npi(),
            70 => wsk::datagrams::planted::enable_short(),
            71 => wsk::datagrams::planted::enable_unbound(),
            72 => wsk::datagrams::planted::enable_without_function(),
            73 => wsk::datagrams::planted::enable_other_event(),
            74 => wsk::datagrams::planted::enable_at_high_level(),
            75 => wsk::datagrams::planted::send_more_than_described(),
            76 => wsk::datagrams::planted::send_to_other_family(),
            77 => wsk::datagrams::planted::fail(),
            78 => wsk::datagrams::planted::return_at_other_level(),
            79 => wsk::datagrams::planted::release_unkept(),
            80 => wsk::datagrams::planted::close_before_release(),
            81 => wsk::datagrams::planted::release_twice(),
            82 => wsk::datagrams::planted::release_other(),
            83 => wsk::datagrams::planted::release_after_close(),
            84 => wsk::datagrams::planted::write_late(),
            85 => receive::planted::pool_above_dispatch(),
            86 => receive::planted::pool_of_wrong_handle(),
            87 => receive::planted::pool_with_wrong_parameters(),
            88 => receive::planted::pool_with_list(),
            89 => receive::planted::pool_twice(),
            90 => receive::planted::pool_without_buffers(),
            91 => receive::planted::list_beyond_memory(),
            92 => receive::planted::list_twice(),
            93 => receive::planted::free_lent(),
            94 => receive::planted::free_without_buffer(),
            95 => receive::planted::indicate_freed(),
            96 => receive::planted::indicate_lent(),
            97 => receive::planted::indicate_of_no_pool(),
            98 => receive::planted::indicate_with(receive::RESOURCES | receive::AT_DISPATCH, 0),
            99 => receive::planted::indicate_with(receive::RESOURCES | 0x1_0000, 0),
            100 => receive::planted::indicate_with(receive::RESOURCES, 1),
            101 => receive::planted::indicate_without_status(),
            102 => receive::planted::indicate_two_buffers(),
            103 => receive::planted::indicate_beyond_memory(),
            104 => receive::planted::change_frame(),
            105 => receive::planted::change_list(),
            106 => receive::planted::forget_lists(),
            107 => Fault::PausesInIndication.during(CHECK_PAUSE_WITH_SEND),
            108 => Fault::ReceivesInHalt.during(CHECK_SLEEP),
            109 => Fault::ReceivesLateAgain.during(CHECK_PAUSE_WITH_SEND),
            110 => wsk::datagrams::planted::send_nothing(),
            111 => Fault::LeavesLargeSends.during(CHECK_SENDS),
            112 => Fault::SegmentsWhileOff.during(CHECK_SENDS),
            113 => Fault::SegmentsAnything.during(CHECK_SENDS),
            114 => Fault::TakesAnySetting.during(CHECK_OIDS),
            115 => Fault::TellsNoOffloads.during(CHECK_OIDS),
            116 => wsk::datagrams::planted::send_size_unasked(),
            117 => wsk::datagrams::planted::send_other_control(),
            118 => wsk::datagrams::planted::send_short_control(),
            119 => wsk::datagrams::planted::send_no_bytes(),
            120 => wsk::datagrams::planted::ask_short(),
            121 => receive::planted::indicate_unit(receive::planted::FRAME_OF_NOTHING, 2),
            122 => receive::planted::indicate_unit(receive::planted::SEGMENT_WITH_FIN, 2 | 1 << 16),
            123 => receive::planted::indicate_unit(receive::planted::SEGMENT_WITHOUT_DATA, 2),
            125 => receive::planted::indicate_unit(receive::planted::SEGMENT_OF_ANOTHER_LENGTH, 2),
            126 => receive::planted::indicate_unit(receive::planted::SEGMENT_WITH_FIN, 1),
            124 => receive::planted::indicate_unit(receive::planted::FRAME_OF_NOTHING, 1 << 16),
            _ => text.check(false, "no such violation"),
        }
    }
    // SAFETY: no preconditions.
    let after = unsafe { SoftNdkStandInViolationCount() };
    text.check(after > before, "was not caught");
    text.check(irql() == 0, "IRQL is not PASSIVE_LEVEL afterwards");
}

/// 100 bytes of pool, an MDL, a list with its pool, and a registration that nothing frees.
pub(crate) fn leak() {
    // SAFETY: allocations without preconditions.
    unsafe {
        let block = ExAllocatePool2(NON_PAGED, 100, TAG);
        IoAllocateMdl(block.cast(), 100, 0, 0, core::ptr::null_mut());
        receive::planted::leak();
        wsk::planted::leak();
    }
}

/// The lists go back when they have been missed.
fn hold_send() {
    Fault::HoldsSends.during(CHECK_SENDS | IN_A_HURRY);
    miniport::complete_held();
}

/// The adapter that was halted when the computer went to sleep has gone: another one has woken up.
fn indicate_after_sleep() {
    let halted = miniport::adapter_handle();
    Fault::None.during(CHECK_SLEEP);
    wrong::indicate_link(halted);
}

/// The adapter goes by surprise, and this driver goes on to open NDK adapters until it is halted.
pub(crate) fn remove() {
    // SAFETY: PASSIVE_LEVEL, with the adapter running.
    unsafe { SoftNdkStandInExercise(CHECK_REMOVAL) };
}

/// What lies behind the kernel's variable, instead of its value.
unsafe fn refer_by_wrong_type() {
    let mut object = core::ptr::null_mut();
    // SAFETY: see `commit`; the variable's value points to an object of the kernel.
    unsafe {
        let behind = IoFileObjectType.cast::<*mut c_void>().read();
        ObReferenceObjectByHandle(core::ptr::null_mut(), 0, behind, 0, &raw mut object, core::ptr::null_mut());
    }
}

static EVENT: Storage<Kevent> = Storage::new();
static DPC: Storage<Kdpc> = Storage::new();

unsafe fn wait_at_dispatch() {
    let timeout = -10_000;
    // SAFETY: see `commit`.
    unsafe {
        KeInitializeEvent(EVENT.get(), 0, 0);
        KfRaiseIrql(2);
        KeWaitForSingleObject(EVENT.get().cast(), 0, 0, 0, &timeout);
        KeLowerIrql(0);
    }
}

unsafe fn free_rundown_at_dispatch() {
    // SAFETY: see `commit`.
    unsafe {
        let reference = ExAllocateCacheAwareRundownProtection(512, TAG);
        KfRaiseIrql(2);
        ExFreeCacheAwareRundownProtection(reference);
        KeLowerIrql(0);
    }
}

unsafe fn wait_for_rundown_at_dispatch() {
    let mut reference = 0;
    // SAFETY: see `commit`.
    unsafe {
        ExInitializeRundownProtection(&mut reference);
        KfRaiseIrql(2);
        ExWaitForRundownProtectionRelease(&mut reference);
        KeLowerIrql(0);
    }
}

unsafe fn release_free_lock() {
    let mut lock = 0;
    // SAFETY: see `commit`.
    unsafe {
        let old = KfRaiseIrql(2);
        KeReleaseSpinLock(&mut lock, old);
    }
}

unsafe fn take_lock_twice() {
    let mut lock = 0;
    // SAFETY: see `commit`.
    unsafe {
        let old = KeAcquireSpinLockRaiseToDpc(&mut lock);
        KeAcquireSpinLockAtDpcLevel(&mut lock);
        KeReleaseSpinLockFromDpcLevel(&mut lock);
        KeReleaseSpinLock(&mut lock, old);
    }
}

unsafe fn lower_with_lock() {
    let mut lock = 0;
    // SAFETY: see `commit`.
    unsafe {
        KeAcquireSpinLockRaiseToDpc(&mut lock);
        KeLowerIrql(0);
        KfRaiseIrql(2);
        KeReleaseSpinLock(&mut lock, 0);
    }
}

unsafe fn paged_at_dispatch() {
    // SAFETY: see `commit`.
    unsafe {
        KfRaiseIrql(2);
        let block = ExAllocatePool2(PAGED, 16, TAG);
        KeLowerIrql(0);
        ExFreePoolWithTag(block, TAG);
    }
}

unsafe fn free_twice() {
    // SAFETY: see `commit`.
    unsafe {
        let block = ExAllocatePool2(NON_PAGED, 16, TAG);
        ExFreePoolWithTag(block, TAG);
        ExFreePoolWithTag(block, TAG);
    }
}

unsafe fn free_with_wrong_tag() {
    // SAFETY: see `commit`.
    unsafe { ExFreePoolWithTag(ExAllocatePool2(NON_PAGED, 16, TAG), TAG + 1) };
}

unsafe fn write_beyond() {
    // SAFETY: see `commit`.
    unsafe {
        let block = ExAllocatePool2(NON_PAGED, 20, TAG);
        block.add(20).write(0);
        ExFreePoolWithTag(block, TAG);
    }
}

unsafe fn raise_to_lower() {
    // SAFETY: see `commit`.
    unsafe {
        KfRaiseIrql(2);
        KfRaiseIrql(1);
        KeLowerIrql(0);
    }
}

unsafe extern "system" fn lowering_dpc(_: *mut Kdpc, _: *mut c_void, _: *mut c_void, _: *mut c_void) {
    // SAFETY: see `commit`.
    unsafe { KeLowerIrql(0) };
}

unsafe fn unbalanced_dpc() {
    // SAFETY: see `commit`.
    unsafe {
        KeInitializeDpc(DPC.get(), lowering_dpc, core::ptr::null_mut());
        KeInsertQueueDpc(DPC.get(), core::ptr::null_mut(), core::ptr::null_mut());
        KeFlushQueuedDpcs();
    }
    sleep(1);
}

unsafe fn free_locked_mdl() {
    // SAFETY: see `commit`.
    unsafe {
        let block = ExAllocatePool2(NON_PAGED, 64, TAG);
        let mdl = IoAllocateMdl(block.cast(), 64, 0, 0, core::ptr::null_mut());
        MmProbeAndLockPages(mdl, 0, 1);
        IoFreeMdl(mdl);
        ExFreePoolWithTag(block, TAG);
    }
}

unsafe fn free_with_timer() {
    // SAFETY: see `commit`. The timer is cancelled in memory that is still mapped, although it has been given back.
    unsafe {
        let block = ExAllocatePool2(NON_PAGED, 4096, TAG).cast::<Ktimer>();
        KeInitializeTimerEx(block, 0);
        KeSetTimerEx(block, -600_000_000, 0, core::ptr::null_mut());
        ExFreePoolWithTag(block.cast(), TAG);
    }
}
