//! P4TE's published program for leaves against what its authors say of it (section 6.2). It is another project's:
//! `POINTSMAN_OTHERS` names a folder with `p4te`, a checkout of it.

use crate::support::compile_with;
use pointsman_needs::variable;
use pointsman_pisa::arch::V1MODEL;
use pointsman_pisa::{BUDGET, Target, resize, resources};

#[test]
fn the_published_leaf() {
    let Some(others) = variable("the_published_leaf", "POINTSMAN_OTHERS") else { return };
    let path = others.join("p4te/p4src/src/leaf.p4");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let defines = ["DP_ALGO_CP_ASSISTED_POLICY_ROUTING", "DP_BASED_RATE_CONTROL_ENABLED"];
    let mut program = compile_with(&path.to_string_lossy(), &text, &defines);
    // One entry for each group of ports.
    for (table, groups) in
        [("egr_queue_depth_based_upstream_path_table", 4), ("egr_port_rate_based_upstream_path_table", 3)]
    {
        assert!(resize(&mut program, table, groups));
    }
    let target = Target::named("rmt").expect("built in");
    let found = resources("leaf", &program, &V1MODEL, &target, BUDGET);
    // In the paper the longest chain and the stages are 26.
    assert_eq!((found.critical_path, found.lower_bound, found.used()), (8, 10, 10));
    // The claim that fails: one packet looks at the states of two ports, which are cells of one array.
    let objects: Vec<&str> = found.violations.iter().map(|v| v.object.as_str()).collect();
    assert_eq!(objects, ["egress_queue_rate_value_map"]);
}
