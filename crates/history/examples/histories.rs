//! Random small histories of a counter and of a register, as JSON, with our verdict: one per line. The argument is their number. The
//! programs in `tests/oracles` judge them with other checkers.

#[path = "../tests/small/mod.rs"]
mod small;

use pointsman_history::{Operation, Specification, Verdict, search};
use pointsman_wire::Random;
use serde_json::{Value, json};
use small::{Counter, Register, counter_history, register_history};
use std::io::{BufWriter, Write, stdout};

fn line<S: Specification>(name: &str, mut of: S, operations: &[Operation<S::Input, S::Output>]) -> Value
where
    S::Input: serde::Serialize,
    S::Output: serde::Serialize,
{
    let verdict = search(&mut of, operations, 10_000_000);
    let each = operations.iter().map(|o| match &o.result {
        Some((at, output)) => json!({"call": o.call, "input": o.input, "return": at, "output": output}),
        None => json!({"call": o.call, "input": o.input}),
    });
    json!({"of": name, "linearizable": verdict == Verdict::Linearizable, "operations": each.collect::<Vec<_>>()})
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let count: u64 = std::env::args().nth(1).ok_or("usage: histories COUNT")?.parse()?;
    let mut random = Random::new(11);
    let mut out = BufWriter::new(stdout().lock());
    for n in 0..count {
        let line = match n % 2 {
            0 => line("counter", Counter, &counter_history(&mut random)),
            _ => line("register", Register, &register_history(&mut random)),
        };
        writeln!(out, "{line}")?;
    }
    Ok(out.flush()?)
}
