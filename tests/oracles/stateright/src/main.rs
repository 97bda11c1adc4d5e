//! Judges the histories of `crates/history/examples/histories.rs` with stateright's tester, and compares the verdicts.

use serde::Deserialize;
use stateright::semantics::{ConsistencyTester, LinearizabilityTester, SequentialSpec};
use std::process::ExitCode;

#[derive(Deserialize)]
struct Operation {
    call: u64,
    input: Option<u32>,
    #[serde(rename = "return")]
    end: Option<u64>,
    output: Option<u32>,
}

#[derive(Deserialize)]
struct History {
    of: String,
    linearizable: bool,
    operations: Vec<Operation>,
}

/// Both systems: a counter adds its input, a register takes it.
#[derive(Clone)]
struct System {
    counts: bool,
    value: u32,
}

impl SequentialSpec for System {
    type Op = Option<u32>;
    type Ret = u32;

    fn invoke(&mut self, input: &Option<u32>) -> u32 {
        self.value = match input {
            Some(n) if self.counts => self.value + n,
            Some(n) => *n,
            None => self.value,
        };
        self.value
    }
}

fn judge(history: &History) -> Result<bool, String> {
    let system = System { counts: history.of == "counter", value: 0 };
    let mut tester = LinearizabilityTester::new(system);
    // At equal times calls come first.
    let mut events: Vec<(u64, bool, usize)> = Vec::new();
    for (n, operation) in history.operations.iter().enumerate() {
        events.push((operation.call, false, n));
        events.extend(operation.end.map(|at| (at, true, n)));
    }
    events.sort_unstable();
    for (_, returns, n) in events {
        let operation = &history.operations[n];
        match returns {
            false => tester.on_invoke(n, operation.input)?,
            true => tester.on_return(n, operation.output.ok_or("a result without a value")?)?,
        };
    }
    Ok(tester.is_consistent())
}

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let (mut count, mut linearizable, mut differ) = (0, 0, 0);
    for line in std::io::stdin().lines() {
        let line = line?;
        let history: History = serde_json::from_str(&line)?;
        let found = judge(&history)?;
        count += 1;
        linearizable += usize::from(found);
        if found != history.linearizable {
            differ += 1;
            println!("differs: {line}");
        }
    }
    println!("stateright: {count} histories, {linearizable} linearizable, {differ} verdicts differ");
    let both = linearizable > 0 && linearizable < count;
    Ok(if differ == 0 && both { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
