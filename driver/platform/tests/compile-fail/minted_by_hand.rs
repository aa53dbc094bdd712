//! Tokens have no public parts.
use core::marker::PhantomData;
use platform::Passive;

fn main() {
    let _passive = Passive(PhantomData);
}
