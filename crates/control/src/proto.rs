//! The protobuf types of P4Runtime and P4Info, generated from `proto/`, and their text format.

#[allow(missing_docs, clippy::all, rustdoc::all)]
mod generated {
    pub mod google {
        pub mod rpc {
            include!(concat!(env!("OUT_DIR"), "/google.rpc.rs"));
        }
    }
    pub mod gnmi {
        include!(concat!(env!("OUT_DIR"), "/gnmi.rs"));
    }
    pub mod trace {
        include!(concat!(env!("OUT_DIR"), "/pointsman.trace.v1.rs"));
    }
    pub mod p4 {
        pub mod config {
            pub mod v1 {
                include!(concat!(env!("OUT_DIR"), "/p4.config.v1.rs"));
            }
        }
        pub mod v1 {
            include!(concat!(env!("OUT_DIR"), "/p4.v1.rs"));
        }
    }
}

pub use generated::google;
pub use generated::p4;

/// The part of gNMI that a switch serves (package `gnmi`).
pub use generated::gnmi;
/// `google.rpc.Status` (package `google.rpc`).
pub use generated::google::rpc;
/// The P4Info message and everything below it (package `p4.config.v1`).
pub use generated::p4::config::v1 as p4info;
/// The P4Runtime messages, client and server stubs (package `p4.v1`).
pub use generated::p4::v1 as p4rt;
/// Traces of packets of a running switch (package `pointsman.trace.v1`).
pub use generated::trace;

/// The compiled definitions as a serialized `google.protobuf.FileDescriptorSet`, for server reflection and tests.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
