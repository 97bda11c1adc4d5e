//! From a program to its P4Info.
//!
//! P4Runtime specification, "The P4Info Message". Ids, names and aliases are those that the reference compiler gives
//! for v1model, so that controllers need not care which compiler a P4Info came from. Beyond the specification, names of
//! properties and externs are v1model's: `counters`, `meters`, `implementation`, `support_timeout`, `counter`,
//! `direct_counter`, `meter`, `direct_meter`, `register`, `action_profile`, `action_selector` and `digest`.

mod annotations;
mod build;
mod collect;
mod compare;
mod error;
mod ids;
mod package;
mod types;

pub(crate) use build::data_params;
pub use build::p4info;
pub(crate) use collect::{actions_by_name, digests};
pub(crate) use compare::{differences, shape_changes};
pub use error::{Flaw, P4InfoError};
pub(crate) use types::{Translation, flat_fields, translation};

/// The architecture that programs are written for, as `PkgInfo.arch` names it.
pub const ARCHITECTURE: &str = "v1model";
