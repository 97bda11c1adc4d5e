//! Diagrams of p4c's test programs, and of graphs made at random.
//!
//! `P4C_DIR` names a folder with p4c's programs; without it, that test is skipped.

use crate::Files;
use crate::diagrams::check;
use pointsman_frontend::parse_program;
use pointsman_graph::{Diagram, Edge, Kind, Line, Node, Shape, controls, dot, parsers};
use pointsman_needs::p4c;
use pointsman_wire::random::Random;

#[test]
fn every_program_of_p4c() {
    let Some(p4c) = p4c("every_program_of_p4c") else { return };
    let sources = Files(vec![p4c.join("p4include"), p4c.join("testdata/p4_16_samples")]);
    let entries = std::fs::read_dir(p4c.join("testdata/p4_16_samples")).expect("p4c's programs");
    let mut count = 0;
    for path in entries.flatten().map(|e| e.path()).filter(|p| p.extension().is_some_and(|e| e == "p4")) {
        let text = String::from_utf8_lossy(&std::fs::read(&path).expect("readable")).into_owned();
        let (map, program, _) = parse_program(&path.display().to_string(), &text, &sources, &[]);
        let all: Vec<Diagram> = parsers(&program, &map).into_iter().chain(controls(&program, &map)).collect();
        assert!(!dot(&all).contains("nan"));
        for d in &all {
            check(d);
            count += 1;
        }
    }
    assert!(count > 3000, "{count} diagrams");
}

#[test]
fn random_graphs() {
    let mut r = Random::new(3);
    for size in 0..60 {
        let n = size % 20 + 1;
        let label = |r: &mut Random| "ab\ncd\nefghij".chars().take(r.below(13) as usize).collect::<String>();
        let nodes = (0..n).map(|_| Node { label: label(&mut r), shape: Shape::Code }).collect();
        let mut edges: Vec<Edge> = Vec::new();
        for _ in 0..r.below(3 * n as u64) {
            // Circles and loops included.
            let (from, to) = (r.below(n as u64) as usize, r.below(n as u64) as usize);
            if !edges.iter().any(|e| e.from == from && e.to == to) {
                let label = label(&mut r).trim().to_string();
                edges.push(Edge { from, to, label, line: Line::Solid });
            }
        }
        check(&Diagram { kind: Kind::Tables, name: String::new(), nodes, edges });
    }
}
