//! A small program, built by hand, and a device without packets, for the tests of this crate.

use crate::device::{CompileError, Device};
use pointsman_ir::*;
use pointsman_v1model::{Kept, Pipeline, PipelineError, State as Running, SwitchConfig, Time};
use std::collections::BTreeSet;
use std::sync::Arc;

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

fn note(name: &str, token: AnnotationToken) -> Annotation {
    Annotation { name: name.into(), body: AnnotationBody::Tokens(vec![token]) }
}

fn string_note(name: &str, text: &str) -> Annotations {
    Annotations(vec![note(name, AnnotationToken::String(text.into()))])
}

fn field(name: &str, ty: TypeId) -> Field {
    Field { name: name.into(), ty, annotations: Annotations::default() }
}

fn def(name: &str, fields: Vec<Field>) -> StructDef {
    StructDef { name: name.into(), fields, annotations: Annotations::default() }
}

/// The program while it is built.
struct Builder {
    p: Program,
}

impl Builder {
    /// `packet_in` and `packet_out`.
    fn controller_headers(&mut self, [bit1, bit7, port]: [TypeId; 3]) {
        for (name, fields) in [
            (
                "packet_in",
                vec![
                    field("ingress_port", port),
                    field("is_clone", bit1),
                    field("_pad", bit7),
                    field("why", bit7),
                ],
            ),
            ("packet_out", vec![field("egress_port", port), field("_pad", bit7)]),
        ] {
            let mut header = def(&format!("{name}_h"), fields);
            header.annotations = string_note("controller_header", name);
            for f in header.fields.iter_mut().filter(|f| f.name == "_pad") {
                f.annotations =
                    Annotations(vec![Annotation { name: "hidden".into(), body: AnnotationBody::Empty }]);
            }
            self.p.types.intern(Type::Header(header));
        }
    }

    /// A call of `digest`, with a value of the type `learn`.
    fn digest(&mut self, learn: TypeId, bit32: TypeId) -> StmtKind {
        self.p.extern_fns.push(ExternFn {
            object: None,
            name: "digest".into(),
            params: vec!["receiver".into(), "data".into()],
            span: Span::default(),
        });
        let digest_args = vec![
            Arg::In(Expr { kind: ExprKind::Const(bits(32, 1)), ty: bit32, span: Span::default() }),
            Arg::In(Expr {
                kind: ExprKind::Const(Value::default_of(&self.p.types, learn)),
                ty: learn,
                span: Span::default(),
            }),
        ];
        StmtKind::Call {
            result: None,
            callee: Callee::Extern { function: ExternFnId(0), instance: None },
            type_args: vec![learn],
            args: digest_args,
        }
    }

    fn bit(&mut self, width: u32) -> TypeId {
        self.p.types.intern(Type::Bit(width))
    }

    fn action(&mut self, name: &str, params: &[(&str, TypeId)]) -> ActionId {
        let param = |(name, ty): &(&str, TypeId)| Param {
            name: (*name).into(),
            direction: Direction::None,
            ty: *ty,
            annotations: Annotations::default(),
        };
        let vars = params.iter().map(|(name, ty)| Var { name: (*name).into(), ty: *ty }).collect();
        let frame = Frame { params: params.iter().map(param).collect(), vars };
        let control = (name != "NoAction").then_some(ControlId(1));
        self.p.actions.push(Action {
            name: name.into(),
            control,
            frame,
            body: vec![],
            annotations: Annotations::default(),
            span: Span::default(),
        });
        ActionId(self.p.actions.len() as u32 - 1)
    }

    fn instance(
        &mut self,
        object: &str,
        name: &str,
        args: Vec<(&str, Const)>,
        type_args: Vec<TypeId>,
    ) -> ExternInstanceId {
        self.p.externs.push(ExternInstance {
            name: name.into(),
            object: object.into(),
            type_args,
            args: args.into_iter().map(|(n, c)| (n.into(), c)).collect(),
            annotations: Annotations::default(),
            span: Span::default(),
        });
        ExternInstanceId(self.p.externs.len() as u32 - 1)
    }

    /// Keys are constants: the tests look nothing up.
    fn table(&mut self, name: &str, keys: &[(&str, u32, MatchKind)], actions: &[ActionId]) -> &mut Table {
        let keys = keys.iter().map(|(name, width, match_kind)| {
            let ty = self.p.types.intern(Type::Bit(*width));
            let kind = ExprKind::Const(Value::Bits(Bits::zero(*width)));
            let expr = Expr { kind, ty, span: Span::default() };
            Key { name: (*name).into(), expr, match_kind: *match_kind, annotations: Annotations::default() }
        });
        let keys = keys.collect();
        let actions: Vec<_> = actions
            .iter()
            .map(|action| TableAction {
                action: *action,
                setup: vec![],
                bound: vec![],
                default_only: false,
                table_only: false,
                annotations: Annotations::default(),
            })
            .collect();
        let default = actions.len() as u32 - 1;
        self.p.tables.push(Table {
            name: name.into(),
            control: ControlId(1),
            keys,
            actions,
            default_action: ActionCall { action: default, args: vec![] },
            const_default: false,
            entries: vec![],
            const_entries: false,
            size: None,
            extern_properties: vec![],
            const_properties: vec![],
            annotations: Annotations::default(),
            span: Span::default(),
        });
        let last = self.p.tables.len() - 1;
        &mut self.p.tables[last]
    }

    /// The six blocks, which do nothing.
    fn blocks(&mut self, ingress: Vec<Stmt>) {
        let byte = self.bit(8);
        let error = self.p.types.intern(Type::Error);
        let header = self.p.types.intern(Type::Header(def("h_t", vec![field("a", byte)])));
        let headers = self.p.types.intern(Type::Struct(def("headers", vec![field("h", header)])));
        let meta = self.p.types.intern(Type::Struct(def("meta", vec![field("x", byte)])));
        let std = STD_FIELDS.iter().map(|(name, width)| match width {
            0 => field(name, error),
            w => field(name, self.p.types.intern(Type::Bit(*w))),
        });
        let std = std.collect();
        let std = self.p.types.intern(Type::Struct(def("standard_metadata_t", std)));
        let all = [headers, meta, std];
        let frame = |types: &[TypeId]| Frame {
            params: types
                .iter()
                .map(|ty| Param {
                    name: "p".into(),
                    direction: Direction::InOut,
                    ty: *ty,
                    annotations: Annotations::default(),
                })
                .collect(),
            vars: types.iter().map(|ty| Var { name: "p".into(), ty: *ty }).collect(),
        };
        let start = State {
            name: "start".into(),
            body: vec![],
            transition: Transition::Goto(StateRef::Accept),
            span: Span::default(),
        };
        self.p.parsers.push(Parser {
            name: "P".into(),
            frame: frame(&all),
            init: vec![],
            states: vec![start],
            annotations: Annotations::default(),
            span: Span::default(),
        });
        let mut ingress = Some(ingress);
        for (name, n) in [("V", 2), ("ingress", 3), ("E", 3), ("C", 2), ("D", 1)] {
            self.p.controls.push(Control {
                name: name.into(),
                frame: frame(&all[..n]),
                body: if name == "ingress" { ingress.take().unwrap_or_default() } else { vec![] },
                annotations: Annotations::default(),
                span: Span::default(),
            });
        }
        let control = |i| PackageArg::Control(ControlId(i));
        let args = [
            ("p", PackageArg::Parser(ParserId(0))),
            ("vr", control(0)),
            ("ig", control(1)),
            ("eg", control(2)),
            ("ck", control(3)),
            ("dep", control(4)),
        ];
        let args = args.into_iter().map(|(n, a)| (n.to_string(), a)).collect();
        self.p.package = Package { name: "V1Switch".into(), args };
    }
}

fn bits(width: u32, value: u128) -> Value {
    Value::Bits(Bits::new(width, value))
}

fn entry(matches: Vec<KeyMatch>, priority: i32, action: u32, is_const: bool) -> Entry {
    let action = EntryAction::Call(Arc::new(ActionCall { action, args: vec![] }));
    Entry { matches, priority, action, is_const, metadata: vec![], idle_timeout_ns: 0 }
}

/// Tables of every kind, extern objects of every kind, controller headers, a digest and a value set.
pub(crate) fn program() -> Program {
    let mut b = Builder { p: Program::default() };
    b.p.errors = vec!["NoError".into(), "PacketTooShort".into()];
    let (bit1, bit7, port, bit32) = (b.bit(1), b.bit(7), b.bit(9), b.bit(32));
    let kinds = ["packets", "bytes", "packets_and_bytes"].map(String::from).to_vec();
    b.p.types.intern(Type::Enum(EnumDef { name: "CounterType".into(), members: kinds.clone() }));
    b.p.types.intern(Type::Enum(EnumDef { name: "MeterType".into(), members: kinds[..2].to_vec() }));
    b.p.types.intern(Type::Enum(EnumDef { name: "HashAlgorithm".into(), members: vec!["crc32".into()] }));
    let learn =
        b.p.types.intern(Type::Struct(def("learn_t", vec![field("port", port), field("who", bit32)])));
    b.controller_headers([bit1, bit7, port]);
    let digest = b.digest(learn, bit32);
    b.blocks(vec![Stmt { kind: digest, span: Span::default() }]);

    let no_action = b.action("NoAction", &[]);
    let set = b.action("ingress.set", &[("port", port), ("vlan", bit32)]);
    let drop = b.action("ingress.drop", &[]);
    let int = |n: u32| Const::Int(n.into());
    let kind = |n| Const::Value(Value::Enum(n));
    let counter = b.instance("direct_counter", "ingress.hits", vec![("type", kind(2))], vec![]);
    let meter = b.instance("direct_meter", "ingress.rate", vec![("type", kind(1))], vec![bit32]);
    let selector = vec![("algorithm", kind(0)), ("size", int(8)), ("outputWidth", int(16))];
    let selector = b.instance("action_selector", "ingress.spread", selector, vec![]);
    b.instance("register", "ingress.reg", vec![("size", int(4))], vec![bit32]);
    b.instance("counter", "ingress.cnt", vec![("size", int(3)), ("type", kind(0))], vec![]);
    b.instance("meter", "ingress.met", vec![("size", int(2)), ("type", kind(0))], vec![]);

    let t = b.table(
        "ingress.exact",
        &[("hdr.a", 16, MatchKind::Exact), ("hdr.b", 9, MatchKind::Exact)],
        &[set, drop, no_action],
    );
    t.size = Some(3);
    t.extern_properties = vec![("counters".into(), counter)];
    b.table("ingress.lpm", &[("hdr.dst", 32, MatchKind::Lpm)], &[set, drop, no_action]);
    let keys = [
        ("hdr.t", 8, MatchKind::Ternary),
        ("hdr.r", 16, MatchKind::Range),
        ("hdr.o", 9, MatchKind::Optional),
    ];
    let t = b.table("ingress.acl", &keys, &[set, drop, no_action]);
    t.extern_properties = vec![("meters".into(), meter)];
    t.const_properties = vec![("support_timeout".into(), Const::Value(Value::Bool(true)))];
    t.actions[1].table_only = true;
    t.actions[2].default_only = true;
    let exact = |v| vec![KeyMatch::Exact(Bits::new(8, v))];
    let t = b.table("ingress.fixed", &[("hdr.a", 8, MatchKind::Exact)], &[drop, no_action]);
    t.entries = vec![entry(exact(1), 0, 0, true), entry(exact(2), 0, 0, true)];
    t.const_entries = true;
    t.const_default = true;
    let t = b.table("ingress.mixed", &[("hdr.a", 8, MatchKind::Exact)], &[drop, no_action]);
    t.entries = vec![entry(exact(1), 0, 0, true), entry(exact(2), 0, 0, false)];
    b.table("ingress.keyless", &[], &[set, no_action]);
    let keys = [("hdr.a", 8, MatchKind::Exact), ("hdr.b", 8, MatchKind::Selector)];
    b.table("ingress.chosen", &keys, &[set, no_action]).extern_properties =
        vec![("implementation".into(), selector)];
    b.p.value_sets.push(ValueSet {
        name: "P.types".into(),
        elem: port,
        size: 2,
        annotations: Annotations::default(),
    });
    apply_all(&mut b.p);
    b.p
}

/// Makes ingress apply every table: controllers do not see the others.
fn apply_all(p: &mut Program) {
    let tables = 0..p.tables.len() as u32;
    let apply = |n| StmtKind::Apply { table: TableId(n), hit: None, action_run: None };
    let ingress = p.controls.iter_mut().find(|c| c.name == "ingress").expect("it has one");
    ingress.body.retain(|s| !matches!(s.kind, StmtKind::Apply { .. }));
    ingress.body.extend(tables.map(|n| Stmt { kind: apply(n), span: Span::default() }));
}

/// `program` without its table `ingress.lpm`.
pub(crate) fn other_program() -> Program {
    let mut p = program();
    p.tables.retain(|t| t.name != "ingress.lpm");
    apply_all(&mut p);
    p
}

/// `program` with other default actions for `ingress.exact` and `ingress.acl`.
pub(crate) fn program_with_other_defaults() -> Program {
    let mut p = program();
    let mut set = |name: &str, action: u32, args: Vec<Value>| {
        let table = p.tables.iter_mut().find(|t| t.name == name).expect("it has one");
        table.default_action = ActionCall { action, args };
    };
    set("ingress.exact", 1, vec![]);
    set("ingress.acl", 0, vec![bits(9, 1), bits(32, 2)]);
    p
}

/// A device that runs no packets. It "compiles" `main`, `other` and `defaults`.
pub(crate) struct TestDevice {
    config: SwitchConfig,
    ports: BTreeSet<u32>,
    pub state: Option<Running>,
    /// How often packets could have had the switch during calls.
    pub released: usize,
    /// The effect that packets would have on the state then.
    pub packets: Option<fn(&mut Running, usize)>,
    /// Why it takes no program.
    pub refuses: Option<PipelineError>,
}

impl TestDevice {
    pub fn new() -> Self {
        let config = SwitchConfig { cpu_port: Some(510), ..Default::default() };
        TestDevice {
            config,
            ports: (1..=8).collect(),
            state: None,
            released: 0,
            packets: None,
            refuses: None,
        }
    }
}

impl Device for TestDevice {
    fn compile(&self, device_config: &[u8]) -> Result<Arc<Program>, CompileError> {
        match device_config {
            b"main" => Ok(Arc::new(program())),
            b"other" => Ok(Arc::new(other_program())),
            b"defaults" => Ok(Arc::new(program_with_other_defaults())),
            _ => Err(CompileError::Diagnostics("main.p4:1:1: error: this is not a program".to_string())),
        }
    }

    fn config(&self) -> &SwitchConfig {
        &self.config
    }

    fn ports(&self) -> Option<&BTreeSet<u32>> {
        Some(&self.ports)
    }

    fn state_mut(&mut self) -> Option<&mut Running> {
        self.state.as_mut()
    }

    fn set_port_status(&mut self, port: u32, up: bool) {
        if let Some(state) = &mut self.state {
            state.set_port_status(port, up);
        }
    }

    fn ready(&mut self, _: &Pipeline) -> Result<(), PipelineError> {
        self.refuses.clone().map_or(Ok(()), Err)
    }

    fn set_pipeline(
        &mut self,
        _: Time,
        pipeline: Pipeline,
        mut state: Running,
        kept: &Kept,
    ) -> Result<(), PipelineError> {
        self.ready(&pipeline)?;
        if let Some(old) = &mut self.state {
            state.copy_port_status(Some(old));
            state.take_kept(old, kept);
        }
        self.state = Some(state);
        Ok(())
    }

    fn release(&mut self) {
        self.released += 1;
        if let (Some(packets), Some(state)) = (self.packets, &mut self.state) {
            packets(state, self.released);
        }
    }
}
