//! A CPU quota for some threads of this process, or for a program that it started, by cgroup version 1 or 2.

use crate::error::{Error, Result};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where the cpu controller is, for this process.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Hierarchy {
    /// cpu.cfs_quota_us; threads are put into any group one by one.
    V1(PathBuf),
    /// cpu.max; threads of one process in different groups need threaded groups.
    V2(PathBuf),
}

/// A group of threads with a quota. Removed when dropped; a group left behind by a killed process is removed
/// by the next one that makes a group.
#[derive(Debug)]
pub(crate) struct CpuGroup {
    path: PathBuf,
    threads_file: &'static str,
}

const PREFIX: &str = "pointsman-";
const REMEDY: &str = "run as root on a machine whose cgroups may be written, or use the timed model";

impl CpuGroup {
    /// A new group whose threads together may use `cores` processors.
    pub fn create(name: &str, cores: f64) -> Result<Self> {
        let read =
            |file: &str| fs::read_to_string(file).map_err(|e| Error::os(format!("cannot read {file}"), e));
        let hierarchy = locate(&read("/proc/self/mountinfo")?, &read("/proc/self/cgroup")?)
            .ok_or_else(|| Error::new("no cgroup with a cpu controller is mounted").with_remedy(REMEDY))?;
        Self::create_in(&hierarchy, std::process::id(), name, cores)
    }

    fn create_in(hierarchy: &Hierarchy, process: u32, name: &str, cores: f64) -> Result<Self> {
        let (Hierarchy::V1(parent) | Hierarchy::V2(parent)) = hierarchy;
        remove_stale(parent);
        let path = parent.join(format!("{PREFIX}{process}-{}", name.replace('/', "-")));
        fs::create_dir(&path).map_err(|e| failed(&path, e))?;
        let (quota, period) = quota(cores);
        let write = |file: PathBuf, value: String| fs::write(&file, value).map_err(|e| failed(&file, e));
        let group = match hierarchy {
            Hierarchy::V1(_) => {
                let group = Self { path, threads_file: "tasks" };
                write(group.path.join("cpu.cfs_period_us"), period.to_string())?;
                write(group.path.join("cpu.cfs_quota_us"), quota.to_string())?;
                group
            }
            Hierarchy::V2(_) => {
                let group = Self { path, threads_file: "cgroup.threads" };
                // The group must be threaded before the controller is enabled: processes in the parent
                // are then allowed ("Threads" in the kernel's cgroup-v2 document).
                write(group.path.join("cgroup.type"), "threaded".into())?;
                if !group.path.join("cpu.max").exists() {
                    write(parent.join("cgroup.subtree_control"), "+cpu".into())?;
                }
                write(group.path.join("cpu.max"), format!("{quota} {period}"))?;
                group
            }
        };
        Ok(group)
    }

    /// Puts a thread of this process, or of a program that it started, under the quota.
    pub fn add_thread(&self, thread: libc::pid_t) -> Result<()> {
        let file = self.path.join(self.threads_file);
        fs::write(&file, thread.to_string()).map_err(|e| failed(&file, e))
    }
}

impl Drop for CpuGroup {
    fn drop(&mut self) {
        // A thread that was joined a moment ago may still be counted.
        for _ in 0..50 {
            match fs::remove_dir(&self.path) {
                Err(e) if e.raw_os_error() == Some(libc::EBUSY) => {
                    std::thread::sleep(Duration::from_millis(2));
                }
                _ => return,
            }
        }
    }
}

fn failed(path: &Path, e: io::Error) -> Error {
    Error::os(format!("cannot set a CPU quota: {}", path.display()), e).with_remedy(REMEDY)
}

/// Quota and period in microseconds. The period is 10 ms, so that the time without processor is short, or
/// longer if the quota would fall below the kernel's minimum of 1 ms.
fn quota(cores: f64) -> (u64, u64) {
    let cores = cores.clamp(0.001, 1024.0);
    let period = (1_000.0 / cores).clamp(10_000.0, 1_000_000.0);
    ((cores * period).round() as u64, period.round() as u64)
}

/// Removes this process's groups, whose threads continue without a quota: for a process that is about to exit without
/// waiting for its devices.
pub fn release_cpu_groups() {
    let read = |file: &str| fs::read_to_string(file).unwrap_or_default();
    if let Some(hierarchy) = locate(&read("/proc/self/mountinfo"), &read("/proc/self/cgroup")) {
        release_in(&hierarchy, std::process::id());
    }
}

fn release_in(hierarchy: &Hierarchy, process: u32) {
    let (parent, threads_file) = match hierarchy {
        Hierarchy::V1(parent) => (parent, "tasks"),
        Hierarchy::V2(parent) => (parent, "cgroup.threads"),
    };
    let own = format!("{PREFIX}{process}-");
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        if !entry.file_name().to_string_lossy().starts_with(&own) {
            continue;
        }
        // A group can be removed when no thread is in it; one may just be starting another.
        for _ in 0..50 {
            let threads = fs::read_to_string(entry.path().join(threads_file)).unwrap_or_default();
            for thread in threads.lines() {
                // It may have ended; processes left in the group are tried again.
                let _ = fs::write(parent.join(threads_file), thread);
            }
            match fs::remove_dir(entry.path()) {
                Err(e) if e.raw_os_error() == Some(libc::EBUSY) => {
                    std::thread::sleep(Duration::from_millis(2));
                }
                _ => break,
            }
        }
    }
}

/// Removes groups of this program's processes that no longer exist.
fn remove_stale(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process: Option<u32> =
            name.to_str().and_then(|n| n.strip_prefix(PREFIX)?.split('-').next()?.parse().ok());
        if process.is_some_and(|p| !Path::new(&format!("/proc/{p}")).exists()) {
            // Fails harmlessly if the group is in use after all.
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// Finds the cpu controller from `/proc/self/mountinfo` and `/proc/self/cgroup` (cgroups(7), proc(5)).
fn locate(mountinfo: &str, cgroup: &str) -> Option<Hierarchy> {
    let path_of = |pick: &dyn Fn(&str, &str) -> bool| {
        cgroup.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':');
            let (number, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
            pick(number, controllers).then_some(path)
        })
    };
    let has_cpu = |list: &str| list.split(',').any(|c| c == "cpu");
    let mut unified = None;
    for line in mountinfo.lines() {
        // ID parent major:minor root mountpoint options [optional...] - type source super-options
        let Some((left, right)) = line.split_once(" - ") else { continue };
        let (left, right): (Vec<&str>, Vec<&str>) = (left.split(' ').collect(), right.split(' ').collect());
        let (Some(root), Some(mount), Some(kind)) = (left.get(3), left.get(4), right.first()) else {
            continue;
        };
        let below = |path: &str| {
            // Inside a container, the path may begin with the directory that is mounted as the root.
            let inner = if *root == "/" { Some(path) } else { path.strip_prefix(root) };
            Path::new(mount).join(inner.unwrap_or("").trim_start_matches('/'))
        };
        match *kind {
            "cgroup" if right.get(2).is_some_and(|o| has_cpu(o)) => {
                return path_of(&|_, controllers| has_cpu(controllers)).map(|p| Hierarchy::V1(below(p)));
            }
            "cgroup2" => {
                unified = path_of(&|number, list| number == "0" && list.is_empty()).map(below);
            }
            _ => {}
        }
    }
    unified.map(Hierarchy::V2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(mountinfo: &str, cgroup: &str, expected: Option<Hierarchy>) {
        assert_eq!(locate(mountinfo, cgroup), expected);
    }

    #[test]
    fn the_controller_is_found() {
        let v1 = "30 25 0:26 / /sys/fs/cgroup/cpuset rw shared:9 - cgroup cgroup rw,cpuset\n\
                  31 25 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
                  32 25 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let lines = "4:cpuset:/\n2:cpu,cpuacct:/user/a\n0::/x\n";
        check(v1, lines, Some(Hierarchy::V1("/sys/fs/cgroup/cpu/user/a".into())));
        let v2 = "32 25 0:28 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
        check(
            v2,
            "0::/user.slice/s.scope\n",
            Some(Hierarchy::V2("/sys/fs/cgroup/user.slice/s.scope".into())),
        );
        check(v2, "0::/\n", Some(Hierarchy::V2("/sys/fs/cgroup/".into())));
        let docker = "31 25 0:27 /docker/ab /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n";
        check(docker, "2:cpu:/docker/ab/x\n", Some(Hierarchy::V1("/sys/fs/cgroup/cpu/x".into())));
        check("", "0::/\n", None);
        check("garbage - \n - cgroup\n", "::\n", None);
    }

    #[test]
    fn quotas_respect_the_kernels_minimum() {
        assert_eq!(quota(0.5), (5_000, 10_000));
        assert_eq!(quota(2.0), (20_000, 10_000));
        assert_eq!(quota(0.05), (1_000, 20_000));
        assert_eq!(quota(0.0), (1_000, 1_000_000));
    }

    /// Groups in an ordinary directory: the files written, and their content.
    #[test]
    fn both_versions_write_their_files() {
        let base = std::env::temp_dir().join(format!("pointsman-cgroup-test-{}", std::process::id()));
        let read = |group: &CpuGroup, file: &str| fs::read_to_string(group.path.join(file)).unwrap();
        for v2 in [false, true] {
            let parent = base.join(if v2 { "v2" } else { "v1" });
            fs::create_dir_all(&parent).unwrap();
            let hierarchy = if v2 { Hierarchy::V2(parent.clone()) } else { Hierarchy::V1(parent.clone()) };
            let group = CpuGroup::create_in(&hierarchy, 1, "s1/nic", 0.1).unwrap();
            group.add_thread(77).unwrap();
            assert!(group.path.ends_with("pointsman-1-s1-nic"));
            if v2 {
                assert_eq!(read(&group, "cgroup.type"), "threaded");
                assert_eq!(fs::read_to_string(parent.join("cgroup.subtree_control")).unwrap(), "+cpu");
                assert_eq!(read(&group, "cpu.max"), "1000 10000");
                assert_eq!(read(&group, "cgroup.threads"), "77");
            } else {
                assert_eq!(read(&group, "cpu.cfs_quota_us"), "1000");
                assert_eq!(read(&group, "cpu.cfs_period_us"), "10000");
                assert_eq!(read(&group, "tasks"), "77");
            }
        }
        fs::remove_dir_all(&base).unwrap();
        let error = CpuGroup::create_in(&Hierarchy::V1(base), 1, "x", 0.1).unwrap_err().to_string();
        assert!(error.contains("cannot set a CPU quota") && error.contains("timed"), "{error}");
    }

    #[test]
    fn only_groups_of_dead_processes_are_stale() {
        let base = std::env::temp_dir().join(format!("pointsman-stale-test-{}", std::process::id()));
        // Process identifiers end at 2^22.
        let (dead, alive) = (base.join("pointsman-4194305-x"), base.join("pointsman-1-x"));
        let other = base.join("other");
        for dir in [&dead, &alive, &other] {
            fs::create_dir_all(dir).unwrap();
        }
        remove_stale(&base);
        assert!(!dead.exists() && alive.exists() && other.exists());
        fs::remove_dir_all(&base).unwrap();
    }
}
