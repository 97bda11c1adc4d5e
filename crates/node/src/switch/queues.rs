//! Settings of the traffic manager: `--queue`, `--queue-file`.

use pointsman_v1model::units::{bits, bytes, nanoseconds, with_unit};
use pointsman_v1model::{ConfigError, PortRate, QueueConfig, SharedBuffer, Switch, SwitchConfig};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::{fmt, io};

/// One setting, as written on the command line or on a line of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// `PORT[:PRIORITY]=RATE[,DEPTH][,delay=TIME][,burst=TIME]`.
    Queue(Queue),
    /// `buffer=SIZE[,PERCENT%]`.
    Buffer(SharedBuffer),
    /// `recirculation=RATE`.
    Recirculation(PortRate),
}

/// The setting of some queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queue {
    /// `None`: every port.
    pub port: Option<u32>,
    /// `None`: all queues of the port.
    pub priority: Option<u8>,
    /// How fast they are served.
    pub rate: Rate,
    /// What they hold; `None` for the value of `--queue-depth`.
    pub depth: Option<Depth>,
    /// Nanoseconds for which each packet is held.
    pub delay_ns: u64,
    /// Of a rate in bits: [`PortRate::burst_ns`].
    pub burst_ns: u64,
}

/// The burst of a port if none is given: less than the time between two batches of packets.
pub const BURST_NS: u64 = 10_000;

/// A rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// No limit.
    Max,
    /// Packets a second, of each queue.
    Packets(u64),
    /// Bits a second on the wire, of the port.
    Bits(u64),
}

/// A depth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// In packets.
    Packets(u32),
    /// In bytes.
    Bytes(u64),
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Setting::Queue(queue) => queue.fmt(f),
            Setting::Buffer(SharedBuffer { bytes, threshold_percent }) => {
                write!(f, "buffer={bytes}B,{threshold_percent}%")
            }
            Setting::Recirculation(rate) => write!(f, "recirculation={}bit", rate.bits_per_s),
        }
    }
}

impl fmt::Display for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => write!(f, "{port}"),
            None => f.write_str("all"),
        }?;
        self.priority.iter().try_for_each(|priority| write!(f, ":{priority}"))?;
        match self.rate {
            Rate::Max => f.write_str("=max"),
            Rate::Packets(n) => write!(f, "={n}"),
            Rate::Bits(n) => write!(f, "={n}bit"),
        }?;
        match self.depth {
            Some(Depth::Packets(n)) => write!(f, ",{n}"),
            Some(Depth::Bytes(n)) => write!(f, ",{n}B"),
            None => Ok(()),
        }?;
        if self.delay_ns > 0 {
            write!(f, ",delay={}ns", self.delay_ns)?;
        }
        match self.rate {
            Rate::Bits(_) if self.burst_ns == 0 => f.write_str(",burst=0"),
            Rate::Bits(_) if self.burst_ns != BURST_NS => write!(f, ",burst={}ns", self.burst_ns),
            _ => Ok(()),
        }
    }
}

/// A text is not a setting of the traffic manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingError {
    /// The text.
    pub text: String,
    /// What is wrong with it.
    pub fault: &'static str,
}

impl fmt::Display for SettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SettingError { text, fault } = self;
        write!(
            f,
            "'{text}' {fault}: write PORT[:PRIORITY]=RATE[,DEPTH][,delay=TIME][,burst=TIME], such as 1=1000,64, 1:7=500, \
             all=max,256 or 1=10Gbit,200kB; or buffer=12MB,100%; or recirculation=10Gbit"
        )
    }
}

impl Error for SettingError {}

impl std::str::FromStr for Setting {
    type Err = SettingError;

    fn from_str(s: &str) -> Result<Self, SettingError> {
        let wrong = |fault| SettingError { text: s.to_string(), fault };
        let (left, right) = s.split_once('=').ok_or_else(|| wrong("has no `=`"))?;
        let mut parts = right.split(',').map(str::trim);
        let first = parts.next().unwrap_or_default();
        let setting = match left.trim() {
            "buffer" => {
                let percent = parts.next().map_or(Some(100), |p| p.strip_suffix('%')?.parse().ok());
                let threshold_percent = percent.filter(|p| *p > 0);
                let size = bytes(first).ok_or_else(|| wrong("has a size that is not like 12MB"))?;
                let threshold_percent =
                    threshold_percent.ok_or_else(|| wrong("has a part that is not like 100%"))?;
                Setting::Buffer(SharedBuffer { bytes: size, threshold_percent })
            }
            "recirculation" => {
                let rate = bits(first).ok_or_else(|| wrong("has a rate that is not like 10Gbit"))?;
                Setting::Recirculation(PortRate::ethernet(rate))
            }
            queue => Setting::Queue(Queue::read(queue, first, &mut parts).map_err(wrong)?),
        };
        match parts.next() {
            None => Ok(setting),
            Some(_) => Err(wrong("has too many parts")),
        }
    }
}

impl Queue {
    fn read<'t>(
        queue: &str,
        rate: &str,
        more: &mut impl Iterator<Item = &'t str>,
    ) -> Result<Queue, &'static str> {
        let (port, priority) = match queue.split_once(':') {
            Some((port, priority)) => (port, Some(priority)),
            None => (queue, None),
        };
        let port = match port {
            "all" => None,
            n => Some(n.parse().map_err(|_| "does not begin with a port number or `all`")?),
        };
        let priority = match priority {
            Some(p) => Some(p.parse().ok().filter(|p| *p < 8).ok_or("has a priority that is not 0 to 7")?),
            None => None,
        };
        let rate = match rate {
            "max" => Rate::Max,
            text => match (with_unit(text, &[("", 1)]), bits(text)) {
                (Some(n), _) => Rate::Packets(n),
                (None, Some(n)) => Rate::Bits(n),
                _ => {
                    return Err(
                        "has a rate that is neither a positive number of packets per second, nor one of bits such as \
                                10Gbit, nor `max`",
                    );
                }
            },
        };
        if matches!(rate, Rate::Bits(_)) && priority.is_some() {
            return Err(
                "has a rate in bits for one queue: it is the port's, which serves its queues by priority",
            );
        }
        let burst_ns = if let Rate::Bits(_) = rate { BURST_NS } else { 0 };
        let mut this = Queue { port, priority, rate, depth: None, delay_ns: 0, burst_ns };
        more.try_for_each(|part| this.read_part(part))?;
        Ok(this)
    }

    fn read_part(&mut self, part: &str) -> Result<(), &'static str> {
        if let Some(time) = part.strip_prefix("delay=") {
            self.delay_ns = nanoseconds(time).ok_or("has a delay that is not like 5us or 1ms")?;
        } else if let Some(time) = part.strip_prefix("burst=") {
            if !matches!(self.rate, Rate::Bits(_)) {
                return Err("has a burst without a rate in bits such as 10Gbit");
            }
            let none = (time == "0").then_some(0);
            self.burst_ns =
                none.or_else(|| nanoseconds(time)).ok_or("has a burst that is not 0 or like 5us")?;
        } else if self.depth.is_some() {
            return Err("has two depths");
        } else {
            let packets = part.parse().ok().filter(|d| *d > 0).map(Depth::Packets);
            let depth = packets.or_else(|| bytes(part).map(Depth::Bytes));
            self.depth =
                Some(depth.ok_or("has a depth that is neither a positive number of packets nor like 200kB")?);
        }
        Ok(())
    }

    /// The settings of each of its queues.
    fn config(&self, default: &QueueConfig) -> QueueConfig {
        let rate_pps = if let Rate::Packets(n) = self.rate { Some(n) } else { None };
        let (depth_packets, depth_bytes) = match self.depth {
            None => (default.depth_packets, None),
            Some(Depth::Packets(n)) => (n, None),
            Some(Depth::Bytes(n)) => (u32::MAX, Some(n)),
        };
        QueueConfig { depth_packets, depth_bytes, rate_pps, delay_ns: self.delay_ns }
    }

    /// Applies it.
    fn apply<E: pointsman_ir::Executor>(
        &self,
        switch: &mut Switch<E>,
        config: &SwitchConfig,
        default: &QueueConfig,
    ) -> Result<(), ConfigError> {
        let limits = self.config(default);
        let port_rate = |bits| PortRate { burst_ns: self.burst_ns, ..PortRate::ethernet(bits) };
        let rate = if let Rate::Bits(n) = self.rate { Some(port_rate(n)) } else { None };
        if let (None, None) = (self.port, self.priority) {
            switch.configure_all_queues(limits)?;
        }
        let all = || config.ports.iter().flatten().chain(config.cpu_port.as_ref());
        let ports: Vec<u32> = self.port.map_or_else(|| all().copied().collect(), |port| vec![port]);
        for port in ports {
            switch.configure_queue(port, self.priority, limits)?;
            if self.priority.is_none() {
                switch.configure_port_rate(port, rate)?;
            }
        }
        Ok(())
    }
}

/// What is wrong with settings.
#[derive(Debug)]
pub enum QueueError {
    /// Their file cannot be read.
    Unreadable(PathBuf, io::Error),
    /// A line of it is wrong: path, line, and why.
    Line(PathBuf, usize, SettingError),
    /// The port does not exist.
    Port(u32),
    /// Ports have no queue of this priority.
    Priority(u8),
    /// The switch cannot have them.
    Switch(ConfigError),
}

impl fmt::Display for QueueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            QueueError::Unreadable(path, e) => {
                write!(f, "cannot read {}: {e}; give --queue-file a file", path.display())
            }
            QueueError::Line(path, line, why) => write!(f, "{}:{line}: {why}", path.display()),
            QueueError::Port(port) => {
                write!(f, "port {port} does not exist: add it with -i {port}@INTERFACE")
            }
            QueueError::Priority(priority) => write!(
                f,
                "no queue of priority {priority}: start with --priority-queues {} or more",
                priority + 1
            ),
            QueueError::Switch(e) => e.fmt(f),
        }
    }
}

impl Error for QueueError {}

/// Reads a file of settings, one a line; `#` begins a comment.
///
/// # Errors
/// The file or a line of it is wrong.
pub fn read_file(path: &Path) -> Result<Vec<Setting>, QueueError> {
    let text = std::fs::read_to_string(path).map_err(|e| QueueError::Unreadable(path.to_path_buf(), e))?;
    let lines =
        text.lines().enumerate().map(|(n, line)| (n + 1, line.split('#').next().unwrap_or("").trim()));
    lines
        .filter(|(_, line)| !line.is_empty())
        .map(|(n, line)| line.parse().map_err(|e| QueueError::Line(path.to_path_buf(), n, e)))
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
) -> Result<(), QueueError> {
    let queues = settings.iter().filter_map(|s| if let Setting::Queue(q) = s { Some(q) } else { None });
    queues.into_iter().try_for_each(|q| check(q, config))?;
    let (depth_packets, rate_pps) = (config.queue_depth_packets, config.queue_rate_pps);
    let default = QueueConfig { depth_packets, rate_pps, ..QueueConfig::default() };
    let mut applied = || {
        switch.configure_all_queues(default)?;
        switch.configure_buffer(None)?;
        switch.configure_recirculation(config.recirculation_rate)?;
        for setting in settings {
            match setting {
                Setting::Queue(queue) => queue.apply(switch, config, &default)?,
                Setting::Buffer(buffer) => switch.configure_buffer(Some(*buffer))?,
                Setting::Recirculation(rate) => switch.configure_recirculation(Some(*rate))?,
            }
        }
        Ok(())
    };
    applied().map_err(QueueError::Switch)
}

/// Checks that such queues exist.
fn check(setting: &Queue, config: &SwitchConfig) -> Result<(), QueueError> {
    if let Some(port) = setting.port
        && config.cpu_port != Some(port)
        && config.ports.as_ref().is_some_and(|all| !all.contains(&port))
    {
        return Err(QueueError::Port(port));
    }
    if let Some(priority) = setting.priority.filter(|p| *p >= config.queues_per_port) {
        return Err(QueueError::Priority(priority));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<Setting, &str>) {
        match (text.parse::<Setting>(), expected) {
            (Ok(got), Ok(expected)) => {
                assert_eq!(got, expected, "{text}");
                assert_eq!(got.to_string().parse(), Ok(expected), "{text} as {got}");
            }
            (Err(got), Err(part)) => {
                let got = got.to_string();
                assert!(got.contains(part) && got.contains("PORT[:PRIORITY]"), "{got}");
            }
            (got, expected) => panic!("{text}: {got:?}, expected {expected:?}"),
        }
    }

    #[test]
    fn settings() {
        let plain = Queue {
            port: Some(1),
            priority: None,
            rate: Rate::Packets(1000),
            depth: None,
            delay_ns: 0,
            burst_ns: 0,
        };
        let packets = |n| Some(Depth::Packets(n));
        let ok = |queue| Ok(Setting::Queue(queue));
        check("1=1000", ok(plain));
        check("1=1000,64", ok(Queue { depth: packets(64), ..plain }));
        check(" 1:7 = 1000 , 64 ", ok(Queue { priority: Some(7), depth: packets(64), ..plain }));
        check("all=max,9", ok(Queue { port: None, rate: Rate::Max, depth: packets(9), ..plain }));
        let gigabit = Queue { rate: Rate::Bits(10_000_000_000), burst_ns: BURST_NS, ..plain };
        check("1=10Gbit", ok(gigabit));
        check(
            "1=10Gbit,200kB,delay=5us",
            ok(Queue { depth: Some(Depth::Bytes(200_000)), delay_ns: 5_000, ..gigabit }),
        );
        check("1=10Gbit,burst=50us", ok(Queue { burst_ns: 50_000, ..gigabit }));
        check("1=10Gbit,burst=0", ok(Queue { burst_ns: 0, ..gigabit }));
        check("1=10Gbit,burst=1", Err("not 0 or like 5us"));
        check("1=1000,burst=1us", Err("without a rate in bits"));
        check("1=max,delay=1ms", ok(Queue { rate: Rate::Max, delay_ns: 1_000_000, ..plain }));
        check("buffer=12MB", Ok(Setting::Buffer(SharedBuffer { bytes: 12_000_000, threshold_percent: 100 })));
        check("buffer=1kB,50%", Ok(Setting::Buffer(SharedBuffer { bytes: 1_000, threshold_percent: 50 })));
        check("recirculation=5Mbit", Ok(Setting::Recirculation(PortRate::ethernet(5_000_000))));
        check("1", Err("has no `=`"));
        check("x=1", Err("port number or `all`"));
        check("1:8=1", Err("not 0 to 7"));
        for rate in ["0", "", "0Gbit", "10GB", "99999999999Gbit", "-1"] {
            check(&format!("1={rate}"), Err("neither a positive number of packets per second"));
        }
        check("1:2=1Gbit", Err("it is the port's"));
        check("1=1,0", Err("depth"));
        check("1=1,x", Err("depth"));
        check("1=1,2,3", Err("two depths"));
        check("1=1,delay=3", Err("not like 5us"));
        check("buffer=12", Err("not like 12MB"));
        check("buffer=12MB,0%", Err("not like 100%"));
        check("buffer=12MB,5%,3", Err("too many parts"));
        check("recirculation=max", Err("not like 10Gbit"));
    }
}
