//! Metrics that every part has: its version, and what the kernel knows of its process. Names are those of Prometheus' own client
//! libraries.

use super::{Labels, Page, one};
use std::time::Duration;

/// Ticks per second in files of /proc (`USER_HZ`), on every architecture of today.
const TICKS: u64 = 100;

/// What the kernel knows of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Process {
    /// CPU time.
    pub cpu: Duration,
    /// Memory in use, in bytes.
    pub resident: u64,
    /// Address space, in bytes.
    pub virtual_memory: u64,
    /// Open descriptors.
    pub open_fds: u64,
    /// Most open descriptors; `None` without a limit.
    pub max_fds: Option<u64>,
    /// When it started, in seconds since 1970.
    pub started_at: f64,
}

/// A number behind a name at the start of a line, as in `VmRSS:   1234 kB`.
fn number_of(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
}

impl Process {
    /// From the texts of /proc/self/`stat`, `status` and `limits`, and of /proc/`stat`; what is missing is 0.
    pub fn from_texts(stat: &str, status: &str, limits: &str, machine: &str) -> Process {
        // The name of the program, in parentheses, may have blanks: fields count from behind it, `state` is the third.
        let fields: Vec<&str> =
            stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
        let field = |n: usize| fields.get(n - 3).and_then(|f| f.parse::<u64>().ok()).unwrap_or(0);
        let boot = number_of(machine, "btime ").unwrap_or(0);
        Process {
            cpu: Duration::from_millis((field(14) + field(15)) * 1000 / TICKS),
            resident: number_of(status, "VmRSS:").unwrap_or(0) << 10,
            virtual_memory: number_of(status, "VmSize:").unwrap_or(0) << 10,
            open_fds: 0,
            max_fds: number_of(limits, "Max open files"),
            started_at: boot as f64 + field(22) as f64 / TICKS as f64,
        }
    }

    /// This process.
    pub fn own() -> Process {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let texts = ["self/stat", "self/status", "self/limits", "stat"].map(|f| read(&format!("/proc/{f}")));
        let [stat, status, limits, machine] = &texts;
        // The folder itself is open while it is read.
        let open = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count).saturating_sub(1);
        Process { open_fds: open as u64, ..Process::from_texts(stat, status, limits, machine) }
    }

    /// Adds it to a page, with the version. `component`: `switch`, `controller` and the like.
    pub fn add_to(&self, component: &str, page: &mut Page) {
        let labels: Labels = vec![
            ("component", component.to_string()),
            ("version", env!("CARGO_PKG_VERSION").to_string()),
            ("arch", std::env::consts::ARCH.to_string()),
        ];
        page.gauge("pointsman_build_info", "Version of this program; 1.", vec![(labels, 1.0)]);
        let cpu = vec![(Labels::new(), self.cpu.as_secs_f64())];
        page.counter("process_cpu_seconds", "CPU time of the process.", cpu);
        page.gauge("process_resident_memory_bytes", "Memory in use.", one(self.resident));
        page.gauge("process_virtual_memory_bytes", "Address space.", one(self.virtual_memory));
        page.gauge("process_open_fds", "Open file descriptors.", one(self.open_fds));
        let most = self.max_fds.map(|n| (Labels::new(), n as f64)).into_iter().collect();
        page.gauge("process_max_fds", "Limit of open file descriptors.", most);
        let started = vec![(Labels::new(), self.started_at)];
        page.gauge("process_start_time_seconds", "When the process started, in seconds since 1970.", started);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_the_kernel() {
        let stat = "77 (a) b) S 1 77 77 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 3 0 12345 1000 200 18446744073709551615";
        let status = "Name:\tx\nVmSize:\t    2048 kB\nVmRSS:\t     512 kB\n";
        let limits = "Limit                     Soft Limit           Hard Limit           Units\n\
                      Max open files            1024                 524288               files\n";
        let process = Process::from_texts(stat, status, limits, "cpu 1\nbtime 1700000000\n");
        let right = Process {
            cpu: Duration::from_secs(3),
            resident: 512 << 10,
            virtual_memory: 2048 << 10,
            open_fds: 0,
            max_fds: Some(1024),
            started_at: 1_700_000_123.45,
        };
        assert_eq!(process, right);
        let none = Process::from_texts("", "", &limits.replace("1024", "unlimited"), "");
        assert_eq!(none, Process::default());
    }

    #[test]
    fn this_process() {
        let own = Process::own();
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
        let age = now.as_secs_f64() - own.started_at;
        assert!((-1.0..3600.0).contains(&age), "started {age} s ago");
        assert!(own.resident > 1 << 20 && own.open_fds >= 3, "{own:?}");
        let mut page = Page::default();
        own.add_to("test", &mut page);
        let text = page.text();
        assert!(
            text.contains("\nprocess_cpu_seconds_total ") && text.contains("component=\"test\""),
            "{text}"
        );
    }
}
