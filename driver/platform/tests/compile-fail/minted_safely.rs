//! Outside of the boundary nobody mints a token: it takes `unsafe`, which other modules deny.
use platform::{Dispatch, Passive};
use simkernel::SimKernel;

fn main() {
    let _passive = Passive::assume::<SimKernel>();
    let _dispatch = Dispatch::assume::<SimKernel>();
}
