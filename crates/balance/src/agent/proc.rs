//! Use of processor, memory and network, from the texts of `/proc`.

use std::collections::VecDeque;
use std::error::Error;
use std::fmt;
use std::time::Duration;

/// What a text of `/proc` lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ProcError {
    NoCpu,
    ShortCpu,
    NoTotal,
    NoAvailable,
    NoInterface(String),
    ShortInterface(String),
}

impl fmt::Display for ProcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProcError::NoCpu => f.write_str("/proc/stat has no line `cpu`"),
            ProcError::ShortCpu => f.write_str("/proc/stat: the line `cpu` has fewer than four numbers"),
            ProcError::NoTotal => f.write_str("/proc/meminfo has no MemTotal"),
            ProcError::NoAvailable => f.write_str("/proc/meminfo has neither MemAvailable nor MemFree"),
            ProcError::NoInterface(name) => write!(f, "/proc/net/dev has no interface `{name}`"),
            ProcError::ShortInterface(name) => write!(f, "/proc/net/dev: too few numbers for `{name}`"),
        }
    }
}

impl Error for ProcError {}

/// What a smoothed value remembers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Memory {
    /// It forgets exponentially, over about this time.
    Window(Duration),
    /// The mean of this many readings, all with the same weight.
    Samples(usize),
}

/// A ratio over time.
#[derive(Debug, Default)]
pub(super) struct Smoothed {
    value: Option<f64>,
    recent: VecDeque<f64>,
}

impl Smoothed {
    pub fn add(&mut self, value: f64, over: Duration, memory: Memory) {
        let mean = match memory {
            Memory::Window(window) => {
                let weight = 1.0 - libm::exp(-over.as_secs_f64() / window.as_secs_f64().max(1e-9));
                self.value.map_or(value, |v| v + weight * (value - v))
            }
            Memory::Samples(most) => {
                self.recent.push_back(value);
                while self.recent.len() > most.max(1) {
                    self.recent.pop_front();
                }
                self.recent.iter().sum::<f64>() / self.recent.len() as f64
            }
        };
        self.value = Some(mean);
    }

    pub fn get(&self) -> Option<f64> {
        self.value
    }
}

/// Processor use: the share of time that was neither idle nor waiting for disks (proc_stat(5)).
#[derive(Debug, Default)]
pub(super) struct Cpu {
    last: Option<(Duration, u64, u64)>,
    pub percent: Smoothed,
}

impl Cpu {
    /// Takes the text of `/proc/stat`.
    pub fn read(&mut self, now: Duration, text: &str, memory: Memory) -> Result<(), ProcError> {
        let line = text.lines().find(|l| l.starts_with("cpu ")).ok_or(ProcError::NoCpu)?;
        // user nice system idle iowait irq softirq steal; guest time is part of user already.
        let (mut ticks, mut numbers) = ([0u64; 8], 0);
        for (tick, word) in ticks.iter_mut().zip(line.split_ascii_whitespace().skip(1)) {
            let Ok(n) = word.parse() else { break };
            (*tick, numbers) = (n, numbers + 1);
        }
        if numbers < 4 {
            return Err(ProcError::ShortCpu);
        }
        let total = ticks.iter().fold(0u64, |a, n| a.saturating_add(*n));
        let idle = ticks[3].saturating_add(ticks[4]);
        if let Some((at, last_total, last_idle)) = self.last {
            let spent = total.saturating_sub(last_total);
            if spent == 0 {
                return Ok(()); // less than a tick since
            }
            // iowait may run backwards.
            let idled = idle.saturating_sub(last_idle).min(spent);
            let used = 100.0 * (spent - idled) as f64 / spent as f64;
            self.percent.add(used, now.saturating_sub(at), memory);
        }
        self.last = Some((now, total, idle));
        Ok(())
    }
}

/// Memory use in per cent, from the text of `/proc/meminfo`: the part not available to programs (proc_meminfo(5)).
pub(super) fn memory(text: &str) -> Result<f64, ProcError> {
    let field = |name: &str| -> Option<f64> {
        let line = text.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(':'))?;
        line.split_ascii_whitespace().next()?.parse::<u64>().ok().map(|n| n as f64)
    };
    let total = field("MemTotal").filter(|t| *t > 0.0).ok_or(ProcError::NoTotal)?;
    // Linux before 3.14 does not report the available memory.
    let available = field("MemAvailable")
        .or_else(|| {
            Some(field("MemFree")? + field("Buffers").unwrap_or(0.0) + field("Cached").unwrap_or(0.0))
        })
        .ok_or(ProcError::NoAvailable)?;
    Ok((100.0 * (1.0 - available / total)).clamp(0.0, 100.0))
}

/// Use of one network interface.
#[derive(Debug, Default)]
pub(super) struct Network {
    last: Option<(Duration, u64, u64)>,
    pub percent: Smoothed,
}

impl Network {
    /// Takes the text of `/proc/net/dev`. The busier direction counts.
    pub fn read(
        &mut self,
        now: Duration,
        text: &str,
        interface: &str,
        mbit_s: f64,
        memory: Memory,
    ) -> Result<(), ProcError> {
        let line = text.lines().find_map(|l| l.trim_start().strip_prefix(interface)?.strip_prefix(':'));
        let line = line.ok_or_else(|| ProcError::NoInterface(interface.into()))?;
        let fields: Vec<u64> = line.split_ascii_whitespace().map_while(|n| n.parse().ok()).collect();
        let (Some(received), Some(sent)) = (fields.first().copied(), fields.get(8).copied()) else {
            return Err(ProcError::ShortInterface(interface.into()));
        };
        if let Some((at, last_received, last_sent)) = self.last {
            let over = now.saturating_sub(at);
            if over.is_zero() {
                return Ok(());
            }
            // Counters that went back were reset with the interface.
            let bytes = received.saturating_sub(last_received).max(sent.saturating_sub(last_sent));
            let percent = 100.0 * (bytes as f64 * 8.0) / (over.as_secs_f64() * mbit_s * 1e6);
            self.percent.add(percent.min(100.0), over, memory);
        }
        self.last = Some((now, received, sent));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: Option<f64>, b: f64) {
        let a = a.expect("a value");
        assert!((a - b).abs() < 1e-6, "{a} is not {b}");
    }

    const WINDOW: Memory = Memory::Window(Duration::from_nanos(1)); // no smoothing

    #[test]
    fn cpu() {
        let mut cpu = Cpu::default();
        let mut at = |s, text: &str| {
            cpu.read(Duration::from_secs(s), text, WINDOW).expect("valid");
            cpu.percent.get()
        };
        assert_eq!(at(1, "cpu  100 0 100 700 100 0 0 0 0 0\ncpu0 1 2 3 4\n"), None);
        close(at(2, "cpu  150 10 120 760 110 5 5 0 40 0\n"), 100.0 * (90.0 / 160.0));
        close(at(2, "cpu  150 10 120 760 110 5 5 0 40 0\n"), 100.0 * (90.0 / 160.0));
        close(at(3, "cpu  250 10 120 760 100 5 5 0 40 0\n"), 100.0);
        assert!(cpu.read(Duration::ZERO, "intr 5", WINDOW).is_err());
        assert!(cpu.read(Duration::ZERO, "cpu  x", WINDOW).is_err());
    }

    #[test]
    fn meminfo() {
        close(memory("MemTotal:  1000 kB\nMemFree: 1 kB\nMemAvailable:  250 kB\n").ok(), 75.0);
        close(memory("MemTotal:  1000 kB\nMemFree: 100 kB\nBuffers: 50 kB\nCached:  250 kB\n").ok(), 60.0);
        assert!(memory("").is_err());
        assert!(memory("MemTotal: 0 kB\nMemFree: 0 kB").is_err());
        assert!(memory("MemTotal: 10 kB").is_err());
    }

    #[test]
    fn network() {
        let text = |received: u64, sent: u64| {
            format!(
                "Inter-|   Receive\n  lo: 9 9 0 0 0 0 0 0 9 9\n  eth0:{received} 5 0 0 0 0 0 0 {sent} 6 0 0 0 0 0 0\n"
            )
        };
        let mut n = Network::default();
        n.read(Duration::from_secs(1), &text(0, 0), "eth0", 8.0, WINDOW).expect("valid");
        n.read(Duration::from_secs(2), &text(100_000, 250_000), "eth0", 8.0, WINDOW).expect("valid");
        close(n.percent.get(), 25.0);
        n.read(Duration::from_secs(3), &text(0, 0), "eth0", 8.0, WINDOW).expect("valid");
        close(n.percent.get(), 0.0);
        assert!(n.read(Duration::from_secs(3), &text(0, 0), "eth", 8.0, WINDOW).is_err());
        assert!(n.read(Duration::from_secs(3), "eth0: 1 2", "eth0", 8.0, WINDOW).is_err());
    }

    #[test]
    fn smoothing_forgets_with_time() {
        let mut s = Smoothed::default();
        let second = Memory::Window(Duration::from_secs(1));
        s.add(100.0, Duration::from_secs(1), second);
        close(s.get(), 100.0);
        s.add(0.0, Duration::from_secs(1), second);
        close(s.get(), 100.0 * (-1.0f64).exp());
    }
    /// The mean of the last three, whatever time passed between them.
    #[test]
    fn samples() {
        let mut s = Smoothed::default();
        for (value, over_ms, wanted) in [(90.0, 1, 90.0), (0.0, 900, 45.0), (30.0, 1, 40.0), (60.0, 5, 30.0)]
        {
            s.add(value, Duration::from_millis(over_ms), Memory::Samples(3));
            close(s.get(), wanted);
        }
    }
}
