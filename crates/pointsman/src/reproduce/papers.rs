//! What the papers measured, as far as its numbers are known: mostly from the logs that the authors published. `papers.csv` has
//! a chart's name, a curve, and the values of both axes, in the units of our chart.
//!
//! Figure 5.7: P99 in ms against offered requests per second (anomaly detection: requests *answered* per second, since its
//! clients could not send what they were asked to; points after saturation are left out). 5.8 and 5.9: completion time in s.
//! 5.10: P99 in ms against reports per second, without the point of 200, whose log is a copy of that of 100. 5.11: mean P99 in
//! ms. 5.12 and 5.13, by number of servers: the thesis's score of throughput, and P99 in ms, against offered requests per second.

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
    }
}
