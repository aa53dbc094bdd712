//! What a callback of `at_dispatch` is lent cannot be put away.
use platform::Dispatch;

fn store(slot: &mut Option<&'static Dispatch<'static>>) {
    simkernel::at_dispatch(|dispatch| *slot = Some(dispatch));
}

fn main() {}
