//! The tests of this crate in network namespaces: one program, because each costs a link. `pointsman_lab::harness` runs them.

mod hints;
mod rates;
mod tcp;
mod wire;

use std::process::ExitCode;

fn main() -> ExitCode {
    pointsman_lab::harness::run(
        "lab",
        &[("wire", wire::TESTS), ("hints", hints::TESTS), ("rates", rates::TESTS), ("tcp", tcp::TESTS)],
        &[],
    )
}
