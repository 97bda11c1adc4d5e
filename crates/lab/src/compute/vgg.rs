//! VGG16 (Simonyan and Zisserman, "Very deep convolutional networks for large-scale image recognition", 2015,
//! configuration D): thirteen convolutions of 3 x 3 in five blocks, three dense layers.

use super::{Answer, largest, query_numbers, random_matrix, weights};
use crate::rng::Rng;
use ndarray::{Array1, Array2};

/// Channels of the convolutions, block by block; after each block the sides are halved.
const BLOCKS: [&[usize]; 5] = [&[64, 64], &[128, 128], &[256, 256, 256], &[512, 512, 512], &[512, 512, 512]];
/// Neurons of the dense layers.
const DENSE: [usize; 3] = [4096, 4096, 1000];

/// The network.
pub struct Vgg16 {
    side: usize,
    /// For each convolution, outputs by inputs and place.
    blocks: Vec<Vec<Array2<f32>>>,
    dense: Vec<Array2<f32>>,
}

/// A square image of some channels: a row for each channel.
struct Image {
    side: usize,
    channels: Array2<f32>,
}

impl Image {
    /// A column for each pixel with the 3 x 3 pixels around it in every channel, zero outside of the image.
    fn patches(&self) -> Array2<f32> {
        let (side, count) = (self.side, self.channels.nrows());
        let mut out = Array2::zeros((count * 9, side * side));
        for channel in 0..count {
            let from = self.channels.row(channel);
            for place in 0..9 {
                let (dy, dx) = (place / 3, place % 3);
                let mut to = out.row_mut(channel * 9 + place);
                // Where the neighbour is inside: y + dy - 1 and x + dx - 1 are below the side.
                for y in usize::from(dy == 0)..(side + 1 - dy).min(side) {
                    for x in usize::from(dx == 0)..(side + 1 - dx).min(side) {
                        to[y * side + x] = from[(y + dy - 1) * side + x + dx - 1];
                    }
                }
            }
        }
        out
    }

    fn convolved(&self, kernel: &Array2<f32>) -> Image {
        let mut channels = kernel.dot(&self.patches());
        channels.mapv_inplace(|v| v.max(0.0));
        Image { side: self.side, channels }
    }

    /// The largest of each 2 x 2 pixels.
    fn halved(&self) -> Image {
        let half = self.side / 2;
        let channels = Array2::from_shape_fn((self.channels.nrows(), half * half), |(c, i)| {
            let (y, x) = (2 * (i / half), 2 * (i % half));
            let at = |dy: usize, dx: usize| self.channels[(c, (y + dy) * self.side + x + dx)];
            at(0, 0).max(at(0, 1)).max(at(1, 0)).max(at(1, 1))
        });
        Image { side: half, channels }
    }
}

impl Vgg16 {
    pub fn new(side: usize, seed: u64) -> Self {
        let mut rng = Rng::for_part(seed, "vgg16");
        let mut inputs = 3;
        let mut block = |outputs: &[usize], rng: &mut Rng| {
            let mut layers = Vec::new();
            for n in outputs {
                layers.push(weights(rng, *n, inputs * 9));
                inputs = *n;
            }
            layers
        };
        let blocks = BLOCKS.iter().map(|outputs| block(outputs, &mut rng)).collect();
        // Five times halved.
        let mut inputs = 512 * (side / 32) * (side / 32);
        let mut dense = Vec::new();
        for n in DENSE {
            dense.push(weights(&mut rng, n, inputs));
            inputs = n;
        }
        Vgg16 { side, blocks, dense }
    }
}

impl Answer for Vgg16 {
    /// The class of a thousand, and its value.
    fn answer(&self, query: u64) -> (u64, f64) {
        let mut rng = query_numbers(query);
        let mut image =
            Image { side: self.side, channels: random_matrix(&mut rng, 3, self.side * self.side, 1.0) };
        for block in &self.blocks {
            for kernel in block {
                image = image.convolved(kernel);
            }
            image = image.halved();
        }
        let mut values: Array1<f32> = image.channels.iter().copied().collect();
        for (i, layer) in self.dense.iter().enumerate() {
            values = layer.dot(&values);
            if i + 1 < self.dense.len() {
                values.mapv_inplace(|v| v.max(0.0));
            }
        }
        largest(values.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn convolutions_are_what_they_are_by_definition() {
        let side = 4;
        let mut rng = Rng::for_part(1, "test");
        let image = Image { side, channels: random_matrix(&mut rng, 2, side * side, 1.0) };
        let kernel = random_matrix(&mut rng, 3, 2 * 9, 1.0);
        let got = image.convolved(&kernel);
        for out in 0..3 {
            for y in 0..side {
                for x in 0..side {
                    let mut sum = 0.0;
                    for c in 0..2 {
                        for place in 0..9 {
                            let (yy, xx) = ((y + place / 3).wrapping_sub(1), (x + place % 3).wrapping_sub(1));
                            if yy < side && xx < side {
                                sum += kernel[(out, c * 9 + place)] * image.channels[(c, yy * side + xx)];
                            }
                        }
                    }
                    let value = got.channels[(out, y * side + x)];
                    assert!((value - sum.max(0.0)).abs() < 1e-5, "{out} {y} {x}: {value}, not {sum}");
                }
            }
        }
        let halved = image.halved();
        let first = [0, 1, 4, 5].map(|i| image.channels[(0, i)]).into_iter().fold(f32::MIN, f32::max);
        assert_eq!((halved.side, halved.channels[(0, 0)]), (2, first));
    }

    #[test]
    fn it_has_as_many_weights_as_published() {
        let count =
            |net: &Vgg16| net.blocks.iter().flatten().chain(&net.dense).map(|w| w.len()).sum::<usize>();
        // At 224 it has 138,344,128 weights without biases; at 32 the first dense layer is 49 times smaller.
        let saved = 4096 * 512 * (49 - 1);
        assert_eq!(count(&Vgg16::new(32, 1)), 138_344_128 - saved);
    }
}
