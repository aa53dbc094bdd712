//! The macros that declare layouts, numbers and prototypes. One declaration gives the Rust item, its compile-time check
//! and its entry in the lists of [`crate::index`], so the three cannot drift apart.

/// Declares `repr(C)` structures with their size and the offset of each field, checked at compile time.
///
/// All zero is a valid value of a `struct`, which gets [`crate::describe::ZeroInit`]. A `table` gets no `ZeroInit`: its
/// function pointers are never null. A `prefix` is the start of a longer structure, which code reads through a pointer
/// only; it gets `ZeroInit` too.
macro_rules! c_structs {
    ($list:ident: $($(#[$meta:meta])* $kind:ident $name:ident, size $size:literal {
        $($(#[$fmeta:meta])* $offset:literal $field:ident: $ty:ty,)*
    })*) => {
        $(c_struct! { $(#[$meta])* $kind $name, size $size { $($(#[$fmeta])* $offset $field: $ty,)* } })*
        pub(crate) const $list: &[crate::describe::Layout] = &[$(crate::describe::Layout {
            name: stringify!($name),
            size: size_of::<$name>(),
            kind: c_kind!($kind),
            fields: &[$(crate::describe::Field {
                name: stringify!($field),
                offset: core::mem::offset_of!($name, $field),
                size: size_of::<$ty>(),
                type_name: core::any::type_name::<$ty>,
            },)*],
        },)*];
    };
}

/// One structure of [`c_structs`].
macro_rules! c_struct {
    ($(#[$meta:meta])* $kind:ident $name:ident, size $size:literal {
        $($(#[$fmeta:meta])* $offset:literal $field:ident: $ty:ty,)*
    }) => {
        $(#[$meta])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug)]
        pub struct $name { $($(#[$fmeta])* pub $field: $ty,)* }
        const _: () = {
            assert!(size_of::<$name>() == $size);
            $(assert!(core::mem::offset_of!($name, $field) == $offset);)*
        };
        c_zero! { $kind $name { $($field: $ty,)* } }
    };
}

/// The all-zero value of a `struct` or `prefix`.
macro_rules! c_zero {
    (table $($rest:tt)*) => {};
    ($kind:ident $name:ident { $($field:ident: $ty:ty,)* }) => {
        impl crate::describe::ZeroInit for $name {
            const ZERO: Self = Self { $($field: <$ty as crate::describe::ZeroInit>::ZERO,)* };
        }
    };
}

/// Maps the keyword of a structure to [`crate::describe::Kind`].
macro_rules! c_kind {
    (struct) => {
        crate::describe::Kind::Struct
    };
    (table) => {
        crate::describe::Kind::Table
    };
    (prefix) => {
        crate::describe::Kind::Prefix
    };
}

/// Declares function types, with the documented names of the parameters.
macro_rules! c_fns {
    ($list:ident: $($(#[$meta:meta])* fn $name:ident($($param:ident: $ty:ty),* $(,)?) $(-> $ret:ty)?;)*) => {
        $($(#[$meta])* pub type $name = unsafe extern "system" fn($($param: $ty),*) $(-> $ret)?;)*
        pub(crate) const $list: &[crate::describe::Prototype] = &[$(crate::describe::Prototype {
            name: stringify!($name),
            type_name: core::any::type_name::<$name>,
            parameters: &[$(crate::describe::Parameter {
                name: stringify!($param),
                type_name: core::any::type_name::<$ty>,
            },)*],
            result: c_result!($($ret)?),
        },)*];
    };
}

/// The name of a function's result type.
macro_rules! c_result {
    () => {
        core::any::type_name::<()>
    };
    ($ret:ty) => {
        core::any::type_name::<$ret>
    };
}

/// Declares numbers of one integer type.
macro_rules! c_consts {
    ($list:ident: $ty:ident; $($(#[$meta:meta])* $name:ident = $value:expr;)*) => {
        $($(#[$meta])* pub const $name: $ty = $value;)*
        pub(crate) const $list: &[crate::describe::Number] =
            &[$(crate::describe::Number { name: stringify!($name), of: stringify!($ty), value: $name as u64 },)*];
    };
}

/// Declares a C enum as a transparent wrapper around its 32-bit integer, with its values as constants.
macro_rules! c_enum {
    ($list:ident: $(#[$meta:meta])* enum $name:ident($repr:ident) {
        $($(#[$vmeta:meta])* $value_name:ident = $value:literal,)*
    }) => {
        $(#[$meta])*
        #[repr(transparent)]
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub $repr);
        $($(#[$vmeta])* pub const $value_name: $name = $name($value);)*
        const _: () = assert!(size_of::<$name>() == 4);
        impl $name {
            /// The documented name of this value, if it has one.
            #[must_use]
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($value => Some(stringify!($value_name)),)*
                    _ => None,
                }
            }
        }
        impl core::fmt::Debug for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                match self.name() {
                    Some(name) => f.write_str(name),
                    None => write!(f, concat!(stringify!($name), "({:#x})"), self.0),
                }
            }
        }
        impl crate::describe::ZeroInit for $name {
            const ZERO: Self = Self(0);
        }
        pub(crate) const $list: &[crate::describe::Number] =
            &[$(crate::describe::Number { name: stringify!($value_name), of: stringify!($name), value: $value },)*];
    };
}
