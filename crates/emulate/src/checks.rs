//! What a network's owner should know before it runs, although it is not wrong.

use crate::load::Start;
use crate::plan::Plan;
use pointsman_topology::{End, SwitchId};

/// Notices about a plan and what its switches start with.
pub(crate) fn notices(plan: &Plan, starts: &[Start]) -> Vec<String> {
    let mut out: Vec<String> = cycle(plan).into_iter().collect();
    let waiting = (0..).map(SwitchId).zip(starts).filter(|(_, start)| start.program.is_none());
    out.extend(
        waiting
            .map(|(id, _)| format!("{} has no program: it waits for one of a controller", plan.switch(id))),
    );
    out
}

/// A notice about cycles of switches: a program that floods sends packets around them for ever.
fn cycle(plan: &Plan) -> Option<String> {
    // For each switch, the first one of those that are joined with it so far.
    let mut joined: Vec<usize> = (0..plan.switches.len()).collect();
    let mut closing = Vec::new();
    for link in plan.topology.links() {
        let [End::Switch(a, _), End::Switch(b, _)] = link.ends else { continue };
        let (x, y) = (joined[a.0 as usize], joined[b.0 as usize]);
        if x == y {
            closing.push(format!("{}-{}", plan.switch(a), plan.switch(b)));
        }
        joined.iter_mut().filter(|of| **of == y).for_each(|of| *of = x);
    }
    (!closing.is_empty()).then(|| {
        let (links, close) = match closing.len() {
            1 => ("the link", "closes a cycle"),
            _ => ("the links", "close cycles"),
        };
        format!(
            "{links} {} {close} of switches. A program that floods packets sends them around a cycle without end; `link NODE NODE down` cuts \
             a link",
            closing.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::read;

    fn said(links: &str) -> Vec<String> {
        let text = format!(
            r#"{{"hosts": {{"h1": {{"ip": "10.0.0.1/24", "mac": "02:00:00:00:00:01"}}}},
            "switches": {{"s1": {{}}, "s2": {{}}, "s3": {{}}}}, "links": [["h1", "s1-p9"], {links}]}}"#
        );
        let plan = read(&text).expect("a topology");
        let with = Start { program: Some(String::new()), ..Start::default() };
        notices(&plan, &[with.clone(), with, Start::default()])
    }

    #[test]
    fn cycles_and_missing_programs() {
        let line = said(r#"["s1-p1", "s2-p1"], ["s2-p2", "s3-p1"]"#);
        assert_eq!(line, ["s3 has no program: it waits for one of a controller"]);
        let ring = said(r#"["s1-p1", "s2-p1"], ["s2-p2", "s3-p1"], ["s3-p2", "s1-p2"], ["s1-p3", "s2-p3"]"#);
        assert!(
            ring[0].starts_with("the links s3-s1, s1-s2 close cycles of switches. A program"),
            "{ring:?}"
        );
    }
}
