//! The balancer's connection table at scale, as native code: hundreds of thousands of connections that stay, end, return, are
//! attacked, while pools and policies change every second. A checker that shares nothing with the data plane (it keeps in mind where
//! each connection began) counts every packet that goes elsewhere.
//!
//! Sizes are such that all of it takes seconds. `POINTSMAN_SCALE=million` runs the same with a million connections in a table of
//! 2,097,152 places (the program compiled with `CONNECTION_PLACE_BITS=19`; 128 MiB), best with `--release`.

mod attack;
mod collide;
mod net;
mod restart;
mod stand;
