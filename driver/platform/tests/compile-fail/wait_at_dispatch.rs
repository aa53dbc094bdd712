//! The proof of DISPATCH_LEVEL is none of PASSIVE_LEVEL.
use platform::Event;
use simkernel::SimKernel;

fn main() {
    let Ok(event) = Event::<SimKernel>::new() else { return };
    simkernel::at_dispatch(|dispatch| event.wait(dispatch));
}
