//! The scenario's events.

use super::{Event, World};
use crate::fault::Fault;
use crate::scenario::Action;
use pointsman_balance::controller::Input;
use pointsman_balance::{DeviceNumber, Rack};
use pointsman_ir::Executor;

impl<E: Executor> World<E> {
    /// Performs the actions that are due, and enters the next ones.
    pub(super) fn act(&mut self) {
        let scenario = self.scenario.clone();
        let since = self.network.now() - self.start;
        while let Some(event) = scenario.events.get(self.next_action) {
            if event.at_ns > since {
                self.network.enter(self.start + event.at_ns, Event::Action);
                return;
            }
            self.next_action += 1;
            self.apply(&event.action);
        }
    }

    fn apply(&mut self, action: &Action) {
        match action {
            Action::Fail(devices) => {
                for i in devices {
                    let (served, waiting) = self.devices[*i].set_up(self.network.now(), false);
                    self.lost_at_device(served + waiting);
                    self.forget_streams(*i);
                    self.checker.changed(self.network.now(), *i, 0, 0);
                    self.checker.failed(self.network.now(), *i, true);
                    if self.tally.faults.which != Some(Fault::GhostReports) {
                        self.switch_agent(*i, false);
                    }
                }
            }
            Action::Restore(devices) => {
                for i in devices {
                    self.devices[*i].set_up(self.network.now(), true);
                    self.checker.failed(self.network.now(), *i, false);
                    self.switch_agent(*i, true);
                }
            }
            Action::Speed(devices, factor) => devices.iter().for_each(|i| self.devices[*i].speed = *factor),
            Action::Agents(devices, on) => devices.iter().for_each(|i| self.switch_agent(*i, *on)),
            Action::Enable(devices, on) => {
                let numbers = self.numbers(devices);
                if let Some(learn) = &mut self.learn {
                    // Weights determine whether those in service get requests.
                    devices.iter().zip(&numbers).for_each(|(i, n)| learn.set_in_service(*i, *n, *on));
                    return self.apply_weights();
                }
                for i in devices {
                    self.checker.removed(self.network.now(), *i, !on);
                }
                self.configure(|rack| {
                    let own = rack.servers.iter_mut().flat_map(|s| s.devices.iter_mut());
                    own.filter(|d| numbers.contains(&d.number)).for_each(|d| d.enabled = *on);
                    let parts = members(rack);
                    parts.filter(|d| numbers.contains(&d.number)).for_each(|d| d.enabled = *on);
                });
            }
            Action::Weight(devices, weight) => {
                let numbers = self.numbers(devices);
                self.configure(|rack| {
                    members(rack).filter(|d| numbers.contains(&d.number)).for_each(|d| d.weight = *weight);
                });
            }
            Action::Policy(policy) => {
                // That the rack can do it was checked when the scenario was read.
                let rack = self.control.controllers.rack();
                let names: Vec<String> = rack.services.iter().map(|s| s.name.clone()).collect();
                for service in names {
                    self.controller_input(Input::SetPolicy { service, policy: *policy });
                }
            }
            Action::Link { ports, switch, up } => self.cut(*switch, ports, !up),
            Action::Power(switch, on) => self.set_power(*switch, *on),
            Action::Load(factor) => self.clients.iter_mut().for_each(|c| c.arrivals.factor = *factor),
        }
    }

    fn numbers(&self, devices: &[usize]) -> Vec<DeviceNumber> {
        let all: Vec<DeviceNumber> = self.scenario.rack.devices().map(|(_, d)| d.number).collect();
        devices.iter().map(|i| all[*i]).collect()
    }

    /// Gives the controller a changed configuration.
    pub(super) fn configure(&mut self, change: impl FnOnce(&mut Rack)) {
        let mut rack = self.control.controllers.rack().clone();
        change(&mut rack);
        self.controller_input(Input::Config(Box::new(rack)));
    }
}

/// The parts that devices have in services.
fn members(rack: &mut Rack) -> impl Iterator<Item = &mut pointsman_balance::config::MemberDevice> {
    rack.services.iter_mut().flat_map(|s| s.members.iter_mut()).flat_map(|m| m.devices.iter_mut())
}
