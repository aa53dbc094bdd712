//! Another thread has its own IRQL.
fn on_another_thread<T: Send>(_: T) {}

fn main() {
    on_another_thread(simkernel::passive());
}
