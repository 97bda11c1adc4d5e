//! Dense layers: the detector of anomalies; and matrices that are multiplied for their own sake.

use super::{Answer, largest, query_numbers, random_matrix, weights};
use crate::rng::Rng;
use ndarray::{Array2, linalg::general_mat_mul};

/// Features of a flow in UNSW-NB15, without identifiers and labels.
const FEATURES: usize = 39;
/// Neurons of the layers.
const LAYERS: [usize; 5] = [FEATURES, 128, 64, 32, 2];

/// A multilayer perceptron: normal or not.
pub struct Detector {
    flows: usize,
    layers: Vec<Array2<f32>>,
}

impl Detector {
    pub fn new(flows: usize, seed: u64) -> Self {
        let mut rng = Rng::for_part(seed, "ad");
        let layers = LAYERS.windows(2).map(|w| weights(&mut rng, w[1], w[0])).collect();
        Detector { flows, layers }
    }
}

impl Answer for Detector {
    /// The last flow's class, and how sure that is.
    fn answer(&self, query: u64) -> (u64, f64) {
        let mut rng = query_numbers(query);
        let mut values = random_matrix(&mut rng, FEATURES, self.flows, 1.0);
        for (i, layer) in self.layers.iter().enumerate() {
            values = layer.dot(&values);
            if i + 1 < self.layers.len() {
                values.mapv_inplace(|v| v.max(0.0));
            }
        }
        largest(values.column(self.flows - 1).iter().copied())
    }
}

/// Side of the matrices.
const SIDE: usize = 256;
/// Floating-point operations of one multiplication: each element takes as many multiplications and additions as a side has.
const OPERATIONS: u64 = 2 * (SIDE * SIDE * SIDE) as u64;

/// At least this many million floating-point operations, as multiplications of matrices: whole rows, so a little more.
pub struct Multiplications {
    whole: u64,
    rows: usize,
    left: Array2<f32>,
    right: Array2<f32>,
}

impl Multiplications {
    pub fn new(mflop: usize, seed: u64) -> Self {
        let mut rng = Rng::for_part(seed, "gflop");
        let wanted = mflop as u64 * 1_000_000;
        let rest = wanted % OPERATIONS;
        let rows = rest.div_ceil(2 * (SIDE * SIDE) as u64) as usize;
        Multiplications {
            whole: wanted / OPERATIONS,
            rows,
            left: random_matrix(&mut rng, SIDE, SIDE, 0.1),
            right: random_matrix(&mut rng, SIDE, SIDE, 0.1),
        }
    }
}

impl Answer for Multiplications {
    /// The number of multiplications, and a corner of the result.
    fn answer(&self, _query: u64) -> (u64, f64) {
        let mut out = Array2::zeros((SIDE, SIDE));
        for _ in 0..self.whole {
            general_mat_mul(1.0, &self.left, &self.right, 0.0, std::hint::black_box(&mut out));
        }
        let part = self.left.slice(ndarray::s![..self.rows, ..]).dot(&self.right);
        let corner = part.first().or(out.first()).copied().unwrap_or(0.0);
        (self.whole, f64::from(corner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_as_many_as_asked_for() {
        for mflop in [1, 33, 34, 2_000] {
            let m = Multiplications::new(mflop, 1);
            let done = m.whole * OPERATIONS + (m.rows * 2 * SIDE * SIDE) as u64;
            let wanted = mflop as u64 * 1_000_000;
            assert!(done >= wanted && done < wanted + 2 * (SIDE * SIDE) as u64, "{mflop}: {done}");
        }
    }
}
