//! Graphs whose best placement is known: by hand, or because all placements were tried.

use pointsman_pisa::{
    Amounts, BUDGET, Demand, Dependency, Graph, GraphFile, MOST_ENTRIES, Matching, Node, NodeKind, Resource,
    Target, place, resources_of_graph,
};
use std::collections::BTreeMap;

/// A table whose entries take so many blocks of SRAM, in one stage or several.
fn blocks(name: &str, blocks: u64) -> Node {
    let demand =
        Demand { matching: Matching::Exact, key_bits: 80, entries: 1024 * blocks, ..Demand::default() };
    Node { name: name.into(), kind: NodeKind::Table, demand }
}

/// rmt with so many blocks of SRAM in a stage, and tables up to this number.
fn small(sram: u64, tables: u64) -> Target {
    let mut target = Target::named("rmt").expect("built in");
    target.per_stage[Resource::Sram] = sram;
    target.per_stage[Resource::Tables] = tables;
    target.per_stage[Resource::ExactTables] = tables;
    target.sram.widest = 1;
    target
}

fn graph(sizes: &[u64], edges: &[(usize, usize, Dependency)]) -> Graph {
    let nodes = sizes.iter().enumerate().map(|(i, s)| blocks(&format!("t{i}"), *s)).collect();
    Graph::new(nodes, edges.iter().map(|(a, b, d)| ((*a, *b), *d)).collect()).expect("no circle")
}

#[test]
fn dependencies_take_stages() {
    let chain = |d: Dependency| graph(&[1, 1, 1], &[(0, 1, d), (1, 2, d)]);
    for (d, stages) in
        [(Dependency::Match, 3), (Dependency::Action, 3), (Dependency::Control, 1), (Dependency::Reverse, 1)]
    {
        assert_eq!(chain(d).critical_path(), stages);
        let placed = place(&chain(d), &small(10, 8), BUDGET);
        assert_eq!((placed.placement.used, placed.lower_bound), (stages, stages), "{d:?}");
    }
}

#[test]
fn large_tables_take_several_stages_and_those_behind_them_wait() {
    // 25 blocks in stages of 10, then one more stage.
    let placed = place(&graph(&[25, 1], &[(0, 1, Dependency::Match)]), &small(10, 8), BUDGET);
    assert_eq!((placed.placement.used, placed.lower_bound), (4, 4));
    // With a control dependency the last one fits into the third stage.
    let placed = place(&graph(&[25, 1], &[(0, 1, Dependency::Control)]), &small(10, 8), BUDGET);
    assert_eq!((placed.placement.used, placed.lower_bound), (3, 3));
    let sram: Vec<u64> = placed.per_stage.iter().map(|s| s[Resource::Sram]).collect();
    assert_eq!(sram.iter().sum::<u64>(), 26);
}

#[test]
fn the_number_of_tables_is_a_limit() {
    let placed = place(&graph(&[1; 7], &[]), &small(100, 3), BUDGET);
    assert_eq!((placed.placement.used, placed.lower_bound), (3, 3));
}

/// The search finds what no list heuristic does: the large table behind a short chain goes first.
#[test]
fn the_search_is_better_than_the_heuristics_somewhere() {
    let mut better = 0;
    let mut random = Random(7);
    for _ in 0..300 {
        let (sizes, edges) = random.graph(7, 9);
        let placed = place(&graph(&sizes, &edges), &small(10, 3), BUDGET);
        better += u32::from(placed.placement.used < placed.greedy);
    }
    assert!(better > 0, "the search never found anything");
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }

    /// Tables of up to `largest` blocks with dependencies at random.
    fn graph(&mut self, most: u64, largest: u64) -> (Vec<u64>, Vec<(usize, usize, Dependency)>) {
        let n = 2 + self.below(most - 1) as usize;
        let sizes = (0..n).map(|_| 1 + self.below(largest)).collect();
        let mut edges = Vec::new();
        for b in 0..n {
            for a in 0..b {
                let kinds = [Dependency::Match, Dependency::Action, Dependency::Control, Dependency::Reverse];
                if self.below(4) == 0 {
                    edges.push((a, b, kinds[self.below(4) as usize]));
                }
            }
        }
        (sizes, edges)
    }
}

/// The fewest stages for unit-sized pieces: tries every number of blocks of every table in every stage.
fn fewest(sizes: &[u64], edges: &[(usize, usize, Dependency)], sram: u64, tables: u64) -> u32 {
    struct All<'a> {
        edges: &'a [(usize, usize, Dependency)],
        sram: u64,
        tables: u64,
        known: BTreeMap<(Vec<u64>, Vec<u32>), u32>,
    }
    // `done`: for each complete table, 1 if it ended in the stage before, 2 if earlier.
    fn stages(all: &mut All<'_>, left: &[u64], done: &[u32]) -> u32 {
        if left.iter().all(|l| *l == 0) {
            return 0;
        }
        if let Some(known) = all.known.get(&(left.to_vec(), done.to_vec())) {
            return *known;
        }
        let mut least = u32::MAX;
        let mut choice = vec![0; left.len()];
        // Counts up through all choices.
        while let Some(i) = (0..choice.len()).find(|i| choice[*i] < left[*i]) {
            choice[i] += 1;
            choice[..i].fill(0);
            let took: u64 = choice.iter().sum();
            let used = choice.iter().filter(|c| **c > 0).count() as u64;
            let ready = |(a, b, d): &(usize, usize, Dependency)| {
                choice[*b] == 0
                    || if d.stages() == 0 { left[*a] == choice[*a] } else { left[*a] == 0 && done[*a] > 0 }
            };
            if took <= all.sram && used <= all.tables && all.edges.iter().all(ready) {
                let next: Vec<u64> = left.iter().zip(&choice).map(|(l, c)| l - c).collect();
                let done: Vec<u32> = next.iter().map(|l| u32::from(*l == 0)).collect();
                least = least.min(stages(all, &next, &done).saturating_add(1));
            }
        }
        all.known.insert((left.to_vec(), done.to_vec()), least);
        least
    }
    let done = vec![0; sizes.len()];
    stages(&mut All { edges, sram, tables, known: BTreeMap::new() }, sizes, &done)
}

#[test]
fn the_search_is_exact_and_bounds_are_bounds() {
    let mut random = Random(1);
    for round in 0..150 {
        let (sizes, edges) = random.graph(4, 4);
        let best = fewest(&sizes, &edges, 4, 2);
        let placed = place(&graph(&sizes, &edges), &small(4, 2), BUDGET);
        let why = format!("round {round}: {sizes:?} {edges:?}");
        assert_eq!((placed.placement.used, placed.lower_bound), (best, best), "{why}");
        assert!(placed.greedy >= best, "{why}");
        // Without a budget there is no proof, but nothing wrong either.
        let unproved = place(&graph(&sizes, &edges), &small(4, 2), 0);
        assert_eq!(unproved.placement.used, unproved.greedy, "{why}");
        assert!(unproved.lower_bound <= best && unproved.placement.used >= best, "{why}");
    }
}

/// Every placement keeps to dependencies and capacities.
#[test]
fn placements_are_possible() {
    let mut random = Random(2);
    for round in 0..200 {
        let (sizes, edges) = random.graph(12, 25);
        let (graph, target) = (graph(&sizes, &edges), small(10, 3));
        let placed = place(&graph, &target, 200_000);
        let stages = |node: usize| {
            let mine = placed.placement.parts.iter().filter(move |p| p.node == node);
            mine.fold((u32::MAX, 0, 0), |(first, last, units), p| {
                (first.min(p.stage), last.max(p.stage), units + p.units)
            })
        };
        for (i, size) in sizes.iter().enumerate() {
            assert_eq!(stages(i).2, *size, "round {round}");
        }
        for (a, b, d) in &edges {
            assert!(stages(*a).1 + d.stages() <= stages(*b).0, "round {round}: {a} {b} {d:?}");
        }
        assert!(placed.per_stage.iter().all(|s: &Amounts| s.fits(&target.per_stage)), "round {round}");
        assert!(placed.lower_bound <= placed.placement.used && placed.placement.used <= placed.greedy);
    }
}

#[test]
fn a_smaller_chip_never_fits_more() {
    let mut random = Random(3);
    for _ in 0..100 {
        let (sizes, edges) = random.graph(6, 8);
        let used = |sram, tables| place(&graph(&sizes, &edges), &small(sram, tables), BUDGET).placement.used;
        let all = used(10, 4);
        assert!(used(9, 4) >= all && used(10, 3) >= all, "{sizes:?} {edges:?}");
    }
}

#[test]
fn what_no_stage_holds_is_named() {
    let wide = Demand { matching: Matching::Exact, key_bits: 800, entries: 10, ..Demand::default() };
    let node = Node { name: "wide".into(), kind: NodeKind::Table, demand: wide };
    let graph = Graph::new(vec![node, blocks("narrow", 1)], BTreeMap::new()).expect("no circle");
    let report = resources_of_graph("g", &graph, &Target::named("rmt").expect("built in"), BUDGET);
    assert!(!report.fits());
    let found: Vec<(&str, &str)> =
        report.violations.iter().map(|v| (v.object.as_str(), v.why.as_str())).collect();
    let word = "an entry takes 10 blocks of sram side by side, and rmt has words of at most 4";
    assert_eq!(found, [("wide", word), ("wide", "it takes 100 bytes of exact crossbar, and a stage has 80")]);
}

/// rmt: 4 blocks with 80 bits for keys. tofino: 8 blocks of 128 bits, of which an entry's version takes 4.
#[test]
fn words_are_not_wider_than_a_chip_packs() {
    for (chip, key_bits, blocks) in
        [("rmt", 320, None), ("rmt", 321, Some(5)), ("tofino", 1020, None), ("tofino", 1021, Some(9))]
    {
        let target = Target::named(chip).expect("built in");
        let demand = Demand { matching: Matching::Exact, key_bits, entries: 10, ..Demand::default() };
        let node = Node { name: "wide".into(), kind: NodeKind::Table, demand };
        let graph = Graph::new(vec![node, self::blocks("small", 1)], BTreeMap::new()).expect("no circle");
        let report = resources_of_graph("g", &graph, &target, BUDGET);
        let found: Vec<String> =
            report.violations.iter().map(|v| format!("{}: {}", v.object, v.why)).collect();
        let widest = target.sram.widest;
        let expected = blocks.map(|n| {
            format!("wide: an entry takes {n} blocks of sram side by side, and {chip} has words of at most {widest}")
        });
        assert_eq!(found, expected.into_iter().collect::<Vec<_>>(), "{chip} {key_bits}");
    }
}

/// Neither memory nor time grows with the size of a table that no chip can hold.
#[test]
fn a_table_of_too_many_stages_is_named_and_placed_in_one() {
    let target = Target::named("rmt").expect("built in");
    let huge =
        Demand { matching: Matching::Ternary, key_bits: 32, entries: MOST_ENTRIES, ..Demand::default() };
    let node = Node { name: "huge".into(), kind: NodeKind::Table, demand: huge };
    let graph = Graph::new(vec![node, blocks("small", 1)], BTreeMap::new()).expect("no circle");
    let report = resources_of_graph("g", &graph, &target, BUDGET);
    assert_eq!((report.used(), report.lower_bound), (1, 1));
    let found: Vec<(&str, &str)> =
        report.violations.iter().map(|v| (v.object.as_str(), v.why.as_str())).collect();
    // 2^32 entries in blocks of 2,048, of which a stage has 16.
    assert_eq!(found, [("huge", "it takes 131072 stages, and rmt has 32")]);
}

#[test]
fn circles_are_refused() {
    let edges = [((0, 1), Dependency::Match), ((1, 0), Dependency::Reverse)];
    let circle = Graph::new(vec![blocks("a", 1), blocks("b", 1)], edges.into()).expect_err("a circle");
    assert_eq!(circle.0, ["a", "b"]);
    let text = "name = \"g\"\n[[table]]\nname = \"a\"\nmatch = \"none\"\ncontrol_after = [\"b\"]\n[[table]]\nname = \"b\"\n\
                match = \"none\"\nmatch_after = [\"a\"]\n";
    let errors = GraphFile::read("g.toml", text).expect_err("a circle").to_string();
    assert!(errors.contains("in a circle: a, b"), "{errors}");
}
