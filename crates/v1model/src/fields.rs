//! Fields of the metadata that the architecture itself touches.

use crate::pipeline::{META, STD};
use crate::problem::Problem;
use crate::usage::Reads;
use pointsman_ir::{
    AnnotationBody, AnnotationToken, Bits, Executor, LoadError, Spans, Type, TypeId, Types, Value,
};
use std::collections::BTreeMap;

macro_rules! std_fields {
    ($($field:ident $width:tt,)*) => {
        /// Indices of the fields of `standard_metadata_t`.
        #[derive(Clone, Copy, Debug)]
        pub(crate) struct StdFields {
            $(pub $field: u32,)*
            /// Width of `PortId_t`.
            pub port_width: u32,
        }

        impl StdFields {
            /// Finds the fields of v1model.p4 in `ty`.
            pub fn bind(types: &Types, ty: TypeId) -> Result<StdFields, Vec<Problem>> {
                let Some(def) = types.struct_def(ty) else {
                    return Err(vec![Problem::new("standard_metadata is not a struct")]);
                };
                let mut problems = Vec::new();
                let mut find = |name: &str, width: Option<u32>, error: bool| {
                    let Some(i) = def.field(name) else {
                        problems.push(Problem::new(format!(
                            "{} has no field {name}: include the v1model.p4 that comes with this switch",
                            def.name
                        )));
                        return 0;
                    };
                    let ty = def.fields[i].ty;
                    let right = match types.repr_type(ty) {
                        Type::Error => error,
                        Type::Bit(w) => !error && width.is_none_or(|want| want == *w),
                        _ => false,
                    };
                    if !right {
                        problems.push(Problem::new(format!(
                            "field {name} of {} has another type than in v1model.p4",
                            def.name
                        )));
                    }
                    i as u32
                };
                $(let $field = std_fields!(@find find, $field, $width);)*
                let width = |name: &str| def.field(name).and_then(|i| types.scalar_width(def.fields[i].ty));
                let port_width = width("egress_spec").unwrap_or(0);
                if problems.is_empty()
                    && (!(1..=32).contains(&port_width)
                        || width("egress_port") != Some(port_width)
                        || width("ingress_port") != Some(port_width))
                {
                    problems.push(Problem::new(
                        "ingress_port, egress_spec and egress_port must be of one type, bit<1> to bit<32>",
                    ));
                }
                if !problems.is_empty() {
                    return Err(problems);
                }
                Ok(StdFields { $($field,)* port_width })
            }
        }
    };
    (@find $find:ident, $field:ident, error) => { $find(stringify!($field), None, true) };
    (@find $find:ident, $field:ident, port) => { $find(stringify!($field), None, false) };
    (@find $find:ident, $field:ident, $width:literal) => { $find(stringify!($field), Some($width), false) };
}

std_fields! {
    ingress_port port,
    egress_spec port,
    egress_port port,
    instance_type 32,
    packet_length 32,
    enq_timestamp 32,
    enq_qdepth 19,
    deq_timedelta 32,
    deq_qdepth 19,
    ingress_global_timestamp 48,
    egress_global_timestamp 48,
    mcast_grp 16,
    egress_rid 16,
    checksum_error 1,
    parser_error error,
    priority 3,
}

/// Handles to fields that are used outside of a packet's steps ([`crate::switch`]); `None` if the field is unobservable.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StdHandles<F> {
    pub instance_type: Option<F>,
    pub mcast_grp: Option<F>,
    pub egress_rid: Option<F>,
    pub checksum_error: Option<F>,
    pub parser_error: Option<F>,
    pub priority: Option<F>,
}

impl<F> StdHandles<F> {
    /// Finds the fields that the program reads, and those that we read, in the frames of an executor.
    ///
    /// # Errors
    /// The executor has no handle to one of them.
    pub fn new<E: Executor<Field = F>>(exec: &E, std: &StdFields, reads: &Reads) -> Result<Self, LoadError> {
        let ours = |field: u32| {
            let none = || LoadError(format!("the executor gives no handle to field {field} of the metadata"));
            exec.field(STD, &[field]).ok_or_else(none).map(Some)
        };
        let read = |field: u32| if reads.has(field) { ours(field) } else { Ok(None) };
        Ok(StdHandles {
            instance_type: read(std.instance_type)?,
            mcast_grp: ours(std.mcast_grp)?,
            egress_rid: ours(std.egress_rid)?,
            checksum_error: read(std.checksum_error)?,
            parser_error: read(std.parser_error)?,
            priority: ours(std.priority)?,
        })
    }
}

/// Slot and path of a field.
type FieldPath = (usize, Vec<u32>);

/// The metadata that one field list preserves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldList {
    /// Scalars.
    scalars: Vec<FieldPath>,
    /// Headers, stacks and everything else that is more than bits.
    others: Vec<FieldPath>,
}

impl FieldList {
    /// The fields of a slot that are listed, whole or in part.
    pub fn of_slot(&self, slot: usize) -> Reads {
        let mut out = Reads::default();
        for (_, path) in self.scalars.iter().chain(&self.others).filter(|(of, _)| *of == slot) {
            match path.first() {
                Some(field) => drop(out.fields.insert(*field)),
                None => out.whole = true,
            }
        }
        out
    }

    /// Copies the listed fields from one frame to another.
    fn copy<E: Executor>(&self, exec: &E, from: &E::Frame, to: &mut E::Frame) {
        for of_slot in self.others.chunk_by(|a, b| a.0 == b.0) {
            let slot = of_slot[0].0;
            let source = exec.value(from, slot);
            let mut target = exec.value(to, slot);
            for (_, path) in of_slot {
                if let (Some(s), Some(t)) = (at(&source, path), at_mut(&mut target, path)) {
                    t.clone_from(s);
                }
            }
            exec.set_value(to, slot, target);
        }
        for (slot, path) in &self.scalars {
            let value: Option<Bits> = exec.get(from, *slot, path);
            if let Some(v) = value {
                exec.set(to, *slot, path, &v);
            }
        }
    }

    /// Whole slots.
    pub fn of_whole_slots(slots: &[usize]) -> FieldList {
        FieldList { others: slots.iter().map(|slot| (*slot, Vec::new())).collect(), ..FieldList::default() }
    }

    /// Takes the values of these fields out of a slot.
    pub fn remove(&mut self, slot: usize, fields: &[u32]) {
        let stays = |p: &FieldPath| p.0 != slot || !p.1.first().is_some_and(|f| fields.contains(f));
        self.scalars.retain(stays);
        self.others.retain(stays);
    }

    /// The headers in a slot of type `ty`, with those in structs, stacks and header unions.
    pub fn of_headers(types: &Types, ty: TypeId, slot: usize) -> FieldList {
        let mut list = FieldList::default();
        let has_validity =
            |t: &Type| matches!(t, Type::Header(_) | Type::HeaderUnion(_) | Type::Stack { .. });
        list.add_if(types, ty, slot, &[], has_validity);
        list
    }

    /// Adds a field and everything inside it.
    pub fn add(&mut self, types: &Types, ty: TypeId, slot: usize, path: &[u32]) {
        self.add_if(types, ty, slot, path, |_| true);
    }

    /// Adds the part of a field that `keep` covers, and everything inside it.
    fn add_if(
        &mut self,
        types: &Types,
        ty: TypeId,
        slot: usize,
        path: &[u32],
        keep: impl Fn(&Type) -> bool + Copy,
    ) {
        let mut each = |tys: &mut dyn Iterator<Item = TypeId>| {
            for (i, ty) in tys.enumerate() {
                self.add_if(types, ty, slot, &[path, &[i as u32]].concat(), keep);
            }
        };
        match types.repr_type(ty) {
            Type::Struct(def) => each(&mut def.fields.iter().map(|f| f.ty)),
            Type::Tuple(tys) => each(&mut tys.iter().copied()),
            t if !keep(t) => {}
            _ => {
                let paths = match types.scalar_width(ty) {
                    Some(_) => &mut self.scalars,
                    None => &mut self.others,
                };
                let field = (slot, path.to_vec());
                if !paths.contains(&field) {
                    paths.push(field);
                }
            }
        }
    }
}

/// A field list with the places of its fields in the frames of an executor.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    list: FieldList,
    /// `None`: frames are not bytes.
    spans: Option<Spans>,
}

impl Kept {
    pub fn new<E: Executor>(exec: &E, list: &FieldList) -> Kept {
        let fields: Vec<FieldPath> = list.others.iter().chain(&list.scalars).cloned().collect();
        Kept { list: list.clone(), spans: exec.spans(&fields) }
    }

    /// Copies the listed fields from one frame to another.
    #[inline]
    pub fn copy<E: Executor>(&self, exec: &E, from: &E::Frame, to: &mut E::Frame) {
        match &self.spans {
            Some(spans) => exec.copy_spans(spans, from, to),
            None => self.list.copy(exec, from, to),
        }
    }
}

fn at<'v>(value: &'v Value, path: &[u32]) -> Option<&'v Value> {
    path.iter().try_fold(value, |v, i| match v {
        Value::Struct(f) => f.get(*i as usize),
        _ => None,
    })
}

fn at_mut<'v>(value: &'v mut Value, path: &[u32]) -> Option<&'v mut Value> {
    path.iter().try_fold(value, |v, i| match v {
        Value::Struct(f) => f.get_mut(*i as usize),
        _ => None,
    })
}

/// The field lists of the user metadata, by index: fields marked `@field_list(1, 2)` are in lists 1 and 2.
pub(crate) fn field_lists(
    types: &Types,
    meta: TypeId,
    problems: &mut Vec<Problem>,
) -> BTreeMap<u32, FieldList> {
    let mut lists = BTreeMap::new();
    find_marked(types, meta, &mut Vec::new(), &mut lists, problems);
    lists
}

fn find_marked(
    types: &Types,
    ty: TypeId,
    path: &mut Vec<u32>,
    lists: &mut BTreeMap<u32, FieldList>,
    problems: &mut Vec<Problem>,
) {
    let Type::Struct(def) = types.repr_type(ty) else { return };
    for (i, field) in def.fields.iter().enumerate() {
        path.push(i as u32);
        for annotation in field.annotations.0.iter().filter(|a| a.name == "field_list") {
            match indices(&annotation.body) {
                Some(found) => {
                    for index in found {
                        lists.entry(index.into()).or_default().add(types, field.ty, META, path);
                    }
                }
                None => problems.push(Problem::new(format!(
                    "@field_list of field {} of {}: its arguments must be numbers from 0 to 255",
                    field.name, def.name
                ))),
            }
        }
        find_marked(types, field.ty, path, lists, problems);
        path.pop();
    }
}

fn indices(body: &AnnotationBody) -> Option<Vec<u8>> {
    match body {
        AnnotationBody::Tokens(tokens) => tokens
            .split(|t| matches!(t, AnnotationToken::Other(s) if s == ","))
            .map(|argument| match argument {
                [AnnotationToken::Int(i, _)] => u8::try_from(i).ok(),
                _ => None,
            })
            .collect(),
        AnnotationBody::List(values) => values
            .iter()
            .map(|v| match v {
                pointsman_ir::AnnotationValue::Int(i) => u8::try_from(i).ok(),
                _ => None,
            })
            .collect(),
        _ => None,
    }
}
