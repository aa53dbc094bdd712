//! What the context tokens rule out does not compile. That it is this that does not compile, and nothing else about these
//! programs, their messages say; right use of the same parts is in `context.rs`.

/// Each file of `compile-fail`, with the compiler's message beside it: `TRYBUILD=overwrite` writes the messages anew.
// Shows S1206.
#[test]
fn misuse_of_context_tokens_does_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/compile-fail/*.rs");
}
