//! What blocks asks for the proof that it may.
use platform::Event;
use simkernel::SimKernel;

fn main() {
    let Ok(event) = Event::<SimKernel>::new() else { return };
    event.wait();
}
