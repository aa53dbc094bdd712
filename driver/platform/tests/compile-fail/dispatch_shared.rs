//! Another thread has its own IRQL, also for as long as it only looks.
fn on_another_thread<T: Send>(_: T) {}

fn main() {
    simkernel::at_dispatch(|dispatch| on_another_thread(dispatch));
}
