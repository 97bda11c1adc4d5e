//! A chain of stores (R10): van Renesse and Schneider's chain replication, OSDI 2004, with views from outside.
//!
//! The head decides, as a store alone does. What it changed and what it sends is an *update*, numbered, which passes from node to node; each
//! applies it, and the tail sends what is to be sent. So an answer says that all nodes have the change. Nodes are in the chain in an
//! order in which each has all that the nodes behind it have; removing a node keeps that. A node without data joins behind the tail: it copies
//! the data, then follows the updates; before it becomes the tail, the tail answers nothing any more that the node has not applied.
//!
//! Leases: each replica counts from the moment at which it applies the update that extends the lease. That is after the switch sent its
//! request, so that any of them can be the head (R2).

mod bytes;
mod copying;
mod frame;
mod image;
mod membership;
mod replica;
mod sending;
mod stats;
mod update;
mod view;

pub use bytes::Address;
pub use frame::is_status;
pub use image::ReplicaImage;
pub use replica::{Mail, Place, Replica, Timing};
pub use stats::ChainStats;
pub use update::UpdateError;
pub use view::{Member, View, ViewError};
