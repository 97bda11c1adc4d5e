//! Packets that are followed through a switch with two workers on real interfaces, while others pass at rate.

use crate::support::{PATIENCE, Switch, assert_no_panic, finish, pointsman};
use crate::workers_wire::{DPORT, enough_processors, host, kinds, link, rack, start};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use pointsman_lab::harness::Test;
use pointsman_lab::rack::Rack;
use pointsman_lab::{Namespace, ensure};
use std::collections::BTreeSet;
use std::net::UdpSocket;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

pub const TESTS: &[(&str, Test)] = &[("packets_are_followed_at_rate", packets_are_followed_at_rate)];

/// Datagrams of [`Rated::FLOWS`] flows from host 1 to host 2, until `stop`.
struct Rated {
    stop: AtomicBool,
    sent: AtomicU32,
    came: AtomicU32,
}

impl Rated {
    const FLOWS: u16 = 16;
    /// Source port of the first flow.
    const FIRST: u16 = 20_000;
    /// The receiver's buffer holds as many.
    const UNDER_WAY: u32 = 96;

    fn sends(&self, client: &Namespace) -> Fallible<()> {
        let bind = |n: u16| client.enter(|| UdpSocket::bind((link(1).ipv4, Self::FIRST + n)));
        let sockets = (0..Self::FLOWS).map(|n| Ok(bind(n)??)).collect::<Fallible<Vec<UdpSocket>>>()?;
        while !self.stop.load(Ordering::Relaxed) {
            let number = self.sent.load(Ordering::Relaxed);
            if number.saturating_sub(self.came.load(Ordering::Relaxed)) >= Self::UNDER_WAY {
                std::thread::sleep(Duration::from_micros(100));
                continue;
            }
            let mut datagram = [0; 64];
            datagram[..4].copy_from_slice(&number.to_be_bytes());
            self.sent.store(number + 1, Ordering::Relaxed);
            sockets[number as usize % sockets.len()].send_to(&datagram, (link(2).ipv4, DPORT))?;
        }
        Ok(())
    }

    /// Receives until all that was sent has come, and checks that nothing came twice.
    fn comes(&self, server: &UdpSocket) -> Fallible<()> {
        let (mut seen, mut last) = (BTreeSet::new(), Instant::now());
        let mut buffer = [0; 128];
        server.set_read_timeout(Some(Duration::from_millis(100)))?;
        loop {
            if let Ok((length, from)) = server.recv_from(&mut buffer) {
                ensure!(length == 64, "{length} bytes from {from}");
                let number = u32::from_be_bytes([buffer[0], buffer[1], buffer[2], buffer[3]]);
                ensure!(seen.insert(number), "{number} came twice");
                self.came.fetch_add(1, Ordering::Relaxed);
                last = Instant::now();
            }
            let sent = self.sent.load(Ordering::Relaxed);
            if self.stop.load(Ordering::Relaxed) && seen.len() == sent as usize {
                return Ok(());
            }
            ensure!(last.elapsed() < PATIENCE, "{} of {sent} came", seen.len());
        }
    }

    /// Waits until so many more have come.
    fn more(&self, count: u32) -> Fallible<()> {
        let before = self.came.load(Ordering::Relaxed);
        let begin = Instant::now();
        while self.came.load(Ordering::Relaxed) < before + count {
            let came = self.came.load(Ordering::Relaxed) - before;
            ensure!(begin.elapsed() < PATIENCE, "{came} of {count} came");
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }
}

/// Packets are followed while thousands pass through two workers: nothing else is followed, and nothing is lost.
fn packets_are_followed_at_rate() -> Fallible<()> {
    if !enough_processors() {
        return Ok(());
    }
    for kind in kinds() {
        let rack = rack();
        let (switch, mut controller) = start(&rack, "tests/programs/tally.p4", &["--port-kind", kind]);
        switch.wait_for("flows are spread over 2 workers");
        let server = host(&rack, 2).enter(|| UdpSocket::bind((link(2).ipv4, DPORT)))??;
        let client = host(&rack, 1);
        let load = Rated { stop: false.into(), sent: 0.into(), came: 0.into() };
        std::thread::scope(|scope| -> Fallible<()> {
            let receiver = scope.spawn(|| load.comes(&server).map_err(|e| e.to_string()));
            let sender = scope.spawn(|| load.sends(&client).map_err(|e| e.to_string()));
            let followed = std::panic::catch_unwind(|| follow(&rack, &switch, &load));
            load.stop.store(true, Ordering::Relaxed);
            sender.join().map_err(|_| "the sender panicked")??;
            receiver.join().map_err(|_| "the receiver panicked")??;
            followed.map_err(|_| "a follower")?
        })
        .map_err(|e| format!("{kind}: {e}"))?;
        let sent = load.sent.load(Ordering::Relaxed);
        let counted = controller.counter("TallyIngress.seen", 0).0;
        ensure!(counted == i64::from(sent), "{kind}: {counted} of {sent} were counted");
        let finished = switch.stop(Signal::SIGINT);
        assert_no_panic(&finished);
        ensure!(finished.code == Some(0), "{finished:?}");
    }
    Ok(())
}

/// One follower after the other, while `load` passes.
fn follow(rack: &Rack, switch: &Switch, load: &Rated) -> Fallible<()> {
    let address = switch.address.to_string();
    let follower = |filter: &str| {
        let mut command = pointsman(&["p4", "trace", "--live", &address, "--follow", filter]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    let run = |filter: &str| rack.switch.enter(|| finish(follower(filter)));
    let received = |text: &str| text.matches("received on port").count();
    load.more(500)?;
    // One packet of one flow.
    let port = Rated::FIRST + 3;
    let one = run(&format!("sport={port} count=1"))?;
    ensure!(one.code == Some(0) && received(&one.stdout) == 1, "{one:?}");
    ensure!(one.stdout.contains("received on port 1, 106 bytes"), "{}", one.stdout);
    ensure!(one.stdout.contains(&format!("hdr.udp.sport = {port:#06x}")), "{}", one.stdout);
    ensure!(one.stdout.contains("sent on port 2, 106 bytes"), "{}", one.stdout);
    // As many as are wanted, from both workers.
    let some = run("all count=20")?;
    ensure!(some.code == Some(0) && received(&some.stdout) == 20, "{}", some.stdout);
    // A follower that reads nothing. Others are refused while it is there, and the load passes.
    let mut silent = rack.switch.enter(|| follower("all count=10000 rate=1000").spawn())??;
    let pid = Pid::from_raw(silent.id() as i32);
    switch.wait_for("follows packets, 10000 at most");
    kill(pid, Signal::SIGSTOP)?;
    let refused = run("all")?;
    load.more(3000)?;
    silent.kill()?;
    silent.wait()?;
    let whole = refused.stderr.contains("the switch refuses the trace: 127.0.0.1:")
        && refused
            .stderr
            .contains("already follows packets of this switch: end that trace, or wait for its end");
    ensure!(refused.code == Some(1) && whole && refused.stdout.is_empty(), "{refused:?}");
    // It leaves nothing behind.
    let gone = || switch.lines("no longer follows packets").len();
    let begin = Instant::now();
    while gone() < 3 {
        ensure!(begin.elapsed() < PATIENCE, "{} followers ended", gone());
        std::thread::sleep(Duration::from_millis(10));
    }
    let next = run("sport!=1 count=1")?;
    ensure!(next.code == Some(0) && received(&next.stdout) == 1, "{next:?}");
    load.more(500)?;
    Ok(())
}
