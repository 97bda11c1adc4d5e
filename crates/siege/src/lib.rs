//! A rack of real processes under attack: one attack at a time, next to connections whose every answer is checked.
//!
//! A [`case::Case`] is data: steps, how long they last, and their highest cost. [`run`] builds a rack of network
//! namespaces with the lab, starts the product's own programs in it (switch, controllers, agents) and a server on each
//! device, lets connections run for a while, attacks, waits until the rack has recovered, and judges the observations
//! ([`judge`]).
//!
//! This crate handles processes, files, sockets and frames. It uses only what an attacker or an operator can use: the
//! command line, the rack's description, the form of reports, P4Runtime and the API.

#![forbid(unsafe_code)]

mod attack;
pub mod case;
pub mod cases;
mod child;
mod described;
mod frames;
mod http;
pub mod judge;
mod load;
mod management;
mod p4runtime;
mod rack;
mod roster;
mod run;
mod storm;
mod table;

pub use pointsman_lab::{Error, Result};
pub use run::{FOLDER, Options, Results, prepare, run};
pub use table::list;
