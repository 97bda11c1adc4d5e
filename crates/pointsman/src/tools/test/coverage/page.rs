//! Coverage as a page: one file, no script, nothing loaded from anywhere.

use super::{Whole, missed, share};
use pointsman_chart::{Page, SCROLL, escape};
use pointsman_explain::coverage::{ArmKind, Branch, File};
use std::collections::BTreeMap;
use std::fmt::Write;

/// For the sources.
const SOURCE_STYLE: &str = "
body { max-width: 75rem; }
pre { overflow-x: auto; font: 13px/1.45 ui-monospace, monospace; margin: .5rem 0; }
pre .row { display: block; white-space: pre; }
pre .count { display: inline-block; width: 7ch; text-align: right; color: var(--soft); }
pre .no { display: inline-block; width: 6ch; text-align: right; color: var(--axis); margin-right: 1ch; }
pre .ran { background: color-mix(in srgb, var(--c2) 16%, transparent); }
pre .part { background: color-mix(in srgb, var(--c4) 24%, transparent); }
pre .not { background: color-mix(in srgb, var(--c1) 24%, transparent); }
pre .arms { color: var(--soft); font-style: italic; }
td.zero { color: var(--c1); font-weight: 600; }
";

/// The whole page.
pub fn page(programs: &[Whole<'_>]) -> String {
    let mut page = Page::new("Coverage of packet tests").style(SOURCE_STYLE);
    let mut body = String::new();
    programs.iter().for_each(|program| section(program, &mut body));
    page.push(&body);
    page.html()
}

fn section(program: &Whole<'_>, out: &mut String) {
    let name = escape(&program.path.display().to_string());
    let _ = writeln!(out, "<h2>{name}</h2>\n<p>Tests: {}.</p>", program.tests);
    if program.cut {
        out.push_str("<p>Counts are too small: a packet has more steps than a trace holds.</p>\n");
    }
    out.push_str(
        "<table class=\"summary\">\n<thead><tr><th>Part<th class=\"n\">covered<th class=\"n\">of<th>\n<tbody>\n",
    );
    for (name, total) in program.report.totals() {
        let percent = 100.0 * total.covered as f64 / total.all.max(1) as f64;
        let _ = writeln!(
            out,
            "<tr><td>{name}<td class=\"n\">{}<td class=\"n\">{}<td class=\"bar\"><div class=\"fill s2\" title=\"{}\" \
             style=\"width:{percent:.1}%\"></div>",
            total.covered,
            total.all,
            share(total),
        );
    }
    out.push_str("</table>\n");
    let missed = missed(&program.report);
    if !missed.is_empty() {
        out.push_str("<dl>\n");
        for (what, names) in missed {
            let _ = writeln!(out, "<dt>{what}<dd>{}", escape(&names.join(", ")));
        }
        out.push_str("</dl>\n");
    }
    tables(&program.report.tables, out);
    for (path, file) in &program.report.files {
        let text = program.map.files.iter().find(|f| f.path == *path && f.markers.is_empty());
        if let Some(source) = text {
            listing(path, file, &source.text, out);
        }
    }
}

fn tables(tables: &[Branch], out: &mut String) {
    if tables.is_empty() {
        return;
    }
    let _ = write!(
        out,
        "<h3>Tables</h3>\n{SCROLL}\n<table>\n<thead><tr><th>Table<th class=\"n\">hits<th class=\"n\">misses\
         <th>actions\n<tbody>\n",
    );
    for table in tables {
        let cell = |kind| match table.result(kind) {
            None => "<td class=\"n\">-".to_string(),
            Some(a) => format!("<td class=\"n{}\">{}", if a.count == 0 { " zero" } else { "" }, a.count),
        };
        let actions = table.arms.iter().filter(|a| !a.is_result());
        let actions: Vec<_> = actions.map(|a| format!("{}: {}", escape(&a.name), a.count)).collect();
        let _ = writeln!(
            out,
            "<tr><td>{}{}{}<td>{}",
            escape(&table.name),
            cell(ArmKind::Hit),
            cell(ArmKind::Miss),
            actions.join(", ")
        );
    }
    out.push_str("</table>\n</div>\n");
}

/// A source file with the count of each line, and the ways of its branches.
fn listing(path: &str, file: &File, text: &str, out: &mut String) {
    let mut branches: BTreeMap<usize, Vec<&Branch>> = BTreeMap::new();
    for branch in &file.branches {
        branches.entry(branch.line).or_default().push(branch);
    }
    let ran = file.lines.values().filter(|n| **n > 0).count();
    let _ = write!(
        out,
        "<details open>\n<summary>{}: {ran} of {} lines</summary>\n<pre>",
        escape(path),
        file.lines.len()
    );
    for (number, line) in text.lines().enumerate().map(|(i, l)| (i + 1, l)) {
        let count = file.lines.get(&number);
        let here = branches.get(&number).map_or(&[][..], Vec::as_slice);
        let partial = here.iter().flat_map(|b| &b.arms).any(|a| a.count == 0);
        let class = match count {
            Some(0) => " not",
            Some(_) if partial => " part",
            Some(_) => " ran",
            None if !here.is_empty() && partial => " part",
            None => "",
        };
        let count = count.map_or(String::new(), u64::to_string);
        let _ = write!(
            out,
            "<span class=\"row{class}\"><span class=\"count\">{count}</span><span class=\"no\">{number}</span>{}",
            escape(line)
        );
        for branch in here.iter().filter(|b| !b.is_table()) {
            let arms: Vec<_> = branch.arms.iter().map(|a| format!("{}: {}", a.name, a.count)).collect();
            let _ = write!(out, "  <span class=\"arms\">{}</span>", escape(&arms.join(", ")));
        }
        out.push_str("</span>");
    }
    out.push_str("</pre>\n</details>\n");
}
