//! What tests need from the machine, and the one way to skip a test that does not find it.
//!
//! A skipped test prints a line with SKIP on standard error. With `POINTSMAN_NO_SKIP=1`, as in CI, it fails instead; only
//! the needs in [`OPTIONAL`] may be missing there.

#![forbid(unsafe_code)]

use std::env::var_os;
use std::io::Write;
use std::path::{Path, PathBuf};

/// If this variable is set, a test that would be skipped fails.
pub const NO_SKIP: &str = "POINTSMAN_NO_SKIP";

/// Variables that may be unset even in CI, each with the reason.
pub const OPTIONAL: &[(&str, &str)] = &[
    ("POINTSMAN_P4C_BIN", "p4c is not in a package registry, and building it takes an hour"),
    (
        "POINTSMAN_OTHERS",
        "other projects' programs and p4c's output for them are not distributed with this project",
    ),
];

/// Skips a test or a part of it, which the caller then leaves out. `why` names the obstacle and how to remove it.
///
/// # Panics
///
/// If [`NO_SKIP`] is set: the test fails.
pub fn skip(test: &str, why: &str) {
    assert!(var_os(NO_SKIP).is_none(), "{test} cannot run here: {why} ({NO_SKIP} is set)");
    report(test, why);
}

/// The harness keeps the output of tests that pass to itself, but not what is written to the stream directly.
fn report(test: &str, why: &str) {
    let _ = writeln!(std::io::stderr(), "SKIP: {test}: {why}");
}

/// The path in an environment variable. If it is not set, the test is skipped.
///
/// # Panics
///
/// As [`skip`], unless the variable is in [`OPTIONAL`].
pub fn variable(test: &str, name: &str) -> Option<PathBuf> {
    let path = var_os(name).map(PathBuf::from);
    if path.is_none() {
        match OPTIONAL.iter().find(|(optional, _)| *optional == name) {
            Some((_, reason)) => report(test, &format!("{name} is not set: {reason}")),
            None => skip(test, &format!("{name} is not set")),
        }
    }
    path
}

/// The folder with p4c's test programs (`testdata`, `p4include`), named by `P4C_DIR`. Without it, the test is skipped.
///
/// # Panics
///
/// As [`skip`].
pub fn p4c(test: &str) -> Option<PathBuf> {
    variable(test, "P4C_DIR")
}

/// The interpreter of a Python environment with third-party packages. Environment `""` is `.venv` in the workspace, made from
/// `tests/clients/requirements.txt`; `"x"` is `.venv-x`, made from `requirements-x.txt`. The variable `POINTSMAN_PYTHON` or
/// `POINTSMAN_PYTHON_X` names another interpreter. If there is none, the test is skipped.
///
/// # Panics
///
/// As [`skip`].
pub fn python(test: &str, environment: &str) -> Option<PathBuf> {
    let suffix =
        |separator| if environment.is_empty() { String::new() } else { format!("{separator}{environment}") };
    let (variable, dash) = (format!("POINTSMAN_PYTHON{}", suffix('_').to_uppercase()), suffix('-'));
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path =
        var_os(variable).map_or_else(|| workspace.join(format!(".venv{dash}/bin/python3")), PathBuf::from);
    if path.exists() {
        return Some(path);
    }
    let remedy = format!(
        "python3 -m venv .venv{dash} && .venv{dash}/bin/pip install -r tests/clients/requirements{dash}.txt"
    );
    skip(test, &format!("{} is missing; to run it: {remedy}", path.display()));
    None
}

/// Whether virtual machines with a network adapter for RDMA in software can be made (`tests/guest/memory`). If not, the test is skipped.
///
/// # Panics
///
/// As [`skip`].
pub fn guest(test: &str) -> bool {
    let needed =
        ["qemu-system-x86:qemu-system-x86_64", "busybox-static:busybox", "iproute2:rdma", "binutils:strip"];
    if !programs(test, &needed) {
        return false;
    }
    let driver = Path::new("/etc/libibverbs.d/rxe.driver");
    if !driver.exists() {
        skip(test, "not installed; to run it: apt-get install libibverbs1 ibverbs-providers");
        return false;
    }
    let kernel = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/guest/boot");
    if !kernel.exists() {
        skip(test, "the virtual machine's kernel is missing; to run it: tests/guest/kernel");
    }
    kernel.exists()
}

/// Whether all these programs are installed, given by the Debian package, or as `package:program` if the names differ. If not, the test
/// is skipped.
///
/// # Panics
///
/// As [`skip`].
pub fn programs(test: &str, names: &[&str]) -> bool {
    let path = var_os("PATH").unwrap_or_default();
    let parts: Vec<(&str, &str)> = names.iter().map(|n| n.split_once(':').unwrap_or((n, n))).collect();
    // Daemons are in folders that only root's path has.
    let folders: Vec<PathBuf> = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]).collect();
    let all = parts.iter().all(|(_, program)| folders.iter().any(|f| f.join(program).is_file()));
    if !all {
        let packages: Vec<&str> = parts.iter().map(|(package, _)| *package).collect();
        skip(test, &format!("not installed; to run it: apt-get install {}", packages.join(" ")));
    }
    all
}
