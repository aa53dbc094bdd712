//! The types that describe a structure, a number and a prototype as data (`macros.rs` fills them in), and [`ZeroInit`],
//! the all-zero value of a structure.

/// A structure.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// C name.
    pub name: &'static str,
    /// Bytes.
    pub size: usize,
    /// A whole structure, a dispatch table or a prefix.
    pub kind: Kind,
    /// The fields in declaration order. Fields called `Padding…` are explicit alignment gaps.
    pub fields: &'static [Field],
}

/// The keyword that declared a structure, see `c_structs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A whole structure; all zero is a valid value.
    Struct,
    /// A dispatch table; its function pointers are never null.
    Table,
    /// The first fields of a structure whose size depends on the version of Windows. Code reads the structure through a
    /// pointer only.
    Prefix,
}

/// A field of a structure.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// C name.
    pub name: &'static str,
    /// Bytes from the start of the structure.
    pub offset: usize,
    /// Bytes.
    pub size: usize,
    /// Gives the Rust type with its path.
    pub type_name: fn() -> &'static str,
}

/// A function type.
#[derive(Clone, Copy, Debug)]
pub struct Prototype {
    /// C name.
    pub name: &'static str,
    /// Gives the Rust type of the function pointer.
    pub type_name: fn() -> &'static str,
    /// The parameters, in order.
    pub parameters: &'static [Parameter],
    /// Gives the Rust type of the result.
    pub result: fn() -> &'static str,
}

/// A parameter of a function type.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// C name.
    pub name: &'static str,
    /// Gives the Rust type with its path.
    pub type_name: fn() -> &'static str,
}

/// A number.
#[derive(Clone, Copy, Debug)]
pub struct Number {
    /// C name.
    pub name: &'static str,
    /// The enumeration, or the integer type of a constant.
    pub of: &'static str,
    /// The value, zero-extended to 64 bits.
    pub value: u64,
}

/// A type whose all-zero bit pattern is a value, as C's `= {0}` gives it.
pub trait ZeroInit: Sized {
    /// All zero: numbers 0, pointers null, callbacks absent.
    const ZERO: Self;
}

macro_rules! zero_numbers {
    ($($ty:ty),*) => { $(impl ZeroInit for $ty { const ZERO: Self = 0; })* };
}
zero_numbers!(u8, u16, u32, u64, usize, i8, i16, i32, i64, isize);

impl<T> ZeroInit for *const T {
    const ZERO: Self = core::ptr::null();
}

impl<T> ZeroInit for *mut T {
    const ZERO: Self = core::ptr::null_mut();
}

impl<T> ZeroInit for Option<T> {
    const ZERO: Self = None;
}

impl<T: ZeroInit, const N: usize> ZeroInit for [T; N] {
    const ZERO: Self = [T::ZERO; N];
}
