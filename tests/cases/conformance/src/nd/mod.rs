//! The NetworkDirect front end: cases over the COM interfaces of softnd.dll, as a program has them that loads it, or of another provider's DLL.
//!
//! Windows only, apart from the tables of cases and of documented return values.

#[cfg(windows)]
mod cases;
#[cfg(windows)]
mod client;
#[cfg(windows)]
mod ends;
#[cfg(windows)]
mod hosted;
#[cfg(windows)]
mod interfaces;
#[cfg(windows)]
mod left_behind;
#[cfg(windows)]
mod limits;
#[cfg(windows)]
mod pair;
pub mod perf;
#[cfg(windows)]
mod removed;
mod returns;
mod roles;
#[cfg(windows)]
mod rping;
#[cfg(windows)]
mod run;
mod table;

#[cfg(windows)]
pub use hosted::hosted;
#[cfg(windows)]
pub use left_behind::left_behind;
#[cfg(windows)]
pub use removed::{Removed, Told, removed};
pub use returns::{Documented, Shown};
pub use roles::{LIVES, ROLE_CASES, RoleCase};
#[cfg(windows)]
pub use roles::{Played, connect, measure, refuse, serve};
#[cfg(windows)]
pub use rping::{rping_client, rping_server};
#[cfg(windows)]
pub use run::{AnyProvider, Begun, Nd, Seen, choose_path, run};
pub use table::{NdCase, Needs, ORDERS, Version};
