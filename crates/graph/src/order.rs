//! The first steps of a layered layout (Sugiyama, Tagawa and Toda, "Methods for Visual Understanding of Hierarchical System
//! Structures", 1981): edges that go back are turned, nodes get layers, and the nodes of each layer an order with few crossings.

/// How often all layers are ordered by their neighbours.
const SWEEPS: usize = 24;

/// Edges as pairs of nodes, all of which go forward: those that close a circle are turned. Returned with each: whether it was.
pub fn forward(nodes: usize, edges: &[(usize, usize)]) -> Vec<(usize, usize, bool)> {
    let mut after = vec![Vec::new(); nodes];
    for (a, b) in edges {
        after[*a].push(*b);
    }
    // Depth first; an edge to a node that is not left yet goes back.
    let (mut open, mut left) = (vec![false; nodes], vec![false; nodes]);
    let mut back = std::collections::BTreeSet::new();
    for root in 0..nodes {
        let mut stack = vec![(root, 0)];
        while let Some((node, next)) = stack.pop() {
            if next == 0 && std::mem::replace(&mut open[node], true) {
                continue;
            }
            match after[node].get(next) {
                None => left[node] = true,
                Some(to) => {
                    stack.push((node, next + 1));
                    if !open[*to] {
                        stack.push((*to, 0));
                    } else if !left[*to] {
                        back.insert((node, *to));
                    }
                }
            }
        }
    }
    edges
        .iter()
        .map(|(a, b)| if back.contains(&(*a, *b)) { (*b, *a, true) } else { (*a, *b, false) })
        .collect()
}

/// The layer of each node: below all nodes with edges to it, and then as low as the next ones allow for nodes without any.
pub fn layers(nodes: usize, edges: &[(usize, usize, bool)]) -> Vec<usize> {
    let mut layer = vec![0; nodes];
    // No chain is longer than the number of nodes.
    for _ in 0..nodes {
        let mut changed = false;
        for (a, b, _) in edges {
            if layer[*b] <= layer[*a] {
                layer[*b] = layer[*a] + 1;
                changed = true;
            }
        }
        if !changed {
            break;
        }
    }
    for node in (0..nodes).rev() {
        if edges.iter().all(|(_, b, _)| *b != node) {
            let next = edges.iter().filter(|(a, ..)| *a == node).map(|(_, b, _)| layer[*b]).min();
            layer[node] = next.map_or(layer[node], |n| n - 1);
        }
    }
    layer
}

/// Orders `rows`, the nodes of each layer, so that few of the `edges`, which go from one layer to the next, cross.
pub fn untangle(rows: &mut Vec<Vec<usize>>, edges: &[(usize, usize)], nodes: usize) {
    let (mut above, mut below) = (vec![Vec::new(); nodes], vec![Vec::new(); nodes]);
    for (a, b) in edges {
        below[*a].push(*b);
        above[*b].push(*a);
    }
    let mut place = vec![0; nodes];
    let number = |rows: &[Vec<usize>], place: &mut Vec<usize>| {
        for row in rows {
            row.iter().enumerate().for_each(|(i, n)| place[*n] = i);
        }
    };
    number(rows, &mut place);
    let mut best = (crossings(rows, &below, &place), rows.clone());
    for sweep in 0..SWEEPS {
        let down = sweep % 2 == 0;
        let indices: Vec<usize> =
            if down { (0..rows.len()).collect() } else { (0..rows.len()).rev().collect() };
        for i in indices {
            let neighbours = if down { &above } else { &below };
            let mean = |n: &usize| {
                let list = &neighbours[*n];
                match list.len() {
                    0 => place[*n] as f64,
                    k => list.iter().map(|m| place[*m] as f64).sum::<f64>() / k as f64,
                }
            };
            let mut keyed: Vec<(f64, usize)> = rows[i].iter().map(|n| (mean(n), *n)).collect();
            keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
            rows[i] = keyed.into_iter().map(|(_, n)| n).collect();
            rows[i].iter().enumerate().for_each(|(k, n)| place[*n] = k);
        }
        let now = crossings(rows, &below, &place);
        if now < best.0 {
            best = (now, rows.clone());
        }
    }
    *rows = best.1;
}

/// Pairs of edges between successive layers that cross.
pub fn crossings(rows: &[Vec<usize>], below: &[Vec<usize>], place: &[usize]) -> usize {
    let mut count = 0;
    for row in rows {
        // The places below in the order of the row: inversions are crossings.
        let mut seen: Vec<usize> = Vec::new();
        for n in row {
            let ends: Vec<usize> = below[*n].iter().map(|m| place[*m]).collect();
            for e in &ends {
                count += seen.len() - seen.partition_point(|s| s <= e);
            }
            for e in ends {
                let at = seen.partition_point(|s| *s <= e);
                seen.insert(at, e);
            }
        }
    }
    count
}
