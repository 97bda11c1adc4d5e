//! Networks of real switches as TOML, for `pointsman controller`.

use crate::scheme::Choice;
use pointsman_topology::reader::{At, ConfigErrors, Problems, Table};
use pointsman_topology::{HOST_PORT, SwitchId, Topology, is_host_port, read as topology};

/// A network whose switches run on machines.
#[derive(Clone, Debug, PartialEq)]
pub struct Description {
    /// Switches, hosts and links.
    pub topology: Topology,
    /// How switches choose paths.
    pub choice: Choice,
    /// The program of all switches: a path, or `None` for the scheme's own.
    pub program: Option<String>,
    /// The P4Runtime address of each switch, as `host:port`.
    pub p4runtime: Vec<String>,
}

/// Whether a file describes a network: it has a table `[network]`.
pub fn is_network(file: &str, text: &str) -> bool {
    let mut problems = Problems::new(file, text);
    problems.parse().is_some_and(|document| {
        let top = Table::top(&document);
        top.place_of("network") != top.place
    })
}

/// Reads the tables `[scheme]` and `[program]`: the scheme, and the path of a program in place of the scheme's own.
pub fn scheme_and_program(
    top: &mut Table<'_, '_>,
    problems: &mut Problems<'_>,
) -> (Option<Choice>, Option<String>) {
    let choice = match top.table("scheme", problems) {
        Some(t) => Choice::read(t, problems),
        None => Choice::named("ecmp"),
    };
    let program = top.table("program", problems).and_then(|mut t| {
        let file: Option<At<String>> = t.text("file", "write the path of a P4 program", problems);
        t.finish(problems);
        file.map(|f| f.value)
    });
    (choice, program)
}

impl Description {
    /// Reads a description. `file` is how messages call the text.
    ///
    /// # Errors
    /// Everything that is wrong with it, each with line, field and remedy.
    pub fn read(file: &str, text: &str) -> Result<Self, ConfigErrors> {
        let mut problems = Problems::new(file, text);
        let Some(document) = problems.parse() else { return problems.into_result(None) };
        let mut top = Table::top(&document);
        let found = description(&mut top, &mut problems);
        top.finish(&mut problems);
        problems.into_result(found)
    }

    /// What in another description a running controller cannot take, if anything: it keeps its sessions and their program.
    pub fn needs_restart(&self, new: &Description) -> Option<&'static str> {
        let names = |of: &Description| -> Vec<String> {
            of.topology.switches().iter().map(|s| s.name.clone()).collect()
        };
        let differs = [
            ("[network]: the switches", names(self) != names(new)),
            ("[switches]", self.p4runtime != new.p4runtime),
            ("scheme.name", self.choice.scheme != new.choice.scheme),
            ("program.file", self.program != new.program),
        ];
        differs.into_iter().find(|(_, differs)| *differs).map(|(what, _)| what)
    }
}

fn description(top: &mut Table<'_, '_>, problems: &mut Problems<'_>) -> Option<Description> {
    let network = top.table("network", problems).and_then(|t| topology(t, problems));
    let (choice, program) = scheme_and_program(top, problems);
    let place = top.place_of("switches");
    let addresses = top.table("switches", problems);
    if addresses.is_none() && place == top.place {
        let remedy = "write the P4Runtime address of each switch: leaf1 = \"192.0.2.1:9559\"";
        top.missing("switches", remedy, problems);
    }
    let topology = network?;
    if let Some(message) = choice.as_ref().and_then(|c| c.misfit(&topology)) {
        problems.add(&top.place_of("scheme"), "scheme.name", message);
    }
    let mut p4runtime: Vec<Option<String>> = vec![None; topology.switches().len()];
    for (name, address) in addresses?.texts(problems) {
        let field = format!("switches.{}", name.value);
        let known = topology.switches().iter().position(|s| s.name == name.value);
        let Some(at) = known else {
            let some: Vec<&str> = topology.switches().iter().take(4).map(|s| s.name.as_str()).collect();
            let message =
                format!("no switch of this name; switches are called {} and so on", some.join(", "));
            problems.add(&name.place, field, message);
            continue;
        };
        if !is_host_port(&address) {
            problems.add(&name.place, field, format!("`{address}`: {HOST_PORT}"));
        } else if p4runtime.contains(&Some(address.clone())) {
            let message = format!("`{address}` is also another switch's address: correct one of the two");
            problems.add(&name.place, field, message);
        }
        p4runtime[at] = Some(address);
    }
    let id = |i: usize| &topology.switches()[SwitchId(i as u32).0 as usize].name;
    for (i, _) in p4runtime.iter().enumerate().filter(|(_, address)| address.is_none()) {
        let message = "missing: write its P4Runtime address, such as \"192.0.2.1:9559\"";
        problems.add(&place, format!("switches.{}", id(i)), message);
    }
    let p4runtime = p4runtime.into_iter().collect::<Option<Vec<String>>>()?;
    Some(Description { choice: choice?, program, p4runtime, topology })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "[network.leaf_spine]\nleaves = 2\nspines = 1\nhosts_per_leaf = 1\n\
        [scheme]\nname = \"hula\"\nprobe_period_us = 1000\n\
        [switches]\nspine1 = \"192.0.2.3:9559\"\nleaf1 = \"192.0.2.1:9559\"\nleaf2 = \"[2001:db8::2]:9559\"\n";

    #[test]
    fn addresses_are_in_the_order_of_switches() {
        assert!(is_network("fabric.toml", GOOD));
        let found = Description::read("fabric.toml", GOOD).expect("good");
        assert_eq!(found.p4runtime, ["192.0.2.1:9559", "[2001:db8::2]:9559", "192.0.2.3:9559"]);
        assert_eq!((found.choice.scheme.name, found.choice.setting("probe_period_us")), ("hula", 1000.0));
        assert_eq!((found.topology.hosts().len(), found.program), (2, None));
    }

    #[test]
    fn a_scheme_that_climbs_needs_tiers() {
        let flat = "[network]\nswitch = [{ name = \"a\" }, { name = \"b\" }]\n\
            host = [{ name = \"h1\", address = \"10.0.0.2\" }, { name = \"h2\", address = \"10.0.1.2\" }]\n\
            link = [{ ends = [\"h1\", \"a:1\"] }, { ends = [\"h2\", \"b:1\"] }, { ends = [\"a:2\", \"b:2\"] }]\n\
            [switches]\na = \"a:1\"\nb = \"b:1\"\n";
        for (scheme, fits) in
            [("ecmp", true), ("p4te", true), ("hula", false), ("conga", false), ("ours", false)]
        {
            let found = Description::read("fabric.toml", &format!("{flat}[scheme]\nname = \"{scheme}\"\n"));
            let error = found.map(|_| ()).map_err(|e| e.to_string());
            let right = match &error {
                Ok(()) => fits,
                Err(e) => !fits && e.contains(&format!("scheme.name: `{scheme}` chooses among links")),
            };
            assert!(right, "{scheme}: {error:?}");
        }
    }

    #[test]
    fn some_changes_need_a_restart() {
        let read = |text: &str| Description::read("fabric.toml", text).expect("good");
        let of = |from: &str, to: &str| read(GOOD).needs_restart(&read(&GOOD.replace(from, to)));
        assert_eq!(of("", ""), None);
        assert_eq!((of("= 1000", "= 2000"), of("hosts_per_leaf = 1", "hosts_per_leaf = 3")), (None, None));
        assert_eq!(of("192.0.2.3", "192.0.2.4"), Some("[switches]"));
        assert_eq!(of("\"hula\"\nprobe_period_us = 1000", "\"ecmp\""), Some("scheme.name"));
        assert_eq!(of("[switches]", "[program]\nfile = \"x.p4\"\n[switches]"), Some("program.file"));
        let more = GOOD.replace("leaves = 2", "leaves = 3") + "leaf3 = \"192.0.2.4:9559\"\n";
        assert_eq!(read(GOOD).needs_restart(&read(&more)), Some("[network]: the switches"));
    }

    #[test]
    fn mistakes_have_place_and_remedy() {
        for (from, to, part) in [
            ("leaves = 2", "leaves = 0", "fabric.toml:2"),
            ("name = \"hula\"", "name = \"hulla\"", "scheme.name: unknown scheme `hulla`"),
            ("probe_period_us = 1000", "probe_period_us = 0", "scheme.probe_period_us"),
            ("probe_period_us", "probe_perod_us", "scheme.probe_perod_us: unknown field"),
            ("[switches]", "[swiches]", "switches: missing"),
            ("leaf1 = ", "leaf7 = ", "switches.leaf7: no switch of this name"),
            ("leaf1 = ", "leaf7 = ", "switches.leaf1: missing"),
            ("192.0.2.1:9559", "192.0.2.1", "switches.leaf1: `192.0.2.1`: write host:port"),
            (
                "[2001:db8::2]",
                "2001:db8::2",
                "fabric.toml:11:1: switches.leaf2: `2001:db8::2:9559`: write host:port",
            ),
            ("[2001:db8::2]", "2001:db8::2", "or [2001:db8::1]:9559"),
            ("192.0.2.1:9559", "http://192.0.2.1:9559", "switches.leaf1: `http://192.0.2.1:9559`: write"),
            ("192.0.2.1:9559", "192.0.2.3:9559", "is also another switch's address"),
            ("\"192.0.2.1:9559\"", "9559", "switches.leaf1"),
        ] {
            let error =
                Description::read("fabric.toml", &GOOD.replace(from, to)).expect_err(part).to_string();
            assert!(error.contains(part), "{part}: {error}");
        }
        assert!(!is_network("rack.toml", "[switch]\n"));
    }

    #[test]
    fn settings_that_a_scheme_cannot_take_are_refused() {
        let of = |settings: &str| {
            let text = GOOD.replace("\"hula\"\nprobe_period_us = 1000", &format!("\"p4te\"\n{settings}"));
            Description::read("fabric.toml", &text).map_err(|e| e.to_string())
        };
        for (settings, part) in [
            (
                "red_percent = 50\ngreen_percent = 90",
                "fabric.toml:8:17: scheme.green_percent: 90 is above `red_percent`, which is 50: write at most 50",
            ),
            ("green_percent = 96", "scheme.green_percent: 96 is above `red_percent`, which is 95"),
            ("red_percent = 50", "scheme.green_percent: 75 is above `red_percent`"),
            ("large_dscp = 8.5", "fabric.toml:7:14: scheme.large_dscp"),
            ("large_dscp = 64", "scheme.large_dscp: 64 is out of range: write a whole number from 0 to 63"),
        ] {
            let error = of(settings).expect_err(part);
            assert!(error.contains(part), "{part}: {error}");
        }
        let both = of("large_dscp = 8\nclass_kib = 100").expect_err("both");
        let part = "fabric.toml:8:13: scheme.class_kib: it takes the place of `large_dscp`, which is also there: write one of the two";
        assert!(both.contains(part), "{both}");
        assert_eq!(of("large_dscp = 9\nclass_kib = 0").map(|d| d.choice.setting("large_dscp")), Ok(9.0));
        assert_eq!(of("class_kib = 100").map(|d| d.choice.setting("class_kib")), Ok(100.0));
        let text = GOOD.replace("= 1000", "= 1000\noverhead_percent = 1");
        let both = Description::read("fabric.toml", &text).expect_err("both").to_string();
        let part = "fabric.toml:8:20: scheme.overhead_percent: it takes the place of `probe_period_us`";
        assert!(both.contains(part), "{both}");
        let found = of("green_percent = 90\nred_percent = 90\nlarge_dscp = 46").expect("good");
        assert_eq!((found.choice.setting("large_dscp"), found.choice.setting("red_percent")), (46.0, 90.0));
    }
}
