//! Settings of the traffic manager: `--queue`, `--queue-file`.

pub use pointsman_stf::queues::{BURST_NS, Depth, Queue, Rate, Setting};

use pointsman_stf::queues::SettingError;
use pointsman_v1model::{ConfigError, QueueConfig, Switch, SwitchConfig};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::{fmt, io};

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
        settings.iter().try_for_each(|setting| setting.apply(switch, config))
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
