//! The browser's view of a report: one file, no script, nothing loaded from anywhere.

use super::chart::{Axis, COLOURS, Dot, Guide, Series, escape, lines, marker, number, stacks};
use super::table::{findings, milliseconds, percent, verdict};
use super::{PolicyReport, Report};
use std::fmt::Write;

/// The style of all pages: colours of charts, for light and dark mode.
pub const STYLE: &str = include_str!("style.css");

/// The whole page. `title` is its heading.
pub fn html(report: &Report, title: &str) -> String {
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n",
        title = escape(title)
    );
    page.push_str(&summary(report));
    let policies: Vec<String> = report.policies.iter().map(|p| p.name.clone()).collect();
    let devices: Vec<String> = report.rack.devices().map(|d| d.name.clone()).collect();

    page.push_str("<h2>Latency</h2>\n");
    page.push_str(&figure(
        &legend(&policies, true),
        &latency_chart(report),
        "99th percentile over all requests sent; a lost request counts as its time-out. \
         Hollow marks: the load was not sustained.",
    ));
    page.push_str("<h2>Throughput</h2>\n");
    page.push_str(&figure(
        &legend(&policies, true),
        &throughput_chart(report),
        "Requests answered in time, per second of sending. Below the line, requests are lost.",
    ));
    page.push_str("<h2>Answers by device</h2>\n");
    page.push_str(&legend(&devices, false));
    page.push_str("<div class=\"multiples\">\n");
    for policy in &report.policies {
        let _ = writeln!(
            page,
            "<figure><h3>{}</h3>{}</figure>",
            escape(&policy.name),
            share_chart(policy, &devices)
        );
    }
    page.push_str(
        "</div>\n<p class=\"caption\">Share of the answered requests by device, at each load.</p>\n",
    );
    page.push_str(&points(report, &devices));
    page.push_str(&rack(report));
    page.push_str("</body>\n</html>\n");
    page
}

/// Figures first: the load that each policy sustains, and the findings of the checks.
fn summary(report: &Report) -> String {
    let mut out = String::from(
        "<table class=\"summary\">\n<thead><tr><th>Policy<th class=\"n\">Sustained load\
         <th class=\"n\">vs. first policy<th>\n<tbody>\n",
    );
    let first = report.policies.first().map_or(0.0, |p| p.sustained_rps);
    let best = report.policies.iter().map(|p| p.sustained_rps).fold(0.0, f64::max);
    for (i, policy) in report.policies.iter().enumerate() {
        let relative = match (i, first > 0.0) {
            (0, _) | (_, false) => String::new(),
            _ => format!("{:+.0} %", (policy.sustained_rps / first - 1.0) * 100.0),
        };
        let more = if policy.first_failing_rps.is_none() { "at least " } else { "" };
        let _ = writeln!(
            out,
            "<tr><td>{}<td class=\"n\">{more}{} /s<td class=\"n\">{relative}<td class=\"bar\">\
             <div class=\"fill s{}\" style=\"width:{:.1}%\"></div>",
            escape(&policy.name),
            number(policy.sustained_rps),
            i % COLOURS,
            policy.sustained_rps / best.max(1e-9) * 100.0
        );
    }
    out.push_str(
        "</table>\n<p class=\"caption\">The highest offered load at which nothing was lost and the \
        99th percentile stayed within ten times the unloaded latency",
    );
    if let Some(unloaded) = unloaded(report) {
        let _ = write!(out, " ({})", milliseconds(unloaded));
    }
    out.push_str(".</p>\n<ul>\n");
    for line in findings(report).iter().chain(&report.notes) {
        let _ = writeln!(out, "<li>{}", escape(line));
    }
    out.push_str("</ul>\n");
    out
}

fn figure(legend: &str, svg: &str, caption: &str) -> String {
    format!("<figure>{legend}{svg}<figcaption>{}</figcaption></figure>\n", escape(caption))
}

/// Names with their colours; with marks as in a line chart, or plain swatches.
pub fn legend(names: &[String], marks: bool) -> String {
    let mut out = String::from("<div class=\"legend\">");
    for (i, name) in names.iter().enumerate() {
        let mut key = String::new();
        if marks {
            key.push_str("<line x1=\"0\" y1=\"7\" x2=\"22\" y2=\"7\"/><g class=\"dot\">");
            marker(&mut key, i, 11.0, 7.0);
            key.push_str("</g>");
        } else {
            key.push_str("<rect class=\"part\" x=\"4\" y=\"1\" width=\"14\" height=\"12\"/>");
        }
        let _ = write!(
            out,
            "<span><svg class=\"key {}{}\" viewBox=\"0 0 22 14\">{key}</svg>{}</span>",
            if marks { "s" } else { "d" },
            i % COLOURS,
            escape(name)
        );
    }
    out.push_str("</div>\n");
    out
}

fn series(report: &Report, y: impl Fn(&super::PointReport) -> f64) -> Vec<Series> {
    let line = |policy: &PolicyReport| Series {
        dots: policy
            .points
            .iter()
            .map(|p| Dot {
                x: p.offered_rps,
                y: y(p),
                hollow: !verdict(&p.verdict).is_empty(),
                title: format!(
                    "{}: offered {} /s, answered {} /s, lost {}, P50 {}, P99 {} {}",
                    policy.name,
                    number(p.offered_rps),
                    number(p.answered_rps),
                    p.lost,
                    milliseconds(p.p50_ms),
                    milliseconds(p.p99_ms),
                    verdict(&p.verdict)
                ),
            })
            .collect(),
    };
    report.policies.iter().map(line).collect()
}

fn load_axis(report: &Report) -> Axis {
    let rates = report.policies.iter().flat_map(|p| &p.points).map(|p| p.offered_rps);
    Axis::linear(rates.fold(0.0, f64::max))
}

const LOAD: &str = "offered load, requests a second";

/// The unloaded latency, if it is one for all policies.
fn unloaded(report: &Report) -> Option<f64> {
    let first = report.policies.first()?.unloaded_ms;
    let same = first > 0.0 && report.policies.iter().all(|p| p.unloaded_ms == first);
    same.then_some(first)
}

fn latency_chart(report: &Report) -> String {
    let limit = unloaded(report).map(|u| u * 10.0);
    let values = report.policies.iter().flat_map(|p| &p.points).map(|p| p.p99_ms);
    let guides: Vec<Guide> =
        limit.map(|l| Guide::Level(l, "ten times the unloaded latency".to_owned())).into_iter().collect();
    let y = Axis::log(values.chain(limit));
    lines(&series(report, |p| p.p99_ms), load_axis(report), y, (LOAD, "P99, ms"), &guides)
}

fn throughput_chart(report: &Report) -> String {
    let x = load_axis(report);
    let guide = [Guide::Diagonal("all answered".to_owned())];
    lines(&series(report, |p| p.answered_rps), x, x, (LOAD, "answered, requests a second"), &guide)
}

fn share_chart(policy: &PolicyReport, devices: &[String]) -> String {
    let parts: Vec<(String, Vec<f64>)> = policy
        .points
        .iter()
        .map(|p| {
            let shares = devices.iter().map(|d| p.share.get(d).copied().unwrap_or(0.0)).collect();
            (format!("{:.0}", p.offered_rps), shares)
        })
        .collect();
    stacks(devices, &parts, LOAD)
}

/// Every measured point, as a table that can be opened.
fn points(report: &Report, devices: &[String]) -> String {
    let mut out = String::from(
        "<details><summary>All measured points</summary>\n<div class=\"scroll\"><table>\n<thead><tr>\
         <th>Policy<th class=\"n\">Offered/s<th class=\"n\">Sent<th class=\"n\">Answered<th class=\"n\">Lost\
         <th class=\"n\">P50<th class=\"n\">P99",
    );
    for device in devices {
        let _ = write!(out, "<th class=\"n\">{}", escape(device));
    }
    out.push_str("<th class=\"n\">Left late by<th>Remark\n<tbody>\n");
    for policy in &report.policies {
        for p in &policy.points {
            let _ = write!(
                out,
                "<tr><td>{}<td class=\"n\">{}<td class=\"n\">{}<td class=\"n\">{}<td class=\"n\">{}\
                 <td class=\"n\">{}<td class=\"n\">{}",
                escape(&policy.name),
                number(p.offered_rps),
                p.sent,
                p.answered,
                p.lost,
                milliseconds(p.p50_ms),
                milliseconds(p.p99_ms)
            );
            for device in devices {
                let share = p.share.get(device).copied().unwrap_or(0.0);
                let _ = write!(out, "<td class=\"n\">{}", percent(share));
            }
            let _ = writeln!(
                out,
                "<td class=\"n\">{}<td>{}",
                milliseconds(p.lateness_p99_ms),
                escape(verdict(&p.verdict))
            );
        }
    }
    out.push_str("</table></div></details>\n");
    out
}

/// The machine of the measurements, as a table that can be opened.
fn rack(report: &Report) -> String {
    let mut out = String::from(
        "<details><summary>Rack and set-up</summary>\n<div class=\"scroll\"><table>\n<thead><tr><th>Device\
         <th>Kind<th>Addresses<th class=\"n\">Port<th>Model<th class=\"n\">Service time\
         <th class=\"n\">In service<th class=\"n\">Buffer<th class=\"n\">Capacity\n<tbody>\n",
    );
    for d in report.rack.devices() {
        let _ = writeln!(
            out,
            "<tr><td>{}<td>{:?}<td>{}, {}<td class=\"n\">{}<td>{}<td class=\"n\">{}<td class=\"n\">{}\
             <td class=\"n\">{}<td class=\"n\">{} /s",
            escape(&d.name),
            d.kind,
            d.ipv4,
            d.ipv6,
            d.port,
            escape(&d.model),
            milliseconds(d.service_ms),
            d.servers,
            d.buffer,
            number(d.capacity_rps)
        );
    }
    out.push_str("</table></div>\n<dl>\n");
    let vip = format!("{}, {}", report.rack.vip_ipv4, report.rack.vip_ipv6);
    let seed = report.seed.to_string();
    let fixed = [("virtual IP", vip.as_str()), ("seed", seed.as_str())];
    let given = report.setup.iter().map(|(k, v)| (k.as_str(), v.as_str()));
    for (key, value) in fixed.into_iter().chain(given) {
        let _ = writeln!(out, "<dt>{}<dd>{}", escape(key), escape(value));
    }
    out.push_str("</dl></details>\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::sample;

    #[test]
    fn the_page_is_self_contained_and_complete() {
        let page = html(&sample(), "A <title>");
        for outside in ["http://", "https://", "src=", "href=", "url(", "@import", "<script"] {
            assert!(!page.contains(outside), "{outside}");
        }
        for inside in
            ["A &lt;title&gt;", "p4mite", "s2/nic", "&lt;angle brackets&gt; &amp;", "10.0.22.2", "+18 %"]
        {
            assert!(page.contains(inside), "{inside}");
        }
        assert!(!page.contains("<angle"));
        assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
        assert_eq!(page.matches("<g ").count(), page.matches("</g>").count());
        assert!(!page.contains("NaN") && !page.contains("inf\""));
    }

    #[test]
    fn the_limit_is_drawn_only_if_it_is_one_for_all() {
        let mut report = sample();
        assert!(html(&report, "t").contains("class=\"guide-label\" x=\"70.0\""));
        report.policies[1].unloaded_ms = 25.0;
        assert!(!html(&report, "t").contains("class=\"guide-label\" x=\"70.0\""));
    }

    #[test]
    fn an_empty_report_is_a_page_too() {
        let mut report = sample();
        report.policies.clear();
        assert!(html(&report, "Empty").contains("</html>"));
        let mut report = sample();
        report.policies[0].points.clear();
        report.policies[0].sustained_rps = 0.0;
        let page = html(&report, "Empty");
        assert!(!page.contains("NaN") && !page.contains("inf"));
    }
}
