//! A proof is lent, not copied.
use platform::Passive;

fn twice(passive: Passive<'_>) -> (Passive<'_>, Passive<'_>) {
    (passive, passive)
}

fn main() {}
