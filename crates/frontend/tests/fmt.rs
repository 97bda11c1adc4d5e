//! The formatter over every available program: formatting again changes nothing, and the compiler reads the same.
//!
//! `P4C_DIR` names a checkout of p4c; without it, its programs are skipped.

use pointsman_frontend::fmt::format;
use pointsman_frontend::parse_program;
use pointsman_frontend::source::Loader;
use std::path::{Path, PathBuf};

struct Nothing;

impl Loader for Nothing {
    fn include(&self, _: &str, _: bool, _: &str) -> Option<(String, String)> {
        None
    }
}

/// The syntax tree and the diagnostics without places, of one file without its includes.
fn read(text: &str) -> (String, Vec<&'static str>) {
    let without: String = text
        .lines()
        .map(|l| {
            if l.trim_start().trim_start_matches('#').trim_start().starts_with("include")
                && l.trim_start().starts_with('#')
            {
                "\n"
            } else {
                l
            }
        })
        .flat_map(|l| [l, "\n"])
        .collect();
    let (_, program, diags) = parse_program("a.p4", &without, &Nothing, &[]);
    let tree = format!("{program:?}");
    // Places differ, of course.
    let mut out = String::with_capacity(tree.len());
    let mut rest = tree.as_str();
    while let Some((before, after)) = rest.split_once("Span {") {
        out.push_str(before);
        rest = after.split_once('}').map_or("", |(_, r)| r);
    }
    (out + rest, diags.iter().map(|d| d.code).collect())
}

fn files(dir: &Path, out: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    for path in entries.filter_map(|e| e.ok().map(|e| e.path())) {
        if path.is_dir() && !path.ends_with("target") && !path.ends_with(".git") {
            files(&path, out);
        } else if path.extension().is_some_and(|e| e == "p4") {
            out.push(path);
        }
    }
}

/// How many were formatted, of every `step`-th file.
fn check(dir: &Path, width: Option<usize>, step: usize) -> usize {
    let mut all = Vec::new();
    files(dir, &mut all);
    all.sort();
    let mut done = 0;
    let mut problems = Vec::new();
    for path in all.into_iter().step_by(step) {
        let text = String::from_utf8_lossy(&std::fs::read(&path).unwrap_or_default()).into_owned();
        let once = match format(&text, width) {
            Ok(once) => once,
            Err(d) if d.code == "P0102" || d.code == "P0104" => continue,
            Err(d) => {
                problems.push(format!("{}: {}", path.display(), d.message));
                continue;
            }
        };
        done += 1;
        match format(&once, width) {
            Ok(twice) if twice == once => {}
            Ok(twice) => {
                let differs = once.lines().zip(twice.lines()).position(|(a, b)| a != b);
                problems.push(format!("{}: changes again at line {differs:?}", path.display()));
            }
            Err(d) => problems.push(format!("{}: again: {}", path.display(), d.message)),
        }
        // After a syntax error the parser resumes by lines, so only the first error is the same.
        let ((before, errors), (after, errors_after)) = (read(&text), read(&once));
        if errors.first() != errors_after.first() || errors.is_empty() && before != after {
            problems.push(format!("{}: is read differently", path.display()));
        }
        if once.lines().any(|l| l.ends_with(' ')) && !text.contains('"') {
            problems.push(format!("{}: blanks at the end of a line", path.display()));
        }
    }
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
    done
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn our_programs() {
    assert!(check(&repository(), None, 1) > 30);
    assert!(check(&repository().join("p4"), Some(60), 1) > 30);
}

/// Files that people read as examples are formatted. `pointsman p4 fmt p4 examples tests/programs` formats them.
#[test]
fn our_programs_are_formatted() {
    let mut all = Vec::new();
    for dir in ["p4", "examples", "tests/programs"] {
        files(&repository().join(dir), &mut all);
    }
    let mut wrong = Vec::new();
    for path in &all {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        if format(&text, None).ok().as_deref() != Some(&text) {
            wrong.push(path.display().to_string());
        }
    }
    assert!(all.len() > 10);
    assert!(wrong.is_empty(), "not formatted:\n{}", wrong.join("\n"));
}

#[test]
fn programs_of_p4c() {
    let Some(p4c) = pointsman_needs::p4c("programs_of_p4c") else { return };
    let samples = ["p4_16_samples", "p4_16_errors", "p4_14_samples", "p4tc_samples", "p4_16_dpdk_errors"];
    let done: usize = samples.iter().map(|d| check(&p4c.join("testdata").join(d), None, 1)).sum();
    println!("{done} programs of p4c are formatted");
    assert!(done > 1500, "{done}");
}

/// Lines without their comments that are longer than `width`.
fn long_lines(text: &str, width: usize) -> u32 {
    let code = |l: &str| l.split("//").next().unwrap_or("").trim_end().chars().count();
    let long = text.lines().filter(|l| !l.trim_start().starts_with(['#', '/', '*']) && code(l) > width);
    long.fold(0, |n, _| n + 1)
}

#[test]
fn widths_over_programs_of_p4c() {
    let Some(p4c) = pointsman_needs::p4c("widths_over_programs_of_p4c") else { return };
    let samples = p4c.join("testdata/p4_16_samples");
    let mut all = Vec::new();
    files(&samples, &mut all);
    all.sort();
    // Names, strings and comments are not broken, so some lines remain.
    for (width, most) in [(60, 0.15), (80, 0.02), (100, 0.02), (120, 0.02)] {
        let done =
            check(&samples, Some(width), 12) + check(&p4c.join("testdata/p4_16_errors"), Some(width), 12);
        assert!(done > 120, "{done}");
        let (mut before, mut after) = (0, 0);
        for path in all.iter().step_by(12) {
            let text = String::from_utf8_lossy(&std::fs::read(path).expect("readable")).into_owned();
            before += long_lines(&format(&text, None).expect("formatted"), width);
            after += long_lines(&format(&text, Some(width)).expect("formatted"), width);
        }
        println!("width {width}: {before} long lines, {after} that remain");
        assert!(f64::from(after) <= most * f64::from(before) + 1.0, "{width}: {after} of {before}");
    }
}

fn balanced(text: &str) -> bool {
    let mut open = Vec::new();
    text.chars().all(|c| match c {
        '(' | '[' | '{' => {
            open.push(c);
            true
        }
        ')' => open.pop() == Some('('),
        ']' => open.pop() == Some('['),
        '}' => open.pop() == Some('{'),
        _ => true,
    }) && open.is_empty()
}

/// Any text: no panic, and a second time changes nothing.
#[test]
fn any_text() {
    let pieces = [
        "a",
        "bit",
        "<",
        ">",
        "(",
        ")",
        "{",
        "}",
        "[",
        "]",
        ";",
        ",",
        ".",
        ":",
        "?",
        "@",
        "=",
        "+",
        "-",
        "!",
        "~",
        "&&&",
        "..",
        "...",
        "if",
        "else",
        "8w1",
        "\"s\"",
        "// c\n",
        "/* d */",
        "/* e\n * f */",
        "\n",
        "\n\n",
        "  ",
        "\t",
        "\n#if X\n",
        "\n#else\n",
        "\n#endif\n",
        "\n#define A \\\n b\n",
        "{#}",
        "return",
        "for",
        "\\\n",
        "'",
        "ü",
        "|+|",
        "<<",
        ">=",
        "\r\n",
        "// g \\\n",
    ];
    let mut state = 1u64;
    let mut next = |n: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % n
    };
    for _ in 0..20_000 {
        let text: String = (0..next(30)).map(|_| pieces[next(pieces.len())]).collect();
        let width = [None, Some(40)][next(2)];
        let Ok(once) = format(&text, width) else { continue };
        // Unmatched brackets give no structure to keep.
        if text.contains('#') || !balanced(&text) {
            continue;
        }
        let twice = format(&once, width).unwrap_or_else(|d| panic!("{text:?}: {once:?}: {}", d.message));
        assert_eq!(once, twice, "{text:?}");
    }
}
