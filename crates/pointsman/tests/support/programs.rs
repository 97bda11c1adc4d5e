//! Third-party programs that tests start, such as a Prometheus server.

use std::io;
use std::process::{Child, Command, Stdio};

/// A program that ends with the test.
pub struct Program(Child);

impl Program {
    /// Starts it, without input and output.
    pub fn start(name: &str, arguments: &[String]) -> io::Result<Program> {
        let mut command = Command::new(name);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().map(Program)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Whether all these programs are there, which are Debian's packages of the same names. With `POINTSMAN_REQUIRE_CLIENTS` they have to be.
pub fn installed(names: &[&str]) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let there = |name: &&str| std::env::split_paths(&path).any(|p| p.join(name).is_file());
    let all = names.iter().all(there);
    assert!(
        all || std::env::var_os("POINTSMAN_REQUIRE_CLIENTS").is_none(),
        "not all of {names:?} are there: apt-get install {}",
        names.join(" ")
    );
    all
}
