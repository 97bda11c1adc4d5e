//! `pointsman demo --watch`: the console of a rack in namespaces, from outside of them.

use crate::rack_wire::{Fallible, PATIENCE};
use pointsman_lab::harness::Test;
use pointsman_lab::wiring::bring_loopback_up;
use pointsman_lab::{Namespace, ensure};
use pointsman_node::http::client::{Ask, ask};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

pub const TESTS: &[(&str, Test)] = &[("the_demo_can_be_watched", the_demo_can_be_watched)];

/// Killed when the test ends, however it ends.
struct Demo(Child);

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn the_demo_can_be_watched() -> Fallible<()> {
    let outside = Namespace::new("outside")?;
    outside.enter(bring_loopback_up)??;
    let mut command = Command::new(env!("CARGO_BIN_EXE_pointsman"));
    command.args(["demo", "--quick", "--watch"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut demo = Demo(outside.enter(|| command.spawn())??);
    let said = BufReader::new(demo.0.stderr.take().ok_or("piped")?);
    let line = said.lines().map_while(Result::ok).find(|l| l.contains("console: "));
    let line = line.ok_or("the demo ended without an address")?;
    let (_, rest) = line.split_once("console: ").ok_or("an address")?;
    let (url, token) = rest.split_once("/ until the demo ends; sign in with ").ok_or("a token")?;
    let get = |path: &str, token| -> Fallible<(u16, String)> {
        let url = format!("{url}{path}");
        let (status, body) = outside.enter(|| {
            let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let asked = Ask { method: "GET", url: &url, token, ..Ask::default() };
            tokio.block_on(ask(asked, PATIENCE)).map_err(std::io::Error::other)
        })??;
        Ok((status, String::from_utf8_lossy(&body).into_owned()))
    };
    let (status, page) = get("/console/login", None)?;
    ensure!(status == 200 && page.contains("API token"), "{status}: {page}");
    let (status, devices) = get("/v1/devices", Some(token.trim()))?;
    ensure!(status == 200 && devices.contains("s1/cpu"), "{status}: {devices}");
    ensure!(get("/v1/devices", None)?.0 == 401, "without a token");
    let left = std::env::temp_dir().join(format!("pointsman-demo-{token:.8}"));
    ensure!(!left.exists(), "{} is left", left.display());
    Ok(())
}
