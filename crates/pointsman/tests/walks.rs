//! What a P4 developer and a researcher do, one command after the other: the scripts in `tests/walks`.

use crate::support::{Scratch, finish, root};
use std::path::Path;
use std::process::Command;

fn walk(name: &str) {
    let folder = Scratch::new(name);
    let programs =
        Path::new(env!("CARGO_BIN_EXE_pointsman")).parent().expect("a folder").display().to_string();
    let path = std::env::var("PATH").unwrap_or_default();
    let mut script = Command::new("bash");
    script.arg(root().join("tests/walks").join(name)).current_dir(&folder.0);
    script.env("PATH", format!("{programs}:{path}")).env("REPOSITORY", root());
    let ended = finish(script);
    assert!(
        ended.code == Some(0) && ended.stdout.ends_with("The walk ended well.\n"),
        "{}\n{}",
        ended.stdout,
        ended.stderr
    );
}

#[test]
fn a_developer() {
    walk("developer");
}

#[test]
fn a_researcher() {
    walk("researcher");
}
