//! NVIDIA GPUs of this machine, by NVIDIA's management library (NVML), which is loaded at run time.

mod calls;
#[cfg(test)]
mod tests;

use calls::{Calls, Device};
use parking_lot::{Mutex, RwLock};
use pointsman_balance::agent::source::{Gpu, MIG_REMEDY, is_of_whole_gpus};
use std::ffi::OsString;
use std::fmt;
use std::time::{Duration, Instant};

/// Names of the library, in the order in which they are tried.
const NAMES: [&str; 2] = ["libnvidia-ml.so.1", "libnvidia-ml.so"];
/// The library is loaded again when it has had no value for this long, and not more often: a driver that was restarted needs that.
const RELOAD: Duration = Duration::from_secs(10);
/// GPUs that a message names at most.
const NAMED: usize = 16;

/// `NVML_ERROR_INVALID_ARGUMENT` and `NVML_ERROR_NOT_FOUND`: what a search without a result returns.
const ABSENT: [i32; 2] = [2, 6];
/// `NVML_ERROR_GPU_IS_LOST`.
const LOST: i32 = 15;

/// Why the library gave no values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NvmlError {
    /// The library, or one of the functions that it must have, could not be loaded.
    Unavailable(String),
    /// The library refused a call: its code, and its own words.
    Refused(i32, String),
    /// The library is too old: it has no function of this name.
    Missing(&'static str),
    /// The chosen GPU is not there. With those that are, named in the same way.
    Absent(Vec<String>),
    /// The GPU does not have this value.
    No {
        /// Its name.
        value: String,
        /// The library's reason.
        why: Box<NvmlError>,
        /// The GPU is divided into MIG instances.
        divided: bool,
    },
}

impl fmt::Display for NvmlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NvmlError::Unavailable(why) => write!(f, "NVIDIA's management library is not available: {why}"),
            NvmlError::Refused(LOST, words) => {
                write!(
                    f,
                    "{words}; the kernel's log has the reason (`dmesg`, NVRM: Xid); it needs a reset or a reboot"
                )
            }
            NvmlError::Refused(_, words) => write!(f, "NVIDIA's management library: {words}"),
            NvmlError::Missing(name) => {
                write!(f, "NVIDIA's management library is too old: it has no {name}; update the driver")
            }
            NvmlError::Absent(present) if present.is_empty() => {
                f.write_str("not found: this machine has none")
            }
            NvmlError::Absent(present) => {
                write!(f, "not found: this machine has {}", present[..present.len().min(NAMED)].join(", "))?;
                match present.len().saturating_sub(NAMED) {
                    0 => Ok(()),
                    more => write!(f, " and {more} more (`pointsman agent --list-gpus`)"),
                }
            }
            NvmlError::No { value, why, divided: false } => write!(f, "no `{value}`: {why}"),
            NvmlError::No { value, why, divided: true } => {
                write!(f, "no `{value}`: {why}; it is divided into MIG instances: {MIG_REMEDY}")
            }
        }
    }
}

impl std::error::Error for NvmlError {}

/// A GPU that the driver lists.
#[derive(Debug, Clone, PartialEq)]
pub struct Listed {
    /// Its place in the driver's list.
    pub index: u32,
    /// The rest, or why the library does not say it.
    pub found: Result<Details, NvmlError>,
}

/// What the library says about a GPU.
#[derive(Debug, Clone, PartialEq)]
pub struct Details {
    /// How to choose it at any time.
    pub uuid: String,
    /// Its PCI address; empty if the library is too old.
    pub address: String,
    /// Its product.
    pub name: String,
    /// Its state now: names of values, and per cent.
    pub use_percent: Vec<(&'static str, f64)>,
    /// It is divided into MIG instances: they.
    pub instances: Option<Vec<Instance>>,
}

/// A MIG instance.
#[derive(Debug, Clone, PartialEq)]
pub struct Instance {
    /// How to choose it.
    pub uuid: String,
    /// Its product and profile.
    pub name: String,
    /// Its number on the GPU, the label `GPU_I_ID` of dcgm-exporter.
    pub id: Option<u32>,
    /// Its state now: names of values, and per cent.
    pub use_percent: Vec<(&'static str, f64)>,
}

/// When the library was of use.
#[derive(Debug, Clone, Copy)]
struct Times {
    /// It last had a value.
    good: Instant,
    /// It was last loaded.
    loaded: Instant,
}

/// The library. It may be used by several threads.
pub struct Nvml {
    names: Vec<OsString>,
    calls: RwLock<Result<Calls, NvmlError>>,
    times: Mutex<Times>,
}

/// Loads the first of these files that is there.
fn load(names: &[OsString]) -> Result<Calls, NvmlError> {
    let mut result = Err(NvmlError::Unavailable("no name".into()));
    for (i, name) in names.iter().enumerate() {
        result = match (result, Calls::load(name)) {
            (Ok(calls), _) | (Err(_), Ok(calls)) => return Ok(calls),
            (Err(_), Err(e)) if i == 0 => Err(e),
            (first, Err(_)) => first,
        };
    }
    result
}

impl Nvml {
    /// Loads the library from the system's default path.
    ///
    /// # Errors
    /// Without a driver; or if the library does not start.
    pub fn load(now: Instant) -> Result<Self, NvmlError> {
        Self::load_from(now, NAMES.map(OsString::from).to_vec())
    }

    fn load_from(now: Instant, names: Vec<OsString>) -> Result<Self, NvmlError> {
        let calls = load(&names)?;
        Ok(Nvml { names, calls: RwLock::new(Ok(calls)), times: Mutex::new(Times { good: now, loaded: now }) })
    }

    /// Values of a GPU with their names, of [`VALUES`](pointsman_balance::agent::source::VALUES): percentages, watts, degrees Celsius.
    ///
    /// # Errors
    /// The GPU is not there, or the library lost it; or it does not have one of the values.
    pub fn values<'a>(
        &self,
        now: Instant,
        gpu: &Gpu,
        names: &[&'a str],
    ) -> Result<Vec<(&'a str, f64)>, NvmlError> {
        let values = match &*self.calls.read() {
            Ok(calls) => read(calls, gpu, names),
            Err(e) => Err(e.clone()),
        };
        match values {
            Ok(_) => self.times.lock().good = now,
            Err(_) => self.reload(now),
        }
        values
    }

    /// Loads the library again, if it was of no use for long. Others' values are not delayed by that: there are none.
    fn reload(&self, now: Instant) {
        let mut times = self.times.lock();
        let is_due = |at: Instant| now.saturating_duration_since(at) >= RELOAD;
        if !is_due(times.good) || !is_due(times.loaded) {
            return;
        }
        if let Some(mut calls) = self.calls.try_write() {
            times.loaded = now;
            // The old one first: the same file would not be read again.
            *calls = Err(NvmlError::Unavailable("it is being loaded".into()));
            *calls = load(&self.names);
        }
    }

    /// All GPUs and their instances.
    ///
    /// # Errors
    /// The library does not list them.
    pub fn list(&self) -> Result<Vec<Listed>, NvmlError> {
        match &*self.calls.read() {
            Ok(calls) => {
                let one = |index| Listed { index, found: details(calls, index) };
                Ok((0..calls.count()?).map(one).collect())
            }
            Err(e) => Err(e.clone()),
        }
    }
}

fn details(calls: &Calls, index: u32) -> Result<Details, NvmlError> {
    let device = calls.by_index(index)?;
    let instance = |device| {
        Ok(Instance {
            uuid: calls.uuid(device)?,
            name: calls.name(device)?,
            id: calls.instance_id(device).ok(),
            use_percent: in_use(calls, device),
        })
    };
    let instances = match calls.has_mig(device) {
        true => Some(calls.instances(device)?.into_iter().map(instance).collect::<Result<_, _>>()?),
        false => None,
    };
    Ok(Details {
        uuid: calls.uuid(device)?,
        address: calls.pci(device).map(|pci| address(&pci)).unwrap_or_default(),
        name: calls.name(device)?,
        use_percent: in_use(calls, device),
        instances,
    })
}

fn address(pci: &calls::Pci) -> String {
    Gpu::Bus { domain: pci.domain, bus: pci.bus as u8, device: pci.device as u8, function: 0 }.to_string()
}

fn in_use(calls: &Calls, device: Device) -> Vec<(&'static str, f64)> {
    let values = ["utilization", "memory"].map(|name| Some((name, value(calls, device, name).ok()?)));
    values.into_iter().flatten().collect()
}

/// The GPU that was chosen.
fn find(calls: &Calls, gpu: &Gpu) -> Result<Device, NvmlError> {
    let found = match gpu {
        Gpu::Index(index) => calls.by_index(*index),
        Gpu::Uuid(uuid) => calls.by_uuid(uuid),
        Gpu::Bus { .. } => calls.by_bus(&gpu.to_string()),
    };
    found.map_err(|e| match e {
        NvmlError::Refused(code, _) if ABSENT.contains(&code) => NvmlError::Absent(named_like(calls, gpu)),
        e => e,
    })
}

/// The GPUs that are there, named as this one is. Those that the library cannot name are left out.
fn named_like(calls: &Calls, gpu: &Gpu) -> Vec<String> {
    let devices = (0..calls.count().unwrap_or(0)).filter_map(|i| Some((i, calls.by_index(i).ok()?)));
    match gpu {
        Gpu::Index(_) => devices.map(|(i, _)| i.to_string()).collect(),
        Gpu::Bus { .. } => devices.filter_map(|(_, d)| Some(address(&calls.pci(d).ok()?))).collect(),
        Gpu::Uuid(_) if gpu.is_instance() => {
            let all = devices.flat_map(|(_, d)| calls.instances(d).unwrap_or_default());
            all.filter_map(|d| calls.uuid(d).ok()).collect()
        }
        Gpu::Uuid(_) => devices.filter_map(|(_, d)| calls.uuid(d).ok()).collect(),
    }
}

fn read<'a>(calls: &Calls, gpu: &Gpu, names: &[&'a str]) -> Result<Vec<(&'a str, f64)>, NvmlError> {
    let device = find(calls, gpu)?;
    let one = |name: &&'a str| match value(calls, device, name) {
        Ok(value) => Ok((*name, value)),
        Err(lost @ NvmlError::Refused(LOST, _)) => Err(lost),
        Err(why) => {
            let divided = is_of_whole_gpus(name) && calls.has_mig(device);
            Err(NvmlError::No { value: name.to_string(), why: Box::new(why), divided })
        }
    };
    names.iter().map(one).collect()
}

/// A value by its name.
fn value(calls: &Calls, device: Device, name: &str) -> Result<f64, NvmlError> {
    let share = |part: f64, whole: f64| match whole > 0.0 {
        true => Ok(100.0 * part / whole),
        false => Err(NvmlError::Unavailable("the whole is 0".into())),
    };
    match name {
        "utilization" => Ok(f64::from(calls.utilization(device)?.gpu)),
        "memory_utilization" => Ok(f64::from(calls.utilization(device)?.memory)),
        "memory" => {
            let memory = calls.memory(device)?;
            share(memory.used as f64, memory.total as f64)
        }
        "power_watts" => Ok(f64::from(calls.power(device)?) / 1e3),
        "power" => share(f64::from(calls.power(device)?), f64::from(calls.power_limit(device)?)),
        "temperature" => Ok(f64::from(calls.temperature(device)?)),
        _ => Err(NvmlError::Unavailable("it has no such value".into())),
    }
}
