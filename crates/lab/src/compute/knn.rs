//! Nearest neighbours by brute force, as scikit-learn's `algorithm="brute"`.

use super::{Answer, query_numbers};
use crate::rng::Rng;
use ndarray::{Array1, Array2, Axis};

/// Pixels of an image.
const PIXELS: usize = 28 * 28;
/// Neighbours that vote.
const NEIGHBOURS: usize = 3;

/// Images with a class each.
pub struct Images {
    images: Array2<f32>,
    /// The squared length of each.
    lengths: Array1<f32>,
    classes: Vec<u8>,
}

impl Images {
    pub fn new(count: usize, seed: u64) -> Self {
        let mut rng = Rng::for_part(seed, "knn");
        let images = Array2::from_shape_simple_fn((count, PIXELS), || rng.unit() as f32);
        let lengths = images.map_axis(Axis(1), |row| row.dot(&row));
        let classes = (0..count).map(|_| (rng.next_u64() % 10) as u8).collect();
        Images { images, lengths, classes }
    }

    /// Squared distances to all images: |a - b|^2 = |a|^2 - 2ab + |b|^2, without the last, which is the same for all.
    fn distances(&self, query: &Array1<f32>) -> Array1<f32> {
        let mut out = self.images.dot(query);
        out.zip_mut_with(&self.lengths, |d, length| *d = length - 2.0 * *d);
        out
    }

    /// The nearest, nearest first.
    fn nearest(&self, query: &Array1<f32>) -> [(f32, usize); NEIGHBOURS] {
        let mut best = [(f32::INFINITY, 0); NEIGHBOURS];
        for (i, distance) in self.distances(query).iter().enumerate() {
            if let Some(place) = best.iter().position(|(d, _)| distance < d) {
                best[place..].rotate_right(1);
                best[place] = (*distance, i);
            }
        }
        best
    }
}

impl Answer for Images {
    /// The class that most of the nearest have, or the nearest's; and its distance.
    fn answer(&self, query: u64) -> (u64, f64) {
        let mut rng = query_numbers(query);
        let image = Array1::from_shape_simple_fn(PIXELS, || rng.unit() as f32);
        let best = self.nearest(&image);
        let class = |i: usize| self.classes.get(best[i].1).copied().unwrap_or(0);
        // Of three, two of the same class have the majority; where all differ, the nearest decides.
        let winner = if class(1) == class(2) { class(1) } else { class(0) };
        (u64::from(winner), f64::from(best[0].0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_nearest_to_itself() {
        let images = Images::new(100, 1);
        for i in [0, 42, 99] {
            let nearest = images.nearest(&images.images.row(i).to_owned());
            assert_eq!(nearest[0].1, i);
            assert!(nearest[0].0 < nearest[1].0 && nearest[1].0 <= nearest[2].0);
        }
        // The same as by the definition.
        let query = Array1::from_elem(PIXELS, 0.3);
        let by_definition = |i: usize| images.images.row(i).iter().map(|v| (v - 0.3).powi(2)).sum::<f32>();
        let mut all: Vec<usize> = (0..100).collect();
        all.sort_by(|a, b| by_definition(*a).total_cmp(&by_definition(*b)));
        let found: Vec<usize> = images.nearest(&query).iter().map(|n| n.1).collect();
        assert_eq!(found, all[..3]);
    }
}
