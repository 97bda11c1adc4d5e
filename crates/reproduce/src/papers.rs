//! The papers' measurements, as far as numbers are known: mostly from the logs published by the authors. `papers.csv` has
//! a chart's name, a curve, and the values of both axes, in the units of our chart.
//!
//! Figure 5.7: P99 in ms against offered requests per second (anomaly detection: requests *answered* per second, since its
//! clients could not reach the intended rates; points after saturation are omitted). 5.8 and 5.9: completion time in s.
//! 5.10: P99 in ms against reports per second, without the point of 200, whose log is a copy of that of 100. 5.11: mean P99 in
//! ms. 5.12 and 5.13, by number of servers: the thesis's score of throughput, and P99 in ms, against offered requests per second.
//!
//! P4TE, figures 8 to 10, 12 and 13: the mean FCT in seconds, one run each, of the published logs; its ECMP is our `letflow`. 13 is the mean over short and
//! large flows.
//!
//! From the text only, since the figures are pictures: 5.14, "approximately 10 %" with 64 and 128 servers. 6.4 and 6.7: accuracy
//! of 90 % at the turning point of 128 servers, of 95 % up to 3,000/s with 256. 6.8: accuracy in per cent against decisions since the
//! second SmartNIC was added; of P4Wise "exceeds 90 %" before, and again some 250 decisions after.

use super::figure::Curve;

/// The curves of a chart; none where no numbers are known.
pub fn curves(chart: &str) -> Vec<Curve> {
    let mut found: Vec<(String, Vec<(f64, f64)>)> = Vec::new();
    for line in include_str!("papers.csv").lines().skip(1) {
        let cells: Vec<&str> = line.split(',').collect();
        let [of, curve, x, y] = cells.as_slice() else { continue };
        let (Ok(x), Ok(y)) = (x.parse(), y.parse()) else { continue };
        if *of != chart {
            continue;
        }
        match found.iter_mut().find(|(name, _)| name == curve) {
            Some((_, points)) => points.push((x, y)),
            None => found.push(((*curve).to_string(), vec![(x, y)])),
        }
    }
    found.iter().map(|(name, points)| Curve::paper(name, points)).collect()
}

/// The same, moved along the axis.
pub fn moved(chart: &str, by: f64) -> Vec<Curve> {
    let mut found = curves(chart);
    found.iter_mut().flat_map(|c| &mut c.points).for_each(|p| p.x += by);
    found
}

/// Curves of another figure of the same data, as far as they lie within our axis; each is labelled with its figure.
pub fn borrowed(chart: &str, figure: &str, names: &[&str], (from, to): (f64, f64)) -> Vec<Curve> {
    let mut found = curves(chart);
    found.retain(|c| names.contains(&c.name.as_str()));
    for c in &mut found {
        c.name = format!("{}, figure {figure}", c.name);
        c.points.retain(|p| (from..=to).contains(&p.x));
    }
    found.retain(|c| !c.points.is_empty());
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_read() {
        let text = include_str!("papers.csv");
        let charts: std::collections::BTreeSet<&str> =
            text.lines().skip(1).filter_map(|l| l.split(',').next()).collect();
        let points = charts.iter().flat_map(|c| curves(c)).map(|c| c.points.len()).sum::<usize>();
        assert_eq!(points, text.lines().count() - 1);
        let knn = curves("5.7-knn");
        assert_eq!(knn[0].at(8.0), Some([261.8].as_slice()));
        assert_eq!(moved("6.8", 300.0)[0].at(301.0), Some([65.0].as_slice()));
        let from_513 = borrowed("5.13-64", "5.13", &["prt", "wrr"], (500.0, 1000.0));
        assert_eq!(from_513.len(), 2);
        assert_eq!((from_513[0].name.as_str(), from_513[0].points.len()), ("prt, figure 5.13", 3));
        assert!(borrowed("5.13-64", "5.13", &["prt"], (0.0, 1.0)).is_empty());
    }
}
