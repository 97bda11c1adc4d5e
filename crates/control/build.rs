//! Compiles the protocol definitions in `proto/`, with no protoc: protox parses, prost and tonic generate.

use prost::Message;
use std::{env, error::Error, fs, path::PathBuf};

const PROTOS: [&str; 5] = [
    "google/rpc/status.proto",
    "p4/config/v1/p4types.proto",
    "p4/config/v1/p4info.proto",
    "p4/v1/p4data.proto",
    "p4/v1/p4runtime.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    let descriptors = protox::compile(PROTOS, ["proto"])?;
    let out = PathBuf::from(env::var("OUT_DIR")?).join("descriptors.bin");
    fs::write(out, descriptors.encode_to_vec())?;
    // gNMI and traces are separate from P4Runtime's definitions.
    let gnmi = protox::compile(["gnmi/gnmi.proto"], ["proto"])?;
    let trace = protox::compile(["pointsman/trace.proto"], ["proto"])?;
    for set in [descriptors, gnmi, trace] {
        tonic_prost_build::configure()
            // `connect()` would need sockets; the binary brings its own channel.
            .build_transport(false)
            // Maps in key order: the same message always has the same bytes.
            .btree_map(".")
            .compile_fds(set)?;
    }
    Ok(())
}
