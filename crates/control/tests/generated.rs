//! `generated/` is what the definitions in `proto/` give: protox parses them, prost and tonic generate. After a change of
//! these, `POINTSMAN_GENERATE=1 cargo test -p pointsman-control generated` writes it.

use prost::Message;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

const PROTOS: [&str; 5] = [
    "google/rpc/status.proto",
    "p4/config/v1/p4types.proto",
    "p4/config/v1/p4info.proto",
    "p4/v1/p4data.proto",
    "p4/v1/p4runtime.proto",
];

/// Compiles the definitions into `out`.
fn generate(proto: &Path, out: &Path) {
    let mut descriptors = protox::compile(PROTOS, [proto]).expect("valid definitions");
    // gNMI is separate from P4Runtime's definitions.
    for set in
        [descriptors.clone(), protox::compile(["gnmi/gnmi.proto"], [proto]).expect("valid definitions")]
    {
        tonic_prost_build::configure()
            // `connect()` would need sockets; the binary brings its own channel.
            .build_transport(false)
            // Maps in key order: the same message always has the same bytes.
            .btree_map(".")
            .out_dir(out)
            .compile_fds(set)
            .expect("generates");
    }
    // Comments and source locations are not needed at run time.
    descriptors.file.iter_mut().for_each(|file| file.source_code_info = None);
    fs::write(out.join("descriptors.bin"), descriptors.encode_to_vec()).expect("writes");
}

/// The files of a folder.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder).expect("exists").map(|entry| entry.expect("readable"));
    let file = |e: fs::DirEntry| {
        (e.file_name().to_string_lossy().into_owned(), fs::read(e.path()).expect("readable"))
    };
    entries.map(file).collect()
}

#[test]
fn generated_code_is_up_to_date() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (proto, stored) = (root.join("proto"), root.join("generated"));
    let fresh = Path::new(env!("CARGO_TARGET_TMPDIR")).join("generated");
    let _ = fs::remove_dir_all(&fresh);
    fs::create_dir(&fresh).expect("the target directory is writable");
    generate(&proto, &fresh);
    if std::env::var_os("POINTSMAN_GENERATE").is_some() {
        generate(&proto, &stored);
    }
    let (fresh, stored) = (files(&fresh), files(&stored));
    assert!(fresh.keys().eq(stored.keys()), "{:?}, not {:?}", stored.keys(), fresh.keys());
    for (name, text) in &fresh {
        assert!(
            stored.get(name) == Some(text),
            "generated/{name} is not what proto/ gives: run POINTSMAN_GENERATE=1 cargo test -p pointsman-control generated"
        );
    }
}
