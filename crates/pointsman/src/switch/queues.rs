//! Settings of the traffic manager: `--queue`, `--queue-file`.

use pointsman_v1model::{QueueConfig, Switch, SwitchConfig};
use std::path::Path;

/// Rate and depth of some queues: `PORT[:PRIORITY]=RATE[,DEPTH]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// `None`: every port.
    pub port: Option<u32>,
    /// `None`: all queues of the port.
    pub priority: Option<u8>,
    /// Packets a second; `None` for no limit.
    pub rate_pps: Option<u64>,
    /// Packets; `None` for the value of `--queue-depth`.
    pub depth_packets: Option<u32>,
}

impl std::str::FromStr for Setting {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        let wrong = |what: &str| {
            format!(
                "'{s}' {what}: write PORT[:PRIORITY]=RATE[,DEPTH], such as 1=1000,64, 1:7=500 or all=max,256"
            )
        };
        let (queue, limits) = s.split_once('=').ok_or_else(|| wrong("has no `=`"))?;
        let (port, priority) = match queue.trim().split_once(':') {
            Some((port, priority)) => (port, Some(priority)),
            None => (queue.trim(), None),
        };
        let port = match port {
            "all" => None,
            n => Some(n.parse().map_err(|_| wrong("does not begin with a port number or `all`"))?),
        };
        let priority = priority
            .map(|p| {
                p.parse().ok().filter(|p| *p < 8).ok_or_else(|| wrong("has a priority that is not 0 to 7"))
            })
            .transpose()?;
        let (rate, depth) = match limits.trim().split_once(',') {
            Some((rate, depth)) => (rate.trim(), Some(depth.trim())),
            None => (limits.trim(), None),
        };
        let positive = |n: &u64| *n > 0;
        let rate_pps = match rate {
            "max" => None,
            n => Some(n.parse().ok().filter(positive).ok_or_else(|| {
                wrong("has a rate that is neither a positive number of packets per second nor `max`")
            })?),
        };
        let depth_packets = depth
            .map(|d| {
                d.parse()
                    .ok()
                    .filter(|d| *d > 0)
                    .ok_or_else(|| wrong("has a depth that is not a positive number"))
            })
            .transpose()?;
        Ok(Setting { port, priority, rate_pps, depth_packets })
    }
}

/// Reads a file of settings, one a line; `#` begins a comment.
///
/// # Errors
/// Names the line.
pub fn read_file(path: &Path) -> Result<Vec<Setting>, String> {
    let name = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|e| format!("cannot read {name}: {e}; give --queue-file a file"))?;
    let lines =
        text.lines().enumerate().map(|(n, line)| (n + 1, line.split('#').next().unwrap_or("").trim()));
    lines
        .filter(|(_, line)| !line.is_empty())
        .map(|(n, line)| line.parse().map_err(|e| format!("{name}:{n}: {e}")))
        .collect()
}

/// Applies exactly these settings to the queues; later settings win.
///
/// # Errors
/// A priority or port that does not exist; nothing is changed.
pub fn apply<E: pointsman_ir::Executor>(
    switch: &mut Switch<E>,
    config: &SwitchConfig,
    settings: &[Setting],
) -> Result<(), String> {
    settings.iter().try_for_each(|s| check(s, config))?;
    let (depth_packets, rate_pps) = (config.queue_depth_packets, config.queue_rate_pps);
    let default = QueueConfig { depth_packets, rate_pps, ..QueueConfig::default() };
    switch.configure_all_queues(default).map_err(|e| e.to_string())?;
    for setting in settings {
        let limits = QueueConfig {
            depth_packets: setting.depth_packets.unwrap_or(default.depth_packets),
            rate_pps: setting.rate_pps,
            ..default
        };
        match (setting.port, setting.priority) {
            (None, None) => switch.configure_all_queues(limits),
            (Some(port), priority) => switch.configure_queue(port, priority, limits),
            (None, priority) => config
                .ports
                .iter()
                .flatten()
                .chain(config.cpu_port.as_ref())
                .try_for_each(|port| switch.configure_queue(*port, priority, limits)),
        }
        .map_err(|e| e.to_string())?;
    }
    Ok(())
}

/// Checks that such queues exist.
fn check(setting: &Setting, config: &SwitchConfig) -> Result<(), String> {
    if let Some(port) = setting.port
        && config.cpu_port != Some(port)
        && config.ports.as_ref().is_some_and(|all| !all.contains(&port))
    {
        return Err(format!("port {port} does not exist: add it with -i {port}@INTERFACE"));
    }
    if let Some(priority) = setting.priority.filter(|p| *p >= config.queues_per_port) {
        return Err(format!(
            "no queue of priority {priority}: start with --priority-queues {} or more",
            priority + 1
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<Setting, &str>) {
        match (text.parse::<Setting>(), expected) {
            (Ok(got), Ok(expected)) => assert_eq!(got, expected, "{text}"),
            (Err(got), Err(part)) => assert!(got.contains(part) && got.contains("PORT[:PRIORITY]"), "{got}"),
            (got, expected) => panic!("{text}: {got:?}, expected {expected:?}"),
        }
    }

    #[test]
    fn settings() {
        let plain = Setting { port: Some(1), priority: None, rate_pps: Some(1000), depth_packets: None };
        check("1=1000", Ok(plain));
        check("1=1000,64", Ok(Setting { depth_packets: Some(64), ..plain }));
        check(" 1:7 = 1000 , 64 ", Ok(Setting { priority: Some(7), depth_packets: Some(64), ..plain }));
        check("all=max,9", Ok(Setting { port: None, rate_pps: None, depth_packets: Some(9), ..plain }));
        check("1", Err("has no `=`"));
        check("x=1", Err("port number or `all`"));
        check("1:8=1", Err("not 0 to 7"));
        check("1=0", Err("neither a positive number"));
        check("1=", Err("rate"));
        check("1=1,0", Err("depth"));
        check("1=1,x", Err("depth"));
    }
}
