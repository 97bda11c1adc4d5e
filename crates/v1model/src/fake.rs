//! An executor whose blocks are closures, to test the architecture alone.

use crate::{Keep, Output, Pipeline, Switch, SwitchConfig, Time};
use pointsman_ir::*;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// A block while it runs.
pub(crate) struct Block<'a> {
    program: &'a Program,
    frame: &'a mut [Value],
    env: &'a mut dyn Env,
}

const STD_FIELDS: &[(&str, u32)] = &[
    ("ingress_port", 9),
    ("egress_spec", 9),
    ("egress_port", 9),
    ("instance_type", 32),
    ("packet_length", 32),
    ("enq_timestamp", 32),
    ("enq_qdepth", 19),
    ("deq_timedelta", 32),
    ("deq_qdepth", 19),
    ("ingress_global_timestamp", 48),
    ("egress_global_timestamp", 48),
    ("mcast_grp", 16),
    ("egress_rid", 16),
    ("checksum_error", 1),
    ("parser_error", 0),
    ("priority", 3),
];

const FUNCTIONS: &[(&str, usize)] = &[
    ("mark_to_drop", 1),
    ("mark_to_drop", 0),
    ("clone", 2),
    ("clone_preserving_field_list", 3),
    ("resubmit_preserving_field_list", 1),
    ("recirculate_preserving_field_list", 1),
    ("truncate", 1),
    ("assert", 1),
    ("verify_checksum", 4),
    ("update_checksum_with_payload", 4),
    ("digest", 2),
    ("log_msg", 2),
    ("hash", 5),
];

impl Block<'_> {
    fn field(&mut self, name: &str) -> &mut Value {
        let i = STD_FIELDS.iter().position(|(n, _)| *n == name).unwrap();
        match &mut self.frame[2] {
            Value::Struct(f) => &mut f[i],
            other => panic!("{other:?}"),
        }
    }

    /// A field of standard metadata.
    pub fn std(&mut self, name: &str) -> u64 {
        self.field(name).to_bits().unwrap().low_u64()
    }

    pub fn set_std(&mut self, name: &str, value: u64) {
        let width = STD_FIELDS.iter().find(|(n, _)| *n == name).unwrap().1;
        *self.field(name) = Value::Bits(Bits::new(width, value.into()));
    }

    /// Byte `i` of the header.
    pub fn h(&mut self, i: usize) -> &mut Value {
        match &mut self.frame[0] {
            Value::Struct(headers) => match &mut headers[0] {
                Value::Header { fields, .. } => &mut fields[i],
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    }

    pub fn get_h(&mut self, i: usize) -> u64 {
        self.h(i).to_bits().unwrap().low_u64()
    }

    pub fn set_h(&mut self, i: usize, value: u64) {
        *self.h(i) = Value::Bits(Bits::new(8, value.into()));
    }

    /// Field `i` of the user's metadata; 0 is in field list 1, field 2 is a header in list 2.
    pub fn meta(&mut self, i: usize) -> &mut Value {
        match &mut self.frame[1] {
            Value::Struct(f) => &mut f[i],
            other => panic!("{other:?}"),
        }
    }

    pub fn get_meta(&mut self, i: usize) -> u64 {
        self.meta(i).to_bits().unwrap().low_u64()
    }

    pub fn set_meta(&mut self, i: usize, value: u64) {
        *self.meta(i) = Value::Bits(Bits::new(8, value.into()));
    }

    /// Calls an extern; gives the arguments as it left them.
    pub fn call(&mut self, name: &str, mut args: Vec<Value>) -> Vec<Value> {
        let i = FUNCTIONS.iter().position(|f| *f == (name, args.len())).unwrap();
        let ty = self.program.types.find(&Type::Bit(8)).unwrap();
        let call = ExternCall {
            function: ExternFnId(i as u32),
            instance: None,
            type_args: &[ty],
            returns: None,
            rest: &[],
        };
        self.env.call_extern(call, &mut args);
        args
    }

    pub fn drop(&mut self) {
        let std = self.frame[2].clone();
        self.frame[2] = self.call("mark_to_drop", vec![std]).remove(0);
    }

    pub fn clone_to(&mut self, session: u32) {
        self.call("clone", vec![Value::Enum(0), bits(32, session)]);
    }
}

pub(crate) fn bits(width: u32, value: u32) -> Value {
    Value::Bits(Bits::new(width, value.into()))
}

type Code = Rc<dyn Fn(&mut Block<'_>)>;

/// The actions of the blocks.
#[derive(Clone)]
pub(crate) struct Script {
    pub parser: Code,
    pub verify: Code,
    pub ingress: Code,
    pub egress: Code,
    pub compute: Code,
}

impl Default for Script {
    fn default() -> Self {
        let nothing: Code = Rc::new(|_| {});
        Script {
            parser: nothing.clone(),
            verify: nothing.clone(),
            ingress: nothing.clone(),
            egress: nothing.clone(),
            compute: nothing,
        }
    }
}

thread_local! {
    /// The script of this thread's next executor: `Executor::load` has no other way to get it.
    static SCRIPT: RefCell<Script> = RefCell::default();
}

pub(crate) struct Fake {
    program: Arc<Program>,
    slots: Vec<TypeId>,
    script: Script,
}

impl Executor for Fake {
    type Frame = Vec<Value>;
    type Field = (usize, u32);

    fn load(program: Arc<Program>, slots: &[TypeId]) -> Result<Self, LoadError> {
        Ok(Fake { program, slots: slots.to_vec(), script: SCRIPT.with_borrow(Clone::clone) })
    }

    fn program(&self) -> &Arc<Program> {
        &self.program
    }

    fn new_frame(&self) -> Vec<Value> {
        self.slots.iter().map(|t| Value::default_of(&self.program.types, *t)).collect()
    }

    fn reset(&self, frame: &mut Vec<Value>) {
        *frame = self.new_frame();
    }

    fn reset_slot(&self, frame: &mut Vec<Value>, slot: usize) {
        frame[slot] = Value::default_of(&self.program.types, self.slots[slot]);
    }

    fn lookahead(&self) -> usize {
        5
    }

    fn field(&self, slot: usize, path: &[u32]) -> Option<(usize, u32)> {
        let [field] = path else { return None };
        self.get(&self.new_frame(), slot, path).map(|_| (slot, *field))
    }

    fn read(&self, frame: &Vec<Value>, (slot, field): (usize, u32)) -> u64 {
        self.get(frame, slot, &[field]).unwrap().low_u64()
    }

    fn write(&self, frame: &mut Vec<Value>, (slot, field): (usize, u32), value: u64) {
        self.set(frame, slot, &[field], &Bits::new(64, value.into()));
    }

    fn get(&self, frame: &Vec<Value>, slot: usize, path: &[u32]) -> Option<Bits> {
        let value = path.iter().try_fold(&frame[slot], |v, i| match v {
            Value::Struct(f) => f.get(*i as usize),
            _ => None,
        });
        value?.to_bits()
    }

    fn set(&self, frame: &mut Vec<Value>, slot: usize, path: &[u32], value: &Bits) -> bool {
        let place = path.iter().try_fold(&mut frame[slot], |v, i| match v {
            Value::Struct(f) => f.get_mut(*i as usize),
            _ => None,
        });
        match place {
            Some(Value::Bits(b)) => *b = value.zero_extend(b.width()),
            Some(Value::Error(e)) => *e = value.low_u64() as u32,
            _ => return false,
        }
        true
    }

    fn value(&self, frame: &Vec<Value>, slot: usize) -> Value {
        frame[slot].clone()
    }

    fn set_value(&self, frame: &mut Vec<Value>, slot: usize, value: Value) {
        frame[slot] = value;
    }

    /// Extracts the two bytes of the header.
    fn parse(
        &self,
        _: ParserId,
        slots: &[usize],
        frame: &mut Vec<Value>,
        packet: &[u8],
        env: &mut dyn Env,
    ) -> ParseOutcome {
        assert_eq!(slots, [0, 1, 2]);
        self.reset_slot(frame, 0);
        (self.script.parser)(&mut Block { program: &self.program, frame, env });
        let [a, b, ..] = packet else {
            return ParseOutcome { accepted: false, error: 1, consumed_bits: 0 };
        };
        let fields = vec![bits(8, u32::from(*a)), bits(8, u32::from(*b))];
        frame[0] = Value::Struct(vec![Value::Header { valid: true, fields }]);
        ParseOutcome { accepted: true, error: 0, consumed_bits: 16 }
    }

    fn control(
        &self,
        control: ControlId,
        slots: &[usize],
        frame: &mut Vec<Value>,
        emitted: &mut Vec<u8>,
        env: &mut dyn Env,
    ) -> ControlOutcome {
        let code = match control.0 {
            0 => &self.script.verify,
            1 => &self.script.ingress,
            2 => &self.script.egress,
            3 => &self.script.compute,
            _ => {
                if let Value::Struct(h) = &frame[0]
                    && let Value::Header { valid: true, fields } = &h[0]
                {
                    emitted.extend(fields.iter().filter_map(Value::to_bits).map(|b| b.low_u64() as u8));
                }
                return ControlOutcome { exited: false };
            }
        };
        assert_eq!(slots, &[0, 1, 2][..if [0, 3].contains(&control.0) { 2 } else { 3 }]);
        code(&mut Block { program: &self.program, frame, env });
        ControlOutcome { exited: false }
    }
}

fn field(name: &str, ty: TypeId, list: Option<u32>) -> Field {
    let annotation = list.map(|l| Annotation {
        name: "field_list".into(),
        body: AnnotationBody::Tokens(vec![AnnotationToken::Int(l.into(), l.to_string())]),
    });
    Field { name: name.into(), ty, annotations: Annotations(annotation.into_iter().collect()) }
}

fn def(name: &str, fields: Vec<Field>) -> StructDef {
    StructDef { name: name.into(), fields, annotations: Annotations::default() }
}

/// Headers { header { bit<8> a, b } }, metadata { bit<8> x, y; header } and all externs above.
pub(crate) fn program() -> Program {
    let errors = vec!["NoError".into(), "PacketTooShort".into()];
    let mut p = Program { errors, ..Program::default() };
    let byte = p.types.intern(Type::Bit(8));
    let error = p.types.intern(Type::Error);
    let header = def("h_t", vec![field("a", byte, None), field("b", byte, None)]);
    let header = p.types.intern(Type::Header(header));
    let headers = p.types.intern(Type::Struct(def("headers", vec![field("h", header, None)])));
    let meta = vec![field("x", byte, Some(1)), field("y", byte, None), field("h", header, Some(2))];
    let meta = p.types.intern(Type::Struct(def("meta", meta)));
    let std = STD_FIELDS.iter().map(|(name, width)| {
        let ty = if *width == 0 { error } else { p.types.intern(Type::Bit(*width)) };
        field(name, ty, None)
    });
    let std = std.collect();
    let std = p.types.intern(Type::Struct(def("standard_metadata_t", std)));
    let algorithms = ["crc32", "crc16", "csum16"].map(String::from).to_vec();
    p.types.intern(Type::Enum(EnumDef { name: "HashAlgorithm".into(), members: algorithms }));
    let frame = |types: &[TypeId]| {
        let params = types.iter().map(|ty| Param {
            name: "p".into(),
            direction: Direction::InOut,
            ty: *ty,
            annotations: Annotations::default(),
        });
        let vars = types.iter().map(|ty| Var { name: "p".into(), ty: *ty }).collect();
        Frame { params: params.collect(), vars }
    };
    let all = [headers, meta, std];
    p.parsers.push(Parser {
        name: "P".into(),
        frame: frame(&all),
        init: vec![],
        states: vec![State {
            name: "start".into(),
            body: vec![],
            transition: Transition::Goto(StateRef::Accept),
            span: Span::default(),
        }],
        annotations: Annotations::default(),
        span: Span::default(),
    });
    for (name, n) in [("V", 2), ("I", 3), ("E", 3), ("C", 2), ("D", 1)] {
        p.controls.push(Control {
            name: name.into(),
            frame: frame(&all[..n]),
            // Empty controls are not run at all.
            body: vec![Stmt { kind: StmtKind::Return(None), span: Span::default() }],
            annotations: Annotations::default(),
            span: Span::default(),
        });
    }
    for (name, params) in FUNCTIONS {
        p.extern_fns.push(ExternFn {
            object: None,
            name: (*name).into(),
            params: (0..*params).map(|i| format!("p{i}")).collect(),
            span: Span::default(),
        });
    }
    let control = |i| PackageArg::Control(ControlId(i));
    let args = [("p", PackageArg::Parser(ParserId(0))), ("vr", control(0)), ("ig", control(1))];
    let args = args.into_iter().chain([("eg", control(2)), ("ck", control(3)), ("dep", control(4))]);
    p.package = Package { name: "V1Switch".into(), args: args.map(|(n, a)| (n.into(), a)).collect() };
    p
}

/// A switch, and its output.
pub(crate) struct Rig {
    pub switch: Switch<Fake>,
    pub out: Vec<Output>,
}

impl Rig {
    pub fn new(config: SwitchConfig, script: Script) -> Rig {
        let mut rig = Rig { switch: Switch::new(config).unwrap(), out: Vec::new() };
        rig.load(script, Keep::Nothing);
        rig
    }

    pub fn load(&mut self, script: Script, keep: Keep) {
        SCRIPT.set(script);
        let mut pipeline = Pipeline::load(program()).unwrap();
        // Scripts read whatever they like.
        pipeline.std_reads.whole = true;
        self.switch.set_pipeline(Time::ZERO, pipeline, keep).unwrap();
    }

    pub fn receive(&mut self, us: u64, port: u32, packet: &[u8]) {
        self.switch.receive(Time::from_micros(us), port, packet);
    }

    /// Everything that can happen until `us`, each thing at its time.
    pub fn run(&mut self, us: u64) {
        let end = Time::from_micros(us);
        let mut rounds = 0;
        while let Some(t) = self.switch.next_deadline().filter(|t| *t <= end) {
            self.switch.poll(t, 1, &mut self.out);
            rounds += 1;
            assert!(rounds < 10_000, "no end");
            assert!(self.switch.stats().is_conserved(), "{:?}", self.switch.stats());
        }
    }

    /// The output since the last call: "port:hex" or "cpu:hex".
    pub fn outputs(&mut self) -> String {
        let hex = |b: &[u8]| b.iter().map(|b| format!("{b:02x}")).collect::<String>();
        let outputs = self.out.drain(..).map(|o| match o {
            Output::Port(p, b) => format!("{p}:{}", hex(&b)),
            Output::Cpu(b) => format!("cpu:{}", hex(&b)),
        });
        outputs.collect::<Vec<_>>().join(" ")
    }
}
