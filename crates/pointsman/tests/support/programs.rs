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
