//! A Prometheus server that scrapes the devices, and the controller's module that asks it, ranks devices and names the best: the same as
//! on the wire, but that its queries are names of series.

use super::control::{duration, nanos};
use super::{Event, World};
use pointsman_balance::controller;
use pointsman_balance::mcdm::chooser::{Chooser, Input, Output, Sample};
use pointsman_ir::Executor;
use std::collections::{BTreeMap, VecDeque};

/// The values that a scrape reads from a device.
#[derive(Clone, Copy, Debug)]
struct Counters {
    /// Whether it answers.
    up: bool,
    busy_ns: u128,
    sent_bytes: u64,
    /// In per cent.
    free_memory: f64,
}

/// A series that the server knows: name, and how its value follows from the counters at both ends of the window, for a device with so
/// many workers.
pub(crate) const SERIES: [&str; 3] =
    ["simulated_use_percent", "simulated_free_memory_percent", "simulated_sent_bytes_per_s"];

/// Ethernet, IPv4 and UDP before an answer's payload.
const HEADERS: u64 = 14 + 20 + 8;

fn value(series: &str, from: &Counters, to: &Counters, seconds: f64, workers: u32) -> Option<f64> {
    match SERIES.iter().position(|s| *s == series)? {
        0 => {
            let busy_s = to.busy_ns.saturating_sub(from.busy_ns) as f64 / 1e9;
            Some(100.0 * busy_s / (seconds * f64::from(workers)))
        }
        1 => Some(to.free_memory),
        _ => Some(to.sent_bytes.saturating_sub(from.sent_bytes) as f64 / seconds),
    }
}

/// The server and its clients.
#[derive(Debug, Default)]
pub(super) struct Prometheus {
    /// Of the window and no longer: when, and what, by device.
    scrapes: VecDeque<(u64, Vec<Counters>)>,
    choosers: Vec<Asker>,
    /// Queries in flight: of which module, with which number, for which series.
    open: VecDeque<(usize, u64, String)>,
}

#[derive(Debug)]
struct Asker {
    service: String,
    label: String,
    /// Value of the label, and the device's place.
    alternatives: Vec<(String, usize)>,
    chooser: Chooser,
    tick_at: u64,
}

impl<E: Executor> World<E> {
    /// The modules begin, if services have any.
    pub(super) fn start_choosers(&mut self) {
        let scenario = self.scenario.clone();
        let devices: Vec<_> = scenario.rack.devices().map(|(_, d)| d.number).collect();
        for choice in &scenario.rack.choices {
            let place = |number| devices.iter().position(|n| *n == number);
            let settings = &choice.settings;
            let alternatives = settings.alternatives.iter();
            self.prometheus.choosers.push(Asker {
                service: choice.service.clone(),
                label: settings.label.clone(),
                alternatives: alternatives
                    .filter_map(|a| Some((a.label.clone(), place(a.device)?)))
                    .collect(),
                chooser: Chooser::new(settings.clone()),
                tick_at: u64::MAX,
            });
        }
        if !self.prometheus.choosers.is_empty() {
            self.scrape();
        }
        for i in 0..self.prometheus.choosers.len() {
            self.chooser_input(i, Input::Tick);
        }
    }

    /// Looks at all devices.
    pub(super) fn scrape(&mut self) {
        let model = self.scenario.prometheus.clone();
        let counters = (0..self.devices.len())
            .map(|i| {
                let device = &self.devices[i];
                Counters {
                    up: device.is_up(),
                    busy_ns: self.used_ns(i),
                    sent_bytes: device.counts.served * (u64::from(device.model().answer_bytes) + HEADERS),
                    free_memory: 100.0 - device.model().stress.memory_percent,
                }
            })
            .collect();
        let scrapes = &mut self.prometheus.scrapes;
        scrapes.push_back((self.network.now(), counters));
        while scrapes.front().is_some_and(|(at, _)| self.network.now() - at > model.window_ns) {
            scrapes.pop_front();
        }
        self.network.enter(self.network.now() + model.scrape_ns, Event::Scrape);
    }

    fn chooser_input(&mut self, i: usize, input: Input) {
        let now = self.network.now();
        let Some(asker) = self.prometheus.choosers.get_mut(i) else { return };
        let outputs = asker.chooser.step(duration(now), input);
        let deadline = nanos(asker.chooser.next_deadline()).max(now + 1);
        if deadline < asker.tick_at || asker.tick_at <= now {
            asker.tick_at = deadline;
            self.network.enter(deadline, Event::Chooser(i as u32));
        }
        let service = asker.service.clone();
        for output in outputs {
            match output {
                Output::Query { id, promql } => {
                    self.prometheus.open.push_back((i, id, promql));
                    self.network.enter(now + self.scenario.control_delay_ns, Event::AtPrometheus);
                }
                Output::Choose(device) => {
                    self.controller_input(controller::Input::Choose { service: service.clone(), device });
                }
                Output::Note(_) => {}
            }
        }
    }

    /// A module's deadline.
    pub(super) fn chooser_tick(&mut self, i: usize) {
        if self.prometheus.choosers.get(i).is_some_and(|a| a.tick_at == self.network.now()) {
            self.chooser_input(i, Input::Tick);
        }
    }

    /// The server answers its oldest query: for every device that answered the last scrape, the value of the window.
    pub(super) fn at_prometheus(&mut self) {
        let Some((i, id, series)) = self.prometheus.open.pop_front() else { return };
        let (Some(asker), scrapes) = (self.prometheus.choosers.get(i), &self.prometheus.scrapes) else {
            return;
        };
        let mut samples = Vec::new();
        if let (Some((from_at, from)), Some((to_at, to))) = (scrapes.front(), scrapes.back())
            && to_at > from_at
        {
            let seconds = (to_at - from_at) as f64 / 1e9;
            for (label, device) in &asker.alternatives {
                let workers = self.devices[*device].model().workers;
                let found = value(&series, &from[*device], &to[*device], seconds, workers);
                if let Some(value) = found.filter(|_| to[*device].up) {
                    let labels = BTreeMap::from([(asker.label.clone(), label.clone())]);
                    samples.push(Sample { labels, value });
                }
            }
        }
        self.chooser_input(i, Input::Answer { id, result: Ok(samples) });
    }
}
