//! The description of a running network: read when its file has changed, or at SIGHUP.

use super::flags::flags;
use super::steer::Command;
use crate::controller::WATCH;
use crate::controller::reload::{Seen, Watched};
use crate::log::Log;
use pointsman_fabric::Description;
use pointsman_topology::SwitchId;
use std::error::Error;
use std::path::PathBuf;
use tokio::signal::unix::Signal;
use tokio::sync::{mpsc, watch};

/// The ports that a switch has to have.
pub fn ports(of: &Description, switch: SwitchId) -> Vec<u16> {
    of.topology.ports(switch).map(|(port, ..)| port).collect()
}

/// Switches that have to be started with other flags than before, by name.
fn started_otherwise<'a>(old: &'a Description, new: &Description) -> Vec<&'a str> {
    let switches = old.topology.switches().iter().zip((0..).map(SwitchId));
    switches.filter(|(_, id)| flags(old, *id) != flags(new, *id)).map(|(s, _)| s.name.as_str()).collect()
}

/// What the file describes now, if it can replace the description in force.
fn read(file: &Watched, in_force: &Description) -> Result<Description, Box<dyn Error>> {
    let path = file.path().display();
    let new = Description::read(&path.to_string(), file.text()?)?;
    match in_force.needs_restart(&new) {
        Some(what) => Err(format!("{path}: {what} changed: restart the controller to apply it").into()),
        None => Ok(new),
    }
}

/// Hands in the description when it changes. `expected` are the ports that each switch has to have.
pub async fn follow(
    path: PathBuf,
    mut in_force: Description,
    mut hangup: Signal,
    expected: Vec<watch::Sender<Vec<u16>>>,
    commands: mpsc::UnboundedSender<Command>,
    log: Log,
) {
    let (mut file, mut asked) = (Watched::new(path), false);
    loop {
        tokio::select! {
            _ = hangup.recv() => asked = true,
            () = tokio::time::sleep(WATCH) => {}
        }
        let seen = file.look();
        if seen == Seen::Changing || (seen == Seen::Same && !std::mem::take(&mut asked)) {
            continue;
        }
        asked = false;
        file.take();
        let new = match read(&file, &in_force) {
            Ok(new) => new,
            Err(e) => {
                log.warn(&format!("{e}; keeping the previous configuration"));
                continue;
            }
        };
        for name in started_otherwise(&in_force, &new) {
            log.warn(&format!("{name}: its flags have changed: restart it with those of --flags {name}"));
        }
        for (id, ports_of) in (0..).map(SwitchId).zip(&expected) {
            // A switch that is not listened to any more has no use for them.
            let _ = ports_of.send(ports(&new, id));
        }
        in_force = new.clone();
        if commands.send(Command::Describe(Box::new(new))).is_err() {
            return;
        }
        log.info("configuration accepted");
    }
}
