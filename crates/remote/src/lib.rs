//! Tables in the memory of servers, as `p4/lib/pointsman/tea.p4` reads them (docs/tea.md): the layout of the memory, where entries are placed, and how they
//! change while packets look them up.
//!
//! [`Table`] is a state machine: changes go in, [`Action`]s come out, for the switch's own table of entries (the *stash*) and for the memory. [`Writer`]
//! does the latter by RDMA. There are no sockets, threads or clocks here; times are in nanoseconds.
//!
//! An entry that exists is never reported absent, mixed from two, or in an old state after its change was acknowledged: a cell is
//! written only while the switch itself holds the keys that it had and will have, and the switch gives a key up only when every READ that began before it had
//! the key has ended.
#![forbid(unsafe_code)]

mod cache;
mod cells;
mod error;
mod layout;
mod prefixes;
mod resize;
mod space;
mod table;
mod writer;
mod writes;
mod zipf;

pub use cache::LEAST;
pub use error::{ChangeError, LoadError, ResizeError};
pub use layout::{Layout, LayoutError, Part, RING, ROW_SLOT, SLOT, Scratchpads, WINDOW};
pub use prefixes::{Level, Prefix, PrefixError, Prefixes, RouteChange};
pub use table::{Action, Config, Entry, Table};
pub use writer::{Writer, WriterError};
pub use zipf::Zipf;
