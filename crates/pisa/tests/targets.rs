//! Targets and table graphs as files: what is read, and what is refused.

use pointsman_pisa::{BUILT_IN, GraphFile, Resource, Target};

/// fabric-te-facts: the chips' numbers.
#[test]
fn built_in_targets() {
    for (name, text) in BUILT_IN {
        let target = Target::read(name, text).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(target.name, name);
        assert_eq!(Target::named(name), Some(target));
    }
    let all = |name: &str| Target::named(name).expect("built in");
    assert_eq!(["rmt", "tofino", "tofino2"].map(|n| all(n).stages), [32, 12, 20]);
    assert_eq!(all("tofino").total(Resource::Sram), 960);
    assert_eq!(all("tofino").total(Resource::HashBits), 4992);
    assert_eq!(all("rmt").phv.words, [64, 96, 64]);
    assert!(Target::named("tofino9").is_none());
}

/// Changes a line of rmt.toml; the one error has this place and text.
fn refused(from: &str, to: &str, line: usize, field: &str, message: &str) {
    let (_, text) = BUILT_IN[0];
    assert!(text.contains(from), "no `{from}`");
    let errors = Target::read("t.toml", &text.replacen(from, to, 1)).expect_err(to);
    let [e] = errors.0.as_slice() else { panic!("{from} to {to}: {errors}") };
    assert!(e.field == field && e.message.contains(message), "{from} to {to}: {e}");
    let expected = text.lines().position(|l| l.contains(from)).map(|n| n + 1);
    assert_eq!(Some(e.line), if line == 0 { expected } else { Some(line) }, "{e}");
}

#[test]
fn targets_that_contradict_themselves() {
    refused("stages = 32", "stages = 0", 0, "stages", "from 1 to");
    refused("stages = 32", "stages = 4097", 0, "stages", "from 1 to 4096");
    refused("stages = 32", "stages = \"many\"", 0, "stages", "write a whole number");
    refused("sram = 106", "sram = 3", 0, "per_stage.sram", "`sram.widest` is 4, and a stage has 3 blocks");
    refused("exact_tables = 8", "exact_tables = 17", 0, "per_stage.exact_tables", "at most 16");
    refused("exact_crossbar = 80", "exact_crossbar = 9", 0, "per_stage.exact_crossbar", "units of 80 bits");
    refused("key_bits = 80", "key_bits = 113", 0, "sram.key_bits", "write at most 112");
    refused("prefixes = true", "prefixes = 1", 0, "tcam.prefixes", "true or false");
    // Told at the line of the words.
    let (_, text) = BUILT_IN[0];
    let line = text.lines().position(|l| l.starts_with("words_16")).map_or(0, |n| n + 1);
    refused(
        "group = 0",
        "group = 64",
        line,
        "phv.words_16",
        "96 words are not a multiple of the group of 64",
    );
    refused("ways = 0", "ways = 0\nway = 3", 30, "sram.way", "known here");
}

#[test]
fn missing_parts_are_named() {
    let errors =
        Target::read("t.toml", "name = \"x\"\nstages = 3\n").expect_err("much is missing").to_string();
    for part in ["gateway_bits", "per_stage", "sram", "tcam", "crossbar", "arrays", "phv"] {
        assert!(errors.contains(&format!("{part}: missing")), "{part} in {errors}");
    }
    let errors = Target::read("t.toml", "name = ").expect_err("not TOML").to_string();
    assert!(errors.starts_with("t.toml:1:"), "{errors}");
}

#[test]
fn bad_graphs() {
    let table = |more: &str| format!("name = \"g\"\n[[table]]\nname = \"a\"\n{more}\n");
    let good = "match = \"exact\"\nkey_bits = 8\nentries = 4";
    assert!(GraphFile::read("g", &table(good)).is_ok());
    for (more, message) in [
        ("match = \"fuzzy\"\nkey_bits = 8\nentries = 4", "write none, exact, lpm or ternary"),
        ("match = \"exact\"\nentries = 4", "table.key_bits: missing"),
        ("match = \"exact\"\nkey_bits = 8\nentries = 0", "from 1 to"),
        ("match = \"none\"\nmatch_after = [\"b\"]", "unknown table `b`"),
        ("match = \"none\"\nmatch_after = [\"a\"]", "cannot depend on itself"),
        ("match = \"none\"\nwidth = 3", "unknown field"),
        ("match = \"none\"\n[[table]]\nname = \"a\"\nmatch = \"none\"", "already a table `a`"),
    ] {
        let errors = GraphFile::read("g", &table(more)).expect_err(more).to_string();
        assert!(errors.contains(message) && errors.lines().count() == 1, "{more}: {errors}");
    }
    let empty = GraphFile::read("g", "name = \"g\"").expect_err("no tables").to_string();
    assert!(empty.contains("at least one [[table]]"), "{empty}");
}
