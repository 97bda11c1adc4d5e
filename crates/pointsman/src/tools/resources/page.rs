//! The report as a page: one file, no script, nothing loaded from anywhere.

use pointsman_chart::{Page, SCROLL, escape, number};
use pointsman_pisa::Report;
use std::fmt::Write;

/// The whole page.
pub fn page(report: &Report) -> String {
    let mut page = Page::new(&format!("{} on {}", report.program, report.target.name));
    let verdict = if report.fits() { "It fits." } else { "It does not fit." };
    let [w8, w16, w32] = report.phv.words;
    let mut out = format!(
        "<p>{verdict} {} of {} stages; longest chain {}, lower bound {}. Packet header vector: {w8} words of 8 \
         bits, {w16} of 16, {w32} of 32.</p>\n",
        report.used(),
        report.target.stages,
        report.critical_path,
        report.lower_bound,
    );
    if !report.fits() {
        out.push_str("<h2>Why it does not fit</h2>\n<dl>\n");
        for v in &report.violations {
            let _ = writeln!(out, "<dt>{}<dd>{}", escape(&v.object), escape(&v.why));
        }
        out.push_str("</dl>\n");
    }
    out.push_str(&totals(report));
    out.push_str(&stages(report));
    page.push(&out);
    page.html()
}

fn totals(report: &Report) -> String {
    let mut out = String::from(
        "<h2>Resources</h2>\n<table class=\"summary\">\n<thead><tr><th>Resource<th class=\"n\">used<th class=\"n\">available\
         <th class=\"n\">percent<th>\n<tbody>\n",
    );
    let phv = ("packet header vector, bits".to_string(), report.phv.bits, report.phv.available);
    let rows = report.totals().into_iter().map(|(r, used, has)| {
        let name = r.name().replace('_', " ");
        (if r.unit() == name { name } else { format!("{name}, {}", r.unit()) }, used, has)
    });
    for (name, used, has) in rows.chain([phv]) {
        let percent = if has == 0 { 0.0 } else { 100.0 * used as f64 / has as f64 };
        // Red if it is too much.
        let colour = usize::from(percent > 100.0);
        let _ = writeln!(
            out,
            "<tr><td>{}<td class=\"n\">{used}<td class=\"n\">{has}<td class=\"n\">{}<td class=\"bar\">\
             <div class=\"fill s{colour}\" style=\"width:{:.1}%\"></div>",
            escape(&name),
            number(percent),
            percent.min(100.0),
        );
    }
    out.push_str("</table>\n");
    out
}

fn stages(report: &Report) -> String {
    let mut out = format!("<h2>Stages</h2>\n{SCROLL}\n<table>\n<thead><tr><th class=\"n\">stage");
    let totals = report.totals();
    for (r, ..) in &totals {
        let _ = write!(out, "<th class=\"n\">{}", r.name().replace('_', " "));
    }
    out.push_str("<th>tables, arrays and statements\n<tbody>\n");
    for (i, (amounts, nodes)) in report.per_stage.iter().zip(&report.nodes).enumerate() {
        let _ = write!(out, "<tr><td class=\"n\">{i}");
        for (r, ..) in &totals {
            let _ = write!(out, "<td class=\"n\">{}", amounts[*r]);
        }
        let names: Vec<String> = nodes.iter().map(|n| escape(&n.name)).collect();
        let _ = writeln!(out, "<td>{}", names.join(", "));
    }
    out.push_str("</table>\n</div>\n<p class=\"caption\">What is used of each stage. docs/resources.md says how it is counted.</p>\n");
    out
}
