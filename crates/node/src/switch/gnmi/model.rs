//! Interfaces in the OpenConfig model: a tree of leaves, path resolution, and encoding.

use pointsman_control::proto::gnmi::{
    Encoding, Notification, Path, PathElem, TypedValue, Update, typed_value,
};
use pointsman_ports::{Counters, Direction};
use serde_json::{Map, Value};

/// The module whose names are used, in front of the outermost names in JSON (RFC 7951 section 4).
const MODULE: &str = "openconfig-interfaces";

/// A port as gNMI shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its Linux interface.
    pub name: String,
    /// Its number in the switch.
    pub port: u32,
    /// Whether it has a carrier.
    pub up: bool,
    /// Frames, bytes, drops.
    pub counters: Counters,
}

/// The value of a leaf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scalar {
    /// Text or an enumeration's name.
    Text(String),
    /// `uint32`
    Small(u32),
    /// `uint64`, in JSON a string (RFC 7951 section 6.1).
    Large(u64),
}

/// A step of a concrete path: a name and, for an entry of a list, the value of its key `name`.
type Step = (&'static str, Option<String>);

/// A leaf and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaf {
    steps: Vec<Step>,
    /// Its value.
    pub value: Scalar,
}

/// A path that cannot be served.
#[derive(Debug, PartialEq, Eq)]
pub enum Refused {
    /// No such thing is in the tree.
    NotFound(String),
    /// The request makes no sense.
    Invalid(String),
}

/// All leaves of an interface.
fn leaves(interface: &Interface) -> Vec<Leaf> {
    let c = &interface.counters;
    let (text, large) = (|s: &str| Scalar::Text(s.to_string()), Scalar::Large);
    let state: [(&[&'static str], Scalar); 11] = [
        (&["name"], text(&interface.name)),
        (&["type"], text("iana-if-type:ethernetCsmacd")),
        // As in Stratum, and as controllers expect it: the number that P4Runtime uses.
        (&["ifindex"], Scalar::Small(interface.port)),
        (&["id"], Scalar::Small(interface.port)),
        (&["oper-status"], text(if interface.up { "UP" } else { "DOWN" })),
        (&["counters", "in-pkts"], large(c.rx_packets)),
        (&["counters", "in-octets"], large(c.rx_bytes)),
        (&["counters", "in-discards"], large(c.dropped_total(Direction::Receive))),
        (&["counters", "out-pkts"], large(c.tx_packets)),
        (&["counters", "out-octets"], large(c.tx_bytes)),
        (&["counters", "out-discards"], large(c.dropped_total(Direction::Transmit))),
    ];
    let list: Step = ("interface", Some(interface.name.clone()));
    let front: [Step; 2] = [("interfaces", None), list];
    let key = Leaf { steps: [&front[..], &[("name", None)]].concat(), value: text(&interface.name) };
    let rest = state.into_iter().map(|(names, value)| {
        let names = names.iter().map(|n| (*n, None));
        Leaf { steps: front.iter().cloned().chain([("state", None)]).chain(names).collect(), value }
    });
    [key].into_iter().chain(rest).collect()
}

/// Whether a step of a request names this step. `*` and a key that is left out name every one.
fn names(wanted: &PathElem, step: &Step) -> bool {
    let name = wanted.name.rsplit(':').next().unwrap_or_default();
    let key = wanted.key.get("name").filter(|k| *k != "*");
    (name == "*" || name == step.0) && key.is_none_or(|k| step.1.as_ref() == Some(k))
}

fn check(wanted: &[PathElem], full: &Path) -> Result<(), Refused> {
    if !matches!(full.origin.as_str(), "" | "openconfig") {
        return Err(Refused::NotFound(format!("unknown tree '{}': omit the origin", full.origin)));
    }
    for elem in wanted {
        if elem.name == "..." {
            return Err(Refused::Invalid("'...' is not supported: write each step, or '*'".to_string()));
        }
        if let Some(key) =
            elem.key.keys().find(|k| *k != "name" || !matches!(elem.name.as_str(), "interface" | "*"))
        {
            return Err(Refused::NotFound(format!("{} has no key {key}", elem.name)));
        }
    }
    // The existence of a path must not depend on the existence of interfaces.
    let any = Interface { name: String::new(), port: 0, up: false, counters: Counters::default() };
    let fits = |leaf: &Leaf| {
        wanted.len() <= leaf.steps.len()
            && wanted.iter().zip(&leaf.steps).all(|(w, s)| {
                let nameless = PathElem { name: w.name.clone(), ..Default::default() };
                names(&nameless, s)
            })
    };
    if leaves(&any).iter().any(fits) {
        return Ok(());
    }
    let text: Vec<&str> = wanted.iter().map(|e| e.name.as_str()).collect();
    Err(Refused::NotFound(format!("/{} does not exist, only /interfaces/interface/state", text.join("/"))))
}

/// The values of a path: one update per path, or one per leaf if leaves must be separate.
///
/// # Errors
/// The path does not exist, whatever the interfaces.
pub fn select(
    interfaces: &[Interface],
    prefix: Option<&Path>,
    path: &Path,
    encoding: Encoding,
) -> Result<Vec<Update>, Refused> {
    let wanted: Vec<PathElem> = prefix.iter().flat_map(|p| &p.elem).chain(&path.elem).cloned().collect();
    check(&wanted, path)?;
    let found: Vec<Leaf> = interfaces
        .iter()
        .flat_map(leaves)
        .filter(|leaf| {
            wanted.len() <= leaf.steps.len() && wanted.iter().zip(&leaf.steps).all(|(w, s)| names(w, s))
        })
        .collect();
    let update = |steps: &[Step], value| Update {
        path: Some(encode_path(steps)),
        val: Some(TypedValue { value: Some(value) }),
        duplicates: 0,
    };
    if encoding == Encoding::Proto {
        return Ok(found.iter().map(|leaf| update(&leaf.steps, scalar(&leaf.value))).collect());
    }
    let mut updates = Vec::new();
    let mut rest = &found[..];
    while let Some(first) = rest.first() {
        let place = &first.steps[..wanted.len()];
        let end = rest.iter().take_while(|leaf| leaf.steps.starts_with(place)).count();
        let (here, later) = rest.split_at(end);
        // Text of JSON values cannot fail to be written.
        let json = to_json(here, wanted.len(), true).to_string().into_bytes();
        let value = match encoding {
            Encoding::JsonIetf => typed_value::Value::JsonIetfVal(json),
            _ => typed_value::Value::JsonVal(json),
        };
        updates.push(update(place, value));
        rest = later;
    }
    Ok(updates)
}

fn encode_path(steps: &[Step]) -> Path {
    let elem = steps.iter().map(|(name, key)| PathElem {
        name: (*name).to_string(),
        key: key.iter().map(|k| ("name".to_string(), k.clone())).collect(),
    });
    Path { elem: elem.collect(), ..Default::default() }
}

fn scalar(value: &Scalar) -> typed_value::Value {
    match value {
        Scalar::Text(s) => typed_value::Value::StringVal(s.clone()),
        Scalar::Small(n) => typed_value::Value::UintVal((*n).into()),
        Scalar::Large(n) => typed_value::Value::UintVal(*n),
    }
}

/// Leaves with the same first `depth` steps, as their common subtree.
fn to_json(leaves: &[Leaf], depth: usize, outermost: bool) -> Value {
    if let [leaf] = leaves
        && leaf.steps.len() == depth
    {
        return match &leaf.value {
            Scalar::Text(s) => s.as_str().into(),
            Scalar::Small(n) => (*n).into(),
            Scalar::Large(n) => n.to_string().into(),
        };
    }
    let mut object = Map::new();
    let mut rest = leaves;
    while let Some(step) = rest.first().and_then(|leaf| leaf.steps.get(depth)) {
        let end = rest.iter().take_while(|leaf| leaf.steps.get(depth) == Some(step)).count();
        let (here, later) = rest.split_at(end);
        let name = match step.0 {
            "id" => "openconfig-p4rt:id".to_string(),
            name if outermost => format!("{MODULE}:{name}"),
            name => name.to_string(),
        };
        let below = to_json(here, depth + 1, false);
        match (&step.1, object.get_mut(&name)) {
            (None, _) => drop(object.insert(name, below)),
            (Some(_), Some(Value::Array(list))) => list.push(below),
            (Some(_), _) => drop(object.insert(name, Value::Array(vec![below]))),
        }
        rest = later;
    }
    Value::Object(object)
}

/// A message with these updates, for a request whose prefix names this target.
pub fn notification(timestamp_ns: i64, target: &str, update: Vec<Update>) -> Notification {
    let prefix = (!target.is_empty()).then(|| Path { target: target.to_string(), ..Default::default() });
    Notification { timestamp: timestamp_ns, prefix, update, ..Default::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> Path {
        let elem = |step: &str| {
            let (name, key) = step.split_once('[').map_or((step, None), |(n, k)| (n, k.strip_suffix(']')));
            let key = key.and_then(|k| k.split_once('=')).map(|(k, v)| (k.to_string(), v.to_string()));
            PathElem { name: name.to_string(), key: key.into_iter().collect() }
        };
        Path { elem: text.split('/').filter(|s| !s.is_empty()).map(elem).collect(), ..Default::default() }
    }

    fn interfaces() -> Vec<Interface> {
        let mut counters = Counters::default();
        (counters.rx_packets, counters.rx_bytes) = (3, 1 << 40);
        let one = |name: &str, port, up| Interface { name: name.to_string(), port, up, counters };
        vec![one("veth1", 1, true), one("veth2", 2, false)]
    }

    fn shown(updates: &[Update]) -> Vec<String> {
        let one = |u: &Update| {
            let step =
                |e: &PathElem| e.key.get("name").map_or(e.name.clone(), |k| format!("{}[{k}]", e.name));
            let path: Vec<String> = u.path.iter().flat_map(|p| &p.elem).map(step).collect();
            let value = match u.val.as_ref().and_then(|v| v.value.as_ref()) {
                Some(typed_value::Value::JsonIetfVal(json)) => String::from_utf8_lossy(json).into_owned(),
                Some(typed_value::Value::StringVal(s)) => s.clone(),
                Some(typed_value::Value::UintVal(n)) => n.to_string(),
                other => format!("{other:?}"),
            };
            format!("{}={value}", path.join("/"))
        };
        updates.iter().map(one).collect()
    }

    fn check(text: &str, encoding: Encoding, expected: &[&str]) {
        match select(&interfaces(), None, &path(text), encoding) {
            Ok(updates) => assert_eq!(shown(&updates), expected, "{text}"),
            Err(e) => assert!(format!("{e:?}").contains(expected[0]), "{text}: {e:?}"),
        }
    }

    #[test]
    fn paths_name_leaves() {
        let ids =
            ["interfaces/interface[veth1]/state/ifindex=1", "interfaces/interface[veth2]/state/ifindex=2"];
        check("/interfaces/interface[name=*]/state/ifindex", Encoding::Proto, &ids);
        check("/interfaces/interface/state/ifindex", Encoding::JsonIetf, &ids);
        check("/openconfig-interfaces:interfaces/interface/*/ifindex", Encoding::JsonIetf, &ids);
        let one = "/interfaces/interface[name=veth2]/state/oper-status";
        check(one, Encoding::Proto, &["interfaces/interface[veth2]/state/oper-status=DOWN"]);
        check(one, Encoding::JsonIetf, &["interfaces/interface[veth2]/state/oper-status=\"DOWN\""]);
        check("/interfaces/interface[name=absent]/state", Encoding::Proto, &[]);
    }

    #[test]
    fn subtrees_are_json() {
        check(
            "/interfaces/interface[name=veth1]/state/counters",
            Encoding::JsonIetf,
            &["interfaces/interface[veth1]/state/counters={\"openconfig-interfaces:in-discards\":\"0\",\
               \"openconfig-interfaces:in-octets\":\"1099511627776\",\"openconfig-interfaces:in-pkts\":\"3\",\
               \"openconfig-interfaces:out-discards\":\"0\",\"openconfig-interfaces:out-octets\":\"0\",\
               \"openconfig-interfaces:out-pkts\":\"0\"}"],
        );
        let all = select(&interfaces(), None, &path("/"), Encoding::JsonIetf).unwrap();
        assert_eq!(all.len(), 1);
        let json: Value = serde_json::from_str(shown(&all)[0].trim_start_matches('=')).unwrap();
        let list = &json["openconfig-interfaces:interfaces"]["interface"];
        assert_eq!(list.as_array().map(Vec::len), Some(2));
        assert_eq!(list[1]["name"], "veth2");
        assert_eq!(list[1]["state"]["openconfig-p4rt:id"], 2);
        assert_eq!(list[0]["state"]["counters"]["in-pkts"], "3");
        assert_eq!(select(&interfaces(), None, &path("/"), Encoding::Proto).unwrap().len(), 24);
    }

    #[test]
    fn prefixes_and_what_is_not_there() {
        let under =
            select(&interfaces(), Some(&path("/interfaces")), &path("interface/name"), Encoding::Proto);
        assert_eq!(
            shown(&under.unwrap()),
            ["interfaces/interface[veth1]/name=veth1", "interfaces/interface[veth2]/name=veth2"]
        );
        check("/components", Encoding::Proto, &["NotFound(\"/components does not exist"]);
        check("/interfaces/interface/state/mtu", Encoding::Proto, &["NotFound"]);
        check("/interfaces/interface/state/name/x", Encoding::Proto, &["NotFound"]);
        check("/interfaces/interface[id=1]", Encoding::Proto, &["has no key id"]);
        check("/.../oper-status", Encoding::Proto, &["Invalid"]);
        // The result does not depend on interfaces.
        assert_eq!(select(&[], None, &path("/interfaces/interface/state"), Encoding::JsonIetf), Ok(vec![]));
    }
}
