//! P4Info against p4c's own: its test programs come with the P4Info that p4c writes for them.
//!
//! `P4C_DIR` names a checkout of p4c, `POINTSMAN_P4C_BIN` a `p4c-bm2-ss` that runs, `POINTSMAN_OTHERS` a folder with
//! other people's programs and p4c's output for them; without them, the tests are skipped.

use pointsman_control::p4info::p4info;
use pointsman_control::proto::p4info::{self as pb, P4Info};
use pointsman_control::text::from_text;
use pointsman_frontend::Define;
use pointsman_frontend::render::all_to_text;
use pointsman_frontend::source::Loader;
use pointsman_needs::{p4c, variable};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::{Path, PathBuf};

/// Reads includes from directories.
struct Dirs(Vec<PathBuf>);

impl Loader for Dirs {
    fn include(&self, name: &str, quoted: bool, from: &str) -> Option<(String, String)> {
        let beside = quoted.then(|| Path::new(from).parent().map(Path::to_path_buf)).flatten();
        beside.iter().chain(&self.0).find_map(|dir| {
            let path = dir.join(name);
            Some((path.to_string_lossy().into_owned(), std::fs::read_to_string(&path).ok()?))
        })
    }
}

/// The differences between objects of one kind. p4c's must be in ours; ours may hold more, because p4c drops unused
/// objects.
fn compare<M: Clone + PartialEq + Debug>(
    kind: &str,
    ours: &[M],
    theirs: &[M],
    id: impl Fn(&M) -> (u32, String),
    out: &mut Vec<String>,
) {
    let ours: BTreeMap<_, _> = ours.iter().map(|m| (id(m), m)).collect();
    for m in theirs {
        match ours.get(&id(m)) {
            None => out.push(format!("{kind} {:?} is missing", id(m))),
            Some(found) if *found != m => out.push(format!("{kind}:\n  ours   {found:?}\n  theirs {m:?}")),
            Some(_) => {}
        }
    }
}

fn name(p: &Option<pb::Preamble>) -> (u32, String) {
    p.as_ref().map_or((0, String::new()), |p| (p.id, p.name.clone()))
}

fn differences(ours: &P4Info, theirs: &P4Info) -> Vec<String> {
    let mut out = Vec::new();
    compare("table", &ours.tables, &theirs.tables, |m| name(&m.preamble), &mut out);
    compare("action", &ours.actions, &theirs.actions, |m| name(&m.preamble), &mut out);
    compare("profile", &ours.action_profiles, &theirs.action_profiles, |m| name(&m.preamble), &mut out);
    compare("counter", &ours.counters, &theirs.counters, |m| name(&m.preamble), &mut out);
    compare(
        "direct counter",
        &ours.direct_counters,
        &theirs.direct_counters,
        |m| name(&m.preamble),
        &mut out,
    );
    compare("meter", &ours.meters, &theirs.meters, |m| name(&m.preamble), &mut out);
    compare("direct meter", &ours.direct_meters, &theirs.direct_meters, |m| name(&m.preamble), &mut out);
    let (a, b) = (&ours.controller_packet_metadata, &theirs.controller_packet_metadata);
    compare("controller header", a, b, |m| name(&m.preamble), &mut out);
    compare("value set", &ours.value_sets, &theirs.value_sets, |m| name(&m.preamble), &mut out);
    compare("register", &ours.registers, &theirs.registers, |m| name(&m.preamble), &mut out);
    compare("digest", &ours.digests, &theirs.digests, |m| name(&m.preamble), &mut out);
    let pkg = |p: &P4Info| p.pkg_info.clone().into_iter().collect::<Vec<_>>();
    compare("pkg_info", &pkg(ours), &pkg(theirs), |_| (0, String::new()), &mut out);
    let (ours, theirs) =
        (ours.type_info.clone().unwrap_or_default(), theirs.type_info.clone().unwrap_or_default());
    compare_types("struct", &ours.structs, &theirs.structs, &mut out);
    compare_types("header", &ours.headers, &theirs.headers, &mut out);
    compare_types("header union", &ours.header_unions, &theirs.header_unions, &mut out);
    compare_types("enum", &ours.enums, &theirs.enums, &mut out);
    compare_types("serializable enum", &ours.serializable_enums, &theirs.serializable_enums, &mut out);
    compare_types("new type", &ours.new_types, &theirs.new_types, &mut out);
    out
}

fn compare_types<M: PartialEq + Debug>(
    kind: &str,
    ours: &BTreeMap<String, M>,
    theirs: &BTreeMap<String, M>,
    out: &mut Vec<String>,
) {
    for (name, m) in theirs {
        match ours.get(name) {
            Some(found) if found == m => {}
            found => out.push(format!("{kind} {name}:\n  ours   {found:?}\n  theirs {m:?}")),
        }
    }
}

/// Programs whose P4Info differs on purpose.
const DIFFERENT: [&str; 2] = [
    // A key without @name is named by its expression as the source has it; p4c reformats the constants in it.
    "match-on-exprs2-bmv2.p4",
    // @name on the declaration of a control that is passed to the package: p4c leaves it out of the names inside.
    "name_annotations_to_p4info-bmv2.p4",
];

#[test]
fn p4info_is_that_of_p4c() {
    let Some(p4c) = p4c("p4info_is_that_of_p4c") else { return };
    let samples = p4c.join("testdata/p4_16_samples");
    let mut files: Vec<PathBuf> = std::fs::read_dir(p4c.join("testdata/p4_16_samples_outputs"))
        .expect("a checkout of p4c")
        .filter_map(|e| e.ok().map(|e| e.path()))
        .filter(|p| p.to_string_lossy().ends_with(".p4info.txtpb"))
        .collect();
    files.sort();
    let loader = Dirs(vec![p4c.join("p4include"), samples.clone()]);
    let (mut same, mut not_compiled, mut bad) = (0, 0, Vec::new());
    for file in &files {
        let theirs: P4Info = match from_text(&std::fs::read_to_string(file).expect("readable")) {
            Ok(info) => info,
            Err(e) => {
                bad.push(format!("{}: {e}", file.display()));
                continue;
            }
        };
        if theirs.pkg_info.as_ref().is_none_or(|p| p.arch != "v1model") {
            continue;
        }
        let program = file.file_name().unwrap_or_default().to_string_lossy().replace(".p4info.txtpb", "");
        let path = samples.join(&program);
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        let Ok(compiled) = pointsman_frontend::compile(&path.to_string_lossy(), &text, &loader, &[]) else {
            not_compiled += 1;
            continue;
        };
        let found = match p4info(&compiled.program) {
            Ok(ours) => differences(&ours, &theirs),
            Err(e) => vec![e.to_string()],
        };
        match (found.is_empty(), DIFFERENT.contains(&program.as_str())) {
            (true, false) => same += 1,
            (false, true) => {}
            (false, false) => bad.push(format!("{program}: {}", found.join("\n"))),
            (true, true) => bad.push(format!("{program}: no difference any more; take it off the list")),
        }
    }
    println!("{same} programs have the same P4Info, {not_compiled} do not compile here");
    assert!(bad.is_empty(), "{} differ\n{}", bad.len(), bad.join("\n"));
}

/// Programs of ours besides those in `p4/programs`.
const OTHERS_OF_OURS: [&str; 3] = [
    "examples/forwarder/main.p4",
    "tests/programs/controlled.p4",
    "crates/testkit/tests/v1model/selector.p4",
];

/// Programs with the library for state in a store, whose macros are independent of each other.
const WITH_STORE: [&str; 7] = ["dispatch", "firewall", "flowcount", "gateway", "guard", "kvstore", "napt"];

/// Programs with the library for tables in memory servers.
const WITH_MEMORY: [&str; 6] = ["nat", "tea-firewall", "tea-lb", "tea-policy", "tea-router", "tea-vpn"];

/// The sets of macros that a program of `p4/programs` is compiled with, as arguments of `-D`.
fn variants(program: &str) -> Vec<Vec<&'static str>> {
    let plain = |sets: Vec<Vec<&'static str>>| sets.into_iter().chain([vec!["PLAIN"]]).collect();
    match program {
        "balancer" => all_of(&["BALANCER_STORE", "SERVER_DEVICES=16"])
            .into_iter()
            .chain([vec!["BALANCER_STORE", "REDPLANE_IPV6"]])
            .chain([vec!["BALANCER_TEA"], vec!["BALANCER_TEA", "SERVER_DEVICES=16", "TEA_CACHE=1024"]])
            .collect(),
        "dram-buffer" => plain(all_of(&["ROCE_IPV6"])),
        "dram-counters" => plain(all_of(&["COUNT_BYTES", "ROCE_IPV6"])),
        "heavyhitters" => plain(all_of(&["REDPLANE_IPV6"])),
        _ if WITH_STORE.contains(&program) => {
            let leases = [None, Some("REDPLANE_SESSION_LEASES"), Some("REDPLANE_SHARED_READS")];
            let sets = all_of(&["REDPLANE_IPV6"]).into_iter();
            plain(sets.flat_map(|set| leases.map(|kind| set.iter().copied().chain(kind).collect())).collect())
        }
        _ if WITH_MEMORY.contains(&program) => {
            let own: &[&str] = match program {
                "nat" => &["NAT_IPV6"],
                "tea-vpn" => &["VPN_IPV4"],
                _ => &[],
            };
            let sets = all_of(&["TEA_CACHE=1024", "TEA_INLINE", "TEA_IPV6"]);
            let without = all_of(own).into_iter().map(|set| [set, vec!["PLAIN"]].concat());
            let with = sets.iter().flat_map(|set| all_of(own).into_iter().map(|o| [set.clone(), o].concat()));
            with.chain(without).collect()
        }
        _ => vec![vec![]],
    }
}

/// All sets of some of these macros.
fn all_of(macros: &[&'static str]) -> Vec<Vec<&'static str>> {
    let mut sets = vec![vec![]];
    for one in macros {
        let with: Vec<_> = sets.iter().map(|set: &Vec<_>| [set.clone(), vec![*one]].concat()).collect();
        sets.extend(with);
    }
    sets
}

/// All programs of ours, each with its macros.
fn ours(root: &Path) -> Vec<(PathBuf, Vec<&'static str>)> {
    let folder = root.join("p4/programs");
    let mut names: Vec<String> = std::fs::read_dir(folder.clone())
        .expect("our programs")
        .map(|entry| entry.expect("readable").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    let named = names.iter().flat_map(|name| {
        let program = folder.join(name).join("main.p4");
        variants(name).into_iter().map(move |macros| (program.clone(), macros))
    });
    named.chain(OTHERS_OF_OURS.map(|path| (root.join(path), vec![]))).collect()
}

/// Programs of p4c that between them have every kind of object.
const SAMPLES: [&str; 20] = [
    "action_profile-bmv2.p4",
    "action_selector_shared-bmv2.p4",
    "basic_routing-bmv2.p4",
    "enum-bmv2.p4",
    "flowlet_switching-bmv2.p4",
    "issue430-1-bmv2.p4",
    "init-entries-bmv2.p4",
    "match-on-exprs-bmv2.p4",
    "named_meter_1-bmv2.p4",
    "nonstandard_table_names-bmv2.p4",
    "pvs-bitstring-bmv2.p4",
    "pvs-struct-3-bmv2.p4",
    "register-serenum-bmv2.p4",
    "table-entries-exact-ternary-bmv2.p4",
    "table-entries-lpm-bmv2.p4",
    "table-entries-optional-bmv2.p4",
    "table-entries-priority-bmv2.p4",
    "table-entries-range-bmv2.p4",
    "table-key-serenum-bmv2.p4",
    "v1model-const-entries-bmv2.p4",
];

/// The P4Info of a program by the given p4c.
fn by_p4c(p4c: &Path, program: &Path, libraries: &Path, macros: &[&str]) -> Result<P4Info, String> {
    let stem = format!("{} {}", program.display(), macros.join(" ")).replace(['/', '.', ' ', '='], "_");
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{stem}.txtpb"));
    let output = std::process::Command::new(p4c)
        .arg("--p4runtime-files")
        .arg(&out)
        .arg("-o")
        .arg(out.with_extension("json"))
        .arg("-I")
        .arg(libraries)
        .args(macros.iter().map(|m| format!("-D{m}")))
        .arg(program)
        .output()
        .map_err(|e| format!("{} does not start: {e}", p4c.display()))?;
    if !output.status.success() {
        return Err(format!("p4c refuses it:\n{}", String::from_utf8_lossy(&output.stderr)));
    }
    let text = std::fs::read_to_string(&out).map_err(|e| e.to_string())?;
    from_text(&text).map_err(|e| e.to_string())
}

fn by_us(include: Vec<PathBuf>, program: &Path, macros: &[&str]) -> Result<P4Info, String> {
    let text = std::fs::read_to_string(program).map_err(|e| e.to_string())?;
    let defines: Vec<Define> = macros.iter().map(|m| Define::set(m)).collect();
    let compiled = pointsman_frontend::compile(&program.to_string_lossy(), &text, &Dirs(include), &defines)
        .map_err(|f| all_to_text(&f.source_map, &f.diagnostics, false))?;
    p4info(&compiled.program).map_err(|e| e.to_string())
}

#[test]
fn programs_compile_with_all_their_macros() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let all = ours(&root);
    let bad: Vec<_> = all
        .iter()
        .filter_map(|(program, macros)| {
            let result = by_us(vec![root.join("p4/include"), root.join("p4/lib")], program, macros);
            Some(format!("{} {}: {}", program.display(), macros.join(" "), result.err()?))
        })
        .collect();
    assert!(bad.is_empty(), "{} of {} do not compile\n{}", bad.len(), all.len(), bad.join("\n"));
}

#[test]
fn p4info_is_that_of_the_p4c_that_runs() {
    let Some(bin) = variable("p4info_is_that_of_the_p4c_that_runs", "POINTSMAN_P4C_BIN") else { return };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut bad = Vec::new();
    let libraries = root.join("p4/lib");
    // The same objects as p4c's, in any order.
    for (program, macros) in ours(&root) {
        let theirs = by_p4c(&bin, &program, &libraries, &macros);
        let ours = by_us(vec![root.join("p4/include"), libraries.clone()], &program, &macros);
        let found = match (ours, theirs) {
            (Ok(ours), Ok(theirs)) => [differences(&ours, &theirs), differences(&theirs, &ours)].concat(),
            (ours, theirs) => vec![ours.err().or(theirs.err()).unwrap_or_default()],
        };
        if !found.is_empty() {
            bad.push(format!("{} {}: {}", program.display(), macros.join(" "), found.join("\n")));
        }
    }
    if let Some(checkout) = p4c("p4info_is_that_of_the_p4c_that_runs, samples") {
        let samples = checkout.join("testdata/p4_16_samples");
        for name in SAMPLES {
            let program = samples.join(name);
            let ours = by_us(vec![checkout.join("p4include"), samples.clone()], &program, &[]);
            let found = match (ours, by_p4c(&bin, &program, &libraries, &[])) {
                (Ok(ours), Ok(theirs)) => differences(&ours, &theirs),
                (ours, theirs) => vec![ours.err().or(theirs.err()).unwrap_or_default()],
            };
            if !found.is_empty() {
                bad.push(format!("{name}: {}", found.join("\n")));
            }
        }
    }
    assert!(bad.is_empty(), "{} differ\n{}", bad.len(), bad.join("\n"));
}

/// A program of another project, as a line of `expected/INDEX` describes it: project, name, folder, flags, program,
/// exit status of p4c, seconds, its messages, and the file of its P4Info, separated by tabs.
struct Other<'a> {
    name: String,
    folder: &'a Path,
    flags: Vec<&'a str>,
    program: &'a str,
    expected: &'a str,
}

impl<'a> Other<'a> {
    fn read(line: &'a str) -> Option<Self> {
        let [project, name, folder, flags, program, _, _, _, expected] =
            line.split('\t').collect::<Vec<_>>()[..]
        else {
            return None;
        };
        let flags = flags.split_whitespace().collect();
        let name = format!("{project} {name}");
        // Some have P4Info, although the part of p4c behind it refuses them.
        (!expected.is_empty()).then_some(Other { name, folder: Path::new(folder), flags, program, expected })
    }

    /// The differences between our P4Info and p4c's.
    fn differences(&self, root: &Path) -> Vec<String> {
        let folder = root.join(self.folder);
        let (mut include, mut defines) = (Vec::new(), Vec::new());
        let mut flags = self.flags.iter();
        while let Some(flag) = flags.next() {
            if let Some(define) = flag.strip_prefix("-D") {
                defines.push(Define::set(define));
            } else if let Some(dir) = flag.strip_prefix("-I") {
                let dir = if dir.is_empty() { flags.next().unwrap_or(&"") } else { dir };
                include.push(folder.join(dir));
            }
        }
        include.push(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../p4/include"));
        let path = folder.join(self.program);
        let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let compiled =
            match pointsman_frontend::compile(&path.to_string_lossy(), &text, &Dirs(include), &defines) {
                Ok(compiled) => compiled,
                Err(f) => return vec![all_to_text(&f.source_map, &f.diagnostics, false)],
            };
        if let Err(problems) = pointsman_v1model::Pipeline::load(compiled.program.clone()) {
            return problems.into_iter().map(|p| p.message).collect();
        }
        let theirs =
            std::fs::read_to_string(root.join("expected").join(self.expected)).expect("p4c's P4Info");
        match (p4info(&compiled.program), from_text(&theirs)) {
            (Ok(ours), Ok(theirs)) => differences(&ours, &theirs),
            (ours, theirs) => vec![format!("{:?} {:?}", ours.err(), theirs.err())],
        }
    }
}

#[test]
fn p4info_of_other_programs_is_that_of_p4c() {
    let Some(root) = variable("p4info_of_other_programs_is_that_of_p4c", "POINTSMAN_OTHERS") else { return };
    let index = std::fs::read_to_string(root.join("expected/INDEX")).expect("expected/INDEX");
    let (mut same, mut bad) = (0, Vec::new());
    for other in index.lines().filter(|l| !l.starts_with('#')).filter_map(Other::read) {
        let found = other.differences(&root);
        if found.is_empty() {
            same += 1;
        } else {
            bad.push(format!("{}:\n{}", other.name, found.join("\n")));
        }
    }
    println!("{same} programs of others have p4c's P4Info");
    assert!(bad.is_empty(), "{} differ\n{}", bad.len(), bad.join("\n"));
    assert!(same > 0, "no programs in {}", root.display());
}
