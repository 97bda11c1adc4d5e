//! p4c's test programs in an editor: no request fails, all positions are in the text, and answers are fast.
//!
//! `P4C_DIR` names a folder with p4c's programs; without it, the test is skipped.

use crate::client::{Client, Files, pointing, uri};
use pointsman_needs::p4c;
use pointsman_wire::random::Random;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// 99 of 100 answers come within this time. Unoptimised code on a busy machine of CI needs a multiple of what users see.
const P99: Duration = Duration::from_millis(50);

fn programs(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).expect("p4c's programs");
    let mut out: Vec<PathBuf> = entries.flatten().map(|e| e.path()).collect();
    out.retain(|p| p.extension().is_some_and(|e| e == "p4"));
    out.sort();
    out
}

/// All ranges in a message begin before they end.
fn check_ranges(v: &Value) {
    let place = |p: &Value| (p["line"].as_u64(), p["character"].as_u64());
    if let (Some(start), Some(end)) = (v.get("start"), v.get("end")) {
        assert!(place(start) <= place(end) && place(start).0.is_some(), "{v}");
    }
    match v {
        Value::Object(o) => o.values().for_each(check_ranges),
        Value::Array(a) => a.iter().for_each(check_ranges),
        _ => {}
    }
}

/// Types a program into an editor; adds what every message took.
fn edit(client: &mut Client, r: &mut Random, path: &str, text: &str, took: &mut Vec<Duration>) {
    let mut time = |f: &mut dyn FnMut() -> Value| {
        let start = Instant::now();
        let result = f();
        took.push(start.elapsed());
        check_ranges(&result);
    };
    let none = || Value::Null;
    time(&mut || {
        client.open(path, text);
        none()
    });
    // A character of the text, typed once more.
    let lines: Vec<&str> = text.lines().collect();
    let line = r.below(lines.len().max(1) as u64) as usize;
    let width = lines.get(line).map_or(0, |l| l.encode_utf16().count());
    let at = (line, r.below(width as u64 + 1) as usize);
    let document = json!({ "textDocument": { "uri": uri(path) } });
    for method in ["hover", "definition", "references", "completion"] {
        time(&mut || client.at(method, path, at));
    }
    for method in ["documentSymbol", "foldingRange", "formatting"] {
        time(&mut || client.answer(&format!("textDocument/{method}"), document.clone()));
    }
    let mut params = pointing(path, at);
    time(&mut || client.answer("textDocument/prepareRename", params.clone()));
    params["newName"] = json!("renamed_");
    time(&mut || client.answer("textDocument/rename", params.clone()));
    let position = json!({ "line": at.0, "character": at.1 });
    for typed in ["x", "."] {
        time(&mut || {
            client.change(path, Some(json!({ "start": position, "end": position })), typed);
            none()
        });
        time(&mut || client.at("completion", path, (at.0, at.1 + 1)));
    }
    time(&mut || {
        client.close(path);
        none()
    });
}

#[test]
fn every_program_in_an_editor() {
    let Some(p4c) = p4c("every_program_in_an_editor") else { return };
    let files = Files { disk: true, ..Files::default() };
    let dirs = vec![p4c.join("p4include").display().to_string()];
    let mut client = Client::with(files, &["utf-16"], dirs);
    let mut r = Random::new(7);
    let (mut took, mut count) = (Vec::new(), 0);
    for folder in ["p4_16_samples", "p4_16_errors"] {
        for file in programs(&p4c.join("testdata").join(folder)) {
            let text = String::from_utf8_lossy(&std::fs::read(&file).expect("readable")).into_owned();
            edit(&mut client, &mut r, &file.display().to_string(), &text, &mut took);
            count += 1;
        }
    }
    took.sort();
    let at = |q: usize| took[(took.len() - 1) * q / 1000];
    println!(
        "{count} programs, {} messages: median {:?}, P99 {:?}, P99.9 {:?}, longest {:?}",
        took.len(),
        at(500),
        at(990),
        at(999),
        at(1000)
    );
    assert!(count > 1300, "{count} programs");
    assert!(at(990) <= P99, "99 of 100 answers took up to {:?}", at(990));
}
