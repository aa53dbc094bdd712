//! The driver's configuration in the registry.

use windows_sys::Win32::{
    Foundation::ERROR_SUCCESS,
    System::Registry::{
        HKEY, HKEY_LOCAL_MACHINE, KEY_READ, RegCloseKey, RegEnumKeyExW, RegOpenKeyExW, RegQueryValueExW,
    },
};

/// An open key.
pub(crate) struct Key(HKEY);

impl Drop for Key {
    fn drop(&mut self) {
        // SAFETY: opened by `open`, closed once.
        unsafe { RegCloseKey(self.0) };
    }
}

fn wide(text: &str) -> Vec<u16> {
    text.encode_utf16().chain([0]).collect()
}

impl Key {
    fn open(parent: HKEY, path: &str) -> Option<Self> {
        let mut key = std::ptr::null_mut();
        // SAFETY: a NUL-terminated path and a place for the key.
        let result = unsafe { RegOpenKeyExW(parent, wide(path).as_ptr(), 0, KEY_READ, &mut key) };
        (result == ERROR_SUCCESS).then_some(Self(key))
    }

    /// Type and bytes of a value.
    fn value(&self, name: &str) -> Option<(u32, Vec<u8>)> {
        let name = wide(name);
        let (mut kind, mut length) = (0, 0);
        // SAFETY: a NUL-terminated name; without a buffer only the length is stored.
        let result = unsafe {
            RegQueryValueExW(self.0, name.as_ptr(), std::ptr::null(), &mut kind, std::ptr::null_mut(), &mut length)
        };
        if result != ERROR_SUCCESS {
            return None;
        }
        let mut data = vec![0; length as usize];
        // SAFETY: the buffer has `length` bytes.
        let result = unsafe {
            RegQueryValueExW(self.0, name.as_ptr(), std::ptr::null(), &mut kind, data.as_mut_ptr(), &mut length)
        };
        data.truncate(length as usize);
        (result == ERROR_SUCCESS).then_some((kind, data))
    }

    fn children(&self) -> Vec<String> {
        let mut names = Vec::new();
        loop {
            let mut name = [0_u16; 256];
            let mut length = name.len() as u32;
            // SAFETY: the buffer has `length` characters; nothing else is asked for.
            let result = unsafe {
                RegEnumKeyExW(
                    self.0,
                    names.len() as u32,
                    name.as_mut_ptr(),
                    &mut length,
                    std::ptr::null(),
                    std::ptr::null_mut(),
                    std::ptr::null_mut(),
                    std::ptr::null_mut(),
                )
            };
            if result != ERROR_SUCCESS {
                return names;
            }
            names.push(String::from_utf16_lossy(name.get(..length as usize).unwrap_or_default()));
        }
    }
}

/// A value of the adapter with this number: type and bytes. That of a device node is in its software key; without a node it is in the
/// service's `Parameters` key. There adapter 1 has the value `1.NAME`, if it is there, else the first adapter's.
pub(crate) fn parameter(service: &str, adapter: u32, name: &str) -> Option<(u32, Vec<u8>)> {
    let path = match device_node(service) {
        Some(node) => format!(r"System\CurrentControlSet\Control\Class\{}", text(&node.value("Driver")?.1)),
        None => format!(r"System\CurrentControlSet\Services\{service}\Parameters"),
    };
    let key = Key::open(HKEY_LOCAL_MACHINE, &path)?;
    let own = (adapter > 0).then(|| key.value(&format!("{adapter}.{name}"))).flatten();
    own.or_else(|| key.value(name))
}

/// A value of an adapter that is a string.
pub(crate) fn text_parameter(service: &str, adapter: u32, name: &str) -> Option<String> {
    parameter(service, adapter, name).map(|(_, data)| text(&data))
}

/// The root-enumerated device that is installed for the service.
pub(crate) fn device_node(service: &str) -> Option<Key> {
    const ROOT: &str = r"System\CurrentControlSet\Enum\ROOT";
    let root = Key::open(HKEY_LOCAL_MACHINE, ROOT)?;
    let classes = root.children().into_iter().filter_map(|class| Key::open(root.0, &class));
    let mut nodes = classes.flat_map(|class| {
        let instances = class.children().into_iter();
        instances.filter_map(|instance| Key::open(class.0, &instance)).collect::<Vec<_>>()
    });
    nodes.find(|node| node.value("Service").is_some_and(|(_, data)| text(&data).eq_ignore_ascii_case(service)))
}

/// A string as the registry has it, without its end.
fn text(data: &[u8]) -> String {
    let units = data.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
    String::from_utf16_lossy(&units.take_while(|unit| *unit != 0).collect::<Vec<_>>())
}
