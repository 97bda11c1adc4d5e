//! The programs of this repository. `POINTSMAN_WRITE_GOLDEN=1` replaces the expected reports by those found.

use crate::support::file;
use pointsman_pisa::arch::V1MODEL;
use pointsman_pisa::{BUDGET, BUILT_IN, Report, Target, resources};

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
