//! Real work for devices: the applications that papers measure accelerators with, on data generated from a seed.
//!
//! The computations are those of the applications: a multilayer perceptron over flow features, ranked retrieval,
//! nearest neighbours, the convolutions of VGG16, answers to DNS queries, and plain floating-point operations. Data and
//! weights are random: how long a request takes does not depend on their meaning, and no download is needed.

mod dense;
mod dns;
mod knn;
mod program;
mod retrieval;
mod vgg;

use crate::error::{Error, Result};
use crate::rng::Rng;
use ndarray::Array2;
use pointsman_wire::random::finish;
use std::fmt;
use std::str::FromStr;

/// The content of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Application {
    /// Anomaly detection: a multilayer perceptron over 39 features of flows, as in UNSW-NB15. Size: flows a request.
    AnomalyDetection,
    /// Retrieval by BM25. Size: documents; SciFact has 5,183.
    Bm25,
    /// The three nearest neighbours of an image of 28 x 28, by brute force. Size: images; MNIST has 60,000.
    Knn,
    /// An image through VGG16. Size: the image's side, a multiple of 32; the original's is 224 and needs 560 MB of weights.
    Vgg16,
    /// A DNS query, answered from a zone. Size: names in the zone.
    Dns,
    /// Multiplications of matrices. Size: millions of floating-point operations a request.
    Gflop,
}

impl Application {
    /// All of them.
    pub const ALL: [Application; 6] = [
        Application::AnomalyDetection,
        Application::Bm25,
        Application::Knn,
        Application::Vgg16,
        Application::Dns,
        Application::Gflop,
    ];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Application::AnomalyDetection => "ad",
            Application::Bm25 => "bm25",
            Application::Knn => "knn",
            Application::Vgg16 => "vgg16",
            Application::Dns => "dns",
            Application::Gflop => "gflop",
        }
    }

    /// The size that the papers have, and the smallest and largest that are accepted.
    pub fn sizes(self) -> (u32, u32, u32) {
        match self {
            Application::AnomalyDetection => (1, 1, 100_000),
            Application::Bm25 => (5_183, 10, 200_000),
            Application::Knn => (60_000, 3, 1_000_000),
            Application::Vgg16 => (224, 32, 448),
            Application::Dns => (100_000, 1, 5_000_000),
            Application::Gflop => (2_000, 1, 1_000_000),
        }
    }
}

impl fmt::Display for Application {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Application {
    type Err = UnknownApplication;

    fn from_str(text: &str) -> std::result::Result<Self, UnknownApplication> {
        let found = Self::ALL.into_iter().find(|a| a.name() == text);
        found.ok_or_else(|| UnknownApplication(text.to_string()))
    }
}

/// No application has this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownApplication(pub String);

impl fmt::Display for UnknownApplication {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = Application::ALL.iter().map(|a| a.name()).collect();
        write!(f, "unknown application `{}`: write {}", self.0, names.join(", "))
    }
}

impl std::error::Error for UnknownApplication {}

/// An application with its size and the seed of its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// Which.
    pub application: Application,
    /// How much: see [`Application`].
    pub size: u32,
    /// Of data and weights.
    pub seed: u64,
}

impl Work {
    /// At the papers' size.
    pub fn new(application: Application, seed: u64) -> Self {
        Work { application, size: application.sizes().0, seed }
    }

    /// Checks the size.
    ///
    /// # Errors
    /// It is too small, too large, or not a multiple of 32 although it has to be.
    pub fn validate(&self) -> Result<()> {
        let (_, least, most) = self.application.sizes();
        if self.size < least || self.size > most {
            return Err(Error::new(format!(
                "{}: size is {}: it must be {least} to {most}",
                self.application, self.size
            )));
        }
        if self.application == Application::Vgg16 && !self.size.is_multiple_of(32) {
            return Err(Error::new(format!("vgg16: size is {}: write a multiple of 32", self.size)));
        }
        Ok(())
    }
}

/// An application that is ready to answer requests. Shared by threads; a request changes nothing.
pub trait Answer: Send + Sync {
    /// Answers the query of this number: the same number, the same query. The result is a number and its score.
    fn answer(&self, query: u64) -> (u64, f64);
}

/// What answers.
enum Ready {
    Here(Box<dyn Answer>),
    Outside(program::Program),
}

/// An application with its data in memory, or with its program running. Two are equal if they have the same name.
pub struct Computation {
    name: String,
    ready: Ready,
}

impl fmt::Debug for Computation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Computation").field(&self.name).finish()
    }
}

impl PartialEq for Computation {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Computation {
    /// Generates the data.
    ///
    /// # Errors
    /// [`Work::validate`]'s.
    pub fn new(work: Work) -> Result<Self> {
        work.validate()?;
        let (size, seed) = (work.size as usize, work.seed);
        let ready: Box<dyn Answer> = match work.application {
            Application::AnomalyDetection => Box::new(dense::Detector::new(size, seed)),
            Application::Bm25 => Box::new(retrieval::Corpus::new(size, seed)),
            Application::Knn => Box::new(knn::Images::new(size, seed)),
            Application::Vgg16 => Box::new(vgg::Vgg16::new(size, seed)),
            Application::Dns => Box::new(dns::Zone::new(size, seed)?),
            Application::Gflop => Box::new(dense::Multiplications::new(size, seed)),
        };
        Ok(Computation { name: work.application.name().into(), ready: Ready::Here(ready) })
    }

    /// Starts `workers` processes of a shell's `command`, which answer requests by lines (see `docs/workload.md`).
    ///
    /// # Errors
    /// A process cannot be started, or is not ready.
    pub fn program(command: &str, workers: usize) -> Result<Self> {
        let ready = Ready::Outside(program::Program::start(command, workers)?);
        Ok(Computation { name: "program".into(), ready })
    }

    /// The application's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Answers a query; fails only if a program does.
    pub fn answer(&self, query: u64) -> Option<(u64, f64)> {
        match &self.ready {
            Ready::Here(ready) => Some(ready.answer(query)),
            Ready::Outside(program) => program.answer(query),
        }
    }

    /// As [`Computation::answer`], as the bytes that a device's answer carries.
    pub fn digest(&self, query: u64) -> Option<[u8; 16]> {
        let (what, how_good) = self.answer(query)?;
        let mut out = [0; 16];
        out[..8].copy_from_slice(&what.to_be_bytes());
        out[8..].copy_from_slice(&how_good.to_bits().to_be_bytes());
        Some(out)
    }

    /// Kills the processes of a program: requests in progress fail.
    pub fn close(&self) {
        if let Ready::Outside(program) = &self.ready {
            program.close();
        }
    }
}

/// The random numbers of a query.
fn query_numbers(query: u64) -> Rng {
    Rng::for_part(finish(query), "query")
}

/// A matrix of numbers evenly between -`most` and `most`.
fn random_matrix(rng: &mut Rng, rows: usize, columns: usize, most: f32) -> Array2<f32> {
    Array2::from_shape_simple_fn((rows, columns), || (2.0 * rng.unit() as f32 - 1.0) * most)
}

/// Weights of a layer with this many inputs, of a size that keeps what passes through about as large as it was (He and others,
/// "Delving deep into rectifiers", 2015).
fn weights(rng: &mut Rng, outputs: usize, inputs: usize) -> Array2<f32> {
    random_matrix(rng, outputs, inputs, (6.0 / inputs as f32).sqrt())
}

/// The place and value of the largest.
fn largest(values: impl Iterator<Item = f32>) -> (u64, f64) {
    let best = values.enumerate().max_by(|a, b| a.1.total_cmp(&b.1));
    best.map_or((0, 0.0), |(i, v)| (i as u64, f64::from(v)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Small enough for a test.
    fn small(application: Application) -> Work {
        let size = match application {
            Application::AnomalyDetection => 2,
            Application::Bm25 => 50,
            Application::Knn => 200,
            Application::Vgg16 => 32,
            Application::Dns => 100,
            Application::Gflop => 40,
        };
        Work { application, size, seed: 7 }
    }

    #[test]
    fn equal_queries_have_equal_answers() {
        for application in Application::ALL {
            let work = small(application);
            let (a, b) = (Computation::new(work).expect("good"), Computation::new(work).expect("good"));
            let answers: Vec<_> = (0..6).map(|q| a.answer(q)).collect();
            assert_eq!(answers, (0..6).map(|q| b.answer(q)).collect::<Vec<_>>(), "{application}");
            let answers = answers.into_iter().collect::<Option<Vec<_>>>().expect("none fails");
            assert!(answers.iter().all(|(_, v)| v.is_finite()), "{application}: {answers:?}");
            let different = answers.iter().map(|(n, v)| (*n, v.to_bits()));
            let different = different.collect::<std::collections::BTreeSet<_>>().len();
            // A multiplication of the same matrices has one result.
            assert_eq!(different > 1, application != Application::Gflop, "{application}: {answers:?}");
            assert_eq!(a.digest(1).expect("none fails")[..8], answers[1].0.to_be_bytes());
        }
    }

    #[test]
    fn sizes_are_checked() {
        let check = |application, size, expected: &str| {
            let error = Work { application, size, seed: 1 }.validate().expect_err("refused").to_string();
            assert!(error.contains(expected), "{error}");
        };
        check(Application::Knn, 2, "it must be 3 to 1000000");
        check(Application::Vgg16, 33, "multiple of 32");
        check(Application::Vgg16, 0, "32 to 448");
        for application in Application::ALL {
            assert!(Work::new(application, 1).validate().is_ok(), "{application}");
            assert_eq!(application.name().parse(), Ok(application));
        }
        assert!("vgg".parse::<Application>().is_err_and(|e| e.to_string().contains("vgg16")));
    }
}
