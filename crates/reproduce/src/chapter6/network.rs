//! The supervised learner of section 6.5.3: a neural network with three layers of ten nodes, which learns right weights from
//! recorded data, once.

use crate::error::ExperimentError;
use pointsman_decide::{Observation, Parameters, Step, Weigher, Weights};
use pointsman_sim::random::{Part, Stream};

/// Inputs: utilisation of processors, of accelerators, current weight, each about 0 to 1.
const INPUTS: usize = 3;
const NODES: usize = 10;
const EPOCHS: usize = 600;

/// Recorded inputs of an interval, and the weight that would have been right.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Example {
    /// The inputs.
    pub inputs: [f32; INPUTS],
    /// The right weight of accelerators.
    pub right: u32,
}

/// The network's inputs of an interval under these weights.
pub fn inputs(o: &Observation, weights: Weights, max_weight: u32) -> [f32; INPUTS] {
    [
        (o.cpu_mean_percent() / 100.0) as f32,
        (o.accelerator_mean_percent() / 100.0) as f32,
        weights.accelerator as f32 / max_weight.max(1) as f32,
    ]
}

/// A fully connected layer: `outputs = inputs * weights + bias`.
#[derive(Clone)]
struct Layer {
    /// One row for each input, a column for each output.
    weights: Vec<f64>,
    bias: Vec<f64>,
}

impl Layer {
    fn forward(&self, inputs: &[f64]) -> Vec<f64> {
        let mut out = self.bias.clone();
        for (x, row) in inputs.iter().zip(self.weights.chunks(out.len())) {
            out.iter_mut().zip(row).for_each(|(o, w)| *o += x * w);
        }
        out
    }

    /// Adds the gradients of one example to `sum` and returns the gradient of the inputs.
    fn backward(&self, inputs: &[f64], outer: &[f64], sum: &mut Layer) -> Vec<f64> {
        sum.bias.iter_mut().zip(outer).for_each(|(s, g)| *s += g);
        let rows = self.weights.chunks(outer.len()).zip(sum.weights.chunks_mut(outer.len()));
        let input = |(x, (row, sums)): (&f64, (&[f64], &mut [f64]))| {
            sums.iter_mut().zip(outer).for_each(|(s, g)| *s += x * g);
            row.iter().zip(outer).map(|(w, g)| w * g).sum()
        };
        inputs.iter().zip(rows).map(input).collect()
    }

    fn numbers(&mut self) -> impl Iterator<Item = &mut f64> {
        self.weights.iter_mut().chain(&mut self.bias)
    }

    fn zeros(&self) -> Layer {
        Layer { weights: vec![0.0; self.weights.len()], bias: vec![0.0; self.bias.len()] }
    }
}

/// Adam with decoupled weight decay (Loshchilov and Hutter, "Decoupled weight decay regularization", algorithm 2).
struct AdamW {
    /// First and second moments of each layer's gradients.
    moments: Vec<(Layer, Layer)>,
    step: i32,
}

impl AdamW {
    const RATE: f64 = 0.01;
    const DECAY: f64 = 1e-4;
    const BETAS: (f64, f64) = (0.9, 0.999);
    const EPSILON: f64 = 1e-8;

    fn update(&mut self, layers: &mut [Layer], gradients: &mut [Layer]) {
        self.step += 1;
        let (b1, b2) = Self::BETAS;
        let (fix1, fix2) =
            (1.0 - libm::pow(b1, f64::from(self.step)), 1.0 - libm::pow(b2, f64::from(self.step)));
        for ((layer, gradient), (first, second)) in layers.iter_mut().zip(gradients).zip(&mut self.moments) {
            let moments = first.numbers().zip(second.numbers());
            for ((theta, g), (m, v)) in layer.numbers().zip(gradient.numbers()).zip(moments) {
                *m = b1 * *m + (1.0 - b1) * *g;
                *v = b2 * *v + (1.0 - b2) * *g * *g;
                *theta -=
                    Self::RATE * (Self::DECAY * *theta + *m / fix1 / ((*v / fix2).sqrt() + Self::EPSILON));
            }
        }
    }
}

/// A trained network.
pub struct Network {
    layers: Vec<Layer>,
    parameters: Parameters,
    weights: Weights,
}

impl Network {
    /// Trains a network. Equal seeds and examples give equal networks.
    ///
    /// # Errors
    /// The examples are empty.
    pub fn train(examples: &[Example], parameters: Parameters, seed: u64) -> Result<Self, ExperimentError> {
        if examples.is_empty() {
            return Err(ExperimentError::None("examples to learn from"));
        }
        let outputs = parameters.max_weight as usize + 1;
        let mut random = Stream::new(seed, Part::Learner, 1);
        let sizes = [INPUTS, NODES, NODES, NODES, outputs];
        let mut layers = Vec::new();
        for pair in sizes.windows(2) {
            let (from, to) = (pair[0], pair[1]);
            // The usual start for rectifiers (He et al., 2015).
            let scale = (2.0 / from as f64).sqrt();
            let weights = (0..from * to).map(|_| scale * random.normal()).collect();
            layers.push(Layer { weights, bias: vec![0.0; to] });
        }
        let mut network = Network { layers, parameters, weights: parameters.first_weights() };
        network.fit(examples);
        Ok(network)
    }

    fn fit(&mut self, examples: &[Example]) {
        let zeros = || self.layers.iter().map(Layer::zeros).collect::<Vec<_>>();
        let moments = zeros().into_iter().zip(zeros()).collect();
        let mut optimiser = AdamW { moments, step: 0 };
        for _ in 0..EPOCHS {
            let mut gradients = self.layers.iter().map(Layer::zeros).collect::<Vec<_>>();
            for example in examples {
                self.backward(example, 1.0 / examples.len() as f64, &mut gradients);
            }
            optimiser.update(&mut self.layers, &mut gradients);
        }
    }

    /// Adds the gradient of `share` times the cross entropy of one example.
    fn backward(&self, example: &Example, share: f64, gradients: &mut [Layer]) {
        let values = self.forward(example.inputs);
        let logits = &values[self.layers.len()];
        let most = logits.iter().copied().fold(f64::MIN, f64::max);
        let exps: Vec<f64> = logits.iter().map(|l| libm::exp(l - most)).collect();
        let total: f64 = exps.iter().sum();
        let right = example.right.min(self.parameters.max_weight) as usize;
        let gradient = |(i, e): (usize, &f64)| share * (e / total - f64::from(u8::from(i == right)));
        let mut outer: Vec<f64> = exps.iter().enumerate().map(gradient).collect();
        for (i, layer) in self.layers.iter().enumerate().rev() {
            outer = layer.backward(&values[i], &outer, &mut gradients[i]);
            // The rectifier before this layer; the inputs of the first have none, and their gradient is not used.
            outer.iter_mut().zip(&values[i]).filter(|(_, x)| **x <= 0.0).for_each(|(g, _)| *g = 0.0);
        }
    }

    /// The inputs, then each layer's output, after a rectifier except for the last.
    fn forward(&self, inputs: [f32; INPUTS]) -> Vec<Vec<f64>> {
        let mut values = vec![inputs.map(f64::from).to_vec()];
        for (i, layer) in self.layers.iter().enumerate() {
            let mut out = layer.forward(&values[i]);
            if i + 1 < self.layers.len() {
                out.iter_mut().for_each(|x| *x = x.max(0.0));
            }
            values.push(out);
        }
        values
    }

    /// The weight of accelerators that the network takes for right.
    pub fn choose(&self, inputs: [f32; INPUTS]) -> u32 {
        let values = self.forward(inputs);
        let values = &values[self.layers.len()];
        let best = (0..values.len()).fold(0, |best, i| if values[i] > values[best] { i } else { best });
        best as u32
    }
}

impl Weigher for Network {
    fn weights(&self) -> Weights {
        self.weights
    }

    fn set_weights(&mut self, weights: Weights) {
        self.weights = weights;
    }

    fn step(&mut self, o: &Observation, _: &mut dyn FnMut() -> f64) -> Step {
        let verdict = self.parameters.judge(o, self.weights);
        self.weights.accelerator = self.choose(inputs(o, self.weights, self.parameters.max_weight));
        Step { weights: self.weights, verdict, reward: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A rule that no straight line draws: weight 1 where processors are busy or accelerators are, not where both are.
    fn examples() -> Vec<Example> {
        let corner = |i: u32| [f32::from(i & 1 == 1), f32::from(i & 2 == 2)];
        let one = |i: u32| {
            let [a, b] = corner(i);
            let (a, b) = (a * 0.8 + 0.02 * (i / 4) as f32, b * 0.8 + 0.01 * (i / 4) as f32);
            Example { inputs: [a, b, 0.0], right: u32::from((a > 0.5) != (b > 0.5)) }
        };
        (0..40).map(one).collect()
    }

    #[test]
    fn it_learns_what_it_is_shown() {
        let (p, examples) = (Parameters::default(), examples());
        let network = Network::train(&examples, p, 1).expect("it trains");
        let right = examples.iter().filter(|e| network.choose(e.inputs) == e.right).count();
        assert!(right >= 38, "{right} of {}", examples.len());
        let again = Network::train(&examples, p, 1).expect("it trains");
        assert!(examples.iter().all(|e| network.choose(e.inputs) == again.choose(e.inputs)));
        assert!(Network::train(&[], p, 1).is_err());
    }
}
