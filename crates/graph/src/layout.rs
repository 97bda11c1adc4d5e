//! Coordinates: nodes in layers from top to bottom, edges as curves between them, labels where nothing else is.

use crate::Diagram;
use crate::order::{forward, layers, untangle};

/// Sizes in pixels, for a font with characters of equal width.
const CHARACTER: f64 = 7.3;
const LINE: f64 = 15.0;
const PADDING: f64 = 9.0;
const BETWEEN_NODES: f64 = 22.0;
const BETWEEN_LAYERS: f64 = 20.0;
const MARGIN: f64 = 14.0;
/// Width of an edge from a node to itself.
const LOOP: f64 = 20.0;
/// How often nodes are moved towards their neighbours.
const SWEEPS: usize = 40;

/// A box: centre and size.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[allow(missing_docs)] // the names say it
pub struct Laid {
    pub x: f64,
    pub y: f64,
    pub width: f64,
    pub height: f64,
}

/// The way of an edge.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Route {
    /// From the border of one node to that of another, in the direction of the edge.
    pub points: Vec<(f64, f64)>,
    /// The box of its label.
    pub label: Option<Laid>,
}

/// A diagram with coordinates.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Layout {
    /// Of each node.
    pub nodes: Vec<Laid>,
    /// Of each edge.
    pub edges: Vec<Route>,
    /// The size of all of it.
    pub width: f64,
    /// The size of all of it.
    pub height: f64,
}

/// The size of a text.
fn size(text: &str, padding: f64) -> (f64, f64) {
    let longest = text.lines().map(|l| l.chars().count()).max().unwrap_or(0);
    let lines = text.lines().count();
    (longest as f64 * CHARACTER + 2.0 * padding, lines as f64 * LINE + 2.0 * padding)
}

/// Nodes and the joints of edges, in layers.
struct Grid {
    boxes: Vec<Laid>,
    rows: Vec<Vec<usize>>,
    /// From one layer to the next.
    links: Vec<(usize, usize)>,
    /// Of each edge of the diagram: its joints from top to bottom, whether it was turned, the joint with its label.
    paths: Vec<(Vec<usize>, bool, Option<usize>)>,
}

/// Places all nodes and edges of a diagram.
pub fn layout(d: &Diagram) -> Layout {
    let mut grid = grid(d);
    let count = grid.boxes.len();
    untangle(&mut grid.rows, &grid.links, count);
    // An edge from a node to itself needs room at its right.
    let room: Vec<(usize, f64)> =
        d.edges.iter().filter(|e| e.from == e.to).map(|e| (e.from, loop_width(&e.label))).collect();
    for (node, width) in &room {
        grid.boxes[*node].width += width;
    }
    columns(&mut grid);
    for (node, width) in room {
        grid.boxes[node].width -= width;
        grid.boxes[node].x -= width / 2.0;
    }
    lines(&mut grid);
    let mut out = Layout { nodes: grid.boxes[..d.nodes.len()].to_vec(), ..Layout::default() };
    out.edges = routes(d, &grid);
    let right = grid.boxes.iter().map(|b| b.x + b.width / 2.0);
    let loops = out.edges.iter().flat_map(|e| {
        let points = e.points.iter().map(|p| p.0);
        points.chain(e.label.iter().map(|l| l.x + l.width / 2.0))
    });
    out.width = right.chain(loops).fold(0.0, f64::max) + MARGIN;
    out.height = grid.boxes.iter().map(|b| b.y + b.height / 2.0).fold(0.0, f64::max) + MARGIN;
    out
}

fn grid(d: &Diagram) -> Grid {
    let mut boxes: Vec<Laid> = Vec::new();
    for n in &d.nodes {
        let (width, height) = size(&n.label, PADDING);
        boxes.push(Laid { width, height, ..Laid::default() });
    }
    // The label of an edge to the node itself is next to the node, and no higher.
    for e in d.edges.iter().filter(|e| e.from == e.to) {
        boxes[e.from].height = boxes[e.from].height.max(size(&e.label, 3.0).1);
    }
    let proper: Vec<(usize, usize)> =
        d.edges.iter().filter(|e| e.from != e.to).map(|e| (e.from, e.to)).collect();
    let turned = forward(d.nodes.len(), &proper);
    // Between two layers of nodes is one for labels.
    let layer: Vec<usize> = layers(d.nodes.len(), &turned).into_iter().map(|l| 2 * l).collect();
    let mut rows = vec![Vec::new(); layer.iter().max().map_or(0, |l| l + 1)];
    for (n, l) in layer.iter().enumerate() {
        rows[*l].push(n);
    }
    let (mut links, mut paths, mut next) = (Vec::new(), Vec::new(), turned.into_iter());
    for e in &d.edges {
        let Some((top, bottom, back)) = (if e.from == e.to { None } else { next.next() }) else {
            paths.push((Vec::new(), false, None));
            continue;
        };
        let (mut path, mut last, mut label) = (Vec::new(), top, None);
        for (l, row) in rows.iter_mut().enumerate().take(layer[bottom]).skip(layer[top] + 1) {
            let joint = boxes.len();
            let mut size_of = (1.0, 1.0);
            // Close to where the edge begins.
            let beginning = if back { layer[bottom] - 1 } else { layer[top] + 1 };
            if l == beginning && !e.label.is_empty() {
                size_of = size(&e.label, 3.0);
                label = Some(joint);
            }
            boxes.push(Laid { width: size_of.0, height: size_of.1, ..Laid::default() });
            row.push(joint);
            links.push((last, joint));
            path.push(joint);
            last = joint;
        }
        links.push((last, bottom));
        paths.push((path, back, label));
    }
    Grid { boxes, rows, links, paths }
}

/// Chooses `x`: every box close to the mean of its neighbours, none over another.
fn columns(grid: &mut Grid) {
    let Grid { boxes, rows, links, .. } = grid;
    let mut near: Vec<Vec<usize>> = vec![Vec::new(); boxes.len()];
    for (a, b) in links.iter() {
        near[*a].push(*b);
        near[*b].push(*a);
    }
    for row in rows.iter() {
        let mut x = 0.0;
        for n in row {
            boxes[*n].x = x + boxes[*n].width / 2.0;
            x += boxes[*n].width + BETWEEN_NODES;
        }
    }
    let apart = |a: &Laid, b: &Laid| (a.width + b.width) / 2.0 + BETWEEN_NODES;
    for sweep in 0..SWEEPS {
        let order: Vec<usize> =
            if sweep % 2 == 0 { (0..rows.len()).collect() } else { (0..rows.len()).rev().collect() };
        for r in order {
            let row = &rows[r];
            let wanted: Vec<f64> = row
                .iter()
                .map(|n| match near[*n].len() {
                    0 => boxes[*n].x,
                    k => near[*n].iter().map(|m| boxes[*m].x).sum::<f64>() / k as f64,
                })
                .collect();
            // As far right as the wishes from the left push, as far left as those from the right do; the mean keeps both
            // distances.
            let (mut pushed, mut pulled) = (wanted.clone(), wanted);
            for i in 1..row.len() {
                let gap = apart(&boxes[row[i - 1]], &boxes[row[i]]);
                pushed[i] = pushed[i].max(pushed[i - 1] + gap);
            }
            for i in (1..row.len()).rev() {
                let gap = apart(&boxes[row[i - 1]], &boxes[row[i]]);
                pulled[i - 1] = pulled[i - 1].min(pulled[i] - gap);
            }
            for (i, n) in row.iter().enumerate() {
                boxes[*n].x = (pushed[i] + pulled[i]) / 2.0;
            }
        }
    }
    let left = boxes.iter().map(|b| b.x - b.width / 2.0).fold(f64::INFINITY, f64::min);
    boxes.iter_mut().for_each(|b| b.x += MARGIN - left);
}

/// Chooses `y`: one line for each layer.
fn lines(grid: &mut Grid) {
    let mut y = MARGIN;
    for row in &grid.rows {
        let height = row.iter().map(|n| grid.boxes[*n].height).fold(0.0, f64::max);
        for n in row {
            grid.boxes[*n].y = y + height / 2.0;
        }
        // A layer without labels takes nothing.
        y += if height > 1.0 { height + BETWEEN_LAYERS } else { 0.0 };
    }
}

/// The ways of the edges. Several at one side of a node are spread over it in the order of where they go.
fn routes(d: &Diagram, grid: &Grid) -> Vec<Route> {
    let boxes = &grid.boxes;
    let ends = |i: usize| {
        let (e, back) = (&d.edges[i], grid.paths[i].1);
        if back { (e.to, e.from) } else { (e.from, e.to) }
    };
    // By node and side (below: true): the edges there, with the x to which each goes.
    let mut sides: std::collections::BTreeMap<(usize, bool), Vec<(f64, usize)>> = Default::default();
    for (i, (path, ..)) in grid.paths.iter().enumerate() {
        let (top, bottom) = ends(i);
        if top != bottom {
            let first = path.first().copied().unwrap_or(bottom);
            let last = path.last().copied().unwrap_or(top);
            sides.entry((top, true)).or_default().push((boxes[first].x, i));
            sides.entry((bottom, false)).or_default().push((boxes[last].x, i));
        }
    }
    for list in sides.values_mut() {
        list.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    let port = |node: usize, below: bool, edge: usize| {
        let b = &boxes[node];
        let list = sides.get(&(node, below)).map_or(&[][..], Vec::as_slice);
        let at = list.iter().position(|(_, e)| *e == edge).unwrap_or(0) as f64 + 1.0;
        let x = b.x - b.width / 2.0 + b.width * at / (list.len() as f64 + 1.0);
        (x, if below { b.y + b.height / 2.0 } else { b.y - b.height / 2.0 })
    };
    let mut out = Vec::new();
    for (i, (path, back, label)) in grid.paths.iter().enumerate() {
        let (top, bottom) = ends(i);
        if top == bottom {
            out.push(own(&boxes[top], &d.edges[i].label));
            continue;
        }
        let mut points = vec![port(top, true, i)];
        for joint in path {
            let b = &boxes[*joint];
            points.push((b.x, b.y - b.height / 2.0));
            points.push((b.x, b.y + b.height / 2.0));
        }
        points.push(port(bottom, false, i));
        if *back {
            points.reverse();
        }
        out.push(Route { points, label: label.map(|l| boxes[l]) });
    }
    out
}

/// What an edge from a node to itself takes, with its label.
fn loop_width(label: &str) -> f64 {
    LOOP + if label.is_empty() { 0.0 } else { size(label, 3.0).0 }
}

/// An edge from a node to itself: at its right side.
fn own(b: &Laid, label: &str) -> Route {
    let right = b.x + b.width / 2.0;
    let (up, down) = (b.y - b.height / 5.0, b.y + b.height / 5.0);
    let points = vec![(right, down), (right + LOOP - 2.0, down), (right + LOOP - 2.0, up), (right, up)];
    let (width, height) = size(label, 3.0);
    let place = Laid { x: right + LOOP + width / 2.0, y: b.y, width, height };
    Route { points, label: (!label.is_empty()).then_some(place) }
}
