//! From the typed program to native code.
//!
//! One function per block that an architecture runs. Everything that the block calls is generated in place: P4 has no
//! recursion, so each call has its own variables, and most of them become registers. Where variables are held:
//! - scalars of up to 128 bits, wider ones of a few 64-bit limbs (`wide.rs`), and structs and headers of few such, in
//!   Cranelift variables ([`At::Regs`]);
//! - everything else, and everything that is indexed at run time, in scratch memory ([`At::Mem`]);
//! - parameters of the block in the packet's frame, and `inout` parameters of its callees in the caller's place, where
//!   it makes no visible difference.
//!
//! All memory that the code touches has a size known here: the frame, the scratch memory and the constants. Only three
//! kinds of access depend on run-time values, and each is checked by the code in front of it: elements of stacks (an
//! index out of range selects a place apart), the packet (its length is compared first) and the emitted bytes (their
//! capacity is).

mod ahead;
mod call;
mod cold;
mod digest;
mod expr;
mod external;
mod known;
mod parser;
mod pass;
mod place;
mod stmt;
mod table;
mod wide;

use crate::code::{Code, Site};
use crate::layout::Layouts;
use crate::runtime::{self, Ctx, at, status};
use cranelift_codegen::ir::{
    AbiParam, Block, InstBuilder, MemFlagsData, SigRef, Signature, TrapCode, Type as Ty, Value as V, types,
};
use cranelift_codegen::isa::{CallConv, OwnedTargetIsa};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext, Variable};
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{Linkage, Module};
use place::{At, Place};
use pointsman_ir::{
    CellPlace, ControlId, CoreErrors, Known, LoadError, ParserId, Pass, Program, TypeId, Types,
};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

/// The input of code generation.
pub(crate) struct Source<'p> {
    pub(crate) program: &'p Program,
    pub(crate) layouts: &'p Layouts,
    pub(crate) errors: CoreErrors,
    /// The meanings of externs.
    pub(crate) known: &'p Known,
    /// Positions of the cells of its arrays.
    pub(crate) places: &'p [CellPlace],
    /// Zero bytes, as many as the largest element of a stack has, for reads with an index out of range.
    pub(crate) zeros: &'p [u64],
    pub(crate) cold: &'p Cold,
    /// Every extraction starts at a whole byte.
    pub(crate) aligned: bool,
    /// A parser could make too many transitions.
    pub(crate) counted: bool,
    /// There are loops.
    pub(crate) loops: bool,
}

pub(crate) use ahead::MOST as MOST_NOTED;
pub(crate) use cold::{Cold, Rare};

/// A block that an architecture runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    Parser(ParserId),
    Control(ControlId),
}

/// A table made for this many entries may outgrow the caches.
const MANY_ENTRIES: u64 = 1 << 20;

/// More scratch memory than this is refused.
const MAX_SCRATCH: u32 = 16 << 20;

/// Memory operations on memory that is there, at any alignment.
pub(crate) const FLAGS: MemFlagsData = MemFlagsData::new().with_notrap();

/// The variables that code sees.
#[derive(Debug)]
struct Scope {
    vars: Vec<Place>,
    /// Of the control around an action.
    outer: Option<Rc<Scope>>,
    /// The callable is an action, so further actions see `outer`, not `vars`.
    action: bool,
}

/// Where control flow leaves the code being generated.
#[derive(Debug)]
struct Flow {
    /// `return`.
    ret: Block,
    /// `exit` or `reject`; the status is in [`Gen::status`].
    fail: Block,
    /// Of the loops around: where `break` and `continue` go.
    loops: Vec<(Block, Block)>,
    /// Where a function's value goes.
    result: Option<Place>,
}

struct Gen<'g, 'p> {
    b: FunctionBuilder<'g>,
    s: &'g Source<'p>,
    ctx: V,
    frame: V,
    scratch: V,
    packet: V,
    packet_bits: V,
    /// The next bit of the packet.
    position: Variable,
    transitions_left: Variable,
    status: Variable,
    /// Ends the run after a panic of the runtime.
    abort: Block,
    flow: Flow,
    /// Where scratch memory begins, in the memory that the code is given.
    scratch_at: u32,
    scratch_top: u32,
    scratch_most: u32,
    #[allow(clippy::vec_box)] // compiled code holds their addresses
    sites: Vec<Box<Site>>,
    constants: Vec<Box<[u64]>>,
    strings: Vec<Arc<str>>,
    /// The state of looking ahead, if the code does.
    ahead: Option<ahead::Ahead>,
    /// Flat tables, or cells, are used in place, or hits of the tables noted.
    uses_tables: bool,
    notes_hits: bool,
    uses_cells: bool,
    /// It does something only where packets are processed at the same time.
    uses_shared: bool,
    /// It takes cells to be there because there are as many as was announced.
    trusts_cells: bool,
    emits: bool,
    /// The architecture was called for something since [`PassStep::ExitIfAsked`](pointsman_ir::PassStep::ExitIfAsked).
    asks: bool,
    /// The code is a pass: the slots are its own, and there are flat tables for sure.
    is_pass: bool,
    /// It is one whose deparser is run apart.
    lacks_deparser: bool,
    sigs: HashMap<(usize, bool, bool), SigRef>,
    call_conv: CallConv,
    /// The first thing that cannot be compiled.
    problem: Option<String>,
}

/// Generates the code of a block whose parameter `i` is at byte `params[i]` of the memory that it is given, and its
/// scratch memory from byte `scratch_at` on.
pub(crate) fn compile(
    source: &Source<'_>,
    isa: &OwnedTargetIsa,
    entry: Entry,
    params: &[u32],
    scratch_at: u32,
) -> Result<Code, LoadError> {
    let name = name(source.program, entry);
    let parses = matches!(entry, Entry::Parser(_));
    let code = make(source, isa, &name, (parses, scratch_at), |g| g.entry(entry, params))?;
    code.ok_or_else(|| LoadError(format!("{name}: no code")))
}

/// Whether looking ahead can gain anything.
pub(crate) fn may_look_ahead(program: &Program, known: &Known) -> bool {
    let cells = known.arrays.iter().map(|a| a.len.saturating_mul(u64::from(a.width.div_ceil(8)) + 16));
    cells.fold(0, u64::saturating_add) >= ahead::WORTHWHILE
        || program.tables.iter().any(|t| t.size.is_some_and(|n| n >= MANY_ENTRIES))
}

/// Generates code that looks ahead, if there is anything to gain by it.
pub(crate) fn compile_ahead(
    source: &Source<'_>,
    isa: &OwnedTargetIsa,
    control: ControlId,
    params: &[u32],
    scratch_at: u32,
) -> Result<Option<Code>, LoadError> {
    let entry = Entry::Control(control);
    make(source, isa, &name(source.program, entry), (false, scratch_at), |g| {
        g.look_ahead();
        g.entry(entry, params);
    })
}

/// Generates the code of a pass, or code that looks ahead of it; slot `i` is at byte `slots[i].1` of a frame.
pub(crate) fn compile_pass(
    source: &Source<'_>,
    isa: &OwnedTargetIsa,
    (pass, ahead): (&Pass, bool),
    slots: &[(TypeId, u32)],
    scratch_at: u32,
) -> Result<Option<Code>, LoadError> {
    make(source, isa, "pass", (true, scratch_at), |g| {
        g.is_pass = true;
        if ahead {
            g.look_ahead();
        }
        g.whole_pass(pass, slots);
    })
}

/// Compiles the function that `generate` generates; none if looking ahead is not needed.
#[allow(unsafe_code)]
fn make(
    source: &Source<'_>,
    isa: &OwnedTargetIsa,
    name: &str,
    (parses, scratch_at): (bool, u32),
    generate: impl FnOnce(&mut Gen<'_, '_>),
) -> Result<Option<Code>, LoadError> {
    let internal = |e: &dyn std::fmt::Display| LoadError(format!("{name}: {e}"));
    let builder = JITBuilder::with_isa(isa.clone(), cranelift_module::default_libcall_names());
    let mut module = JITModule::new(builder);
    let mut signature = module.make_signature();
    signature.params.push(AbiParam::new(types::I64));
    signature.returns.push(AbiParam::new(types::I64));
    let id = module.declare_function("block", Linkage::Local, &signature).map_err(|e| internal(&e))?;
    let mut context = module.make_context();
    context.func.signature = signature;
    let mut builder_context = FunctionBuilderContext::new();
    let made = {
        let b = FunctionBuilder::new(&mut context.func, &mut builder_context);
        let mut g = Gen::new(b, source, isa.default_call_conv(), (parses, scratch_at));
        generate(&mut g);
        let ahead = g.ahead.is_some();
        let large = g.ahead.as_ref().is_some_and(|a| a.has_large_arrays());
        let tables = g.ahead.take().map_or(Vec::new(), |a| a.tables);
        if ahead
            && !large
            && !tables
                .iter()
                .any(|t| source.program.tables[t.index()].size.is_some_and(|n| n >= MANY_ENTRIES))
        {
            return Ok(None);
        }
        if let Some(problem) = g.problem {
            return Err(internal(&problem));
        }
        g.b.seal_all_blocks();
        g.b.finalize(module.target_config());
        let lent = (g.uses_tables, g.notes_hits, g.uses_cells, g.trusts_cells, g.uses_shared);
        let uses = (lent, g.emits, !g.lacks_deparser);
        // The stack is the scratch memory of a pass; its notes go behind the frame.
        let scratch = if g.is_pass { 8 * ahead::MOST as u32 * u32::from(ahead) } else { g.scratch_most };
        (scratch, g.sites, g.constants, g.strings, uses, (tables, large))
    };
    module.define_function(id, &mut context).map_err(|e| internal(&format!("{e:?}")))?;
    let size = context.compiled_code().map_or(0, |c| c.code_info().total_size as usize);
    module.finalize_definitions().map_err(|e| internal(&e))?;
    let address = module.get_finalized_function(id);
    // SAFETY: the function was declared with this signature, and the module that owns it stays in the same `Code`.
    let run = unsafe { std::mem::transmute::<*const u8, extern "C" fn(*mut Ctx<'_>) -> i64>(address) };
    let (scratch, sites, constants, strings, uses, (foreseen, large_arrays)) = made;
    let ((tables, notes, cells, trusts_cells, shared), emits, whole) = uses;
    Ok(Some(Code {
        module: Some(module),
        entry: run,
        words: (scratch_at + scratch).div_ceil(8) as usize,
        _sites: sites,
        _constants: constants,
        strings,
        cells,
        trusts_cells,
        shared,
        emits,
        whole,
        tables,
        notes,
        foreseen,
        large_arrays,
        size,
    }))
}

fn name(program: &Program, entry: Entry) -> String {
    match entry {
        Entry::Parser(id) => format!("parser {}", program.parsers[id.index()].name),
        Entry::Control(id) => format!("control {}", program.controls[id.index()].name),
    }
}

impl<'g, 'p> Gen<'g, 'p> {
    fn new(
        mut b: FunctionBuilder<'g>,
        s: &'g Source<'p>,
        call_conv: CallConv,
        (parses, scratch_at): (bool, u32),
    ) -> Self {
        let start = b.create_block();
        b.append_block_params_for_function_params(start);
        b.switch_to_block(start);
        b.seal_block(start);
        let ctx = b.block_params(start)[0];
        let mut field = |offset| b.ins().load(types::I64, FLAGS, ctx, offset);
        // Only parsers look at the packet.
        let (packet, packet_bits) = match parses {
            true => (field(at::PACKET), field(at::PACKET_BITS)),
            false => (ctx, ctx),
        };
        let start_at = b.ins().iconst(types::I64, 0);
        let (position, transitions_left, status) =
            (b.declare_var(types::I64), b.declare_var(types::I64), b.declare_var(types::I64));
        b.def_var(position, start_at);
        let most = b.ins().iconst(types::I64, i64::from(pointsman_ir::MAX_TRANSITIONS));
        b.def_var(transitions_left, most);
        let ok = b.ins().iconst(types::I64, status::OK);
        b.def_var(status, ok);
        let (abort, ret, fail) = (b.create_block(), b.create_block(), b.create_block());
        b.set_cold_block(abort);
        Gen {
            b,
            s,
            ctx,
            frame: ctx,
            scratch: ctx,
            packet,
            packet_bits,
            position,
            transitions_left,
            status,
            abort,
            flow: Flow { ret, fail, loops: Vec::new(), result: None },
            scratch_at,
            scratch_top: 0,
            scratch_most: 0,
            sites: Vec::new(),
            constants: Vec::new(),
            strings: vec!["".into()],
            ahead: None,
            uses_tables: false,
            notes_hits: false,
            uses_cells: false,
            uses_shared: false,
            trusts_cells: false,
            emits: false,
            asks: false,
            is_pass: false,
            lacks_deparser: false,
            sigs: HashMap::new(),
            call_conv,
            problem: None,
        }
    }

    /// From now on the code looks ahead.
    fn look_ahead(&mut self) {
        let next = self.b.declare_var(types::I64);
        let at = match self.is_pass {
            true => At::Mem { base: self.ctx, off: self.scratch_at as i32 },
            false => self.scratch(8 * ahead::MOST as u32),
        };
        if let At::Mem { base, off } = at {
            let start = self.pointer(base, off);
            self.b.def_var(next, start);
        }
        self.ahead = Some(ahead::Ahead::new(next, self.s));
    }

    /// The whole function.
    fn entry(&mut self, entry: Entry, offsets: &[u32]) {
        let program = self.s.program;
        let frame = match entry {
            Entry::Parser(id) => &program.parsers[id.index()].frame,
            Entry::Control(id) => &program.controls[id.index()].frame,
        };
        let mut vars = Vec::with_capacity(frame.vars.len());
        for (i, var) in frame.vars.iter().enumerate() {
            let Some(offset) = offsets.get(i) else {
                vars.push(self.fresh(var.ty));
                continue;
            };
            let place =
                Place { ty: self.repr(var.ty), at: At::Mem { base: self.frame, off: *offset as i32 } };
            let param = frame.params.get(i);
            let is_out = param.is_some_and(|p| p.direction == pointsman_ir::Direction::Out);
            vars.push(match (param, self.ahead.is_some()) {
                (_, true) if is_out => self.fresh(var.ty),
                (Some(param), true) => self.foreseen_param(place, param),
                _ => {
                    if is_out {
                        self.clear(place);
                    }
                    place
                }
            });
        }
        let scope = Rc::new(Scope { vars, outer: None, action: false });
        let (ret, fail) = (self.flow.ret, self.flow.fail);
        let live = match entry {
            Entry::Parser(id) => self.parser(&scope, id),
            Entry::Control(id) => self.block(&scope, &program.controls[id.index()].body),
        };
        if live {
            self.jump(ret);
        }
        self.start(ret);
        self.leave(entry);
        self.end_of_addresses();
        let ok = self.number(status::OK as u64);
        self.b.ins().return_(&[ok]);
        self.start(fail);
        self.leave(entry);
        self.end_of_addresses();
        let status = self.b.use_var(self.status);
        self.b.ins().return_(&[status]);
        self.start(self.abort);
        self.end_of_addresses();
        let panic = self.number(status::PANIC as u64);
        self.b.ins().return_(&[panic]);
    }

    fn leave(&mut self, entry: Entry) {
        if let Entry::Parser(_) = entry {
            let position = self.b.use_var(self.position);
            self.b.ins().store(FLAGS, position, self.ctx, at::POSITION);
        }
    }

    fn types(&self) -> &'p Types {
        &self.s.program.types
    }

    fn repr(&self, ty: TypeId) -> TypeId {
        self.s.program.types.repr(ty)
    }

    fn layouts(&self) -> &'p Layouts {
        self.s.layouts
    }

    /// Notes what cannot be compiled.
    fn refuse(&mut self, problem: String) {
        self.problem.get_or_insert(problem);
    }

    fn number(&mut self, n: u64) -> V {
        self.b.ins().iconst(types::I64, n as i64)
    }

    /// A constant of a register type.
    fn constant(&mut self, ty: Ty, n: u128) -> V {
        if ty == types::I128 {
            let (low, high) = (self.number(n as u64), self.number((n >> 64) as u64));
            return self.b.ins().iconcat(low, high);
        }
        self.b.ins().iconst(ty, n as u64 as i64)
    }

    /// Continues with `block`, whose predecessors are all there.
    fn start(&mut self, block: Block) {
        self.b.switch_to_block(block);
        self.b.seal_block(block);
    }

    /// Whether nothing leads here.
    fn is_dead(&self) -> bool {
        self.b.is_unreachable()
    }

    fn jump(&mut self, block: Block) {
        match self.is_dead() {
            // An unreachable jump must not count as a way to the block: variables would have two values there.
            true => self.b.ins().trap(TrapCode::unwrap_user(1)),
            false => self.b.ins().jump(block, &[]),
        };
    }

    fn branch(&mut self, condition: V, yes: Block, no: Block) {
        match self.known_number(condition) {
            Some(known) => self.jump(if known != 0 { yes } else { no }),
            None if self.is_dead() => self.jump(no),
            None => {
                self.b.ins().brif(condition, yes, &[], no, &[]);
            }
        }
    }

    fn new_block(&mut self) -> Block {
        self.b.create_block()
    }

    /// Scratch memory of this call.
    fn scratch(&mut self, size: u32) -> At {
        let off = self.scratch_top;
        self.scratch_top = self.scratch_top.saturating_add(size.next_multiple_of(16));
        self.scratch_most = self.scratch_most.max(self.scratch_top);
        if self.scratch_top > MAX_SCRATCH {
            self.refuse(format!("its variables take more than {} MiB", MAX_SCRATCH >> 20));
            self.scratch_top = 0;
        }
        At::Mem { base: self.scratch, off: (self.scratch_at + off) as i32 }
    }

    /// Frees the scratch memory above `mark`.
    fn release(&mut self, mark: u32) {
        self.scratch_top = mark;
    }

    /// The address of memory of the engine that never moves.
    fn address(&mut self, p: *const u8) -> V {
        self.number(p as usize as u64)
    }

    fn site(&mut self, site: Site) -> V {
        let site = Box::new(site);
        let address = self.address((&raw const *site).cast());
        self.sites.push(site);
        address
    }

    /// Calls a function of the runtime: arguments are words, the result (if any) is one.
    fn call_runtime(&mut self, function: *const u8, args: &[V], result: bool) -> V {
        let way = self.s.cold.way(function);
        let key = (args.len(), result, way.is_some());
        let sig = match self.sigs.get(&key) {
            Some(sig) => *sig,
            None => {
                let saving = way.map(|_| CallConv::PreserveAll);
                let mut signature = Signature::new(saving.unwrap_or(self.call_conv));
                signature.params.extend(args.iter().map(|_| AbiParam::new(types::I64)));
                if result && way.is_none() {
                    signature.returns.push(AbiParam::new(types::I64));
                }
                let sig = self.b.import_signature(signature);
                self.sigs.insert(key, sig);
                sig
            }
        };
        let callee = self.address(way.unwrap_or(function));
        let call = self.b.ins().call_indirect(sig, callee, args);
        match self.b.inst_results(call).first() {
            Some(v) => *v,
            None if result => self.b.ins().load(types::I64, FLAGS, self.ctx, at::RESULT),
            None => self.number(0),
        }
    }

    /// Goes to [`Gen::abort`] if `panicked`.
    fn check_panic(&mut self, panicked: V) {
        let on = self.new_block();
        let abort = self.abort;
        self.branch(panicked, abort, on);
        self.start(on);
    }

    /// `reject` with an error.
    fn reject_with(&mut self, error: V) {
        self.b.ins().store(FLAGS, error, self.ctx, at::ERROR);
        let status = self.number(status::REJECT as u64);
        self.b.def_var(self.status, status);
        let fail = self.flow.fail;
        self.jump(fail);
    }

    /// Continues if `condition`, else rejects with `error`.
    fn require(&mut self, condition: V, error: u32) {
        let (on, off) = (self.new_block(), self.new_block());
        self.branch(condition, on, off);
        self.b.set_cold_block(off);
        self.start(off);
        if !self.is_dead() {
            let error = self.number(u64::from(error));
            self.reject_with(error);
        }
        self.start(on);
    }

    fn runtime_copy(&mut self, to: V, from: V, size: u32) {
        let size = self.number(u64::from(size));
        self.call_runtime(runtime::copy as *const u8, &[to, from, size], false);
    }
}
