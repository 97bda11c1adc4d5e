//! A load of frames made inside the kernel, to measure the capacity of a switch.

use std::io;
use std::os::fd::OwnedFd;
use std::thread;
use std::time::{Duration, Instant};

use crate::af_packet::find;
use crate::assembler::{Assembler, R0, R1, R2, R3, R6, R7, R8, R9, R10};
use crate::sys::bpf::{self, Array, Instruction};
use crate::{Frame, PortError, sys};

/// Bytes of each frame that are rewritten every time. A receiver may change the rest for good.
const FRESH: usize = 64;
const WORDS: usize = FRESH / 8;

/// Helpers of the kernel (`enum bpf_func_id`).
const MAP_LOOKUP: i32 = 1;
const TIME: i32 = 5;
const REDIRECT: i32 = 23;

const XDP_DROP: i32 = 1;

/// Bytes of the program's state: six words.
const STATE: usize = 6;
/// How many frames have been sent.
const COUNT: i16 = 0;
/// When the next one is due, in units of time since the start.
const NEXT: i16 = 8;
/// Units of time between two frames; 0 for as fast as possible.
const INTERVAL: i16 = 16;
/// How many different frames there are.
const FRAMES: i16 = 24;
/// Start of the measurement, on the kernel's monotonic clock.
const START: i16 = 32;
/// Units of time by which the schedule may be late before it is moved.
const PATIENCE: i16 = 40;

/// The unit of time is 2^-10 ns: frames are due to within a thousandth of a percent even at many millions a second.
const UNITS: i32 = 10;

/// How far the generator may fall behind before it skips the missed frames, in ns.
const PATIENCE_NS: u64 = 200_000;

/// Sends the same frames over and over through an interface, one after the other, straight from an XDP program: about
/// five times as fast as a socket could, so that the receiver is the bottleneck.
///
/// It has AF_XDP's requirements, and needs at the other end of a veth pair a receiver of such frames: an
/// [`AfXdp`](crate::AfXdp) port, or [`accept_live_frames`]. Otherwise they vanish.
pub struct LiveFrames {
    program: OwnedFd,
    state: Array<STATE>,
    _frames: Array<WORDS>,
    first: Frame,
    count: u64,
}

/// The frames sent in a run of [`LiveFrames`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveRun {
    /// Frames that were given to the interface.
    pub frames: u64,
    /// Time that it took, in ns.
    pub elapsed_ns: u64,
}

impl LiveFrames {
    /// Prepares frames for an interface of the current network namespace. All have the length of the first, at least 64
    /// bytes; only their first 64 bytes may differ. `stamp`: where in those 64 bytes to put the time of sending, eight
    /// bytes in the byte order of the machine, nanoseconds of CLOCK_MONOTONIC.
    ///
    /// # Errors
    /// [`PortError`] naming the interface and the remedy.
    pub fn new(name: &str, frames: &[Frame], stamp: Option<usize>) -> Result<Self, PortError> {
        let failed = |doing| move |source| PortError::from_system(name, doing, source);
        let (_, found) = find(name)?;
        let Some(first) = frames.first().filter(|first| first.len() >= FRESH) else {
            return Err(PortError::Config { field: "frames", rule: "at least one of at least 64 bytes" });
        };
        if frames.iter().any(|frame| frame.len() != first.len() || frame[FRESH..] != first[FRESH..]) {
            return Err(PortError::Config { field: "frames", rule: "alike from byte 64 on" });
        }
        if stamp.is_some_and(|at| at > FRESH - 8) {
            return Err(PortError::Config { field: "stamp", rule: "at most 56" });
        }
        let count = u32::try_from(frames.len())
            .map_err(|_| PortError::Config { field: "frames", rule: "fewer than 4,000,000,000" })?;
        let array = Array::<WORDS>::new(count).map_err(failed("make a BPF map"))?;
        for (index, frame) in (0..).zip(frames) {
            let (words, _) = frame[..FRESH].as_chunks::<8>();
            let words = std::array::from_fn(|at| u64::from_ne_bytes(words[at]));
            array.put(index, &words).map_err(failed("fill a BPF map"))?;
        }
        let state = Array::new(1).map_err(failed("make a BPF map"))?;
        let code = program(&state.0, &array.0, found.index, stamp.map(|at| at as i16));
        let program = bpf::load_xdp(&code).map_err(failed("load an XDP program"))?;
        Ok(Self { program, state, _frames: array, first: first.clone(), count: u64::from(count) })
    }

    /// Sends for a while, in the network namespace of the calling thread, which has to be the one of [`LiveFrames::new`].
    /// `per_second`: evenly spaced, 0 for as fast as possible. A processor core is busy all the time, either way. A signal
    /// ends the run (SIGRTMAX - 3, whose handler is replaced by one that does nothing), because nothing else can.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn run(&self, per_second: u64, time: Duration) -> io::Result<LiveRun> {
        let interval = (1_000_000_000u64 << UNITS).checked_div(per_second).unwrap_or(0);
        let mut state = [0; STATE];
        let mut put = |at: i16, value| state[at as usize / 8] = value;
        put(INTERVAL, interval);
        put(FRAMES, self.count);
        put(START, sys::monotonic_ns());
        put(PATIENCE, PATIENCE_NS << UNITS);
        self.state.put(0, &state)?;
        sys::prepare_interruptions()?;
        let start = Instant::now();
        // Only a signal ends a run in time.
        let runner = sys::thread_id();
        let (done, is_done) = std::sync::mpsc::channel();
        let result = thread::scope(|scope| {
            scope.spawn(move || {
                let mut wait = time;
                // It may come in the moment before the run begins.
                while is_done.recv_timeout(wait) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                    sys::interrupt(runner);
                    wait = Duration::from_millis(5);
                }
            });
            let result = bpf::run_live(&self.program, &self.first, u32::MAX);
            let _ = done.send(());
            result
        });
        let elapsed_ns = start.elapsed().as_nanos() as u64;
        match result {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
            _ => Ok(LiveRun { frames: self.state.get(0)?[COUNT as usize / 8], elapsed_ns }),
        }
    }
}

/// Sends the next frame if it is due.
fn program(state: &OwnedFd, frames: &OwnedFd, interface: i32, stamp: Option<i16>) -> Vec<Instruction> {
    let mut program = Assembler::default();
    let (drop, emit, in_time) = (program.label(), program.label(), program.label());
    // The frame, of which the verifier has to be shown that it is long enough.
    program.load32(R7, R1, 0);
    program.load32(R2, R1, 4);
    program.copy(R3, R7);
    program.add(R3, FRESH as i32);
    program.jump_if_greater(R3, R2, drop);

    program.map_value(R9, state);
    program.load64(R8, R9, INTERVAL);
    program.jump_if_equal(R8, 0, emit);
    program.call(TIME);
    program.load64(R1, R9, START);
    program.subtract_register(R0, R1);
    program.shift_left(R0, UNITS);
    program.load64(R6, R9, NEXT);
    program.jump_if_greater(R6, R0, drop);
    // Far too late: the schedule starts again now, instead of making up for it all at once.
    program.load64(R1, R9, PATIENCE);
    program.add_register(R1, R6);
    program.jump_if_greater(R1, R0, in_time);
    program.copy(R6, R0);
    program.here(in_time);
    program.add_register(R6, R8);
    program.store64(R9, NEXT, R6);

    program.here(emit);
    program.load64(R3, R9, COUNT);
    program.copy(R1, R3);
    program.add(R1, 1);
    program.store64(R9, COUNT, R1);
    program.load64(R2, R9, FRAMES);
    program.modulo_register(R3, R2);
    program.store32(R10, -4, R3);
    program.copy(R2, R10);
    program.add(R2, -4);
    program.map(R1, frames);
    program.call(MAP_LOOKUP);
    program.jump_if_equal(R0, 0, drop);
    for word in 0..WORDS as i16 {
        program.load64(R1, R0, word * 8);
        program.store64(R7, word * 8, R1);
    }
    if let Some(at) = stamp {
        program.call(TIME);
        program.store64(R7, at, R0);
    }
    program.set(R1, interface);
    program.set(R2, 0);
    program.call(REDIRECT);
    program.exit();

    program.here(drop);
    program.set(R0, XDP_DROP);
    program.exit();
    program.finish()
}

/// Makes an interface accept the frames of [`LiveFrames`] that come from the other end of its veth pair, and give them
/// to
/// the network stack, and with it to [`AfPacket`](crate::AfPacket) ports, until the returned guard is dropped. As long as
/// that lives the kernel at the other end cuts its super-frames itself: not a setting to measure streams in.
///
/// # Errors
/// [`PortError`] naming the interface and the remedy.
pub fn accept_live_frames(name: &str) -> Result<LiveFramesAccepted, PortError> {
    const XDP_PASS: i32 = 2;
    const DRIVER_MODE: u32 = 1 << 2;
    let failed = |doing| move |source| PortError::from_system(name, doing, source);
    let (_, found) = find(name)?;
    let mut pass = Assembler::default();
    pass.set(R0, XDP_PASS);
    pass.exit();
    let program = bpf::load_xdp(&pass.finish()).map_err(failed("load an XDP program"))?;
    let link = bpf::link_xdp(&program, found.index, DRIVER_MODE).map_err(failed("attach an XDP program"))?;
    Ok(LiveFramesAccepted { _link: link })
}

/// As long as this lives, an interface accepts live frames, see [`accept_live_frames`].
pub struct LiveFramesAccepted {
    _link: OwnedFd,
}
