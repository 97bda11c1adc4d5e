//! NVIDIA's management library (NVML), loaded at run time: the few calls that agents need. Names, numbers and layouts are
//! those of the NVML API reference. The only unsafe code of this crate.
#![allow(unsafe_code)]

use libloading::Library;
use std::ffi::{CStr, OsStr, c_char, c_int, c_uint, c_ulonglong, c_void};
use std::fmt;

/// Names of the library, in the order in which they are tried.
const NAMES: [&str; 2] = ["libnvidia-ml.so.1", "libnvidia-ml.so"];

/// Why the library gave no values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NvmlError {
    /// The library, or one of its functions, could not be loaded.
    Unavailable(String),
    /// The library refused a call; its own words.
    Refused(String),
}

impl fmt::Display for NvmlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NvmlError::Unavailable(why) => {
                write!(f, "NVIDIA's management library is not available: {why}")
            }
            NvmlError::Refused(why) => write!(f, "NVIDIA's management library: {why}"),
        }
    }
}

impl std::error::Error for NvmlError {}

/// `nvmlUtilization_t`, percent.
#[repr(C)]
#[derive(Default)]
struct Utilization {
    gpu: c_uint,
    memory: c_uint,
}

/// `nvmlMemory_t`, bytes.
#[repr(C)]
#[derive(Default)]
struct Memory {
    total: c_ulonglong,
    free: c_ulonglong,
    used: c_ulonglong,
}

/// `nvmlDevice_t`: a handle that belongs to the library.
type Device = *mut c_void;
type Read<T> = unsafe extern "C" fn(Device, *mut T) -> c_int;

/// The library, initialised. NVML's functions may be called from any thread.
pub struct Nvml {
    error: unsafe extern "C" fn(c_int) -> *const c_char,
    shutdown: unsafe extern "C" fn() -> c_int,
    by_index: unsafe extern "C" fn(c_uint, *mut Device) -> c_int,
    utilization: Read<Utilization>,
    memory: Read<Memory>,
    power: Read<c_uint>,
    limit: Read<c_uint>,
    temperature: unsafe extern "C" fn(Device, c_uint, *mut c_uint) -> c_int,
    // Last: the functions above are valid while it is loaded.
    _library: Library,
}

impl Nvml {
    /// Loads the library from the system's default path.
    ///
    /// # Errors
    /// Without a driver; or if the library does not start.
    pub fn load() -> Result<Self, NvmlError> {
        let mut result = Self::load_from(NAMES[0].as_ref());
        for name in &NAMES[1..] {
            result = result.or_else(|first| Self::load_from(name.as_ref()).map_err(|_| first));
        }
        result
    }

    fn load_from(name: &OsStr) -> Result<Self, NvmlError> {
        let missing = |e: libloading::Error| NvmlError::Unavailable(e.to_string());
        // SAFETY: the library's initialisers are the driver's own. Each function has the signature that NVML documents.
        let (start, nvml) = unsafe {
            let library = Library::new(name).map_err(missing)?;
            let start: unsafe extern "C" fn() -> c_int = *library.get(b"nvmlInit_v2\0").map_err(missing)?;
            let nvml = Nvml {
                error: *library.get(b"nvmlErrorString\0").map_err(missing)?,
                shutdown: *library.get(b"nvmlShutdown\0").map_err(missing)?,
                by_index: *library.get(b"nvmlDeviceGetHandleByIndex_v2\0").map_err(missing)?,
                utilization: *library.get(b"nvmlDeviceGetUtilizationRates\0").map_err(missing)?,
                memory: *library.get(b"nvmlDeviceGetMemoryInfo\0").map_err(missing)?,
                power: *library.get(b"nvmlDeviceGetPowerUsage\0").map_err(missing)?,
                limit: *library.get(b"nvmlDeviceGetEnforcedPowerLimit\0").map_err(missing)?,
                temperature: *library.get(b"nvmlDeviceGetTemperature\0").map_err(missing)?,
                _library: library,
            };
            (start, nvml)
        };
        // SAFETY: called once for each `Nvml`, before any other function; `drop` calls the counterpart. NVML counts both.
        match unsafe { start() } {
            0 => Ok(nvml),
            code => {
                let why = nvml.words(code);
                // Not initialised, so nothing has to be shut down.
                std::mem::forget(nvml);
                Err(NvmlError::Unavailable(why))
            }
        }
    }

    fn words(&self, code: c_int) -> String {
        // SAFETY: NVML returns a constant string for every code, known or not.
        let text = unsafe { (self.error)(code) };
        if text.is_null() {
            return format!("error {code}");
        }
        // SAFETY: not null, and terminated by a zero as C strings are.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }

    fn checked(&self, code: c_int) -> Result<(), NvmlError> {
        if code == 0 { Ok(()) } else { Err(NvmlError::Refused(self.words(code))) }
    }

    fn read<T: Default>(&self, device: Device, function: Read<T>) -> Option<T> {
        let mut value = T::default();
        // SAFETY: `device` is a handle of this library, `value` has the layout that the function writes.
        let code = unsafe { function(device, &raw mut value) };
        (code == 0).then_some(value)
    }

    /// The GPU's values by name: percentages, watts, degrees Celsius. Values that the GPU does not have are left out.
    ///
    /// # Errors
    /// The GPU does not exist, or the library lost it.
    pub fn gpu(&self, index: u32) -> Result<Vec<(&'static str, f64)>, NvmlError> {
        let mut device: Device = std::ptr::null_mut();
        // SAFETY: `device` has room for the handle.
        self.checked(unsafe { (self.by_index)(index, &raw mut device) })?;
        let mut out = Vec::new();
        if let Some(u) = self.read(device, self.utilization) {
            out.push(("utilization", f64::from(u.gpu)));
            out.push(("memory_utilization", f64::from(u.memory)));
        }
        if let Some(m) = self.read(device, self.memory).filter(|m| m.total > 0) {
            out.push(("memory", 100.0 * m.used as f64 / m.total as f64));
        }
        if let Some(milliwatts) = self.read(device, self.power) {
            out.push(("power_watts", f64::from(milliwatts) / 1e3));
            if let Some(limit) = self.read(device, self.limit).filter(|limit| *limit > 0) {
                out.push(("power", 100.0 * f64::from(milliwatts) / f64::from(limit)));
            }
        }
        let mut celsius = 0;
        // SAFETY: as in `read`; sensor 0 is the GPU's die.
        if unsafe { (self.temperature)(device, 0, &raw mut celsius) } == 0 {
            out.push(("temperature", f64::from(celsius)));
        }
        Ok(out)
    }
}

impl Drop for Nvml {
    fn drop(&mut self) {
        // SAFETY: initialised once, in `load_from`; nothing uses handles afterwards.
        unsafe { (self.shutdown)() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::{Path, PathBuf};
    use std::process::Command;

    /// A library with the same functions: one GPU of known values, whose power limit cannot be read.
    const STAND_IN: &str = r#"
        typedef struct { unsigned gpu, memory; } utilization;
        typedef struct { unsigned long long total, free, used; } memory;
        static int there;
        int nvmlInit_v2(void) { return START; }
        int nvmlShutdown(void) { return 0; }
        const char *nvmlErrorString(int code) { return code == 6 ? "Not Found" : "Driver Not Loaded"; }
        int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **d) { *d = &there; return i == 0 ? 0 : 6; }
        int nvmlDeviceGetUtilizationRates(void *d, utilization *u) { u->gpu = 70; u->memory = 20; return d == &there ? 0 : 2; }
        int nvmlDeviceGetMemoryInfo(void *d, memory *m) { m->total = 400; m->free = 300; m->used = 100; return 0; }
        int nvmlDeviceGetPowerUsage(void *d, unsigned *mw) { *mw = 350000; return 0; }
        int nvmlDeviceGetEnforcedPowerLimit(void *d, unsigned *mw) { return 3; }
        int nvmlDeviceGetTemperature(void *d, unsigned sensor, unsigned *c) { *c = 40 + sensor; return 0; }
    "#;

    fn stand_in(folder: &Path, start: i32) -> PathBuf {
        let (source, library) = (folder.join("nvml.c"), folder.join(format!("libnvml-{start}.so")));
        std::fs::write(&source, STAND_IN).expect("a file");
        let built = Command::new("cc")
            .args(["-shared", "-fPIC", &format!("-DSTART={start}"), "-o"])
            .args([&library, &source])
            .status();
        assert!(built.expect("a C compiler").success());
        library
    }

    #[test]
    fn values_of_a_gpu() {
        let folder = std::env::temp_dir().join(format!("pointsman-nvml-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let nvml = Nvml::load_from(stand_in(&folder, 0).as_os_str()).expect("it loads");
        assert_eq!(
            nvml.gpu(0).expect("it exists"),
            [
                ("utilization", 70.0),
                ("memory_utilization", 20.0),
                ("memory", 25.0),
                ("power_watts", 350.0),
                ("temperature", 40.0)
            ]
        );
        assert_eq!(nvml.gpu(1), Err(NvmlError::Refused("Not Found".into())));
        let error = Nvml::load_from(stand_in(&folder, 9).as_os_str()).err();
        assert_eq!(error, Some(NvmlError::Unavailable("Driver Not Loaded".into())));
        std::fs::remove_dir_all(&folder).expect("removed");
    }

    #[test]
    fn without_a_driver_the_reason_is_clear() {
        let error = Nvml::load_from("libpointsman-has-no-such-library.so".as_ref()).err().expect("an error");
        assert!(error.to_string().starts_with("NVIDIA's management library is not available: "), "{error}");
    }
}
