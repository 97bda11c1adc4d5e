//! The functions of NVIDIA's management library (NVML), loaded at run time. Names, numbers and layouts are those of the NVML API
//! reference. The only unsafe code of this crate.
#![allow(unsafe_code)]

use super::NvmlError;
use libloading::Library;
use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_uint, c_ulonglong, c_void};

/// `NVML_SUCCESS`.
const SUCCESS: c_int = 0;
/// Room for a UUID or a name, in bytes: `NVML_DEVICE_UUID_V2_BUFFER_SIZE` and `NVML_DEVICE_NAME_V2_BUFFER_SIZE`.
const TEXT: usize = 96;

/// `nvmlUtilization_t`, percent.
#[repr(C)]
#[derive(Default)]
pub(super) struct Utilization {
    pub gpu: c_uint,
    pub memory: c_uint,
}

/// `nvmlMemory_t`, bytes.
#[repr(C)]
#[derive(Default)]
pub(super) struct Memory {
    pub total: c_ulonglong,
    pub free: c_ulonglong,
    pub used: c_ulonglong,
}

/// `nvmlPciInfo_t`.
#[repr(C)]
#[derive(Default)]
pub(super) struct Pci {
    _legacy: [c_char; 16],
    pub domain: c_uint,
    pub bus: c_uint,
    pub device: c_uint,
    _ids: [c_uint; 2],
    _address: [c_char; 32],
}

/// `nvmlDevice_t`: a handle that belongs to the library, of a GPU or of a MIG instance.
#[derive(Clone, Copy)]
pub(super) struct Device(*mut c_void);

/// A function that libraries may lack, and its name.
type Maybe<F> = (&'static str, Option<F>);
/// Writes a value of a device.
type Read<T> = unsafe extern "C" fn(*mut c_void, *mut T) -> c_int;
/// Writes a text of a device, of at most so many bytes with its zero.
type Text = unsafe extern "C" fn(*mut c_void, *mut c_char, c_uint) -> c_int;
/// Finds a device by text.
type Find = unsafe extern "C" fn(*const c_char, *mut *mut c_void) -> c_int;

/// The library, initialised. NVML's functions may be called from any thread.
pub(super) struct Calls {
    error: unsafe extern "C" fn(c_int) -> *const c_char,
    shutdown: unsafe extern "C" fn() -> c_int,
    by_index: unsafe extern "C" fn(c_uint, *mut *mut c_void) -> c_int,
    by_uuid: Maybe<Find>,
    by_bus: Maybe<Find>,
    count: Maybe<unsafe extern "C" fn(*mut c_uint) -> c_int>,
    uuid: Maybe<Text>,
    name: Maybe<Text>,
    pci: Maybe<Read<Pci>>,
    utilization: Maybe<Read<Utilization>>,
    memory: Maybe<Read<Memory>>,
    power: Maybe<Read<c_uint>>,
    limit: Maybe<Read<c_uint>>,
    temperature: Maybe<unsafe extern "C" fn(*mut c_void, c_uint, *mut c_uint) -> c_int>,
    mig_mode: Maybe<unsafe extern "C" fn(*mut c_void, *mut c_uint, *mut c_uint) -> c_int>,
    instances: Maybe<Read<c_uint>>,
    instance: Maybe<unsafe extern "C" fn(*mut c_void, c_uint, *mut *mut c_void) -> c_int>,
    instance_id: Maybe<Read<c_uint>>,
    /// Whether the library has to be shut down.
    started: bool,
    // Last: the functions above are valid while it is loaded.
    _library: Library,
}

/// A function of the library, if it is there.
///
/// # Safety
/// `F` is the type of the function with this name, and is not used after the library.
unsafe fn maybe<F: Copy>(library: &Library, name: &'static str) -> Maybe<F> {
    // SAFETY: the caller's promise.
    (name, unsafe { library.get::<F>(name.as_bytes()) }.ok().map(|f| *f))
}

impl Calls {
    /// Loads this file and initialises the library.
    pub fn load(file: &OsStr) -> Result<Self, NvmlError> {
        let missing = |e: libloading::Error| NvmlError::Unavailable(e.to_string());
        // SAFETY: the library's initialisers are the driver's own. Each function has the signature that NVML documents.
        let (start, mut calls) = unsafe {
            let l = Library::new(file).map_err(missing)?;
            let start: unsafe extern "C" fn() -> c_int = *l.get(b"nvmlInit_v2\0").map_err(missing)?;
            let calls = Calls {
                error: *l.get(b"nvmlErrorString\0").map_err(missing)?,
                shutdown: *l.get(b"nvmlShutdown\0").map_err(missing)?,
                by_index: *l.get(b"nvmlDeviceGetHandleByIndex_v2\0").map_err(missing)?,
                by_uuid: maybe(&l, "nvmlDeviceGetHandleByUUID"),
                by_bus: maybe(&l, "nvmlDeviceGetHandleByPciBusId_v2"),
                count: maybe(&l, "nvmlDeviceGetCount_v2"),
                uuid: maybe(&l, "nvmlDeviceGetUUID"),
                name: maybe(&l, "nvmlDeviceGetName"),
                pci: maybe(&l, "nvmlDeviceGetPciInfo_v3"),
                utilization: maybe(&l, "nvmlDeviceGetUtilizationRates"),
                memory: maybe(&l, "nvmlDeviceGetMemoryInfo"),
                power: maybe(&l, "nvmlDeviceGetPowerUsage"),
                limit: maybe(&l, "nvmlDeviceGetEnforcedPowerLimit"),
                temperature: maybe(&l, "nvmlDeviceGetTemperature"),
                mig_mode: maybe(&l, "nvmlDeviceGetMigMode"),
                instances: maybe(&l, "nvmlDeviceGetMaxMigDeviceCount"),
                instance: maybe(&l, "nvmlDeviceGetMigDeviceHandleByIndex"),
                instance_id: maybe(&l, "nvmlDeviceGetGpuInstanceId"),
                started: false,
                _library: l,
            };
            (start, calls)
        };
        // SAFETY: called once for each `Calls`, before any other function; `drop` calls the counterpart. NVML counts both.
        let code = unsafe { start() };
        calls.started = code == SUCCESS;
        if calls.started { Ok(calls) } else { Err(NvmlError::Unavailable(calls.words(code))) }
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
        match code {
            SUCCESS => Ok(()),
            code => Err(NvmlError::Refused(code, self.words(code))),
        }
    }

    /// The GPU at this place in the driver's list.
    pub fn by_index(&self, index: u32) -> Result<Device, NvmlError> {
        let mut device = std::ptr::null_mut();
        // SAFETY: `device` has room for the handle.
        self.checked(unsafe { (self.by_index)(index, &raw mut device) })?;
        Ok(Device(device))
    }

    fn find(&self, function: Maybe<Find>, text: &str) -> Result<Device, NvmlError> {
        let find = there(function)?;
        let text = CString::new(text).map_err(|e| NvmlError::Unavailable(e.to_string()))?;
        let mut device = std::ptr::null_mut();
        // SAFETY: `text` ends with a zero, `device` has room for the handle.
        self.checked(unsafe { find(text.as_ptr(), &raw mut device) })?;
        Ok(Device(device))
    }

    /// The GPU or MIG instance with this UUID.
    pub fn by_uuid(&self, uuid: &str) -> Result<Device, NvmlError> {
        self.find(self.by_uuid, uuid)
    }

    /// The GPU at this PCI address.
    pub fn by_bus(&self, address: &str) -> Result<Device, NvmlError> {
        self.find(self.by_bus, address)
    }

    fn read<T: Default>(&self, device: Device, function: Maybe<Read<T>>) -> Result<T, NvmlError> {
        let read = there(function)?;
        let mut value = T::default();
        // SAFETY: `device` is a handle of this library, `value` has the layout that the function writes.
        self.checked(unsafe { read(device.0, &raw mut value) })?;
        Ok(value)
    }

    fn text(&self, device: Device, function: Maybe<Text>) -> Result<String, NvmlError> {
        let read = there(function)?;
        let mut text = [0u8; TEXT];
        // SAFETY: `device` is a handle of this library, which writes no more than the given number of bytes.
        self.checked(unsafe { read(device.0, text.as_mut_ptr().cast(), TEXT as c_uint) })?;
        let end = text.iter().position(|b| *b == 0).unwrap_or(TEXT);
        Ok(String::from_utf8_lossy(&text[..end]).into_owned())
    }

    /// How many GPUs the driver's list has.
    pub fn count(&self) -> Result<u32, NvmlError> {
        let (read, mut count) = (there(self.count)?, 0);
        // SAFETY: `count` has room for the number.
        self.checked(unsafe { read(&raw mut count) })?;
        Ok(count)
    }

    /// The UUID of a GPU or MIG instance.
    pub fn uuid(&self, device: Device) -> Result<String, NvmlError> {
        self.text(device, self.uuid)
    }

    /// The name of the product, with the profile of a MIG instance.
    pub fn name(&self, device: Device) -> Result<String, NvmlError> {
        self.text(device, self.name)
    }

    pub fn pci(&self, device: Device) -> Result<Pci, NvmlError> {
        self.read(device, self.pci)
    }

    pub fn utilization(&self, device: Device) -> Result<Utilization, NvmlError> {
        self.read(device, self.utilization)
    }

    pub fn memory(&self, device: Device) -> Result<Memory, NvmlError> {
        self.read(device, self.memory)
    }

    /// Milliwatts.
    pub fn power(&self, device: Device) -> Result<u32, NvmlError> {
        self.read(device, self.power)
    }

    /// The limit of the power, in milliwatts.
    pub fn power_limit(&self, device: Device) -> Result<u32, NvmlError> {
        self.read(device, self.limit)
    }

    /// Degrees Celsius, of the GPU's die.
    pub fn temperature(&self, device: Device) -> Result<u32, NvmlError> {
        let (read, mut celsius) = (there(self.temperature)?, 0);
        // SAFETY: as in `read`; sensor 0 is the GPU's die.
        self.checked(unsafe { read(device.0, 0, &raw mut celsius) })?;
        Ok(celsius)
    }

    /// Whether the GPU is divided into MIG instances. GPUs and libraries without MIG are not.
    pub fn has_mig(&self, device: Device) -> bool {
        let (mut current, mut pending) = (0, 0);
        // SAFETY: as in `read`; both numbers have room.
        let read = |f: unsafe extern "C" fn(_, _, _) -> c_int| unsafe {
            f(device.0, &raw mut current, &raw mut pending)
        };
        let code = self.mig_mode.1.map(read);
        code == Some(SUCCESS) && current == 1
    }

    /// The MIG instances of a GPU.
    pub fn instances(&self, device: Device) -> Result<Vec<Device>, NvmlError> {
        let (most, find) = (self.read(device, self.instances)?, there(self.instance)?);
        let one = |index| {
            let mut instance = std::ptr::null_mut();
            // SAFETY: as in `by_index`. Places may be empty.
            let code = unsafe { find(device.0, index, &raw mut instance) };
            (code == SUCCESS).then_some(Device(instance))
        };
        Ok((0..most).filter_map(one).collect())
    }

    /// The number of a MIG instance on its GPU.
    pub fn instance_id(&self, instance: Device) -> Result<u32, NvmlError> {
        self.read(instance, self.instance_id)
    }
}

/// The function, or the error that names what is missing.
fn there<F: Copy>((name, function): Maybe<F>) -> Result<F, NvmlError> {
    function.ok_or(NvmlError::Missing(name))
}

impl Drop for Calls {
    fn drop(&mut self) {
        if self.started {
            // SAFETY: initialised once, in `load`; nothing uses handles afterwards.
            unsafe { (self.shutdown)() };
        }
    }
}
