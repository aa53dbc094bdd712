//! Checks of the adapter on demand, for the driver that breaks their rules on purpose.

use std::sync::Arc;

use crate::{adapter::Adapter, driver, limits, oid_checks, packets};

/// Added to a number: with shorter limits.
const IN_A_HURRY: u32 = 0x100;

fn adapter() -> Option<Arc<Adapter>> {
    driver::registered().and_then(|driver| driver.first_adapter())
}

/// Makes one check of the running adapter: `what` is its number in tests/kernels/wine/selftest/driver/src/imports.rs. PASSIVE_LEVEL.
#[unsafe(no_mangle)]
extern "system" fn SoftNdkStandInExercise(what: u32) {
    if what & IN_A_HURRY != 0 {
        return limits::in_a_hurry(|| SoftNdkStandInExercise(what & !IN_A_HURRY));
    }
    let Some(adapter) = adapter() else { return };
    match what {
        0 => packets::check(&adapter),
        1 => packets::check_pauses(&adapter),
        2 => packets::pause_with_send(&adapter),
        3 => oid_checks::run(&adapter),
        4 => oid_checks::cycle_ndk(&adapter),
        5 => {
            if !adapter.sleep().is_success() {
                Adapter::start(&adapter.driver, adapter.devices, adapter.number);
            }
        }
        6 => adapter.remove_surprisingly(),
        7 => packets::hold_receives(&adapter),
        _ => packets::pause_with_receives(&adapter),
    }
}
