//! Files for controllers of p4-utils: the network as the graph that its Python library reads, programs and their P4Info.

use crate::load::Start;
use crate::plan::{LinkPlan, Plan, cpu_interfaces};
use pointsman_compile::sources::{as_json, is_carrier};
use pointsman_control::proto::p4info::P4Info;
use pointsman_control::text::{TextError, TextMessage, to_text};
use pointsman_topology::{End, HostId, Line, Link, SwitchId};
use pointsman_wire::Mac;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf, absolute};

/// The graph's file, in the folder where the network runs.
const GRAPH: &str = "topology.json";

/// A file and its text.
pub type File = (PathBuf, String);

/// Why controllers of p4-utils do not get a file.
#[derive(Debug)]
pub enum DatabaseError {
    /// The P4Info of this file cannot be written as text.
    P4Info(PathBuf, TextError),
    /// Another file has this name.
    Other(PathBuf),
    /// The file cannot be written.
    Write(PathBuf, io::Error),
}

impl fmt::Display for DatabaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DatabaseError::P4Info(path, e) => write!(f, "{}: {e}", path.display()),
            DatabaseError::Other(path) => write!(
                f,
                "{} is not written, because another file of this name is there: move it for controllers of p4-utils",
                path.display()
            ),
            DatabaseError::Write(path, e) => {
                write!(f, "cannot write {} for controllers of p4-utils: {e}", path.display())
            }
        }
    }
}

impl std::error::Error for DatabaseError {}

/// The files of a plan whose switches start like this.
///
/// # Errors
/// P4Info that cannot be written as text.
pub fn files(plan: &Plan, starts: &[Start]) -> Result<Vec<File>, DatabaseError> {
    let Some(database) = plan.database else { return Ok(Vec::new()) };
    let mut files = BTreeMap::new();
    let mut outputs = Vec::new();
    for start in starts {
        let (Some(source), Some(program), true) = (&start.source, &start.program, database.p4info) else {
            outputs.push(None);
            continue;
        };
        let source = absolute(source).unwrap_or_else(|_| source.clone());
        let stem = source.file_stem().unwrap_or_default().to_string_lossy();
        let [json, info] =
            [format!("{stem}.json"), format!("{stem}_p4rt.txt")].map(|n| source.with_file_name(n));
        let text = to_text(&start.info).map_err(|e| DatabaseError::P4Info(info.clone(), e))?;
        files.extend([(json.clone(), as_json(program)), (info.clone(), text)]);
        outputs.push(Some([json, info]));
    }
    files.insert(GRAPH.into(), format!("{}\n", graph(plan, &outputs)));
    Ok(files.into_iter().collect())
}

/// Writes a file, unless one is there that is not of this kind.
///
/// # Errors
/// It cannot be written, or another file is there.
pub fn write((path, text): &File) -> Result<(), DatabaseError> {
    match std::fs::read(path) {
        Ok(old) if old == text.as_bytes() => return Ok(()),
        Ok(old) if !is_ours(path, &old) => return Err(DatabaseError::Other(path.clone())),
        _ => {}
    }
    std::fs::write(path, text).map_err(|e| DatabaseError::Write(path.clone(), e))
}

/// Whether a file may be replaced: graphs, P4Info, and what compilers write.
fn is_ours(path: &Path, text: &[u8]) -> bool {
    if path.extension().is_some_and(|e| e == "txt") {
        // With and without the comments of p4c and of ours.
        return text.starts_with(format!("# proto-file: {}\n", P4Info::FILE).as_bytes())
            || text.starts_with(b"pkg_info");
    }
    if is_carrier(text) {
        return true;
    }
    let Ok(Value::Object(map)) = serde_json::from_slice(text) else { return false };
    let has = |key: &str| map.contains_key(key);
    if path == Path::new(GRAPH) { has("nodes") && has("multigraph") } else { has("__meta__") }
}

/// The network as networkx writes graphs: nodes and links with what p4-utils' `NetworkGraph` reads.
fn graph(plan: &Plan, outputs: &[Option<[PathBuf; 2]>]) -> Value {
    let topology = &plan.topology;
    let hosts = (0..topology.hosts().len()).map(|h| host(plan, h));
    let switches = (0..).map(SwitchId).zip(outputs).map(|(id, output)| switch(plan, id, output.as_ref()));
    let nodes: Vec<Value> = hosts.chain(switches).collect();
    // Parallel links have keys.
    let mut keys: BTreeMap<[&str; 2], u32> = BTreeMap::new();
    let mut links: Vec<Map<String, Value>> = Vec::new();
    for (of, settings) in topology.links().iter().zip(&plan.links) {
        let mut names = of.ends.map(|end| name(plan, end));
        names.sort_unstable();
        let key = keys.entry(names).or_default();
        let mut out = link(plan, of, settings);
        out.insert("key".into(), (*key).into());
        links.push(out);
        *key += 1;
    }
    let multigraph = keys.values().any(|n| *n > 1);
    if !multigraph {
        links.iter_mut().for_each(|link| drop(link.remove("key")));
    }
    // networkx reads `links` before its version 3.6, and `edges` from then on.
    json!({"directed": false, "multigraph": multigraph, "graph": {}, "nodes": nodes, "edges": links, "links": links})
}

fn name(plan: &Plan, end: End) -> &str {
    match end {
        End::Switch(id, _) => plan.switch(id),
        End::Host(id) => plan.host(id),
    }
}

fn host(plan: &Plan, place: usize) -> Value {
    let (host, settings) = (&plan.topology.hosts()[place], &plan.hosts[place]);
    let mut out = json!({"id": host.name, "isHost": true, "isSwitch": false});
    out["ip"] = format!("{}/{}", host.address, settings.prefix).into();
    out["mac"] = Mac(host.mac).to_string().into();
    if let Some(gateway) = settings.gateway {
        out["defaultRoute"] = format!("via {gateway}").into();
    }
    out
}

fn switch(plan: &Plan, id: SwitchId, output: Option<&[PathBuf; 2]>) -> Value {
    let (name, settings) = (plan.switch(id), &plan.switches[id.0 as usize]);
    let mut out =
        json!({"id": name, "isHost": false, "isSwitch": true, "isP4Switch": true, "isP4RuntimeSwitch": true});
    out["device_id"] = settings.device_id.into();
    out["grpc_port"] = settings.p4runtime.into();
    out["thrift_port"] = settings.thrift.into();
    out["cpu_port"] = settings.cpu_interface.is_some().into();
    if let Some(port) = settings.cpu_interface {
        let [here, there] = cpu_interfaces(name);
        out["cpu_port_num"] = port.into();
        out["cpu_intf"] = here.into();
        out["cpu_ctl_intf"] = there.into();
    }
    if let Some(program) = settings.program.as_ref().or(plan.program.as_ref()) {
        out["p4_src"] = program.as_str().into();
    }
    if let Some([json, info]) = output {
        out["json_path"] = json.to_string_lossy().into();
        out["p4rt_path"] = info.to_string_lossy().into();
    }
    out
}

/// A link; keys that end in 1 and 2 belong to its ends.
fn link(plan: &Plan, link: &Link, settings: &LinkPlan) -> Map<String, Value> {
    let mut out = Map::new();
    let keys = [("1", "source"), ("2", "target")];
    for (((number, of_graph), end), known) in keys.into_iter().zip(link.ends).zip(&settings.ports) {
        let node = name(plan, end);
        let (port, address) = match end {
            End::Switch(_, port) => (port, known.address),
            End::Host(HostId(h)) => {
                let h = h as usize;
                (0, Some((plan.topology.hosts()[h].address, plan.hosts[h].prefix)))
            }
        };
        let mac = known.mac.unwrap_or_else(|| plan.topology.mac(end));
        out.insert(of_graph.into(), node.into());
        let mut put = |key: &str, value: Value| out.insert(format!("{key}{number}"), value);
        put("node", node.into());
        put("port", port.into());
        put("intfName", format!("{node}-eth{port}").into());
        put("addr", Mac(mac).to_string().into());
        if let Some((address, prefix)) = address {
            put("ip", format!("{address}/{prefix}").into());
        }
    }
    out.insert("weight".into(), number(settings.weight));
    if link.line.bits_per_s != Line::UNLIMITED {
        out.insert("bw".into(), number(link.line.bits_per_s as f64 / 1e6));
    }
    if link.line.delay_ns > 0 {
        out.insert("delay".into(), number(link.line.delay_ns as f64 / 1e6));
    }
    if link.line.loss > 0.0 {
        out.insert("loss".into(), number(link.line.loss * 100.0));
    }
    if let Some(packets) = settings.queue_packets {
        out.insert("max_queue_size".into(), packets.into());
    }
    out
}

/// A number, without a fraction of 0.
fn number(value: f64) -> Value {
    let whole = value as u64;
    if whole as f64 == value { whole.into() } else { value.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_p4info_is_replaced_by_p4info() {
        let path = std::env::temp_dir().join(format!("pointsman-database-{}_p4rt.txt", std::process::id()));
        let text = to_text(&P4Info::default()).expect("text");
        for (old, replaced) in [("notes\n", false), ("", false), (&*text, true), ("pkg_info {\n}\n", true)] {
            std::fs::write(&path, old).expect("a file");
            let new = format!("{text}# newer\n");
            let written = write(&(path.clone(), new.clone()));
            let found = std::fs::read_to_string(&path).expect("a file");
            match replaced {
                true => assert!(written.is_ok() && found == new, "{old}: {written:?}"),
                false => assert!(
                    matches!(written, Err(DatabaseError::Other(_))) && found == old,
                    "{old}: {written:?}"
                ),
            }
        }
        std::fs::remove_file(&path).expect("a file");
    }
}
