//! Where a program keeps values: headers, metadata and variables, down to single fields.

use pointsman_ir::{Type, TypeId, Types};
use std::collections::BTreeMap;

/// A field, by its place in [`Fields::all`].
pub(crate) type FieldId = u32;

/// The last step of the path to a header's validity bit.
const VALIDITY: u32 = u32::MAX;

/// A field.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    /// Variable and names on the way.
    pub name: String,
    pub bits: u64,
    /// The header that it is part of, without its validity bit.
    pub header: Option<u32>,
    /// A temporary of the program: not shared by the architecture's blocks.
    pub local: bool,
}

/// A variable.
#[derive(Clone, Debug)]
struct Storage {
    name: String,
    ty: TypeId,
    local: bool,
}

/// A place: a variable, or a part of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub storage: u32,
    pub path: Vec<u32>,
    pub ty: TypeId,
}

/// Every field that was looked at.
#[derive(Debug, Default)]
pub(crate) struct Fields {
    storages: Vec<Storage>,
    ids: BTreeMap<(u32, Vec<u32>), FieldId>,
    /// Headers by their place, numbered.
    headers: BTreeMap<(u32, Vec<u32>), u32>,
    pub all: Vec<Field>,
}

impl Fields {
    /// A new variable.
    pub fn variable(&mut self, name: &str, ty: TypeId, local: bool) -> Place {
        self.storages.push(Storage { name: name.into(), ty, local });
        Place { storage: self.storages.len() as u32 - 1, path: Vec::new(), ty }
    }

    /// The parts of a place, and the types of these.
    pub fn children(types: &Types, place: &Place) -> Vec<Place> {
        let child = |(i, ty): (usize, TypeId)| Place {
            storage: place.storage,
            path: place.path.iter().copied().chain([i as u32]).collect(),
            ty,
        };
        match types.repr_type(place.ty) {
            Type::Struct(d) | Type::Header(d) | Type::HeaderUnion(d) => {
                d.fields.iter().map(|f| f.ty).enumerate().map(child).collect()
            }
            Type::Tuple(all) => all.iter().copied().enumerate().map(child).collect(),
            Type::Stack { elem, size } => (0..*size as usize).map(|i| child((i, *elem))).collect(),
            _ => Vec::new(),
        }
    }

    /// The validity bit of a header, or of every header in a union or stack.
    pub fn validity(&mut self, types: &Types, place: &Place) -> Vec<FieldId> {
        if let Type::Header(_) = types.repr_type(place.ty) {
            let path = place.path.iter().copied().chain([VALIDITY]).collect();
            return vec![self.id(types, place.storage, path, 1)];
        }
        let children = Fields::children(types, place);
        children.iter().flat_map(|c| self.validity(types, c)).collect()
    }

    /// All fields of a place, in an order that depends on its type only.
    pub fn leaves(&mut self, types: &Types, place: &Place) -> Vec<FieldId> {
        let children = Fields::children(types, place);
        let mut all: Vec<FieldId> = children.iter().flat_map(|c| self.leaves(types, c)).collect();
        if matches!(types.repr_type(place.ty), Type::Header(_)) {
            all.extend(self.validity(types, place));
        } else if children.is_empty()
            && let Some(bits) = types.total_width(place.ty).filter(|b| *b > 0)
        {
            all.push(self.id(types, place.storage, place.path.clone(), u64::from(bits)));
        }
        all
    }

    fn id(&mut self, types: &Types, storage: u32, path: Vec<u32>, bits: u64) -> FieldId {
        if let Some(id) = self.ids.get(&(storage, path.clone())) {
            return *id;
        }
        let s = &self.storages[storage as usize];
        let local = s.local;
        let (name, header) = self.describe(types, storage, &path);
        let id = self.all.len() as FieldId;
        self.all.push(Field { name, bits, header, local });
        self.ids.insert((storage, path), id);
        id
    }

    /// The name of a field, and its header's number.
    fn describe(&mut self, types: &Types, storage: u32, path: &[u32]) -> (String, Option<u32>) {
        let s = &self.storages[storage as usize];
        let (mut name, mut ty) = (s.name.clone(), s.ty);
        let mut header = None;
        for (depth, step) in path.iter().enumerate() {
            if *step == VALIDITY {
                return (format!("{name}.$valid$"), None);
            }
            if matches!(types.repr_type(ty), Type::Header(_)) {
                let new = self.headers.len() as u32;
                header = Some(*self.headers.entry((storage, path[..depth].to_vec())).or_insert(new));
            }
            (name, ty) = match types.repr_type(ty) {
                Type::Struct(d) | Type::Header(d) | Type::HeaderUnion(d) => {
                    let field = &d.fields[*step as usize];
                    (format!("{name}.{}", field.name), field.ty)
                }
                Type::Tuple(all) => (format!("{name}.{step}"), all[*step as usize]),
                Type::Stack { elem, .. } => (format!("{name}[{step}]"), *elem),
                _ => break,
            };
        }
        (name, header)
    }
}
