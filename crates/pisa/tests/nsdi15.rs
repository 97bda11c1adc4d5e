//! The four table graphs of Jose et al., "Compiling Packet Programs to Reconfigurable Switches" (NSDI 2015). They are data of another
//! project and not part of this one: `POINTSMAN_OTHERS` names a folder with `nsdi15/l2l3_simple.toml` and so on, written in the
//! format of docs/resources.md from the tables in its authors' published mapper. The stages by their heuristics are with 16 blocks of
//! SRAM reserved.

use pointsman_needs::variable;
use pointsman_pisa::{BUDGET, BUILT_IN, GraphFile, Placed, Target, place};
use std::path::Path;

const GRAPHS: [(&str, u32); 4] =
    [("l2l3_simple", 19), ("l2l3_simple_mtag", 20), ("l2l3_complex", 21), ("l3_dc", 7)];

fn placed(others: &Path, target: &Target) -> Vec<Placed> {
    let all = GRAPHS.map(|(name, theirs)| {
        let path = others.join("nsdi15").join(name).with_extension("toml");
        let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let file = GraphFile::read(name, &text).unwrap_or_else(|e| panic!("{e}"));
        let placed = place(&file.graph, target, BUDGET);
        assert!(placed.too_large.is_empty(), "{name}: {:?}", placed.too_large);
        assert!(placed.placement.used <= theirs, "{name}: {} stages", placed.placement.used);
        placed
    });
    all.into()
}

fn stages(placed: &[Placed]) -> Vec<[u32; 3]> {
    placed.iter().map(|p| [p.lower_bound, p.placement.used, p.greedy]).collect()
}

#[test]
fn no_more_stages_than_their_heuristics() {
    let Some(others) = variable("no_more_stages_than_their_heuristics", "POINTSMAN_OTHERS") else { return };
    let target = Target::named("rmt").expect("built in");
    // Lower bound, best placement, heuristics: three of the four are proved to be best.
    assert_eq!(stages(&placed(&others, &target)), [[19, 19, 19], [19, 19, 19], [16, 17, 19], [7, 7, 7]]);
}

/// Their mapper rounds the blocks down to 1,000 and 2,000 rows, and has 80 bits for action data, too.
#[test]
fn nor_on_the_chip_as_their_mapper_describes_it() {
    let Some(others) = variable("nor_on_the_chip_as_their_mapper_describes_it", "POINTSMAN_OTHERS") else {
        return;
    };
    let (_, text) = BUILT_IN[0];
    let mut theirs = text.to_string();
    for (ours, other) in [("= 1024", "= 1000"), ("= 2048", "= 2000"), ("bits = 112", "bits = 80")] {
        assert!(theirs.contains(ours));
        theirs = theirs.replace(ours, other);
    }
    let target = Target::read("theirs.toml", &theirs).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(stages(&placed(&others, &target)), [[19, 19, 19], [19, 19, 19], [16, 17, 19], [7, 7, 7]]);
}
