//! Commands that nodes run at given times, as in p4-utils's `tasks_file`: one a line, with node, start, duration and command.

use crate::fields::{Problem, Problems};
use serde_json::{Map, Value};
use std::fmt;
use std::time::Duration;

/// Functions of [`TRAFFIC`] that may be named without it.
const FUNCTIONS: &[&str] = &["send_udp_flow", "recv_udp_flow"];
/// p4-utils' module of functions for tasks.
const TRAFFIC: &str = "p4utils.utils.traffic_utils";
/// Calls a function of a module, with arguments as JSON.
const CALL: &str = "import importlib, json, sys\nmodule, name, values, named = sys.argv[1:]\n\
    getattr(importlib.import_module(module), name)(*json.loads(values), **json.loads(named))";
/// No task starts later, or runs longer.
const MOST_S: f64 = 1e7;
/// A task that does not end is killed so long after it was asked to.
const GRACE: Duration = Duration::from_secs(1);

/// A command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// The host or switch.
    pub node: String,
    /// After the start of the network.
    pub start: Duration,
    /// It ends then; `None`: with the network.
    pub duration: Option<Duration>,
    /// Program and arguments.
    pub words: Vec<String>,
    /// The line in the file.
    pub line: usize,
}

/// What is wrong with the line of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
enum TaskError {
    /// Too few words.
    Words,
    /// No node has this name.
    NoNode(String),
    /// Not a time.
    Time(String),
    /// A quote without its end.
    Open,
    /// An argument of a function without a value.
    NoValue(String),
}

impl fmt::Display for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TaskError::Words => f.write_str("write NODE START DURATION COMMAND, with times in seconds"),
            TaskError::NoNode(node) => write!(f, "no host or switch is called `{node}`: correct the name"),
            TaskError::Time(text) => write!(
                f,
                "`{text}` is not a time: write a number of seconds, at most {MOST_S}; a duration of 0 has no end"
            ),
            TaskError::Open => f.write_str("a `\"` is never closed: add one"),
            TaskError::NoValue(word) => write!(f, "`{word}` has no value: write one behind it"),
        }
    }
}

impl std::error::Error for TaskError {}

/// Something to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// Kill the task.
    Kill(usize),
    /// Ask the task to end.
    End(usize),
    /// Start the task.
    Start(usize),
}

/// What is to do for these tasks, in the order of time.
pub fn steps(tasks: &[Task]) -> Vec<(Duration, Step)> {
    let of = |(i, task): (usize, &Task)| {
        let end = task.duration.map(|duration| task.start + duration);
        let ends = end.into_iter().flat_map(move |at| [(at, Step::End(i)), (at + GRACE, Step::Kill(i))]);
        std::iter::once((task.start, Step::Start(i))).chain(ends)
    };
    let mut steps: Vec<_> = tasks.iter().enumerate().flat_map(of).collect();
    steps.sort();
    steps
}

/// Reads a file of tasks. `has` says which nodes exist.
///
/// # Errors
/// All lines that are wrong.
pub fn read(text: &str, has: impl Fn(&str) -> bool) -> Result<Vec<Task>, Problems> {
    let (mut tasks, mut problems) = (Vec::new(), Problems::new());
    for (line, text) in (1..).zip(text.lines()) {
        if text.trim().is_empty() || text.starts_with('#') || text.starts_with("//") {
            continue;
        }
        match task(line, text, &has) {
            Ok(task) => tasks.push(task),
            Err(e) => {
                problems.push(Problem { place: format!("line {line}"), what: e.to_string() });
            }
        }
    }
    if problems.is_empty() { Ok(tasks) } else { Err(problems) }
}

fn task(line: usize, text: &str, has: &impl Fn(&str) -> bool) -> Result<Task, TaskError> {
    let words = words(text)?;
    let [node, start, duration, command, more @ ..] = &words[..] else {
        return Err(TaskError::Words);
    };
    if !has(node) {
        return Err(TaskError::NoNode(node.clone()));
    }
    let [start, duration] = [start, duration].map(|text| seconds(text));
    let duration = Some(duration?).filter(|d| !d.is_zero());
    Ok(Task { node: node.clone(), start: start?, duration, words: program(command, more)?, line })
}

fn seconds(text: &str) -> Result<Duration, TaskError> {
    let number = text.parse().ok().filter(|s| (0.0..=MOST_S).contains(s));
    number.map(Duration::from_secs_f64).ok_or_else(|| TaskError::Time(text.to_string()))
}

/// Words between spaces. Double quotes hold several words together.
fn words(text: &str) -> Result<Vec<String>, TaskError> {
    let parts: Vec<&str> = text.split('"').collect();
    if parts.len().is_multiple_of(2) {
        return Err(TaskError::Open);
    }
    let mut out = Vec::new();
    for (i, part) in parts.into_iter().enumerate() {
        match i % 2 {
            0 => out.extend(part.split_whitespace().map(str::to_string)),
            _ => out.push(part.to_string()),
        }
    }
    Ok(out)
}

/// A command line for a shell, or a Python function with `--mod MODULE` among its arguments.
fn program(command: &str, more: &[String]) -> Result<Vec<String>, TaskError> {
    if !FUNCTIONS.contains(&command) && !more.iter().any(|word| word == "--mod") {
        let line = std::iter::once(command).chain(more.iter().map(String::as_str));
        return Ok(["sh".to_string(), "-c".to_string(), line.collect::<Vec<_>>().join(" ")].into());
    }
    let (mut module, mut values, mut named) = (TRAFFIC, Vec::new(), Map::new());
    let mut rest = more.iter();
    while let Some(word) = rest.next() {
        match word.strip_prefix("--").filter(|key| !key.is_empty()) {
            None => values.push(Value::from(word.as_str())),
            Some(key) => {
                let value = rest.next().ok_or_else(|| TaskError::NoValue(word.clone()))?;
                if key == "mod" {
                    module = value;
                } else {
                    named.insert(key.to_string(), Value::from(value.as_str()));
                }
            }
        }
    }
    let (values, named) = (Value::from(values).to_string(), Value::from(named).to_string());
    Ok(["python3", "-c", CALL, module, command, &values, &named].map(str::to_string).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reads(text: &str) -> Result<Vec<Task>, String> {
        let has = |node: &str| node == "h1" || node == "s1";
        read(text, has).map_err(|all| all.iter().map(|p| format!("{p}\n")).collect())
    }

    #[test]
    fn lines() {
        let text = "# comment\n\n// comment\nh1 10.5 30 \"ping 10.0.3.3\"\ns1 0 0 sleep 5\n\
            h1 1 2 send_udp_flow 10.0.0.2 --dport 5051 --rate 1M\nh1 1 2 talk --mod my.module\n";
        let tasks = reads(text).expect("tasks");
        let shown: Vec<String> = tasks
            .iter()
            .map(|t| t.words.iter().filter(|w| *w != CALL).map(String::as_str).collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(
            shown,
            [
                "sh -c ping 10.0.3.3",
                "sh -c sleep 5",
                "python3 -c p4utils.utils.traffic_utils send_udp_flow [\"10.0.0.2\"] {\"dport\":\"5051\",\"rate\":\"1M\"}",
                "python3 -c my.module talk [] {}",
            ]
        );
        let times: Vec<_> =
            tasks.iter().map(|t| (t.line, t.start.as_millis(), t.duration.map(|d| d.as_secs()))).collect();
        assert_eq!(times, [(4, 10_500, Some(30)), (5, 0, None), (6, 1000, Some(2)), (7, 1000, Some(2))]);
    }

    #[test]
    fn wrong_lines() {
        let text = "h1 1 2\nh2 1 2 ls\nh1 soon 2 ls\nh1 1 -2 ls\nh1 1 2 \"ls\nh1 1 2 recv_udp_flow --dport\nh1 0 1e300 ls\n";
        let wanted = "line 1: write NODE START DURATION COMMAND, with times in seconds\n\
            line 2: no host or switch is called `h2`: correct the name\n\
            line 3: `soon` is not a time: write a number of seconds, at most 10000000; a duration of 0 has no end\n\
            line 4: `-2` is not a time: write a number of seconds, at most 10000000; a duration of 0 has no end\n\
            line 5: a `\"` is never closed: add one\n\
            line 6: `--dport` has no value: write one behind it\n\
            line 7: `1e300` is not a time: write a number of seconds, at most 10000000; a duration of 0 has no end\n";
        assert_eq!(reads(text).expect_err("wrong"), wanted);
    }

    #[test]
    fn steps_in_order() {
        let tasks = reads("h1 1 2 a\ns1 0 0 b\nh1 3 0.5 c\n").expect("tasks");
        let steps: Vec<_> = steps(&tasks).into_iter().map(|(at, step)| (at.as_millis(), step)).collect();
        use Step::{End, Kill, Start};
        let wanted = [
            (0, Start(1)),
            (1000, Start(0)),
            (3000, End(0)),
            (3000, Start(2)),
            (3500, End(2)),
            (4000, Kill(0)),
            (4500, Kill(2)),
        ];
        assert_eq!(steps, wanted);
    }
}
