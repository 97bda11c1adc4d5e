//! `pointsman completions` and `pointsman man`: what they say is what the command line takes.

use crate::support::{Scratch, finish, pointsman, run};
use std::collections::BTreeSet;
use std::process::Command;

/// The subcommands that a help text lists.
fn listed(help: &str) -> Vec<String> {
    let commands = help.split("\nCommands:\n").nth(1).unwrap_or("");
    let names = commands
        .lines()
        .take_while(|l| !l.is_empty())
        .filter(|l| l.starts_with("  ") && !l.starts_with("   "));
    names.map(|l| l.split_whitespace().next().expect("a name").to_string()).filter(|n| n != "help").collect()
}

/// The commands of the binary, as its help lists them: `["p4", "check"]`.
fn commands() -> Vec<Vec<String>> {
    let mut found: Vec<Vec<String>> = vec![vec![]];
    let mut at = 0;
    while at < found.len() {
        let mut args: Vec<&str> = found[at].iter().map(String::as_str).collect();
        args.push("--help");
        let help = run(&args);
        assert_eq!(help.code, Some(0), "{args:?}: {help:?}");
        let deeper = listed(&help.stdout).into_iter().map(|name| [found[at].clone(), vec![name]].concat());
        let deeper: Vec<_> = deeper.collect();
        found.extend(deeper);
        at += 1;
    }
    found
}

#[test]
fn every_command_has_a_page() {
    let dir = Scratch::new("man");
    let folder = dir.path("man1");
    let done = run(&["man", "--dir", &folder, "--date", "2026-11-25"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let written = std::fs::read_dir(&folder).expect("the folder exists");
    let written: BTreeSet<_> =
        written.map(|e| e.expect("an entry").file_name().into_string().expect("UTF-8")).collect();
    let commands = commands();
    assert!(commands.len() > 40, "{commands:?}");
    let name =
        |c: &Vec<String>| format!("{}.1", [&["pointsman".to_string()], c.as_slice()].concat().join("-"));
    assert_eq!(written, commands.iter().map(name).collect::<BTreeSet<_>>());
    let page = std::fs::read_to_string(dir.path("man1/pointsman-drain.1")).expect("the page exists");
    for part in [".TH pointsman-drain 1 2026-11-25 \"pointsman 0", ".SH SYNOPSIS", "\\-\\-until\\-empty"] {
        assert!(page.contains(part), "no {part} in {page}");
    }
}

#[test]
fn pages_need_a_folder_that_can_be_written() {
    let dir = Scratch::new("man-mistakes");
    let file = dir.write("file", "");
    let done = run(&["man", "--dir", &format!("{file}/man")]);
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(done.stderr.contains("--dir: cannot create"), "{}", done.stderr);
}

/// What bash offers after these words.
fn offered(script: &str, words: &str) -> Vec<String> {
    let ask = r#"source "$1"; read -ra COMP_WORDS <<<"$2"; [[ "$2" == *" " ]] && COMP_WORDS+=("")
        COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); compopt() { :; }
        _pointsman pointsman "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"; printf '%s\n' "${COMPREPLY[@]}""#;
    let mut bash = Command::new("bash");
    bash.args(["--norc", "-c", ask, "bash", script, words]);
    let done = finish(bash);
    assert_eq!(done.stderr, "", "{words}");
    done.stdout.lines().map(String::from).collect()
}

#[test]
fn bash_completes_commands_flags_and_values() {
    let dir = Scratch::new("completions");
    let script = dir.write("bash", &run(&["completions", "bash"]).stdout);
    assert_eq!(offered(&script, "pointsman dr"), ["drain"]);
    assert_eq!(offered(&script, "pointsman p4 tr"), ["trace"]);
    assert_eq!(offered(&script, "pointsman drain --unt"), ["--until-empty"]);
    assert_eq!(offered(&script, "pointsman switch --port-kind "), ["auto", "af-xdp", "af-packet"]);
    let none = finish(pointsman(&["completions", "tcsh"]));
    assert_eq!(none.code, Some(2), "{none:?}");
    assert!(none.stderr.contains("bash") && none.stderr.contains("fish"), "{}", none.stderr);
}

/// What a misspelt command or flag is answered: the name that may be meant, and no advice to use the flag as the name of a file.
#[test]
fn misspelt_words() {
    for (line, said) in [
        ("polcy", Some("'policy'")),
        ("policy lst", Some("'list'")),
        ("p4 fmt --widht 80 a.p4", Some("'--width'")),
        ("sim --policy x scenario.toml", None),
        ("bench --policy x", None),
    ] {
        let done = run(&line.split(' ').collect::<Vec<_>>());
        assert_eq!(done.code, Some(2), "{line}");
        let tips: Vec<&str> = done.stderr.lines().filter(|l| l.contains("tip:")).collect();
        assert!(
            tips.len() == usize::from(said.is_some()) && !done.stderr.contains("\n\n\n"),
            "{}",
            done.stderr
        );
        assert!(tips.iter().all(|tip| said.is_some_and(|s| tip.ends_with(s))), "{}", done.stderr);
    }
}
