//! Chapter 4 of the thesis: P4Mite.

use super::figure::{Figure, Place};

/// In the thesis's order.
pub const FIGURES: &[Figure] = &[
    drawing("fig-4.1", "Overview of P4Mite", "thesis, section 4.2"),
    drawing("fig-4.2", "Layout of the data plane", "thesis, section 4.3"),
    Figure {
        id: "table-4.1",
        title: "Resources of the switch",
        source: "thesis, section 4.5.5",
        place: Place::Nowhere(
            "it counts resources of a Tofino chip, which Pointsman does not compile for; docs/policies.md has the stages \
             of each block",
        ),
        remarks: &[],
        claims: &[],
    },
];

const fn drawing(id: &'static str, title: &'static str, source: &'static str) -> Figure {
    Figure { id, title, source, place: Place::Nowhere("it is a drawing"), remarks: &[], claims: &[] }
}
