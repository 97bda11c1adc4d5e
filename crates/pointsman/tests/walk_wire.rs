//! What an operator does: a rack is set up in namespaces, broken part by part, read and mended: the script `tests/walks/operator`.

use crate::support::{Scratch, file};
use pointsman_lab::harness::Test;
use pointsman_lab::process::Process;
use pointsman_lab::{Namespace, ensure};
use std::error::Error;
use std::path::Path;
use std::time::Duration;

pub const TESTS: &[(&str, Test)] = &[("an_operator", an_operator)];

/// How long the walk may take on a busy machine; about 90 seconds on one that is not.
const PATIENCE: Duration = Duration::from_secs(900);

fn an_operator() -> Result<(), Box<dyn Error>> {
    let needs = ["iproute2:ip", "util-linux:unshare", "curl", "openssl", "python3", "gcc:cc"];
    if !pointsman_needs::programs("walk_wire", &needs) {
        return Ok(());
    }
    let folder = Scratch::new("operator");
    let programs =
        Path::new(env!("CARGO_BIN_EXE_pointsman")).parent().ok_or("no folder")?.display().to_string();
    let path = format!("PATH={programs}:{}", std::env::var("PATH").unwrap_or_default());
    let (repository, script) = (format!("REPOSITORY={}", file("")), file("tests/walks/operator"));
    let start = "exec bash \"$0\" >walk.txt 2>&1";
    let walk = ["--chdir", &folder.path(""), &path, &repository, "bash", "-c", start, &script];
    // The script makes namespaces of its own; all that it starts ends with it.
    let ended = Process::start(&Namespace::new("operator")?, "env", &walk, "")?.finish(PATIENCE);
    let said = std::fs::read_to_string(folder.path("walk.txt")).unwrap_or_default();
    ensure!(ended.is_ok() && said.ends_with("The walk ended well.\n"), "{ended:?}\n{said}");
    // The losses, which docs/reliability.md has.
    said.lines().skip_while(|l| *l != "== All faults").skip(1).for_each(|l| println!("{l}"));
    Ok(())
}
