//! A storm: faults at random against controllers that share etcd, and against its nodes, while policies are changed.

mod evidence;
mod plan;
mod roll;
mod witness;

pub use evidence::Findings;
pub use plan::Storm;
pub use roll::{Place, Roll, Summary};

use crate::case::Signal;
use crate::management::Way;
use crate::rack::Rack;
use crate::roster::Roster;
use crate::run::Siege;
use plan::{Blow, Fault, Target, plan};
use pointsman_lab::{Error, Result};
use std::time::{Duration, Instant};
use witness::{Seen, Witness};

/// How long controllers and etcd may take until all is well after a fault.
const PATIENCE: Duration = Duration::from_secs(20);

/// Which process or way is hit.
#[derive(Clone, Copy, Debug)]
enum Hit {
    Controller(u8),
    Node(u8),
}

/// A blow begins, or ends.
fn strike(rack: &mut Rack, hit: Hit, blow: Blow, begins: bool) -> Result<()> {
    let management = rack.management.as_ref().ok_or_else(|| Error::new("the rack has no etcd"))?;
    let way = if blow == Blow::CutFromSwitch { Way::Switch } else { Way::Etcd };
    if matches!(blow, Blow::CutFromEtcd | Blow::CutFromSwitch) {
        return match hit {
            Hit::Controller(c) => management.cut(c, way, begins),
            Hit::Node(n) => management.cut_node(n, begins),
        };
    }
    let child = match hit {
        Hit::Controller(c) => rack.controller_mut(c)?,
        Hit::Node(n) => rack.node_mut(n)?,
    };
    match (blow, begins) {
        (Blow::Kill, _) => {
            child.hold(begins);
            if begins { child.signal(Signal::Kill.number()) } else { Ok(()) }
        }
        (_, true) => child.signal(Signal::Stop.number()),
        (_, false) => child.signal(Signal::Continue.number()),
    }
}

impl Siege<'_> {
    /// Runs a storm to its end.
    pub(crate) fn storm(&mut self, storm: &Storm) -> Result<Findings> {
        let witness = Witness::start(self.rack, storm.connections_per_s, self.load.origin())?;
        let mut wrong = Vec::new();
        let mut leader = self.calm(&witness)?;
        let faults = plan(storm);
        for (left, fault) in (0..faults.len()).rev().zip(&faults) {
            // Those that came leave under the last one.
            self.drift(storm.drifts && left > 0);
            let Some(leads) = leader else {
                wrong.push("the controllers did not recover: the storm was given up".to_owned());
                break;
            };
            self.last(fault.after)?;
            leader = self.fault(fault, leads, &witness)?;
            match leader {
                Some(leader) => {
                    witness.compare(leader);
                    self.compare_members(leader, false);
                }
                None => {
                    wrong.push(format!("{}: not all was well {} s later", fault.kind(), PATIENCE.as_secs()))
                }
            }
        }
        self.drift(false);
        if let Some(leader) = leader {
            self.settle(leader, &mut wrong)?;
        }
        let over = self.load.elapsed();
        let members = self.rack.roster.as_ref().map(Roster::summary).unwrap_or_default();
        wrong.extend(members.wrong.iter().cloned());
        Ok(Findings { members, ..witness.finish(leader, wrong).findings(over) })
    }

    /// Members come and go from now on, or no longer.
    fn drift(&self, on: bool) {
        self.rack.roster.iter().for_each(|roster| roster.drift(on));
    }

    fn compare_members(&self, leader: usize, over: bool) {
        if let (Some(roster), Some(api)) = (&self.rack.roster, self.rack.apis().get(leader)) {
            roster.compare(api, over);
        }
    }

    /// Waits until the members that came and went have left.
    fn settle(&mut self, leader: usize, wrong: &mut Vec<String>) -> Result<()> {
        let until = Instant::now() + PATIENCE;
        let api = self.rack.apis()[leader].clone();
        while !self.rack.roster.as_ref().is_none_or(|roster| roster.is_settled(&api)) {
            if Instant::now() >= until {
                wrong.push(format!("members that left are still there {} s later", PATIENCE.as_secs()));
                break;
            }
            self.last(Duration::from_millis(100))?;
        }
        self.compare_members(leader, true);
        Ok(())
    }

    /// One fault, until all is well again: then the number of the controller that leads.
    fn fault(&mut self, fault: &Fault, leader: usize, witness: &Witness) -> Result<Option<usize>> {
        let hit = match fault.target {
            Target::Leader => Hit::Controller(leader as u8),
            Target::Standby => Hit::Controller(1 - leader as u8),
            Target::Node(node) => Hit::Node(node),
        };
        witness.fault(fault.kind());
        strike(self.rack, hit, fault.blow, true)?;
        self.last(fault.lasts)?;
        strike(self.rack, hit, fault.blow, false)?;
        self.calm(witness)
    }

    /// Waits until one controller leads, the other follows, and all nodes of etcd serve. Returns the number of the first one.
    fn calm(&mut self, witness: &Witness) -> Result<Option<usize>> {
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            self.last(Duration::from_millis(60))?;
            let seen = witness.seen();
            let leader = seen.iter().position(|s| s.leads);
            let follow = |(n, s): (usize, &Seen)| Some(n) == leader || s.follows;
            let runs = self.rack.children().all(|c| c.runs());
            if leader.is_some()
                && runs
                && seen.iter().enumerate().all(follow)
                && self.rack.etcd_is_healthy()?
            {
                return Ok(leader);
            }
        }
        Ok(None)
    }
}
