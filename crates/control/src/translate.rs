//! Controllers' values and their data plane equivalents (P4Runtime specification, "User-defined types" and "PSA
//! Metadata Translation").
//!
//! Ports of this switch have the numbers that controllers use, apart from the CPU port. A type that is translated to
//! strings has its names from three places: `@p4runtime_translation_mappings` in the program, the names of the switch's
//! ports for types of ports, and otherwise the controllers themselves: a name that is written for the first time gets
//! the lowest free value.

use crate::error::{Code, EntityError};
use crate::p4info::Flaw;
use crate::server::Name;
use pointsman_ir::{AnnotationBody, AnnotationToken, Annotations, Bits};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The number by which controllers know the CPU port of any device ("Translation of Port Numbers").
pub(crate) const SDN_PORT_CPU: u64 = 0xffff_fffd;

/// Names that are remembered for one type, and bytes of a name.
const MAX_NAMES: usize = 1 << 20;
const MAX_NAME_BYTES: usize = 256;

/// The ports of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ports {
    pub cpu: Option<u32>,
    /// `None`: any.
    pub all: Option<BTreeSet<u32>>,
    /// Their names in string types.
    pub names: BTreeMap<u32, String>,
}

impl Ports {
    pub fn has(&self, port: u32) -> bool {
        self.cpu == Some(port) || self.all.as_ref().is_none_or(|all| all.contains(&port))
    }

    /// The port that a controller's number means.
    pub fn of_sdn(&self, number: u64) -> Result<u32, EntityError> {
        if number == SDN_PORT_CPU {
            return self.cpu.ok_or_else(|| EntityError::invalid("this switch has no CPU port"));
        }
        let port = u32::try_from(number).ok().filter(|p| self.has(*p));
        port.ok_or_else(|| EntityError::invalid(format!("there is no port {number}")))
    }

    fn by_name(&self, name: &str) -> Option<u32> {
        self.names.iter().find(|(_, n)| *n == name).map(|(port, _)| *port)
    }
}

/// How a controller sees values of a type.
#[derive(Clone, Debug)]
pub(crate) enum Sdn {
    /// As the data plane does.
    Plain,
    /// As numbers of this width; of ports, if so.
    Bits {
        width: u32,
        port: bool,
    },
    Name(Arc<NameSpace>),
}

/// The names of a type.
#[derive(Debug)]
pub(crate) struct NameSpace {
    /// Types with the same key share their names: the URI of the translation, or else the name of the type.
    key: String,
    port: bool,
    /// From the program.
    fixed: Vec<(String, u128)>,
}

impl NameSpace {
    pub fn new(uri: &str, type_name: &str, annotations: &Annotations) -> Result<Self, Flaw> {
        let key = if uri.is_empty() { type_name } else { uri };
        Ok(NameSpace { key: key.to_string(), port: is_port(uri, type_name), fixed: mappings(annotations)? })
    }

    pub fn is_port(&self) -> bool {
        self.port
    }
}

/// Whether this is a type of ports, by the last part of the URI, or by the name of the type without a URI.
pub(crate) fn is_port(uri: &str, type_name: &str) -> bool {
    let name = if uri.is_empty() { type_name } else { uri.rsplit('/').next().unwrap_or(uri) };
    name.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("port"))
}

/// Reads `@p4runtime_translation_mappings({{"name", value}, ...})`.
fn mappings(annotations: &Annotations) -> Result<Vec<(String, u128)>, Flaw> {
    use AnnotationToken::{Int, Other, String as Text};
    const NAME: &str = "p4runtime_translation_mappings";
    let wrong = || Flaw::form(NAME, "pairs of name and value: ({ {\"a\", 1}, {\"b\", 2} })");
    let Some(a) = annotations.get(NAME) else { return Ok(Vec::new()) };
    let AnnotationBody::Tokens(tokens) = &a.body else { return Err(wrong()) };
    // Braces and commas may be in one token or in several.
    let tokens = tokens.iter().filter(|t| !matches!(t, Other(o) if o.chars().all(|c| "{},".contains(c))));
    let tokens: Vec<&AnnotationToken> = tokens.collect();
    let mut found: Vec<(String, u128)> = Vec::new();
    for pair in tokens.chunks(2) {
        let [Text(name), Int(value, _)] = pair else { return Err(wrong()) };
        let value = u128::try_from(value).map_err(|_| wrong())?;
        if let Some((other, _)) = found.iter().find(|(n, v)| n == name || *v == value) {
            return Err(Flaw::SharedMapping(name.clone(), other.clone()));
        }
        found.push((name.clone(), value));
    }
    Ok(found)
}

#[derive(Clone, Debug, Default)]
struct Space {
    by_name: BTreeMap<String, u128>,
    by_value: BTreeMap<u128, String>,
    /// All below it, from 1, have names.
    next: u128,
}

/// The names that controllers have brought up for values.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    spaces: RefCell<BTreeMap<String, Space>>,
    /// Space and name of those since [`Names::settle`].
    fresh: RefCell<Vec<(String, String)>>,
}

impl Names {
    /// The present point, for [`Names::back_to`].
    pub fn mark(&self) -> usize {
        self.fresh.borrow().len()
    }

    /// Forgets the names that are younger than `mark`.
    pub fn back_to(&self, mark: usize) {
        let young = self.fresh.borrow_mut().split_off(mark);
        let mut spaces = self.spaces.borrow_mut();
        for (key, name) in young {
            let Some(space) = spaces.get_mut(&key) else { continue };
            if let Some(value) = space.by_name.remove(&name) {
                space.by_value.remove(&value);
                space.next = space.next.min(value.max(1));
            }
        }
    }

    /// Every name with its value.
    pub fn all(&self) -> Vec<Name> {
        let spaces = self.spaces.borrow();
        let of_space = |(key, space): (&String, &Space)| {
            let name = |(name, value): (&String, &u128)| {
                let (high, low) = ((value >> 64) as u64, *value as u64);
                Name { space: key.clone(), name: name.clone(), high, low }
            };
            space.by_name.iter().map(name).collect::<Vec<_>>()
        };
        spaces.iter().flat_map(of_space).collect()
    }

    /// Adds names with their values.
    pub fn learn_all(&self, names: &[Name]) {
        let mut spaces = self.spaces.borrow_mut();
        for Name { space, name, high, low } in names {
            let value = u128::from(*high) << 64 | u128::from(*low);
            let space = spaces.entry(space.clone()).or_default();
            space.by_name.insert(name.clone(), value);
            space.by_value.insert(value, name.clone());
        }
    }

    /// All names so far stay.
    pub fn settle(&self) {
        self.fresh.borrow_mut().clear();
    }

    /// How many names are known.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.spaces.borrow().values().map(|s| s.by_name.len()).sum()
    }
}

/// Everything that translation depends on.
#[derive(Clone, Copy)]
pub(crate) struct Codec<'a> {
    pub names: &'a Names,
    pub ports: &'a Ports,
    /// Unused names get a value.
    pub learn: bool,
}

impl Codec<'_> {
    /// The value of a name in the data plane, where it has `width` bits.
    ///
    /// # Errors
    /// No text, unknown and not to be learned, or all values are in use.
    pub fn value(&self, space: &NameSpace, width: u32, name: &[u8]) -> Result<Bits, EntityError> {
        let name = std::str::from_utf8(name).map_err(|_| {
            EntityError::invalid("its type is translated to strings, and the value is not UTF-8")
        })?;
        let fits = |v: &u128| width >= 128 || *v >> width == 0;
        let bits = |v: u128| Bits::new(width, v);
        if let Some((_, value)) = space.fixed.iter().find(|(n, _)| n == name) {
            let value = Some(*value).filter(fits);
            return value.map(bits).ok_or_else(|| {
                EntityError::invalid(format!("\"{name}\" names a value that does not fit bit<{width}>"))
            });
        }
        let decimal = name.parse::<u128>().ok().filter(|v| v.to_string() == name);
        if space.port {
            let number = match (self.ports.by_name(name), decimal) {
                (Some(port), _) => Some(u128::from(port)),
                (None, Some(n)) if n == u128::from(SDN_PORT_CPU) => self.ports.cpu.map(u128::from),
                (None, n) => n,
            };
            let number = number.filter(fits).map(bits);
            return number.ok_or_else(|| EntityError::invalid(format!("there is no port called \"{name}\"")));
        }
        if name.is_empty() {
            return Err(EntityError::invalid("the string is empty"));
        }
        if name.len() > MAX_NAME_BYTES {
            let message =
                format!("the string has {} bytes: at most {MAX_NAME_BYTES} are allowed", name.len());
            return Err(EntityError::invalid(message));
        }
        let mut spaces = self.names.spaces.borrow_mut();
        let known = spaces.get(&space.key);
        if let Some(value) = known.and_then(|s| s.by_name.get(name)) {
            return Ok(bits(*value));
        }
        let free = |known: Option<&Space>, v: u128| {
            !known.is_some_and(|s| s.by_value.contains_key(&v)) && !space.fixed.iter().any(|(_, f)| *f == v)
        };
        // The decimal form that encode writes for unnamed values is accepted while they have no name.
        let decimal = decimal.filter(fits).filter(|v| free(known, *v));
        if !self.learn {
            return decimal
                .map(bits)
                .ok_or_else(|| EntityError::not_found(format!("no value is named \"{name}\"")));
        }
        let full = || {
            let message = format!("no value is left for \"{name}\": each value of bit<{width}> has a name");
            EntityError::new(Code::ResourceExhausted, message)
        };
        if known.is_some_and(|s| s.by_name.len() >= MAX_NAMES) {
            return Err(full());
        }
        let value = match decimal {
            Some(value) => value,
            None => {
                let start = known.map_or(1, |s| s.next.max(1));
                // 0 comes last: programs use it for "none".
                let mut candidates = (start..).take_while(fits).chain(std::iter::once(0));
                candidates.find(|v| free(known, *v)).ok_or_else(full)?
            }
        };
        let space_names = spaces.entry(space.key.clone()).or_default();
        space_names.by_name.insert(name.to_string(), value);
        space_names.by_value.insert(value, name.to_string());
        if decimal.is_none() && value > 0 {
            space_names.next = value + 1;
        }
        self.names.fresh.borrow_mut().push((space.key.clone(), name.to_string()));
        Ok(bits(value))
    }

    /// The controllers' name for a value; its decimal digits if it has no name.
    pub fn name(&self, space: &NameSpace, value: &Bits) -> Vec<u8> {
        let Some(number) = value.to_u128() else { return format!("{value:?}").into_bytes() };
        if let Some((name, _)) = space.fixed.iter().find(|(_, v)| *v == number) {
            return name.clone().into_bytes();
        }
        if space.port
            && let Some(name) = u32::try_from(number).ok().and_then(|p| self.ports.names.get(&p))
        {
            return name.clone().into_bytes();
        }
        let spaces = self.names.spaces.borrow();
        let known = spaces.get(&space.key).and_then(|s| s.by_value.get(&number));
        known.cloned().unwrap_or_else(|| number.to_string()).into_bytes()
    }

    /// The port that a replica or watched port means: its name if ports have names, else its number.
    pub fn port(&self, names: Option<&NameSpace>, bytes: &[u8]) -> Result<u32, EntityError> {
        if let Some(space) = names
            && let Ok(value) = self.value(space, 32, bytes)
        {
            return self.ports.of_sdn(value.low_u64());
        }
        let number = crate::bytestring::decode(32, bytes)
            .map_err(|e| EntityError::invalid(format!("port: {e}")))?
            .low_u64();
        self.ports.of_sdn(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pointsman_ir::Annotation;

    fn annotated(tokens: Vec<AnnotationToken>) -> Annotations {
        let name = "p4runtime_translation_mappings".to_string();
        Annotations(vec![Annotation { name, body: AnnotationBody::Tokens(tokens) }])
    }

    fn other(s: &str) -> AnnotationToken {
        AnnotationToken::Other(s.to_string())
    }

    #[test]
    fn names_get_values_and_give_them_back() {
        let pair = |name: &str, value: i32| {
            vec![
                other("{"),
                AnnotationToken::String(name.into()),
                other(","),
                AnnotationToken::Int(value.into(), value.to_string()),
            ]
        };
        let end = || vec![other("}"), other(",")];
        let tokens =
            [vec![other("{")], pair("", 0), end(), pair("main", 2), end(), vec![other("}")]].concat();
        let space = NameSpace::new("", "vrf_t", &annotated(tokens)).expect("valid");
        let (names, ports) = (Names::default(), Ports::default());
        let codec = Codec { names: &names, ports: &ports, learn: true };
        let value =
            |name: &str| codec.value(&space, 2, name.as_bytes()).map(|b| b.low_u64()).map_err(|e| e.code);
        assert_eq!((value(""), value("main")), (Ok(0), Ok(2)));
        let mark = names.mark();
        assert_eq!((value("red"), value("red")), (Ok(1), Ok(1)));
        names.back_to(mark);
        assert_eq!(names.len(), 0);
        assert_eq!((value("blue"), value("green")), (Ok(1), Ok(3)));
        assert_eq!(value("black"), Err(Code::ResourceExhausted));
        let name = |v| String::from_utf8(codec.name(&space, &Bits::new(2, v))).expect("text");
        assert_eq!((0..4).map(name).collect::<Vec<_>>(), ["", "blue", "main", "green"]);
        let reader = Codec { learn: false, ..codec };
        let found = reader.value(&space, 2, b"black").expect_err("unknown");
        assert_eq!(found.code, Code::NotFound);
        assert!(codec.value(&space, 2, &[0xff]).is_err());
        assert!(codec.value(&space, 2, &[b'x'; 300]).is_err());
    }

    #[test]
    fn values_without_a_name_are_digits() {
        let space = NameSpace::new("", "id_t", &Annotations::default()).expect("valid");
        let (names, ports) = (Names::default(), Ports::default());
        let codec = Codec { names: &names, ports: &ports, learn: true };
        let value = |name: &str| codec.value(&space, 8, name.as_bytes()).map(|b| b.low_u64());
        assert_eq!(codec.name(&space, &Bits::new(8, 7)), b"7");
        assert_eq!(Codec { learn: false, ..codec }.value(&space, 8, b"7").map(|b| b.low_u64()), Ok(7));
        assert_eq!((value("1"), value("a"), value("2")), (Ok(1), Ok(2), Ok(3)));
        assert_eq!(codec.name(&space, &Bits::new(8, 3)), b"2");
        assert_eq!(value("01"), Ok(4), "no decimal number");
    }

    #[test]
    fn ports_have_the_names_of_the_switch() {
        let space =
            NameSpace::new("example.org/PortId_String_t", "p_t", &Annotations::default()).expect("valid");
        let ports =
            Ports { cpu: Some(510), all: Some((1..=2).collect()), names: [(1, "eth0".to_string())].into() };
        let names = Names::default();
        let codec = Codec { names: &names, ports: &ports, learn: true };
        let value =
            |name: &str| codec.value(&space, 9, name.as_bytes()).map(|b| b.low_u64()).map_err(|e| e.code);
        assert_eq!((value("eth0"), value("2"), value("4294967293")), (Ok(1), Ok(2), Ok(510)));
        assert_eq!((value("eth7"), value("512")), (Err(Code::InvalidArgument), Err(Code::InvalidArgument)));
        assert_eq!(codec.name(&space, &Bits::new(9, 1)), b"eth0");
        assert_eq!(codec.name(&space, &Bits::new(9, 2)), b"2");
        let port = |bytes: &[u8]| codec.port(Some(&space), bytes).map_err(|e| e.code);
        assert_eq!((port(b"eth0"), port(b"2"), port(&[2])), (Ok(1), Ok(2), Ok(2)));
        assert_eq!((port(&[9]), port(b"eth9")), (Err(Code::InvalidArgument), Err(Code::InvalidArgument)));
        assert_eq!(codec.port(None, &[0xff, 0xff, 0xff, 0xfd]), Ok(510));
        assert_eq!(names.len(), 0);
    }

    #[test]
    fn what_is_a_port() {
        for (uri, name, expected) in [
            ("p4.org/psa/v1/PortId_t", "x", true),
            ("", "port_id_t", true),
            ("", "PortId_String_t", true),
            ("p4.org/psa/v1/ClassOfService_t", "port_t", false),
            ("", "vrf_id_t", false),
        ] {
            assert_eq!(is_port(uri, name), expected, "{uri} {name}");
        }
        for tokens in [
            vec![AnnotationToken::Int(1.into(), "1".into())],
            vec![AnnotationToken::String("a".into()), AnnotationToken::Int((-1).into(), "-1".into())],
        ] {
            assert!(mappings(&annotated(tokens)).is_err());
        }
    }
}
