//! Calls through dispatch tables.

/// Calls an entry of an object's dispatch table with the object as its first argument.
macro_rules! call {
    ($object:expr, $entry:ident($($argument:expr),* $(,)?)) => {{
        let object = $object.as_ptr();
        // SAFETY: the consumer's open object.
        let dispatch = unsafe { (*object).Dispatch };
        // SAFETY: the provider's table, which is static.
        let entry = unsafe { (*dispatch).$entry };
        // SAFETY: the documented contract of the entry, which the kit's methods keep.
        let answer = unsafe { entry(object.cast(), $($argument),*) };
        $crate::kit::record::note(dispatch, stringify!($entry), &answer);
        answer
    }};
}
pub(super) use call;

/// Declares a handle: the pointer to an object, which may be used on any thread, and what all objects have.
macro_rules! handle {
    ($(#[$meta:meta])* $name:ident($raw:ty, $object_type:ident) { $($field:ident: $type:ty),* $(,)? }, $close:ident) => {
        $(#[$meta])*
        #[derive(Clone, Copy)]
        pub(crate) struct $name {
            raw: NonNull<$raw>,
            $(pub(crate) $field: $type,)*
        }

        // SAFETY: NDK objects may be used on any thread.
        unsafe impl Send for $name {}
        // SAFETY: as above.
        unsafe impl Sync for $name {}

        #[allow(dead_code, reason = "not every object is asked for everything")]
        impl $name {
            pub(crate) fn header(&self) -> NDK_OBJECT_HEADER {
                // SAFETY: the consumer's open object.
                unsafe { (*self.raw.as_ptr()).Header }
            }

            /// Asks for an extension that no provider has.
            pub(crate) fn query_extension(&self) -> NTSTATUS {
                let mut guid = GUID::from_u128(1);
                let mut interface = NDK_EXTENSION_INTERFACE { Dispatch: null() };
                let version = NDK_VERSION { Major: 1, Minor: 0 };
                let status = call!(self.raw, NdkQueryExtension(&raw mut guid, version, &raw mut interface));
                assert!(interface.Dispatch.is_null());
                status
            }

            /// Does with the head what consumers may: interposes a dispatch table, here a copy, and uses the reserved words.
            pub(crate) fn take_head(&self) -> Head {
                let object = self.raw.as_ptr();
                // SAFETY: the consumer's open object.
                let dispatch = unsafe { &raw mut (*object).Dispatch };
                // SAFETY: the consumer's to read.
                let original = unsafe { dispatch.read() };
                // SAFETY: a table.
                let table = Box::leak(Box::new(unsafe { *original }));
                // SAFETY: the consumer's to write.
                unsafe { dispatch.write(table) };
                // SAFETY: the consumer's open object.
                let reserved = unsafe { &raw mut (*object).Header.NdkReserved.rf };
                let head = Head::new(dispatch.cast(), reserved);
                head.mark();
                head
            }

            /// Closes the object.
            pub(crate) fn close(self) -> Request {
                let completion = Waiter::new(concat!("close completion of ", stringify!($name)));
                let returned = call!(self.raw, $close(waiter::closed, completion.context()));
                Request { returned, completion }
            }

            /// Closes the object and waits.
            #[track_caller]
            pub(crate) fn close_now(self) {
                self.close().succeed();
            }

            #[track_caller]
            fn check_header(&self) {
                let header = self.header();
                assert_eq!(header.ObjectType, $object_type);
                assert!(header.NdkReserved.rf.iter().all(|word| word.is_null()), "reserved words are zero");
            }
        }
    };
}
pub(super) use handle;
