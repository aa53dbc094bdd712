//! Code that breaks a rule of the context tokens does not compile. The compiler's messages show that the rule is the reason; `context.rs`
//! has the right use.

/// Each file of `compile-fail`, with the compiler's message beside it: `TRYBUILD=overwrite` writes the messages anew.
// Shows S1206.
#[test]
fn misuse_of_context_tokens_does_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/compile-fail/*.rs");
}
