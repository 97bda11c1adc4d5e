//! Diagrams as one SVG file, one below the other. It follows light and dark mode and needs nothing else.

use crate::{Diagram, Laid, Line, Route, Shape, layout};
use pointsman_chart::escape;
use std::fmt::Write;

const STYLE: &str = include_str!("graph.css");
/// Height of a title.
const TITLE: f64 = 34.0;
/// Distance of the lines of a label.
const LINE: f64 = 15.0;

/// The whole file.
pub fn svg(diagrams: &[Diagram]) -> String {
    let mut body = String::new();
    let (mut width, mut y) = (0.0f64, 0.0);
    for d in diagrams {
        let laid = layout(d);
        let _ = writeln!(body, "<g transform=\"translate(0 {y:.0})\">");
        let _ = writeln!(body, "<text class=\"title\" x=\"14\" y=\"22\">{}</text>", escape(&d.title()));
        let _ = writeln!(body, "<g transform=\"translate(0 {TITLE})\">");
        for (e, route) in d.edges.iter().zip(&laid.edges) {
            edge(&mut body, route, e.line);
        }
        // Labels and nodes are over the lines.
        for (e, route) in d.edges.iter().zip(&laid.edges) {
            if let Some(place) = &route.label {
                let _ = writeln!(body, "<rect class=\"back\" {}/>", rectangle(place));
                lines(&mut body, "label", &e.label, place);
            }
        }
        for (n, place) in d.nodes.iter().zip(&laid.nodes) {
            outline(&mut body, n.shape, place);
            let named = matches!(n.shape, Shape::State | Shape::Table);
            lines(&mut body, if named { "named" } else { "node" }, &n.label, place);
        }
        body.push_str("</g></g>\n");
        width = width.max(laid.width);
        y += laid.height + TITLE;
    }
    let width = width.max(120.0);
    let titles: Vec<String> = diagrams.iter().map(Diagram::title).collect();
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{y:.0}\" viewBox=\"0 0 {width:.0} {y:.0}\" \
         role=\"img\" aria-label=\"{}\">\n<style>\n{STYLE}</style>\n<defs><marker id=\"arrow\" viewBox=\"0 0 8 8\" refX=\"8\" \
         refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" orient=\"auto\"><path d=\"M0 0 L8 4 L0 8 z\"/></marker></defs>\n\
         <rect class=\"back\" width=\"100%\" height=\"100%\"/>\n{body}</svg>\n",
        escape(&titles.join(", ")),
    )
}

fn rectangle(b: &Laid) -> String {
    let (x, y) = (b.x - b.width / 2.0, b.y - b.height / 2.0);
    format!("x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\"", b.width, b.height)
}

/// A curve through the points: it leaves and enters each one vertically.
fn edge(body: &mut String, route: &Route, line: Line) {
    let Some((first, rest)) = route.points.split_first() else { return };
    let mut path = format!("M{:.1} {:.1}", first.0, first.1);
    let mut last = *first;
    for p in rest {
        let middle = (last.1 + p.1) / 2.0;
        let _ = write!(path, " C{:.1} {middle:.1} {:.1} {middle:.1} {:.1} {:.1}", last.0, p.0, p.0, p.1);
        last = *p;
    }
    let class = match line {
        Line::Solid => "solid",
        Line::Dashed => "dashed",
        Line::Dotted => "dotted",
    };
    let _ = writeln!(body, "<path class=\"{class}\" d=\"{path}\" marker-end=\"url(#arrow)\"/>");
}

fn outline(body: &mut String, shape: Shape, b: &Laid) {
    let (class, radius) = match shape {
        Shape::State => ("state", 6.0),
        Shape::Table => ("table", 0.0),
        Shape::Choice => ("choice", b.height / 2.0),
        Shape::Code => ("code", 2.0),
        Shape::Block => ("block", 0.0),
        Shape::Array => ("array", 2.0),
        Shape::Terminal => ("terminal", b.height / 2.0),
    };
    let _ = writeln!(body, "<rect class=\"{class}\" rx=\"{radius:.0}\" {}/>", rectangle(b));
}

/// Lines of text in the middle of a box. The first one may be a name.
fn lines(body: &mut String, class: &str, text: &str, b: &Laid) {
    let all: Vec<&str> = text.lines().collect();
    let top = b.y - (all.len() as f64 - 1.0) * LINE / 2.0 + 4.0;
    for (i, line) in all.iter().enumerate() {
        let class = if class == "named" && i > 0 { "node" } else { class };
        let y = top + i as f64 * LINE;
        let _ =
            writeln!(body, "<text class=\"{class}\" x=\"{:.1}\" y=\"{y:.1}\">{}</text>", b.x, escape(line));
    }
}
