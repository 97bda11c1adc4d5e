//! A scenario with all its times multiplied.

use pointsman_balance::config::AgentSettings;
use pointsman_sim::Scenario;
use pointsman_sim::arrivals::ArrivalModel;
use pointsman_sim::random::Distribution;

fn times_factor(ms: u32, factor: f64) -> u32 {
    // A value of 0 means "disabled", and stays 0.
    if ms == 0 { 0 } else { ((f64::from(ms) * factor).round() as u32).max(1) }
}

/// The same scenario with all times multiplied: on a rack with slower or quicker devices, loads and clocks. Numbers of
/// milliseconds are rounded, to at least one; time-outs of reports do not shrink. Links and switch are unchanged.
pub fn stretched(s: &Scenario, factor: f64) -> Scenario {
    let ns = |ns: u64| (ns as f64 * factor).round() as u64;
    let mut out = s.clone();
    for time in [&mut out.duration_ns, &mut out.warmup_ns, &mut out.patience_ns, &mut out.agents.sampling_ns]
    {
        *time = ns(*time);
    }
    for model in &mut out.devices {
        match &mut model.service {
            Distribution::Deterministic { mean_ns }
            | Distribution::Exponential { mean_ns }
            | Distribution::LogNormal { mean_ns, .. } => *mean_ns *= factor,
            Distribution::Empirical { values_ns } => {
                *values_ns = values_ns.iter().map(|v| v * factor).collect();
            }
        }
        model.give_up_ns = model.give_up_ns.map(ns);
    }
    for client in &mut out.clients {
        match &mut client.arrivals {
            ArrivalModel::Poisson { rate_per_s } | ArrivalModel::NearConstant { rate_per_s, .. } => {
                *rate_per_s /= factor;
            }
            ArrivalModel::Mmpp { states } => {
                *states = states.iter().map(|(rate, mean)| (rate / factor, mean * factor)).collect();
            }
            ArrivalModel::Steps { rates_per_s, step_ns } => {
                *rates_per_s = rates_per_s.iter().map(|r| r / factor).collect();
                *step_ns = ns(*step_ns).max(1);
            }
            ArrivalModel::Diurnal { rate_per_s, period_ns, .. } => {
                *rate_per_s /= factor;
                *period_ns = ns(*period_ns).max(1);
            }
            ArrivalModel::Trace { times_ns } => *times_ns = times_ns.iter().map(|t| ns(*t)).collect(),
        }
    }
    // No shorter: an agent that waits for a processor must not look like one that is dead.
    let switch = &mut out.rack.switch;
    for ms in [&mut switch.report_timeout_ms, &mut switch.poll_interval_ms] {
        *ms = times_factor(*ms, factor.max(1.0));
    }
    out.rack.services.iter_mut().for_each(|s| s.idle_timeout_ms = times_factor(s.idle_timeout_ms, factor));
    for device in out.rack.servers.iter_mut().flat_map(|s| &mut s.devices) {
        stretch_agent(&mut device.agent, factor);
    }
    out
}

fn stretch_agent(a: &mut AgentSettings, factor: f64) {
    let times =
        [&mut a.heartbeat_ms, &mut a.repeat_ms, &mut a.hold_ms, &mut a.window_ms, &mut a.lost_after_ms];
    times.into_iter().for_each(|ms| *ms = times_factor(*ms, factor));
    if let Some(latency) = &mut a.latency_ms {
        latency.high *= factor;
        latency.low *= factor;
    }
}
