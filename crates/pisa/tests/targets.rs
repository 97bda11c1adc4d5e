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
    refused_of(BUILT_IN[0], from, to, line, field, message);
}

fn refused_of((_, text): (&str, &str), from: &str, to: &str, line: usize, field: &str, message: &str) {
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

/// By tofino.toml, where hash bits, map RAM and spare blocks are counted, too.
#[test]
fn stages_that_contradict_themselves() {
    let tofino = |from: &str, to: &str, field: &str, message: &str| {
        refused_of(BUILT_IN[1], from, to, 0, field, message);
    };
    let word = "a word of SRAM has 128 bits: write at most 128";
    tofino("overhead_bits = 4", "overhead_bits = 200", "sram.overhead_bits", word);
    tofino("immediate_bits = 32", "immediate_bits = 4096", "sram.immediate_bits", word);
    tofino("widest_bits = 64", "widest_bits = 4096", "arrays.widest_bits", word);
    tofino("ways = 4", "ways = 81", "sram.ways", "a stage has 80: write at most 80");
    tofino("hash_bits = 416", "hash_bits = 39", "per_stage.hash_bits", "take 40 bits: write at least 40");
    tofino("gateway_bits = 44", "gateway_bits = 1025", "gateway_bits", "has 1024 bits: write at most 1024");
    // Map RAM is less than SRAM.
    tofino("spare_blocks = 1", "spare_blocks = 48", "arrays.spare_blocks", "write at most 47");
    let none = "no key reaches a table: write at least 1, or";
    tofino("exact_crossbar = 128", "exact_crossbar = 0", "per_stage.exact_crossbar", none);
    tofino("ternary_crossbar = 66", "ternary_crossbar = 0", "per_stage.ternary_crossbar", none);
    tofino("logical_tables = 16", "logical_tables = 0", "per_stage.logical_tables", "write at least 1");
    // Without the number of hash bits, and without map RAM.
    refused("ways = 0", "ways = 107", 0, "sram.ways", "a stage has 106: write at most 106");
    refused("spare_blocks = 0", "spare_blocks = 106", 0, "arrays.spare_blocks", "write at most 105");
}

/// What is at the limit of the above, or has no use, is a chip.
#[test]
fn stages_at_their_limits() {
    for (from, to) in [
        ("overhead_bits = 4", "overhead_bits = 128"),
        ("immediate_bits = 32", "immediate_bits = 128"),
        ("widest_bits = 64", "widest_bits = 128"),
        ("hash_bits = 416", "hash_bits = 40"),
        ("gateway_bits = 44", "gateway_bits = 1024"),
        ("spare_blocks = 1", "spare_blocks = 47"),
        ("logical_tables = 16", "logical_tables = 8"),
        ("map_ram = 48", "map_ram = 0"),
        ("ternary_tables = 8", "ternary_tables = 0"),
        ("ternary_crossbar = 66", "ternary_crossbar = 0"),
    ] {
        let (_, text) = BUILT_IN[1];
        assert!(text.contains(from), "no `{from}`");
        let text = text.replacen(from, to, 1);
        // Nothing ternary needs no crossbar for it.
        let text =
            if to.starts_with("ternary_crossbar") { text.replace("tcam = 24", "tcam = 0") } else { text };
        if let Err(errors) = Target::read("t.toml", &text) {
            panic!("{to}: {errors}");
        }
    }
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
