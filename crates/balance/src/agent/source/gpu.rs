//! How a GPU of a machine is chosen.

use std::fmt;
use std::str::FromStr;

/// An NVIDIA GPU of this machine, or a MIG instance of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gpu {
    /// By its place in the driver's list, which may change with a reboot.
    Index(u32),
    /// By its UUID: `GPU-...`, or `MIG-...` for an instance.
    Uuid(String),
    /// By its PCI address.
    Bus {
        /// PCI domain.
        domain: u32,
        /// Bus in the domain.
        bus: u8,
        /// Device on the bus, 0 to 31.
        device: u8,
        /// Function of the device, 0 to 7.
        function: u8,
    },
}

/// The highest index.
pub const MAX_INDEX: u32 = 255;
/// The length of the longest UUID, in bytes; NVML's buffer has one more for the zero.
const MAX_UUID: usize = 95;
/// Numbers that NVML has of a GPU.
pub const VALUES: [&str; 6] =
    ["utilization", "memory_utilization", "memory", "power", "power_watts", "temperature"];
/// Those that it does not have of MIG instances, or of GPUs that are divided into such.
const WHOLE: [&str; 2] = ["utilization", "memory_utilization"];

/// What to do without utilisation of MIG instances.
pub const MIG_REMEDY: &str = "NVIDIA's library has no utilisation with MIG: write memory = \"memory\" here, and take compute from another \
     source, such as dcgm-exporter by prometheus, with compute = 'DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu=\"0\",GPU_I_ID=\"1\"} * 100'";

impl Gpu {
    /// Whether it is a MIG instance.
    pub fn is_instance(&self) -> bool {
        matches!(self, Gpu::Uuid(uuid) if uuid.starts_with("MIG-"))
    }
}

/// Whether this number is of whole GPUs only.
pub fn is_of_whole_gpus(value: &str) -> bool {
    WHOLE.contains(&value)
}

impl From<u32> for Gpu {
    fn from(index: u32) -> Self {
        Gpu::Index(index)
    }
}

impl fmt::Display for Gpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Gpu::Index(index) => index.fmt(f),
            Gpu::Uuid(uuid) => f.write_str(uuid),
            Gpu::Bus { domain, bus, device, function } => {
                write!(f, "{domain:08X}:{bus:02X}:{device:02X}.{function:X}")
            }
        }
    }
}

/// The text does not choose a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotAGpu(String);

impl fmt::Display for NotAGpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = &self.0;
        write!(
            f,
            "`{text}`: write an index from 0 to {MAX_INDEX}, a UUID (\"GPU-...\" or \"MIG-...\") or a PCI address \
             (\"0000:3b:00.0\"); `pointsman agent --list-gpus` prints them"
        )
    }
}

impl std::error::Error for NotAGpu {}

/// `domain:bus:device.function` in hexadecimal digits; the domain may be missing.
fn bus(text: &str) -> Option<Gpu> {
    let hex = |part: &str, most: usize| {
        let good = (1..=most).contains(&part.len()) && part.bytes().all(|c| c.is_ascii_hexdigit());
        good.then(|| u32::from_str_radix(part, 16).ok()).flatten()
    };
    let (place, function) = text.split_once('.')?;
    let (place, device) = place.rsplit_once(':')?;
    let (domain, bus) = place.rsplit_once(':').unwrap_or(("0", place));
    let device = hex(device, 2).filter(|d| *d < 32)?;
    let function = hex(function, 1).filter(|n| *n < 8)?;
    Some(Gpu::Bus {
        domain: hex(domain, 8)?,
        bus: hex(bus, 2)? as u8,
        device: device as u8,
        function: function as u8,
    })
}

impl FromStr for Gpu {
    type Err = NotAGpu;

    fn from_str(text: &str) -> Result<Self, NotAGpu> {
        let wrong = || NotAGpu(text.escape_debug().to_string());
        if let Ok(index) = text.parse::<u32>() {
            return Some(Gpu::Index(index)).filter(|_| index <= MAX_INDEX).ok_or_else(wrong);
        }
        let uuid = ["GPU-", "MIG-"].iter().find_map(|kind| text.strip_prefix(kind));
        match uuid {
            // Instances of older drivers: MIG-GPU-uuid/instance/part.
            Some(rest) => {
                let good = |c: u8| c.is_ascii_alphanumeric() || b"-/".contains(&c);
                let is_good = !rest.is_empty() && text.len() <= MAX_UUID && rest.bytes().all(good);
                is_good.then(|| Gpu::Uuid(text.into())).ok_or_else(wrong)
            }
            None => bus(text).ok_or_else(wrong),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices() {
        let bus = |domain, bus, device, function| Ok(Gpu::Bus { domain, bus, device, function });
        let uuid = |text: &str| Ok(Gpu::Uuid(text.into()));
        assert_eq!("7".parse(), Ok(Gpu::Index(7)));
        assert_eq!("0000:3b:00.0".parse(), bus(0, 0x3b, 0, 0));
        assert_eq!("00010000:AF:1f.7".parse(), bus(0x10000, 0xaf, 31, 7));
        assert_eq!("3b:00.0".parse(), bus(0, 0x3b, 0, 0));
        assert_eq!("GPU-8f0a-11".parse(), uuid("GPU-8f0a-11"));
        assert_eq!("MIG-GPU-8f0a-11/7/0".parse(), uuid("MIG-GPU-8f0a-11/7/0"));
        let long = format!("GPU-{}", "a".repeat(92));
        let wrong = ["", "256", "-1", "8f0a-11", "GPU-", "GPU-a b", "GPU-a\0", "gpu-1", &long];
        for text in
            wrong.into_iter().chain(["0000:3b:20.0", "3b:00.8", "3b:00", ":3b:00.0", "+3b:00.0", "3b:00.0.0"])
        {
            let error = text.parse::<Gpu>().expect_err(text).to_string();
            assert!(error.contains("--list-gpus") && !error.contains('\0'), "{error}");
        }
        // As NVIDIA's tools print it.
        assert_eq!("3b:00.0".parse::<Gpu>().map(|g| g.to_string()), Ok("00000000:3B:00.0".into()));
        let instance = |text: &str| text.parse().map(|g: Gpu| g.is_instance());
        assert_eq!((instance("MIG-1"), instance("GPU-1"), instance("0")), (Ok(true), Ok(false), Ok(false)));
    }
}
