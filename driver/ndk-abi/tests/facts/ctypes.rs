//! C types, as the tables write them, to the Rust types the crate must use for them.

use std::collections::BTreeMap;

use ndk_abi::index;

/// C types whose Rust counterpart is known without looking at the crate.
const KNOWN: &[(&str, &str)] = &[
    ("VOID", "()"),
    ("UCHAR", "u8"),
    ("BOOLEAN", "u8"),
    ("USHORT", "u16"),
    ("UINT16", "u16"),
    ("NET_IFTYPE", "u16"),
    ("ULONG", "u32"),
    ("UINT", "u32"),
    ("UINT32", "u32"),
    ("NET_IFINDEX", "u32"),
    ("NDIS_OID", "u32"),
    ("NDIS_PORT_NUMBER", "u32"),
    ("NDIS_NIC_SWITCH_ID", "u32"),
    ("NDIS_NIC_SWITCH_VPORT_ID", "u32"),
    ("LONG", "i32"),
    ("INT", "i32"),
    ("UINT64", "u64"),
    ("ULONG64", "u64"),
    ("ULONGLONG", "u64"),
    ("NET_LUID", "u64"),
    ("LONGLONG", "i64"),
    ("SIZE_T", "usize"),
    ("ULONG_PTR", "usize"),
    ("NTSTATUS", "NTSTATUS"),
    ("NDIS_STATUS", "NTSTATUS"),
    ("PVOID", "*mut c_void"),
    ("NDIS_HANDLE", "*mut c_void"),
    ("PWCH", "*mut u16"),
    ("PSIZE_T", "*mut usize"),
    ("PNDIS_OID", "*mut u32"),
    ("PSOCKADDR", "*mut SOCKADDR"),
    ("PNDIS_STRING", "*mut UNICODE_STRING"),
    ("PCUNICODE_STRING", "*const UNICODE_STRING"),
    ("LPCGUID", "*const GUID"),
    ("NDK_SGE_ADDRESS", "NDK_SGE_ADDRESS"),
    ("NDIS_OID_REQUEST_DATA", "NDIS_OID_REQUEST_DATA"),
    ("NDIS_CONFIGURATION_PARAMETER_DATA", "NDIS_CONFIGURATION_PARAMETER_DATA"),
];

/// Structures the crate only passes on and therefore does not declare.
const OPAQUE: &[&str] = &[
    "PDRIVER_OBJECT",
    "PDEVICE_OBJECT",
    "PIRP",
    "PCM_RESOURCE_LIST",
    "PWSK_CLIENT",
    "PNDIS_RSS_PROCESSOR_INFO",
    "PNDIS_RESOURCE_LIST",
    "PNDIS_PCI_DEVICE_CUSTOM_PROPERTIES",
    "PNDIS_PORT_AUTHENTICATION_PARAMETERS",
    "PNDIS_PNP_CAPABILITIES",
    "PNDIS_PM_CAPABILITIES",
    "PNDIS_RECEIVE_SCALE_CAPABILITIES",
    "PNDIS_RESTART_ATTRIBUTES",
    "PNDIS_DRIVER_OPTIONAL_HANDLERS",
    "PNDIS_MINIPORT_ADAPTER_ATTRIBUTES",
    "NET_BUFFER_LIST_CONTEXT *",
];

/// Where a type stands: a function pointer in a structure may be null, in a table it never is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Field,
    Slot,
    Parameter,
}

/// The types of the crate.
pub(crate) struct Types {
    functions: BTreeMap<&'static str, String>,
    declared: Vec<&'static str>,
}

impl Types {
    pub(crate) fn of_the_crate() -> Self {
        let functions = index::PROTOTYPES.iter().copied().flatten().map(|f| (f.name, short((f.type_name)())));
        let layouts = index::LAYOUTS.iter().copied().flatten().map(|layout| layout.name);
        let enums = index::NUMBERS.iter().copied().flatten().map(|number| number.of);
        Self { functions: functions.collect(), declared: layouts.chain(enums).collect() }
    }

    /// The Rust type for a C type, or `None` if the crate has none.
    pub(crate) fn rust(&self, c: &str, place: Place) -> Option<String> {
        let (c, annotation) = c.split_once(" [").unwrap_or((c, ""));
        let nullable = place == Place::Field || annotation.contains("opt");
        if let Some(function) = self.functions.get(c) {
            return Some(if nullable { format!("Option<{function}>") } else { function.clone() });
        }
        self.data(c)
    }

    fn data(&self, c: &str) -> Option<String> {
        if OPAQUE.contains(&c) {
            return Some("*mut c_void".into());
        }
        if let Some((_, rust)) = KNOWN.iter().find(|(name, _)| *name == c) {
            return Some((*rust).into());
        }
        if self.declared.contains(&c) {
            return Some(c.into());
        }
        match c {
            "union{PVOID VirtualAddress; NDK_LOGICAL_ADDRESS LogicalAddress}" => return Some("NDK_SGE_ADDRESS".into()),
            "PDRIVER_DISPATCH *" => return Some(format!("*mut Option<{}>", self.functions.get("DRIVER_DISPATCH")?)),
            _ => {}
        }
        if let Some((element, count)) = c.strip_suffix(']').and_then(|array| array.split_once('[')) {
            return Some(format!("[{}; {count}]", self.data(element)?));
        }
        if let Some(pointer) = c.strip_prefix("CONST ") {
            return Some(self.data(pointer)?.replacen("*mut ", "*const ", 1))
                .filter(|rust| rust.starts_with("*const "));
        }
        if let Some(pointer) = c.strip_suffix('*') {
            let target = pointer.trim_end();
            let target = if target == "VOID" { "c_void".into() } else { self.data(target)? };
            return Some(format!("*mut {target}"));
        }
        // `PX` is `X *`, and C's habit of naming both.
        c.strip_prefix('P').filter(|target| self.declared.contains(target)).map(|target| format!("*mut {target}"))
    }
}

/// A Rust type name without the paths in it.
pub(crate) fn short(full: &str) -> String {
    let mut out = String::new();
    let mut rest = full;
    while let Some(at) = rest.find("::") {
        let (before, after) = rest.split_at(at);
        let path = before.trim_end_matches(|c: char| c.is_alphanumeric() || c == '_');
        out.push_str(path);
        rest = &after[2..];
    }
    out + rest
}
