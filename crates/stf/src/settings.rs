//! Settings of a test's switch: the statement `switch`.

use crate::command::{Command, Line};
use crate::parse::StatementError;
use pointsman_v1model::SwitchConfig;
use pointsman_v1model::units::nanoseconds;

/// How it is written.
pub(crate) const USAGE: &str =
    "switch [cpu-port=N] [priority-queues=N] [max-descendants=N] [timestamps=us|ns] [clock-offset=TIME]";

/// What a test sets; the rest is as usual.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    cpu_port: Option<u32>,
    queues_per_port: Option<u8>,
    max_descendants: Option<u32>,
    nanoseconds: Option<bool>,
    clock_offset_us: Option<u64>,
}

impl Settings {
    /// Reads `NAME=VALUE`, each at most once.
    pub(crate) fn read(words: &[&str]) -> Result<Settings, StatementError> {
        let mut this = Settings::default();
        words.iter().try_for_each(|word| this.read_one(word).ok_or(StatementError::Usage(USAGE)))?;
        Ok(this)
    }

    fn read_one(&mut self, word: &str) -> Option<()> {
        let (name, value) = word.split_once('=')?;
        match name {
            "cpu-port" => set(&mut self.cpu_port, value.parse().ok()),
            "priority-queues" => set(&mut self.queues_per_port, value.parse().ok()),
            "max-descendants" => set(&mut self.max_descendants, value.parse().ok()),
            "timestamps" => {
                let unit = ["us", "ns"].iter().position(|unit| *unit == value);
                set(&mut self.nanoseconds, unit.map(|n| n == 1))
            }
            "clock-offset" => {
                let whole = nanoseconds(value).filter(|ns| ns % 1000 == 0);
                set(&mut self.clock_offset_us, whole.map(|ns| ns / 1000))
            }
            _ => None,
        }
    }

    /// A configuration with these settings.
    pub(crate) fn over(&self, config: SwitchConfig) -> SwitchConfig {
        let descendants = |n| if n == 0 { None } else { Some(n) };
        SwitchConfig {
            cpu_port: self.cpu_port.or(config.cpu_port),
            queues_per_port: self.queues_per_port.unwrap_or(config.queues_per_port),
            max_descendants: self.max_descendants.map_or(config.max_descendants, descendants),
            nanoseconds: self.nanoseconds.unwrap_or(config.nanoseconds),
            clock_offset_us: self.clock_offset_us.unwrap_or(config.clock_offset_us),
            ..config
        }
    }
}

/// Sets what is not set yet.
fn set<T>(to: &mut Option<T>, value: Option<T>) -> Option<()> {
    to.replace(value?).is_none().then_some(())
}

/// The configuration of the switch that a test wants.
pub fn config(lines: &[Line]) -> SwitchConfig {
    match lines.first().map(|line| &line.command) {
        Some(Command::Switch(settings)) => settings.over(SwitchConfig::default()),
        _ => SwitchConfig::default(),
    }
}
