//! An agent whose interface is removed and made again, as by the reload of a driver.
//!
//! ```text
//!   server eth0 10.0.1.11 -- eth0 10.0.1.1 client
//! ```

use crate::gpus_wire::{until_said, until_shown};
use crate::health_wire::link;
use crate::support::{PATIENCE, Running, Scratch, file, get};
use pointsman_lab::harness::Test;
use pointsman_lab::netlink::Netlink;
use pointsman_lab::{Namespace, ensure};
use std::error::Error;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

pub const TESTS: &[(&str, Test)] =
    &[("an_interface_that_is_made_again_is_observed", an_interface_that_is_made_again_is_observed)];

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// Index of the server's interface.
const INDEX: u32 = 2;
const DEVICE: &str = "10.0.1.11:8000";

/// Waits until the agent is ready, or is not.
fn until_ready(server: &Namespace, ready: bool) -> Outcome {
    let start = Instant::now();
    loop {
        let (status, why) = server.enter(|| get("http://127.0.0.1:9101/readyz"))?;
        if (status == 200) == ready {
            return Ok(());
        }
        ensure!(start.elapsed() < PATIENCE, "{status} {why}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Sends requests, each from a port of its own.
fn request(client: &Namespace, count: usize) -> Outcome {
    client.enter(|| {
        (0..count).try_for_each(|_| UdpSocket::bind("0.0.0.0:0")?.send_to(b"request", DEVICE).map(drop))
    })??;
    Ok(())
}

fn an_interface_that_is_made_again_is_observed() -> Outcome {
    let (server, client) = (Namespace::new("server")?, Namespace::new("client")?);
    for namespace in [&server, &client] {
        namespace.enter(|| Netlink::open()?.set_up(1))??;
    }
    let connect = |mac: u16| {
        let here = (&server, "eth0", mac, Some(([10, 0, 1, 11], 24)));
        link(INDEX, here, (&client, "eth0", mac + 1, Some(([10, 0, 1, 1], 24))))
    };
    connect(1)?;
    let folder = Scratch::new("agent-again");
    let rack = std::fs::read_to_string(file("examples/rack.toml"))?;
    let rack = rack.replacen("report_keys = \"report-keys.txt\"", "reports = \"unauthenticated\"", 1);
    let rack = folder.write("rack.toml", rack.replacen("[agent]", "[agent]\nform = \"frame\"", 1));
    let agent =
        server.enter(|| Running::start(&["agent", &rack, "s1", "cpu", "--metrics", "127.0.0.1:9101"]))?;
    agent.wait_for("metrics on ");
    until_ready(&server, true)?;
    // It gets the requests and never answers.
    let _device = server.enter(|| UdpSocket::bind(DEVICE))??;
    request(&client, 10)?;
    let queue = |count: u32| [format!("queue{{server=\"s1\",device=\"s1/cpu\"}} {count}.0")];
    let shown = |count| until_shown(&server, &queue(count).each_ref().map(String::as_str));
    shown(10)?;

    server.enter(|| Netlink::open()?.delete(INDEX))??;
    until_said(&agent, "'eth0' was removed", 1)?;
    until_said(&agent, "no reports are sent while 'eth0' is down or removed", 1)?;
    until_ready(&server, false)?;
    // The new one has the same index, too.
    connect(3)?;
    until_ready(&server, true)?;
    request(&client, 20)?;
    shown(30)
}
