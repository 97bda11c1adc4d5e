//! Compiles the protocol definitions in `proto/`, with no protoc: protox parses, prost and tonic generate.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    tonic_prost_build::configure()
        // `connect()` would need sockets; the binary brings its own channel.
        .build_transport(false)
        .compile_fds(protox::compile(["etcd.proto"], ["proto"])?)?;
    Ok(())
}
