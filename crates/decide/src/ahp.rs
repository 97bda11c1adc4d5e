//! The analytic hierarchy process (Saaty, 1980): from judgements how much more important one criterion is than another to weights,
//! and to how consistent the judgements are.

use std::fmt;

/// Judgements with a consistency ratio above this are refused (Saaty's limit).
pub const MAX_RATIO: f64 = 0.1;

/// Random indices: the mean consistency index of random matrices of 3 to 15 criteria (Donegan and Dodd, 1991).
const RANDOM_INDEX: [f64; 13] =
    [0.4914, 0.8286, 1.0591, 1.1797, 1.2519, 1.3171, 1.3733, 1.4055, 1.4213, 1.4497, 1.4643, 1.4822, 1.4969];

/// Most criteria.
pub const MAX_CRITERIA: usize = RANDOM_INDEX.len() + 2;

/// Weights of criteria.
#[derive(Clone, Debug, PartialEq)]
pub struct Weights {
    /// One for each criterion; their sum is 1.
    pub weights: Vec<f64>,
    /// Consistency ratio: 0 for judgements without contradiction.
    pub ratio: f64,
}

/// Why judgements give no weights.
#[derive(Clone, Debug, PartialEq)]
pub enum AhpError {
    /// It is not square, or has fewer than 1 or more than [`MAX_CRITERIA`] rows.
    Shape,
    /// A judgement that is not a number above 0, by row and column.
    Judgement(usize, usize),
    /// The judgement is not 1 / its mirror image, by row and column.
    Reciprocal(usize, usize),
    /// The judgements contradict each other too much.
    Inconsistent {
        /// The ratio.
        ratio: f64,
        /// Row and column of the judgement that fits the others least.
        worst: (usize, usize),
        /// Its own value.
        says: f64,
        /// The value that follows from the others.
        others: f64,
    },
}

impl fmt::Display for AhpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AhpError::Shape => {
                write!(f, "judgements are a square of 1 to {MAX_CRITERIA} rows, one for each criterion")
            }
            AhpError::Judgement(i, j) => {
                write!(f, "judgement of criterion {} against {}: write a number above 0", i + 1, j + 1)
            }
            AhpError::Reciprocal(i, j) => write!(
                f,
                "judgement of criterion {} against {} must be 1 divided by that of {} against {}, and that of a criterion \
                 against itself 1",
                i + 1,
                j + 1,
                j + 1,
                i + 1
            ),
            AhpError::Inconsistent { ratio, worst: (i, j), says, others } => write!(
                f,
                "the judgements contradict each other (consistency ratio {ratio:.3}, at most {MAX_RATIO}): criterion {} \
                 against {} says {says:.3}, the others together {others:.3}; change that one first",
                i + 1,
                j + 1
            ),
        }
    }
}

impl std::error::Error for AhpError {}

/// The principal eigenvector of a positive matrix (its sum is 1), and its eigenvalue, by power iteration. It converges for every
/// positive matrix (Perron and Frobenius).
fn principal(m: &[Vec<f64>]) -> (Vec<f64>, f64) {
    let n = m.len();
    let mut v = vec![1.0 / n as f64; n];
    let mut value = n as f64;
    for _ in 0..10_000 {
        let product: Vec<f64> = m.iter().map(|row| row.iter().zip(&v).map(|(a, x)| a * x).sum()).collect();
        value = product.iter().sum();
        let next: Vec<f64> = product.iter().map(|x| x / value).collect();
        let change = next.iter().zip(&v).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        v = next;
        if change < 1e-15 {
            break;
        }
    }
    (v, value)
}

/// Weights and consistency ratio, whatever the ratio is. `judgements[i][j]` is how many times as important criterion `i` is as
/// criterion `j`.
///
/// # Errors
/// The matrix is not square, not positive or not reciprocal.
pub fn judge(judgements: &[Vec<f64>]) -> Result<Weights, AhpError> {
    let n = judgements.len();
    if !(1..=MAX_CRITERIA).contains(&n) || judgements.iter().any(|row| row.len() != n) {
        return Err(AhpError::Shape);
    }
    for (i, row) in judgements.iter().enumerate() {
        for (j, a) in row.iter().enumerate() {
            if !(a.is_finite() && *a > 0.0) {
                return Err(AhpError::Judgement(i, j));
            }
            // People write 0.33 for a third.
            if (a * judgements[j][i] - 1.0).abs() > 0.02 {
                return Err(AhpError::Reciprocal(i, j));
            }
        }
    }
    let (weights, value) = principal(judgements);
    let ratio = match n {
        1 | 2 => 0.0,
        n => ((value - n as f64) / (n - 1) as f64 / RANDOM_INDEX[n - 3]).max(0.0),
    };
    Ok(Weights { weights, ratio })
}

/// Weights of judgements that are consistent enough.
///
/// # Errors
/// As [`judge`]; and the consistency ratio is above [`MAX_RATIO`], with the judgement that fits the others least.
pub fn weights(judgements: &[Vec<f64>]) -> Result<Weights, AhpError> {
    let found = judge(judgements)?;
    if found.ratio <= MAX_RATIO {
        return Ok(found);
    }
    // How far each judgement is from the ratio of the weights, in both directions alike.
    let w = &found.weights;
    let off = |(i, j): (usize, usize)| libm::log(judgements[i][j] * w[j] / w[i]).abs();
    let pairs = (0..w.len()).flat_map(|i| (i + 1..w.len()).map(move |j| (i, j)));
    let worst = pairs.reduce(|a, b| if off(b) > off(a) { b } else { a }).unwrap_or((0, 0));
    let (i, j) = worst;
    Err(AhpError::Inconsistent { ratio: found.ratio, worst, says: judgements[i][j], others: w[i] / w[j] })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matrix(rows: &[&[f64]]) -> Vec<Vec<f64>> {
        rows.iter().map(|r| r.to_vec()).collect()
    }

    /// The judgements of the paper on load balancing with Prometheus: processor, memory, network; ratio 0.009.
    #[test]
    fn of_the_paper() {
        let found = weights(&matrix(&[&[1.0, 4.0, 0.5], &[0.25, 1.0, 1.0 / 6.0], &[2.0, 6.0, 1.0]]))
            .expect("consistent");
        assert!((found.ratio - 0.009).abs() < 0.0006, "{}", found.ratio);
        let [cpu, memory, network] = found.weights[..] else { panic!("{found:?}") };
        assert!((cpu + memory + network - 1.0).abs() < 1e-12);
        // Which the probes of the same paper round to 3 : 1 : 6.
        assert!((cpu - 0.3234).abs() < 0.001 && (memory - 0.0890).abs() < 0.001, "{found:?}");
    }

    #[test]
    fn consistent_judgements_are_ratios_of_weights() {
        let w = [0.5, 0.3, 0.15, 0.05];
        let m: Vec<Vec<f64>> = w.iter().map(|a| w.iter().map(|b| a / b).collect()).collect();
        let found = weights(&m).expect("consistent");
        assert!(found.ratio < 1e-9);
        assert!(found.weights.iter().zip(w).all(|(a, b)| (a - b).abs() < 1e-12));
        assert_eq!(weights(&matrix(&[&[1.0]])).expect("one").weights, [1.0]);
        assert_eq!(weights(&matrix(&[&[1.0, 3.0], &[1.0 / 3.0, 1.0]])).expect("two").ratio, 0.0);
    }

    #[test]
    fn contradictions_are_named() {
        // The first before the second, the second before the third, the third before the first.
        let third = 1.0 / 3.0;
        let m = matrix(&[&[1.0, 3.0, 1.0 / 9.0], &[third, 1.0, 3.0], &[9.0, third, 1.0]]);
        let Err(e) = weights(&m) else { panic!("accepted") };
        let AhpError::Inconsistent { worst, says, others, .. } = &e else { panic!("{e}") };
        assert!(*says < *others || worst != &(0, 2), "{e}");
        assert!(
            e.to_string().contains("consistency ratio") && e.to_string().contains("change that one"),
            "{e}"
        );
        // One judgement of five criteria is wrong, and it is that one.
        let w = [5.0, 4.0, 3.0, 2.0, 1.0];
        let mut m: Vec<Vec<f64>> = w.iter().map(|a| w.iter().map(|b| a / b).collect()).collect();
        (m[1][4], m[4][1]) = (1.0 / 9.0, 9.0);
        let Err(AhpError::Inconsistent { worst, .. }) = weights(&m) else { panic!("accepted") };
        assert_eq!(worst, (1, 4));
    }

    #[test]
    fn no_judgements() {
        let check = |rows: &[&[f64]], e: AhpError| assert_eq!(weights(&matrix(rows)), Err(e));
        check(&[], AhpError::Shape);
        check(&[&[1.0, 2.0]], AhpError::Shape);
        check(&[&[1.0, 0.0], &[1.0, 1.0]], AhpError::Judgement(0, 1));
        check(&[&[1.0, f64::NAN], &[1.0, 1.0]], AhpError::Judgement(0, 1));
        check(&[&[1.0, 2.0], &[2.0, 1.0]], AhpError::Reciprocal(0, 1));
        check(&[&[2.0]], AhpError::Reciprocal(0, 0));
        assert_eq!(weights(&vec![vec![1.0; 16]; 16]), Err(AhpError::Shape));
        assert!(weights(&vec![vec![1.0; 15]; 15]).is_ok());
    }
}
