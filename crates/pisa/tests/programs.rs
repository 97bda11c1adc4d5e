//! The programs of this repository. `POINTSMAN_WRITE_GOLDEN=1` replaces the expected reports by those found.

use crate::support::file;
use pointsman_pisa::arch::V1MODEL;
use pointsman_pisa::{BUDGET, BUILT_IN, Report, Target, resize, resources};

fn report(program: &str, target: &str, budget: u64) -> Report {
    let path = format!("p4/programs/{program}/main.p4");
    let target = Target::named(target).expect("built in");
    resources(&path, &file(&path), &V1MODEL, &target, budget)
}

#[test]
fn ecmp_is_as_expected() {
    for (target, _) in BUILT_IN {
        let found = report("ecmp", target, BUDGET);
        let path = format!("{}/tests/golden/ecmp-{target}.txt", env!("CARGO_MANIFEST_DIR"));
        if std::env::var_os("POINTSMAN_WRITE_GOLDEN").is_some() {
            std::fs::write(&path, found.text()).expect("it can be written");
        }
        let expected = std::fs::read_to_string(&path).expect("it can be read");
        assert!(found.text() == expected, "{path} differs from what is found:\n{}", found.text());
        // The same again, bit for bit.
        assert_eq!(found.json(), report("ecmp", target, BUDGET).json());
    }
}

#[test]
fn the_balancer_fits_no_chip_and_the_reasons_are_named() {
    for (target, _) in BUILT_IN {
        let found = report("balancer", target, 0);
        assert!(!found.fits() && found.used() > found.target.stages, "{target}");
        assert!(found.critical_path <= found.lower_bound && found.lower_bound <= found.used(), "{target}");
        let why = |object: &str| {
            let of = found.violations.iter().filter(|v| v.object == format!("BalancerIngress.{object}"));
            of.map(|v| v.why.as_str()).collect::<Vec<_>>().join("; ")
        };
        // Counts of connections of the new and of the old device: README.md of the balancer names it, too.
        assert!(why("load.device0.in_flight").contains("with different indices"), "{target}");
        // Found, and then written where a new connection is kept.
        assert!(why("connections.way0.low").contains("may access it twice"), "{target}");
    }
}

#[test]
fn a_table_of_any_size_has_a_report() {
    for entries in [1 << 33, u64::MAX] {
        let mut program = file("p4/programs/ecmp/main.p4");
        assert!(resize(&mut program, "routes_v4", entries));
        let found = resources("ecmp", &program, &V1MODEL, &Target::named("tofino").expect("built in"), 0);
        let of = found.violations.iter().filter(|v| v.object == "EcmpIngress.routes_v4");
        let why: Vec<&str> = of.map(|v| v.why.as_str()).collect();
        let [counted, stages] = why.as_slice() else { panic!("{why:?}") };
        let expected =
            format!("it has {entries} entries, members or cells, and at most 4294967296 are counted");
        assert_eq!(*counted, expected);
        assert!(
            stages.starts_with("it takes ") && stages.ends_with(" stages, and tofino has 12"),
            "{stages}"
        );
    }
}

/// Every stage keeps to the chip's capacities, and the totals are those of the stages.
#[test]
fn totals_are_sums() {
    for program in ["acl", "router", "ecmp"] {
        let found = report(program, "tofino", BUDGET);
        for (r, used, available) in found.totals() {
            assert_eq!(used, found.per_stage.iter().map(|s| s[r]).sum::<u64>(), "{program} {}", r.name());
            assert_eq!(available, found.target.per_stage[r] * u64::from(found.target.stages));
            assert!(
                found.per_stage.iter().all(|s| s[r] <= found.target.per_stage[r]),
                "{program} {}",
                r.name()
            );
        }
    }
}

/// More stages and more memory: what fits the smaller chip fits the larger one.
#[test]
fn a_larger_chip_fits_what_the_smaller_one_fits() {
    let fits = |program, target| report(program, target, BUDGET).fits();
    for program in ["acl", "router", "ecmp"] {
        assert!(!fits(program, "tofino") || fits(program, "tofino2"), "{program}");
    }
    assert!(!fits("acl", "tofino") && fits("acl", "tofino2"));
}
