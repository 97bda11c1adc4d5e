//! What operators do, as scripts of `tests/walks`: a rack is set up in namespaces, broken part by part, read and mended (`operator`); two switches of
//! which one loses its power, with a store of connections and without it (`pair`).

use crate::support::{Scratch, file};
use pointsman_lab::harness::Test;
use pointsman_lab::process::Process;
use pointsman_lab::{Namespace, ensure};
use std::error::Error;
use std::path::Path;
use std::time::Duration;

pub const TESTS: &[(&str, Test)] =
    &[("an_operator", an_operator), ("connections_outlive_their_switch", connections_outlive_their_switch)];

/// How long a walk may take on a busy machine; about 90 and 40 seconds on one that is not.
const PATIENCE: Duration = Duration::from_secs(900);

/// Runs a script in an empty folder. What it says is on standard output from the line `from` on.
fn walk(name: &str, more: &[&str], from: &str) -> Result<(), Box<dyn Error>> {
    let needs = ["iproute2:ip", "util-linux:unshare", "curl", "python3"];
    if !pointsman_needs::programs("walk_wire", &[&needs, more].concat()) {
        return Ok(());
    }
    let folder = Scratch::new(name);
    let programs =
        Path::new(env!("CARGO_BIN_EXE_pointsman")).parent().ok_or("no folder")?.display().to_string();
    let path = format!("PATH={programs}:{}", std::env::var("PATH").unwrap_or_default());
    let (repository, script) = (format!("REPOSITORY={}", file("")), file(&format!("tests/walks/{name}")));
    let start = "exec bash \"$0\" >walk.txt 2>&1";
    let walk = ["--chdir", &folder.path(""), &path, &repository, "bash", "-c", start, &script];
    // The script makes namespaces of its own; all that it starts ends with it.
    let ended = Process::start(&Namespace::new(name)?, "env", &walk, "")?.finish(PATIENCE);
    let said = std::fs::read_to_string(folder.path("walk.txt")).unwrap_or_default();
    ensure!(ended.is_ok() && said.ends_with("The walk ended well.\n"), "{ended:?}\n{said}");
    said.lines().skip_while(|l| *l != from).skip(1).for_each(|l| println!("{l}"));
    Ok(())
}

/// Its losses are in docs/reliability.md.
fn an_operator() -> Result<(), Box<dyn Error>> {
    walk("operator", &["openssl", "gcc:cc"], "== All faults")
}

fn connections_outlive_their_switch() -> Result<(), Box<dyn Error>> {
    walk("pair", &[], "")
}
