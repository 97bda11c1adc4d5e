//! The browser's view of a report: one file, no script, nothing loaded from anywhere.

use super::table::{findings, milliseconds, percent, verdict};
use super::{PointReport, PolicyReport, Report};
use pointsman_chart::{
    Align, Axis, COLOURS, Chart, Dot, Guide, Page, Series, Shape, Table, escape, legend, number, stacks,
};
use std::fmt::Write;

/// The whole page. `title` is its heading.
pub fn html(report: &Report, title: &str) -> String {
    let mut page = Page::new(title);
    page.push(&summary(report));
    let devices: Vec<String> = report.rack.devices().map(|d| d.name.clone()).collect();
    page.heading("Latency");
    page.push(&latency_chart(report));
    page.heading("Throughput");
    page.push(&throughput_chart(report));
    page.heading("Answers by device");
    page.push(&legend(devices.iter().map(String::as_str), false));
    page.push("<div class=\"multiples\">\n");
    for policy in &report.policies {
        let chart = share_chart(policy, &devices);
        page.push(&format!("<div><h3>{}</h3>{chart}</div>\n", escape(&policy.name)));
    }
    page.push("</div>\n<p class=\"caption\">Share of the answered requests by device, at each load.</p>\n");
    page.push(&points(report, &devices));
    page.push(&rack(report));
    let vip = format!("{}, {}", report.rack.vip_ipv4, report.rack.vip_ipv6);
    let fixed = [("seed", report.seed.to_string()), ("virtual IP", vip)];
    page.origin(fixed.into_iter().chain(report.setup.iter().map(|(k, v)| (k.as_str(), v.clone()))));
    page.html()
}

/// Figures first: the load that each policy sustains, and the findings of the checks.
fn summary(report: &Report) -> String {
    let mut out = String::from(
        "<table class=\"summary\">\n<thead><tr><th>Policy<th class=\"n\">Sustained load\
         <th class=\"n\">vs. first policy<th class=\"bar\">Compared\n<tbody>\n",
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

/// The chart of one quantity of every point, with the axis of loads.
fn chart(
    report: &Report,
    y: impl Fn(&PointReport) -> f64,
    axis: Axis,
    label: &str,
    guide: Option<Guide>,
) -> Chart {
    let line = |policy: &PolicyReport| Series {
        name: policy.name.clone(),
        dots: policy
            .points
            .iter()
            .map(|p| Dot {
                x: p.offered_rps,
                y: y(p),
                interval: None,
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
        shape: Shape::Marks,
        companion: Vec::new(),
    };
    Chart {
        series: report.policies.iter().map(line).collect(),
        x: load_axis(report),
        y: axis,
        labels: (LOAD.to_owned(), label.to_owned()),
        guides: guide.into_iter().collect(),
        caption: String::new(),
    }
}

fn load_axis(report: &Report) -> Axis {
    let rates = report.policies.iter().flat_map(|p| &p.points).map(|p| p.offered_rps);
    Axis::linear(rates.fold(0.0, f64::max))
}

const LOAD: &str = "offered load, requests/s";

/// The unloaded latency, if it is one for all policies.
fn unloaded(report: &Report) -> Option<f64> {
    let first = report.policies.first()?.unloaded_ms;
    let same = first > 0.0 && report.policies.iter().all(|p| p.unloaded_ms == first);
    same.then_some(first)
}

fn latency_chart(report: &Report) -> String {
    let limit = unloaded(report).map(|u| u * 10.0);
    let values = report.policies.iter().flat_map(|p| &p.points).map(|p| p.p99_ms);
    let axis = Axis::log(values.chain(limit));
    let guide = limit.map(|l| Guide::Level(l, "ten times the unloaded latency".to_owned()));
    let mut chart = chart(report, |p| p.p99_ms, axis, "P99, ms", guide);
    chart.caption = "99th percentile over all requests sent; a lost request counts as its time-out. Hollow marks: the load was not \
                     sustained."
        .to_owned();
    chart.html()
}

fn throughput_chart(report: &Report) -> String {
    let guide = Guide::Diagonal("all answered".to_owned());
    let mut chart = chart(report, |p| p.answered_rps, load_axis(report), "answered, requests/s", Some(guide));
    chart.caption =
        "Requests answered in time, per second of sending. Below the dashed line, requests are lost."
            .to_owned();
    chart.html()
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
    let numbers = ["Offered/s", "Sent", "Answered", "Lost", "P50", "P99"]
        .into_iter()
        .chain(devices.iter().map(String::as_str));
    let numbers = numbers.chain(["Left late by"]).map(|name| (name, Align::Right));
    let head: Vec<_> =
        [("Policy", Align::Left)].into_iter().chain(numbers).chain([("Remark", Align::Left)]).collect();
    let mut table = Table::new(&head);
    for policy in &report.policies {
        for p in &policy.points {
            let mut row = vec![
                policy.name.clone(),
                number(p.offered_rps),
                p.sent.to_string(),
                p.answered.to_string(),
                p.lost.to_string(),
                milliseconds(p.p50_ms),
                milliseconds(p.p99_ms),
            ];
            row.extend(devices.iter().map(|d| percent(p.share.get(d).copied().unwrap_or(0.0))));
            row.extend([milliseconds(p.lateness_p99_ms), verdict(&p.verdict).to_owned()]);
            table.row(row);
        }
    }
    format!("<details><summary>All measured points</summary>\n{}</details>\n", table.html())
}

/// The devices of the measurements, as a table that can be opened.
fn rack(report: &Report) -> String {
    let (left, right) = (Align::Left, Align::Right);
    let mut table = Table::new(&[
        ("Device", left),
        ("Kind", left),
        ("Addresses", left),
        ("Port", right),
        ("Model", left),
        ("Service time", right),
        ("In service", right),
        ("Buffer", right),
        ("Capacity", right),
    ]);
    for d in report.rack.devices() {
        table.row([
            d.name.clone(),
            format!("{:?}", d.kind),
            format!("{}, {}", d.ipv4, d.ipv6),
            d.port.to_string(),
            d.model.clone(),
            milliseconds(d.service_ms),
            d.servers.to_string(),
            d.buffer.to_string(),
            format!("{} /s", number(d.capacity_rps)),
        ]);
    }
    format!("<details><summary>Devices</summary>\n{}</details>\n", table.html())
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
        assert!(html(&report, "t").contains("ten times the unloaded latency</text>"));
        report.policies[1].unloaded_ms = 25.0;
        assert!(!html(&report, "t").contains("ten times the unloaded latency</text>"));
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
