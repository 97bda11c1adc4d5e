//! Running native code: of a block, of a whole pass, and what looks ahead of either.
//!
//! All entries into code are here, with the promises that generated code relies on (see "Memory safety" in the crate's
//! documentation).

use crate::code::Code;
use crate::generate::{self, Entry, Source};
use crate::memory::{self, bytes, bytes_mut};
use crate::runtime::{ACCEPTED, Ctx, Host, status};
use crate::{Engine, Frame, LARGE_TABLE};
use pointsman_ir::pass::{Coming, Convoy, GIVEN, Passing};
use pointsman_ir::table::flat::FlatTable;
use pointsman_ir::{ControlId, Direction, Env, Executor, Known, MAX_LOOP_ROUNDS, Param, Passed};

/// How a run ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ran {
    pub(crate) status: i64,
    /// Of a parser.
    pub(crate) error: u32,
    /// Bits that a parser has consumed.
    pub(crate) position: usize,
}

impl Ran {
    const NOTHING: Ran = Ran { status: status::REJECT, error: 0, position: 0 };
}

impl Engine {
    /// Runs a block.
    #[inline(always)]
    pub(crate) fn run(
        &self,
        entry: Entry,
        slots: &[usize],
        frame: &mut Frame,
        packet: &[u8],
        emitted: &mut Vec<u8>,
        env: &mut dyn Env,
    ) -> Ran {
        let block = match entry {
            Entry::Parser(id) => self.parsers.get(id.index()),
            Entry::Control(id) => self.controls.get(id.index()),
        };
        if let Some(block) = block
            && let Some(Ok(code)) = block.code.get()
            && frame.end == self.words
            && frame.slots.len() >= code.words
            && block.runs_on(slots)
        {
            return self.enter((code, entry), &mut frame.slots, packet, emitted, env);
        }
        self.run_first(entry, slots, frame, packet, emitted, env)
    }

    /// The same where something has to be made first, or parameters are elsewhere.
    #[cold]
    #[inline(never)]
    fn run_first(
        &self,
        entry: Entry,
        slots: &[usize],
        frame: &mut Frame,
        packet: &[u8],
        emitted: &mut Vec<u8>,
        env: &mut dyn Env,
    ) -> Ran {
        let Some((block, params)) = self.block(entry) else { return Ran::NOTHING };
        // A block that cannot be compiled was refused by `load`, unless nothing in the package leads to it.
        let Ok(code) = self.code(entry, block) else { return Ran::NOTHING };
        if frame.end != self.words {
            *frame = self.new_frame();
        }
        if frame.slots.len() < code.words {
            frame.slots.resize(code.words, 0);
        }
        let entered = (code, entry);
        if block.runs_on(slots) {
            return self.enter_slowly(entered, &mut frame.slots, packet, emitted, env);
        }
        // Parameters that are elsewhere, or share a slot: copied in and out.
        let mut memory = vec![0u64; code.words];
        let fits = |i: usize, param: &Param| {
            let slot = *slots.get(i)?;
            let types = &self.program.types;
            let ty = self.slots.get(slot)?;
            let size = self.layouts.get(*ty).size as usize;
            let (from, to) = (self.offsets[slot] as usize, block.params[i] as usize);
            (types.repr(*ty) == types.repr(param.ty)).then_some((from, to, size))
        };
        for (i, param) in params.iter().enumerate() {
            if let Some((from, to, size)) = fits(i, param) {
                let value = &bytes(&frame.slots)[from..from + size];
                bytes_mut(&mut memory)[to..to + size].copy_from_slice(value);
            }
        }
        let result = self.enter_slowly(entered, &mut memory, packet, emitted, env);
        for (i, param) in params.iter().enumerate() {
            if let (Some((from, to, size)), Direction::Out | Direction::InOut) =
                (fits(i, param), param.direction)
            {
                let value = &bytes(&memory)[to..to + size];
                bytes_mut(&mut frame.slots)[from..from + size].copy_from_slice(value);
            }
        }
        result
    }

    /// Enters code. Only the parts of the context that the code reads are written.
    #[inline(always)]
    #[allow(unsafe_code)]
    fn enter(
        &self,
        (code, entry): (&Code, Entry),
        memory: &mut [u64],
        packet: &[u8],
        emitted: &mut Vec<u8>,
        env: &mut dyn Env,
    ) -> Ran {
        debug_assert!(memory.len() >= code.words);
        let (mut cells, mut packet_bytes) = (self.no_cells.as_ptr(), 0);
        if code.cells {
            let all = env.cells();
            debug_assert!(self.are_announced(all));
            if all.len() >= self.no_cells.len() {
                cells = all.as_ptr();
            } else if code.trusts_cells {
                // Fewer than announced: the code would not find its memory.
                return self.enter_without_cells(entry, memory, packet, emitted, env);
            }
            packet_bytes = u64::from(env.packet_bytes());
        }
        let is_parser = matches!(entry, Entry::Parser(_));
        let (strings, layouts) = (&code.strings, &self.layouts);
        let mut host = Host { layouts, strings, env, packet, pass: false, emitted, used: 0, panic: None };
        let at = memory.as_mut_ptr().cast::<Ctx<'_>>();
        // SAFETY: the memory has `code.words` words, so there is room for the context and everything that the code needs
        // behind it, and it is aligned to words; they are all words that were written before, and any words make a
        // context. Nothing else uses it, or the host, while the code runs.
        let ran = unsafe {
            if code.cells {
                ((*at).cells, (*at).packet_bytes) = (cells, packet_bytes);
            }
            if code.tables {
                (*at).tables = self.tables_of(host.env);
            }
            if code.notes {
                ((*at).hits, (*at).time) = (host.env.hit_cells().as_ptr(), host.env.time());
                (*at).packet_bytes = host.env.packet_bytes().into();
            }
            if code.shared {
                (*at).shared = host.env.is_shared().into();
            }
            if code.emits {
                (*at).out = host.emitted.as_mut_ptr();
                (*at).out_len = host.emitted.len() as u64;
                (*at).out_cap = host.emitted.capacity() as u64;
            }
            if is_parser {
                (*at).packet = packet.as_ptr();
                (*at).packet_bits = packet.len() as u64 * 8;
                (*at).position = 0;
                (*at).error = 0;
            }
            (*at).rounds_left = u64::from(MAX_LOOP_ROUNDS);
            (*at).host = &raw mut host;
            let status = (code.entry)(at);
            if code.emits {
                (*at).settle();
            }
            match is_parser {
                true => Ran { status, error: (*at).error as u32, position: (*at).position as usize },
                false => Ran { status, error: 0, position: 0 },
            }
        };
        if let Some(panic) = host.panic.take() {
            std::panic::resume_unwind(panic);
        }
        ran
    }

    /// The same with code that asks the architecture for every cell.
    #[cold]
    #[inline(never)]
    fn enter_without_cells(
        &self,
        entry: Entry,
        memory: &mut [u64],
        packet: &[u8],
        emitted: &mut Vec<u8>,
        env: &mut dyn Env,
    ) -> Ran {
        let Some((block, _)) = self.block(entry) else { return Ran::NOTHING };
        let code = block.asking.get_or_init(|| {
            let known = Known { arrays: Vec::new(), ..self.known.clone() };
            let source = Source { known: &known, ..self.source(entry)? };
            generate::compile(&source, &self.isa, entry, &block.params, 8 * self.top as u32)
        });
        let Ok(code) = code else { return Ran::NOTHING };
        // Scratch memory may be larger than that of the other code.
        let mut own = memory.to_vec();
        own.resize(own.len().max(code.words), 0);
        let ran = self.enter_slowly((code, entry), &mut own, packet, emitted, env);
        if let (Some(to), Some(from)) = (memory.get_mut(..self.top), own.get(..self.top)) {
            to.copy_from_slice(from);
        }
        ran
    }

    /// The same without the need to be fast.
    #[inline(never)]
    fn enter_slowly(
        &self,
        code: (&Code, Entry),
        memory: &mut [u64],
        packet: &[u8],
        emitted: &mut Vec<u8>,
        env: &mut dyn Env,
    ) -> Ran {
        self.enter(code, memory, packet, emitted, env)
    }

    /// See [`Executor::pass`].
    #[inline(always)]
    #[allow(unsafe_code)]
    pub(crate) fn run_passes(&self, frame: &mut Frame, packets: &mut impl Convoy) -> bool {
        let mut first = true;
        let mut emitted = Vec::new();
        let at = frame.slots.as_mut_ptr().cast::<Ctx<'_>>();
        while let Some(Passing { pass, buffer, start, given, env }) = packets.next() {
            let Some((code, resumes)) = self.pass_code(pass) else { return false };
            // What `Host::rest` counts from: before the parser of a packet has run, it has no rest.
            let position = if resumes { 0 } else { u64::MAX };
            if start > buffer.len() {
                return false;
            }
            if std::mem::take(&mut first) {
                if !self.fits(frame.end, env) {
                    return false;
                }
                // SAFETY: as below.
                unsafe { self.lend(at, env) };
            }
            let packet_bits = (buffer.len() - start) as u64 * 8;
            let packet_bytes =
                if resumes { env.packet_bytes().into() } else { (buffer.len() - start) as u64 };
            // SAFETY: `start` lies within the buffer, or at its end.
            let packet = unsafe { buffer.as_mut_ptr().add(start) };
            // SAFETY: those are the packet's bytes. They are written last of all, when nothing looks at them as a slice any more.
            let bytes = unsafe { std::slice::from_raw_parts(packet, buffer.len() - start) };
            let mut host = Host {
                layouts: &self.layouts,
                strings: &code.strings,
                env,
                packet: bytes,
                pass: true,
                emitted: &mut emitted,
                used: 0,
                panic: None,
            };
            // SAFETY: a frame of this engine (checked with the first packet) has room for the context and the slots behind it, and is
            // aligned to words; they are all words that were written before, and any words make a context. Nothing else uses it, or the
            // host, while the code runs. It writes to the packet's buffer only: no more in front of the packet than `out_cap` bytes.
            let (status, ctx) = unsafe {
                (*at).host = (&raw mut host).cast();
                (*at).packet = packet;
                (*at).packet_bits = packet_bits;
                (*at).position = position;
                (*at).out_cap = start as u64;
                (*at).packet_bytes = packet_bytes;
                (*at).asked = 0;
                (*at).given = given;
                ((code.entry)(at), &*at)
            };
            let rejected = (ctx.error != ACCEPTED).then_some(ctx.error as u32);
            let passed = Passed {
                exit: (status != status::OK).then(|| (status - status::EXITS) as u32),
                rejected,
                consumed_bits: ctx.position as usize,
                told: ctx.told,
                start: ctx.out_len as usize,
            };
            if let Some(panic) = host.panic.take() {
                std::panic::resume_unwind(panic);
            }
            if !packets.passed(passed) {
                break;
            }
        }
        true
    }

    /// Gives a context what passes use of an environment.
    ///
    /// # Safety
    /// It is the context of a frame of this engine, and nothing else uses it.
    #[inline(always)]
    #[allow(unsafe_code)]
    unsafe fn lend(&self, at: *mut Ctx<'_>, env: &dyn Env) {
        // SAFETY: as the caller promises.
        unsafe {
            ((*at).tables, (*at).cells) = (env.tables().as_ptr(), env.cells().as_ptr());
            (*at).shared = env.is_shared().into();
            if self.notes {
                ((*at).hits, (*at).time) = (env.hit_cells().as_ptr(), env.time());
            }
        }
    }

    /// The flat tables of an environment; none if it lacks some, or cells for what is noted about them.
    #[inline(always)]
    fn tables_of(&self, env: &dyn Env) -> *const FlatTable {
        let all = env.tables();
        match all.len() >= self.program.tables.len() && self.has_hit_cells(env) {
            true => all.as_ptr(),
            false => std::ptr::null(),
        }
    }

    #[inline(always)]
    fn has_hit_cells(&self, env: &dyn Env) -> bool {
        !self.notes || env.hit_cells().len() >= self.known.hits.len()
    }

    /// Whether the code may run on a frame of so many words with what the environment has.
    #[inline(always)]
    fn fits(&self, words: usize, env: &dyn Env) -> bool {
        debug_assert!(self.are_announced(env.cells()));
        env.tables().len() >= self.program.tables.len()
            && env.cells().len() >= self.no_cells.len()
            && self.has_hit_cells(env)
            && words == self.words
    }

    /// Those of the tables that the code looks up ahead which caches do not hold, a bit for each.
    pub(crate) fn large_tables(&self, code: &Code, env: &dyn Env) -> u64 {
        let all = env.tables();
        let tables = code.foreseen.iter().take(64).enumerate();
        let large = tables.filter(|(_, t)| all.get(t.index()).is_some_and(|t| t.bytes() > LARGE_TABLE));
        large.fold(0, |bits, (n, _)| bits | 1 << n)
    }

    /// See [`Executor::prefetch`].
    #[allow(unsafe_code)]
    pub(crate) fn fetch_ahead(
        &self,
        control: ControlId,
        slots: &[usize],
        frames: &mut [Frame],
        env: &mut dyn Env,
    ) {
        let Some(block) = self.controls.get(control.index()).filter(|b| b.runs_on(slots)) else { return };
        let Some(code) = &block.ahead else { return };
        let (all, cells) = (env.tables(), env.cells());
        if all.len() < self.program.tables.len() || cells.len() < self.no_cells.len() {
            return;
        }
        let (tables, cells) = (all.as_ptr(), cells.as_ptr());
        let large = self.large_tables(code, env);
        if large == 0 && !code.large_arrays {
            return;
        }
        let mut emitted = Vec::new();
        let mut host = Host {
            layouts: &self.layouts,
            strings: &code.strings,
            env,
            packet: &[],
            pass: false,
            emitted: &mut emitted,
            used: 0,
            panic: None,
        };
        let ctx = Ctx {
            host: &raw mut host,
            packet: std::ptr::null(),
            packet_bits: 0,
            position: 0,
            error: 0,
            rounds_left: u64::from(MAX_LOOP_ROUNDS),
            out: std::ptr::null_mut(),
            out_len: 0,
            out_cap: 0,
            cells,
            packet_bytes: 0,
            tables,
            hits: std::ptr::null(),
            time: 0,
            shared: 1,
            large,
            noted: std::ptr::null(),
            result: 0,
            asked: 0,
            given: [0; GIVEN],
            told: 0,
        };
        for frame in frames.iter_mut().filter(|f| f.end == self.words) {
            if frame.slots.len() < code.words {
                frame.slots.resize(code.words, 0);
            }
            let at = frame.slots.as_mut_ptr().cast::<Ctx<'_>>();
            // SAFETY: as in `enter`.
            let end = unsafe {
                at.write(ctx);
                (code.entry)(at);
                (*at).noted
            };
            self.fetch_noted(frame, end as usize);
        }
        if let Some(panic) = host.panic.take() {
            std::panic::resume_unwind(panic);
        }
    }

    /// See [`Executor::prefetch_pass`].
    #[allow(unsafe_code)]
    pub(crate) fn fetch_ahead_of_pass(&self, frame: &mut Frame, packets: &mut impl Coming) {
        let Some(code) = self.passes.first().and_then(|pass| pass.ahead.get()?.as_ref()) else { return };
        if frame.end != self.words {
            return;
        }
        if frame.slots.len() < code.words {
            frame.slots.resize(code.words, 0);
        }
        let mut first = true;
        let mut emitted = Vec::new();
        let at = frame.slots.as_mut_ptr().cast::<Ctx<'_>>();
        while let Some(Passing { buffer, start, given, env, .. }) = packets.next() {
            if std::mem::take(&mut first) {
                let (all, cells) = (env.tables(), env.cells());
                if all.len() < self.program.tables.len() || cells.len() < self.no_cells.len() {
                    return;
                }
                // SAFETY: as below.
                unsafe {
                    ((*at).tables, (*at).cells, (*at).large) = (all.as_ptr(), cells.as_ptr(), frame.large)
                };
            }
            let packet = buffer.get(start..).unwrap_or(&[]);
            let mut host = Host {
                layouts: &self.layouts,
                strings: &code.strings,
                env,
                packet,
                pass: true,
                emitted: &mut emitted,
                used: 0,
                panic: None,
            };
            // SAFETY: as in `enter`. Nothing but the frame is written to.
            let end = unsafe {
                (*at).host = (&raw mut host).cast();
                (*at).packet = packet.as_ptr();
                (*at).packet_bits = packet.len() as u64 * 8;
                (*at).packet_bytes = packet.len() as u64;
                (*at).given = given;
                (code.entry)(at);
                (*at).noted
            };
            self.fetch_noted(frame, end as usize);
            if let Some(panic) = host.panic.take() {
                std::panic::resume_unwind(panic);
            }
        }
    }

    /// Fetches what code has noted in the frame, up to `end`.
    fn fetch_noted(&self, frame: &mut Frame, end: usize) {
        let noted = frame.slots.get(self.top..self.top + generate::MOST_NOTED).unwrap_or(&[]);
        let count = end.saturating_sub(noted.as_ptr() as usize) / 8;
        let noted = noted.get(..count).unwrap_or(&[]);
        noted.iter().for_each(|address| memory::fetch(*address as usize as *const u8));
        if let Some(foresight) = &mut frame.foresight {
            foresight.note(noted);
        }
    }
}
