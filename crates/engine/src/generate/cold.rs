//! Ways out of native code that it hardly ever takes.
//!
//! A call loses the registers that its callee may change, so values that are needed after it are in memory around it,
//! and in a function with a hundred such calls nearly all values do, whether or not a packet ever comes by one. So these
//! calls lead through a few instructions of our own, which save every register.

use crate::runtime;
use cranelift_codegen::ir::{AbiParam, InstBuilder, MemFlagsData, Signature, types};
use cranelift_codegen::isa::{CallConv, OwnedTargetIsa};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::Module;
use pointsman_ir::LoadError;

/// A function of the runtime, whose first argument is the context.
pub(crate) struct Rare {
    pub(crate) function: *const u8,
    /// Words that it takes, and whether it gives one back.
    pub(crate) args: usize,
    pub(crate) result: bool,
}

/// The ways out.
pub(crate) struct Cold {
    /// Owns the memory of the code; `None` only while it is dropped.
    module: Option<JITModule>,
    /// Addresses of functions of the runtime, and of the functions that native code calls instead.
    ways: Vec<(usize, usize)>,
}

// SAFETY: once it is made, the code never changes.
#[allow(unsafe_code)]
unsafe impl Sync for Cold {}
// SAFETY: nothing in it belongs to a thread.
#[allow(unsafe_code)]
unsafe impl Send for Cold {}

impl Drop for Cold {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        if let Some(module) = self.module.take() {
            // SAFETY: only native code of the same engine calls it, and nothing runs that any more.
            unsafe { module.free_memory() }
        }
    }
}

impl Cold {
    pub(crate) fn new(isa: &OwnedTargetIsa) -> Result<Cold, LoadError> {
        let wrong = |e: &dyn std::fmt::Display| LoadError(format!("calls of the runtime: {e}"));
        let builder = JITBuilder::with_isa(isa.clone(), cranelift_module::default_libcall_names());
        let mut module = JITModule::new(builder);
        let mut builder_context = FunctionBuilderContext::new();
        let mut made = Vec::new();
        for Rare { function, args, result } in runtime::rare() {
            let mut plain = Signature::new(isa.default_call_conv());
            plain.params.extend((0..args).map(|_| AbiParam::new(types::I64)));
            let mut saving = Signature::new(CallConv::PreserveAll);
            saving.params.clone_from(&plain.params);
            if result {
                plain.returns.push(AbiParam::new(types::I64));
            }
            let id = module.declare_anonymous_function(&saving).map_err(|e| wrong(&e))?;
            let mut context = module.make_context();
            context.func.signature = saving;
            let mut b = FunctionBuilder::new(&mut context.func, &mut builder_context);
            let start = b.create_block();
            b.append_block_params_for_function_params(start);
            b.switch_to_block(start);
            b.seal_block(start);
            let args = b.block_params(start).to_vec();
            let plain = b.import_signature(plain);
            let callee = b.ins().iconst(types::I64, function as i64);
            let call = b.ins().call_indirect(plain, callee, &args);
            if let (Some(v), Some(ctx)) = (b.inst_results(call).first().copied(), args.first()) {
                b.ins().store(MemFlagsData::new().with_notrap(), v, *ctx, runtime::at::RESULT);
            }
            b.ins().return_(&[]);
            b.finalize(module.target_config());
            module.define_function(id, &mut context).map_err(|e| wrong(&format!("{e:?}")))?;
            made.push((function as usize, id));
        }
        module.finalize_definitions().map_err(|e| wrong(&e))?;
        let ways = made.iter().map(|(f, id)| (*f, module.get_finalized_function(*id) as usize)).collect();
        Ok(Cold { module: Some(module), ways })
    }

    /// The function to call instead of a function of the runtime, if it is called rarely.
    pub(crate) fn way(&self, function: *const u8) -> Option<*const u8> {
        let (_, way) = self.ways.iter().find(|(f, _)| *f == function as usize)?;
        Some(*way as *const u8)
    }
}
