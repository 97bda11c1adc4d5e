//! Controllers of networks of switches, over P4Runtime: what each switch's tables have to hold, from the topology and from the
//! links that are down.
#![forbid(unsafe_code)]

mod book;
mod conga;
mod controller;
mod description;
mod ecmp;
mod hula;
mod ours;
mod p4te;
mod paths;
mod prefixes;
mod random;
mod scheme;
mod tally;
mod tiers;

pub use book::{Book, Does, Rates, UnknownName, Value, clone_session, replicated};
pub use controller::{Action, Controller, FillError, Input, Standing};
pub use description::{Description, is_network, scheme_and_program};
pub use scheme::{Choice, Domain, Level, Place, Report, Reporting, Reports, SCHEMES, Scheme, Setting};
pub use tally::{Quantity, Tally, tallies};
