//! The functions of libibverbs that a responder needs, loaded at run time, and a device with its memory and queue pairs. Names, numbers and
//! layouts are those of libibverbs' ABI (`libibverbs.so.1`). The only unsafe code of memory servers.
#![allow(unsafe_code)]

use super::error::{CallError, VerbsError};
use libloading::Library;
use pointsman_roce::Rights;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::BTreeMap;
use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::io;
use std::net::Ipv6Addr;
use std::ptr::null_mut;

/// `IBV_QPT_RC`: a reliable connection.
const CONNECTED: u32 = 2;
/// `IBV_QPS_INIT`, `IBV_QPS_RTR` (it answers), `IBV_QPS_ERR`.
const INIT: u32 = 1;
const ANSWERS: u32 = 2;
const DEAD: u32 = 6;
/// `IBV_ACCESS_...`: what the device, and others, may do with memory.
const LOCAL_WRITE: u32 = 1;
const REMOTE_WRITE: u32 = 2;
const REMOTE_READ: u32 = 4;
const REMOTE_ATOMIC: u32 = 8;
/// Fields of [`PairState`] that a call sets or reads: `IBV_QP_STATE`; with `ACCESS_FLAGS`, `PKEY_INDEX`, `PORT`; with `AV`, `PATH_MTU`, `RQ_PSN`,
/// `MIN_RNR_TIMER`, `MAX_DEST_RD_ATOMIC`, `DEST_QPN`.
const FOR_STATE: c_int = 1;
const FOR_INIT: c_int = 1 | 1 << 3 | 1 << 4 | 1 << 5;
const FOR_ANSWERS: c_int = 1 | 1 << 7 | 1 << 8 | 1 << 12 | 1 << 15 | 1 << 17 | 1 << 20;
/// `IBV_PORT_ACTIVE`.
const ACTIVE: u32 = 4;
/// The hop limit of answers.
const HOPS: u8 = 64;
/// The code of 0.64 ms: how long a requester waits when the responder has no receive buffer. READ and WRITE use no receive buffer.
const WAIT: u8 = 12;
const PAGE: usize = 4096;

/// `struct ibv_device_attr`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct DeviceAttributes {
    _firmware: [u8; 64],
    _guids: [u64; 2],
    /// Bytes of the largest region.
    pub largest_region: u64,
    _pages: u64,
    _vendor: [u32; 3],
    /// The most queue pairs.
    pub pairs: i32,
    _before_reads: [u32; 8],
    /// READs and atomic operations in flight of a queue pair for which it keeps answers.
    pub reads: i32,
    _before_atomic: [u32; 4],
    /// Whether it has atomic operations: 0 for none.
    pub atomic: u32,
    _rest: [u32; 16],
}

/// `struct ibv_port_attr`, as `ibv_query_port` of `IBVERBS_1.1` writes it: 48 bytes, and room.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct PortAttributes {
    state: u32,
    _max_mtu: u32,
    active_mtu: u32,
    _rest: [u32; 13],
}

/// `struct ibv_mr`, to its last field.
#[repr(C)]
struct Region {
    _context: *mut c_void,
    _domain: *mut c_void,
    _address: *mut c_void,
    _length: usize,
    _handle: u32,
    _own_key: u32,
    key: u32,
}

/// `struct ibv_qp`, to the field that is needed.
#[repr(C)]
struct Pair {
    _pointers: [*mut c_void; 6],
    _handle: u32,
    number: u32,
}

/// `struct ibv_qp_cap`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Room {
    send: u32,
    receive: u32,
    send_parts: u32,
    receive_parts: u32,
    inline_bytes: u32,
}

/// `struct ibv_qp_init_attr`.
#[repr(C)]
struct NewPair {
    context: *mut c_void,
    send_queue: *mut c_void,
    receive_queue: *mut c_void,
    shared_queue: *mut c_void,
    room: Room,
    kind: u32,
    signals: c_int,
}

/// `struct ibv_ah_attr` with `struct ibv_global_route`.
#[repr(C, align(8))]
#[derive(Clone, Copy, Default)]
struct Route {
    to: [u8; 16],
    flow_label: u32,
    own_index: u8,
    hops: u8,
    class: u8,
    _filling: u8,
    _lid: u16,
    _level: u8,
    _path: u8,
    _rate: u8,
    is_global: u8,
    port: u8,
}

/// `struct ibv_qp_attr`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct PairState {
    state: u32,
    _current: u32,
    mtu: u32,
    _migration: u32,
    _key: u32,
    psn: u32,
    _own_psn: u32,
    peer: u32,
    access: u32,
    _room: Room,
    route: Route,
    _other_route: Route,
    _partitions: [u16; 2],
    _draining: [u8; 2],
    _own_reads: u8,
    reads: u8,
    wait: u8,
    port: u8,
    _timeouts: [u8; 5],
    _rate: u32,
}

const _: () = {
    assert!(size_of::<DeviceAttributes>() == 232);
    assert!(size_of::<Room>() == 20 && size_of::<NewPair>() == 64);
    assert!(size_of::<Route>() == 32 && size_of::<PairState>() == 144);
};

type Handle = *mut c_void;

/// The library.
pub(super) struct Calls {
    devices: unsafe extern "C" fn(*mut c_int) -> *mut Handle,
    free_devices: unsafe extern "C" fn(*mut Handle),
    name: unsafe extern "C" fn(Handle) -> *const c_char,
    open: unsafe extern "C" fn(Handle) -> Handle,
    close: unsafe extern "C" fn(Handle) -> c_int,
    device: unsafe extern "C" fn(Handle, *mut DeviceAttributes) -> c_int,
    port: unsafe extern "C" fn(Handle, u8, *mut PortAttributes) -> c_int,
    domain: unsafe extern "C" fn(Handle) -> Handle,
    free_domain: unsafe extern "C" fn(Handle) -> c_int,
    region: unsafe extern "C" fn(Handle, *mut c_void, usize, c_int) -> *mut Region,
    free_region: unsafe extern "C" fn(*mut Region) -> c_int,
    queue: unsafe extern "C" fn(Handle, c_int, *mut c_void, Handle, c_int) -> Handle,
    free_queue: unsafe extern "C" fn(Handle) -> c_int,
    pair: unsafe extern "C" fn(Handle, *mut NewPair) -> *mut Pair,
    change_pair: unsafe extern "C" fn(*mut Pair, *mut PairState, c_int) -> c_int,
    pair_state: unsafe extern "C" fn(*mut Pair, *mut PairState, c_int, *mut NewPair) -> c_int,
    free_pair: unsafe extern "C" fn(*mut Pair) -> c_int,
    // Last: the functions above are valid while it is loaded.
    _library: Library,
}

/// The result of a call that returns 0, or the number of an error, or a negative number.
fn checked(call: &'static str, code: c_int) -> Result<(), CallError> {
    match code {
        0 => Ok(()),
        code if code > 0 => Err(CallError(call, io::Error::from_raw_os_error(code))),
        _ => Err(CallError(call, io::Error::last_os_error())),
    }
}

/// The result of a call that returns an object.
fn made<T>(call: &'static str, object: *mut T) -> Result<*mut T, CallError> {
    if object.is_null() { Err(CallError(call, io::Error::last_os_error())) } else { Ok(object) }
}

impl Calls {
    /// Loads this file.
    pub fn load(file: &OsStr) -> Result<Self, VerbsError> {
        let missing = |e: libloading::Error| VerbsError::Library(e.to_string());
        // SAFETY: the library's initialisers are its own. Each function has the signature that libibverbs documents.
        unsafe {
            let l = Library::new(file).map_err(missing)?;
            Ok(Calls {
                devices: *l.get(b"ibv_get_device_list\0").map_err(missing)?,
                free_devices: *l.get(b"ibv_free_device_list\0").map_err(missing)?,
                name: *l.get(b"ibv_get_device_name\0").map_err(missing)?,
                open: *l.get(b"ibv_open_device\0").map_err(missing)?,
                close: *l.get(b"ibv_close_device\0").map_err(missing)?,
                device: *l.get(b"ibv_query_device\0").map_err(missing)?,
                port: *l.get(b"ibv_query_port\0").map_err(missing)?,
                domain: *l.get(b"ibv_alloc_pd\0").map_err(missing)?,
                free_domain: *l.get(b"ibv_dealloc_pd\0").map_err(missing)?,
                region: *l.get(b"ibv_reg_mr\0").map_err(missing)?,
                free_region: *l.get(b"ibv_dereg_mr\0").map_err(missing)?,
                queue: *l.get(b"ibv_create_cq\0").map_err(missing)?,
                free_queue: *l.get(b"ibv_destroy_cq\0").map_err(missing)?,
                pair: *l.get(b"ibv_create_qp\0").map_err(missing)?,
                change_pair: *l.get(b"ibv_modify_qp\0").map_err(missing)?,
                pair_state: *l.get(b"ibv_query_qp\0").map_err(missing)?,
                free_pair: *l.get(b"ibv_destroy_qp\0").map_err(missing)?,
                _library: l,
            })
        }
    }

    fn name_of(&self, device: Handle) -> String {
        // SAFETY: `device` is in a list that was not freed; its name is text with a zero at the end, which lives as long.
        unsafe { CStr::from_ptr((self.name)(device)) }.to_string_lossy().into_owned()
    }

    /// Opens the device with this name.
    fn open_named(&self, name: &str) -> Result<Handle, VerbsError> {
        let mut count = 0;
        // SAFETY: `count` has room for the number.
        let list = made("ibv_get_device_list", unsafe { (self.devices)(&raw mut count) });
        let list = list.map_err(VerbsError::of_list)?;
        let count = usize::try_from(count).unwrap_or(0);
        // SAFETY: the list has so many devices, and is freed below.
        let devices: Vec<Handle> = (0..count).map(|i| unsafe { *list.add(i) }).collect();
        let found = devices.iter().find(|d| self.name_of(**d) == name);
        let opened = match found {
            None => Err(VerbsError::Unknown(name.into(), devices.iter().map(|d| self.name_of(*d)).collect())),
            // SAFETY: a device of the list.
            Some(device) => made("ibv_open_device", unsafe { (self.open)(*device) })
                .map_err(|e| VerbsError::of_open(name, e)),
        };
        // SAFETY: made above, and not used afterwards: open devices outlive it.
        unsafe { (self.free_devices)(list) };
        opened
    }
}

/// Memory of the process that a device reads and writes at any time, so that no reference to it is ever made.
struct Lent {
    start: *mut u8,
    layout: Layout,
}

impl Lent {
    fn new(bytes: usize) -> Result<Self, VerbsError> {
        let layout = Layout::from_size_align(bytes.max(PAGE), PAGE);
        let layout = layout.map_err(|_| VerbsError::NoMemory(bytes as u64))?;
        // SAFETY: the layout is not empty.
        let start = unsafe { alloc_zeroed(layout) };
        if start.is_null() { Err(VerbsError::NoMemory(bytes as u64)) } else { Ok(Lent { start, layout }) }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout; the device that used it is closed.
        unsafe { dealloc(self.start, self.layout) };
    }
}

/// What a queue pair answers, and whom.
pub(super) struct Connection {
    /// The device's port, and the place of its own address in the port's list.
    pub port: u8,
    pub own_index: u8,
    pub mtu: usize,
    /// The requester: its queue pair, first packet sequence number and address.
    pub peer: u32,
    pub psn: u32,
    pub to: Ipv6Addr,
    /// READs and atomic operations in flight.
    pub reads: u8,
}

/// An open device.
pub(super) struct Device {
    calls: Calls,
    context: Handle,
    domain: Handle,
    queue: Handle,
    region: *mut Region,
    access: u32,
    pairs: BTreeMap<u32, *mut Pair>,
    // Last: the device is closed before.
    memory: Option<Lent>,
}

// SAFETY: libibverbs' functions may be called from any thread; the pointers belong to this value alone.
unsafe impl Send for Device {}

impl Device {
    /// Opens a device, without memory.
    pub fn open(calls: Calls, name: &str) -> Result<Self, VerbsError> {
        let context = calls.open_named(name)?;
        let mut device = Device {
            calls,
            context,
            domain: null_mut(),
            queue: null_mut(),
            region: null_mut(),
            access: 0,
            pairs: BTreeMap::new(),
            memory: None,
        };
        // SAFETY: the context is open.
        device.domain = made("ibv_alloc_pd", unsafe { (device.calls.domain)(context) })?;
        // SAFETY: the context is open; no channel for events.
        let queue = unsafe { (device.calls.queue)(context, 1, null_mut(), null_mut(), 0) };
        device.queue = made("ibv_create_cq", queue)?;
        Ok(device)
    }

    /// What the device can.
    pub fn attributes(&self) -> Result<DeviceAttributes, CallError> {
        // SAFETY: all fields are numbers, for which zeros are valid.
        let mut found: DeviceAttributes = unsafe { std::mem::zeroed() };
        // SAFETY: the context is open; `found` has the layout that the function writes.
        checked("ibv_query_device", unsafe { (self.calls.device)(self.context, &raw mut found) })?;
        Ok(found)
    }

    /// The path MTU of a port, in bytes, and whether the port is active.
    pub fn port(&self, port: u8) -> Result<(usize, bool), CallError> {
        let mut found = PortAttributes::default();
        // SAFETY: as above.
        checked("ibv_query_port", unsafe { (self.calls.port)(self.context, port, &raw mut found) })?;
        let mtu = 128usize.checked_shl(found.active_mtu).unwrap_or(0);
        Ok((mtu, found.state == ACTIVE))
    }

    /// Lends it memory of zeros, one region: its address and key.
    pub fn lend(&mut self, bytes: usize, rights: Rights) -> Result<(u64, u32), VerbsError> {
        let given = |right, flag| if right { flag } else { 0 };
        self.access = LOCAL_WRITE
            | given(rights.write, REMOTE_WRITE)
            | given(rights.read, REMOTE_READ)
            | given(rights.atomic, REMOTE_ATOMIC);
        let start = self.memory.insert(Lent::new(bytes)?).start;
        // SAFETY: the memory is there until the region is freed and the device closed.
        let region = unsafe { (self.calls.region)(self.domain, start.cast(), bytes, self.access as c_int) };
        self.region = made("ibv_reg_mr", region).map_err(|e| VerbsError::of_region(bytes as u64, e))?;
        // SAFETY: not null: a region that the library has filled.
        Ok((start as u64, unsafe { (*self.region).key }))
    }

    /// A queue pair that answers: its number.
    pub fn add(&mut self, connection: &Connection) -> Result<u32, CallError> {
        let room = Room { send: 1, receive: 1, send_parts: 1, receive_parts: 1, inline_bytes: 0 };
        let mut new = NewPair {
            context: null_mut(),
            send_queue: self.queue,
            receive_queue: self.queue,
            shared_queue: null_mut(),
            room,
            kind: CONNECTED,
            signals: 0,
        };
        // SAFETY: domain and queue are those of this device; `new` has the layout that the function reads.
        let pair = made("ibv_create_qp", unsafe { (self.calls.pair)(self.domain, &raw mut new) })?;
        let begun = self.begin(pair, connection);
        if begun.is_err() {
            // SAFETY: made above, and not used afterwards.
            unsafe { (self.calls.free_pair)(pair) };
        }
        begun?;
        // SAFETY: not null: a queue pair that the library has filled.
        let number = unsafe { (*pair).number };
        self.pairs.insert(number, pair);
        Ok(number)
    }

    /// Lets a new queue pair answer.
    fn begin(&self, pair: *mut Pair, connection: &Connection) -> Result<(), CallError> {
        let mut init =
            PairState { state: INIT, access: self.access, port: connection.port, ..PairState::default() };
        // SAFETY: a queue pair of this device; the layout that the function reads.
        let code = unsafe { (self.calls.change_pair)(pair, &raw mut init, FOR_INIT) };
        checked("ibv_modify_qp to INIT", code)?;
        let route = Route {
            to: connection.to.octets(),
            own_index: connection.own_index,
            hops: HOPS,
            is_global: 1,
            port: connection.port,
            ..Route::default()
        };
        let mut answers = PairState {
            state: ANSWERS,
            // 256 bytes have the number 1.
            mtu: connection.mtu.ilog2() - 7,
            psn: connection.psn,
            peer: connection.peer,
            route,
            reads: connection.reads,
            wait: WAIT,
            ..PairState::default()
        };
        // SAFETY: as above.
        let code = unsafe { (self.calls.change_pair)(pair, &raw mut answers, FOR_ANSWERS) };
        checked("ibv_modify_qp to RTR", code)
    }

    /// How many queue pairs there are.
    pub fn pairs(&self) -> usize {
        self.pairs.len()
    }

    /// Ends a queue pair: whether it was there.
    pub fn remove(&mut self, number: u32) -> bool {
        let Some(pair) = self.pairs.remove(&number) else { return false };
        // SAFETY: a queue pair of this device, not used afterwards.
        unsafe { (self.calls.free_pair)(pair) };
        true
    }

    /// Ends all queue pairs.
    pub fn clear(&mut self) {
        while let Some(number) = self.pairs.keys().next().copied() {
            self.remove(number);
        }
    }

    /// Queue pairs in the error state, after a request that is not allowed. They do not answer.
    pub fn dead(&self) -> Vec<u32> {
        let is_dead = |pair: *mut Pair| {
            let mut state = PairState::default();
            let mut new = std::mem::MaybeUninit::<NewPair>::zeroed();
            // SAFETY: a queue pair of this device; both structures have the layouts that the function writes.
            let code = unsafe { (self.calls.pair_state)(pair, &raw mut state, FOR_STATE, new.as_mut_ptr()) };
            code == 0 && state.state == DEAD
        };
        self.pairs.iter().filter(|(_, pair)| is_dead(**pair)).map(|(number, _)| *number).collect()
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        self.clear();
        // SAFETY: each object was made by this library, is freed once, and after all that use it.
        unsafe {
            if !self.region.is_null() {
                (self.calls.free_region)(self.region);
            }
            if !self.queue.is_null() {
                (self.calls.free_queue)(self.queue);
            }
            if !self.domain.is_null() {
                (self.calls.free_domain)(self.domain);
            }
            (self.calls.close)(self.context);
        }
    }
}
