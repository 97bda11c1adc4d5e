//! A skipped test prints SKIP, and fails if nothing may be skipped. Each case is a separate process, because variables are global.

use pointsman_needs::{NO_SKIP, OPTIONAL, programs, python, skip, variable};
use std::process::{Command, Output};

/// Does what its variable says; run by the other test.
#[test]
fn one_case() {
    match std::env::var("POINTSMAN_CASE").as_deref() {
        Ok("skip") => skip("it", "the reason"),
        Ok("variable") => assert_eq!(variable("it", "POINTSMAN_NEVER_SET"), None),
        Ok("optional") => assert_eq!(variable("it", OPTIONAL[0].0), None),
        Ok("python") => assert_eq!(python("it", "missing"), None),
        Ok("programs") => assert!(!programs("it", &["sh", "pointsman-no-such-program"])),
        Ok(case) => panic!("{case}"),
        Err(_) => {}
    }
}

fn case(name: &str, no_skip: bool) -> (bool, String) {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command
        .args(["one_case", "--exact"])
        .env("POINTSMAN_CASE", name)
        .env_remove(NO_SKIP)
        .env_remove(OPTIONAL[0].0);
    if no_skip {
        command.env(NO_SKIP, "1");
    }
    let Output { status, stdout, stderr } = command.output().expect("this program runs");
    (status.success(), String::from_utf8_lossy(&[stdout, stderr].concat()).into_owned())
}

#[test]
fn a_skip_is_printed_or_a_failure() {
    let cases = [
        ("skip", "it: the reason", "it cannot run here: the reason"),
        (
            "variable",
            "it: POINTSMAN_NEVER_SET is not set",
            "it cannot run here: POINTSMAN_NEVER_SET is not set",
        ),
        (
            "python",
            ".venv-missing/bin/pip install -r tests/clients/requirements-missing.txt",
            "it cannot run here",
        ),
        ("programs", "apt-get install sh pointsman-no-such-program", "it cannot run here: not installed"),
    ];
    for (name, skipped, failed) in cases {
        let (passed, said) = case(name, false);
        assert!(passed && said.contains("SKIP: it: ") && said.contains(skipped), "{name}: {said}");
        let (passed, said) = case(name, true);
        assert!(!passed && said.contains(failed), "{name}: {said}");
    }
    for no_skip in [false, true] {
        let (passed, said) = case("optional", no_skip);
        assert!(passed && said.contains("is not set: p4c is not in a package registry"), "{said}");
    }
}
