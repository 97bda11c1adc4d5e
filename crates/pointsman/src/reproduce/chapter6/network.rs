//! The supervised learner of section 6.5.3: a neural network with three layers of ten nodes, which learns right weights from
//! recorded data, once.

use candle_core::{DType, Device, Tensor, Var};
use candle_nn::{AdamW, Optimizer, ParamsAdamW, loss, ops};
use pointsman_balance::learn::{Observation, Parameters, Step, Weigher, Weights};
use pointsman_sim::random::{Part, Stream};

/// What it sees: use of processors, use of accelerators, weight in force, each about 0 to 1.
const INPUTS: usize = 3;
const NODES: usize = 10;
const EPOCHS: usize = 600;

/// What was recorded of an interval, and the weight that would have been right.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Example {
    /// What was seen.
    pub inputs: [f32; INPUTS],
    /// The right weight of accelerators.
    pub right: u32,
}

/// What the network sees of an interval under these weights.
pub fn inputs(o: &Observation, weights: Weights, max_weight: u32) -> [f32; INPUTS] {
    [
        (o.cpu_mean_percent() / 100.0) as f32,
        (o.accelerator_mean_percent() / 100.0) as f32,
        weights.accelerator as f32 / max_weight.max(1) as f32,
    ]
}

struct Layer {
    weights: Var,
    bias: Var,
}

/// A network that was trained.
pub struct Network {
    layers: Vec<Layer>,
    parameters: Parameters,
    weights: Weights,
}

fn told(e: candle_core::Error) -> String {
    format!("the network: {e}")
}

impl Network {
    /// Trains one. Equal seeds and examples give equal networks.
    ///
    /// # Errors
    /// There are no examples.
    pub fn train(examples: &[Example], parameters: Parameters, seed: u64) -> Result<Self, String> {
        if examples.is_empty() {
            return Err("the network has nothing to learn from".into());
        }
        let outputs = parameters.max_weight as usize + 1;
        let mut random = Stream::new(seed, Part::Learner, 1);
        let sizes = [INPUTS, NODES, NODES, NODES, outputs];
        let mut layers = Vec::new();
        for pair in sizes.windows(2) {
            let (from, to) = (pair[0], pair[1]);
            // As He et al. begin with rectifiers.
            let scale = (2.0 / from as f64).sqrt();
            let values: Vec<f32> = (0..from * to).map(|_| (scale * random.normal()) as f32).collect();
            let weights = Tensor::from_vec(values, (from, to), &Device::Cpu).map_err(told)?;
            let bias = Tensor::zeros(to, DType::F32, &Device::Cpu).map_err(told)?;
            layers.push(Layer {
                weights: Var::from_tensor(&weights).map_err(told)?,
                bias: Var::from_tensor(&bias).map_err(told)?,
            });
        }
        let network = Network { layers, parameters, weights: parameters.first_weights() };
        network.fit(examples).map_err(told)?;
        Ok(network)
    }

    fn fit(&self, examples: &[Example]) -> candle_core::Result<()> {
        let flat: Vec<f32> = examples.iter().flat_map(|e| e.inputs).collect();
        let inputs = Tensor::from_vec(flat, (examples.len(), INPUTS), &Device::Cpu)?;
        let right: Vec<u32> = examples.iter().map(|e| e.right.min(self.parameters.max_weight)).collect();
        let right = Tensor::from_vec(right, examples.len(), &Device::Cpu)?;
        let vars = self.layers.iter().flat_map(|l| [l.weights.clone(), l.bias.clone()]).collect();
        let mut optimiser =
            AdamW::new(vars, ParamsAdamW { lr: 0.01, weight_decay: 1e-4, ..ParamsAdamW::default() })?;
        for _ in 0..EPOCHS {
            let loss = loss::nll(&ops::log_softmax(&self.forward(&inputs)?, 1)?, &right)?;
            optimiser.backward_step(&loss)?;
        }
        Ok(())
    }

    fn forward(&self, inputs: &Tensor) -> candle_core::Result<Tensor> {
        let mut values = inputs.clone();
        for (i, layer) in self.layers.iter().enumerate() {
            values = values.matmul(&layer.weights)?.broadcast_add(&layer.bias)?;
            if i + 1 < self.layers.len() {
                values = values.relu()?;
            }
        }
        Ok(values)
    }

    /// The weight that it takes for right.
    ///
    /// # Errors
    /// The library's.
    pub fn choose(&self, inputs: [f32; INPUTS]) -> Result<u32, String> {
        let of = || {
            let inputs = Tensor::from_vec(inputs.to_vec(), (1, INPUTS), &Device::Cpu)?;
            self.forward(&inputs)?.flatten_all()?.to_vec1::<f32>()
        };
        let values = of().map_err(told)?;
        let best = (0..values.len()).fold(0, |best, i| if values[i] > values[best] { i } else { best });
        Ok(best as u32)
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
        // What cannot be computed leaves weights as they are.
        if let Ok(chosen) = self.choose(inputs(o, self.weights, self.parameters.max_weight)) {
            self.weights.accelerator = chosen;
        }
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
        let right = examples.iter().filter(|e| network.choose(e.inputs) == Ok(e.right)).count();
        assert!(right >= 38, "{right} of {}", examples.len());
        let again = Network::train(&examples, p, 1).expect("it trains");
        assert!(examples.iter().all(|e| network.choose(e.inputs) == again.choose(e.inputs)));
        assert!(Network::train(&[], p, 1).is_err());
    }
}
