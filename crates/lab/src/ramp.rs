//! How much load a policy sustains: pure logic around a closure that measures one point.
//!
//! *Definition.* A point is **sustained** if nothing was lost and the 99th percentile of the latency of all
//! requests sent is at most [`RampPlan::latency_factor`] (ten) times the *unloaded latency*: the time a
//! request takes when nothing else is in the rack. The unloaded latency is one number for all policies that
//! are compared, given in the plan; if it is not given, it is the median of the ramp's own first point,
//! which must then be far below saturation. The **sustained load** is the highest offered rate that was
//! sustained while every lower rate was also sustained.
//!
//! Latency counts from the time at which a request should have left, so a generator that falls behind its
//! schedule only ever makes a point look worse: a sustained point is sustained whatever the generator did. But
//! a point that fails while the generator was late says little about the rack: it is measured again,
//! `late_retries` times at most, and counts as not sustained if that does not help.
//!
//! The ramp measures the planned rates in ascending order until one is not sustained, then (for the charts)
//! `beyond` more, then `refine` points between the last sustained and the first failing rate, halving the
//! interval each time.

use crate::error::{Error, Result};
use std::time::Duration;

/// The properties of a measured point that the ramp needs.
pub trait Measured {
    /// Requests lost.
    fn lost(&self) -> u64;
    /// Median latency over all requests sent.
    fn p50(&self) -> Duration;
    /// 99th percentile over all requests sent, lost ones with their time-out.
    fn p99(&self) -> Duration;
    /// Whether the load generator kept its schedule.
    fn schedule_kept(&self) -> bool;
}

/// The measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct RampPlan {
    /// Offered rates, requests a second, ascending.
    pub rates: Vec<f64>,
    /// Points measured beyond the first that is not sustained.
    pub beyond: usize,
    /// Points measured between the last sustained and the first failing rate.
    pub refine: usize,
    /// Measurements repeated because the generator was late, per point.
    pub late_retries: usize,
    /// Times the unloaded latency that the 99th percentile may reach.
    pub latency_factor: f64,
    /// The unloaded latency, if it is known.
    pub unloaded: Option<Duration>,
}

impl RampPlan {
    /// A plan with the usual definition: factor ten, one point beyond, two between.
    pub fn new(rates: Vec<f64>, unloaded: Option<Duration>) -> Self {
        Self { rates, beyond: 1, refine: 2, late_retries: 1, latency_factor: 10.0, unloaded }
    }

    fn validate(&self) -> Result<()> {
        let rates = &self.rates;
        if rates.is_empty() || !rates.iter().all(|r| *r > 0.0 && r.is_finite()) {
            return Err(Error::new("ramp: give at least one rate, all above 0"));
        }
        if !rates.windows(2).all(|w| w[0] < w[1]) {
            return Err(Error::new("ramp: the rates must ascend"));
        }
        if !(self.latency_factor >= 1.0 && self.latency_factor.is_finite()) {
            return Err(Error::new("ramp: latency_factor must be at least 1"));
        }
        Ok(())
    }
}

/// Why a point counts as sustained or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing lost, latency within the limit.
    Sustained,
    /// Requests were lost.
    Lost,
    /// The 99th percentile is above the limit.
    TooSlow,
    /// The 99th percentile is above the limit, but the generator did not keep its schedule: it may be to blame.
    GeneratorLate,
}

/// A measured point with its verdict.
#[derive(Clone, Debug, PartialEq)]
pub struct RampPoint<P> {
    /// Requests a second offered.
    pub rate: f64,
    /// The measured point.
    pub point: P,
    /// Whether it counts.
    pub verdict: Verdict,
    /// How often it was measured: more than once if earlier measurements were discarded because the generator
    /// was late.
    pub measurements: usize,
}

/// The result of a ramp.
#[derive(Clone, Debug, PartialEq)]
pub struct Ramp<P> {
    /// All points in ascending order of rate.
    pub points: Vec<RampPoint<P>>,
    /// The sustained load, requests a second; 0 if not even the first point was sustained.
    pub sustained_rps: f64,
    /// The unloaded latency that was used.
    pub unloaded: Duration,
    /// The lowest rate that was not sustained; none if all were, in which case the plan ended too early to
    /// find the limit.
    pub first_failing_rps: Option<f64>,
}

fn judge<P: Measured>(point: &P, limit: Duration) -> Verdict {
    if point.lost() > 0 {
        Verdict::Lost
    } else if point.p99() <= limit {
        Verdict::Sustained
    } else if point.schedule_kept() {
        Verdict::TooSlow
    } else {
        Verdict::GeneratorLate
    }
}

/// Measures points by calling `measure` with offered rates, as the plan says. An error of `measure` ends the
/// ramp.
pub fn ramp<P: Measured>(plan: &RampPlan, mut measure: impl FnMut(f64) -> Result<P>) -> Result<Ramp<P>> {
    plan.validate()?;
    let mut points: Vec<RampPoint<P>> = Vec::new();
    let mut unloaded = plan.unloaded;
    let mut run = |rate: f64, points: &mut Vec<RampPoint<P>>| -> Result<Verdict> {
        let mut point = measure(rate)?;
        let base = *unloaded.get_or_insert_with(|| point.p50());
        let limit = base.mul_f64(plan.latency_factor);
        let (mut verdict, mut measurements) = (judge(&point, limit), 1);
        for _ in 0..plan.late_retries {
            if verdict == Verdict::Sustained || point.schedule_kept() {
                break;
            }
            point = measure(rate)?;
            verdict = judge(&point, limit);
            measurements += 1;
        }
        points.push(RampPoint { rate, point, verdict, measurements });
        Ok(verdict)
    };
    let mut failed = 0;
    for &rate in &plan.rates {
        if run(rate, &mut points)? != Verdict::Sustained || failed > 0 {
            failed += 1;
        }
        if failed > plan.beyond {
            break;
        }
    }
    let limits = |points: &[RampPoint<P>]| {
        let fail = points.iter().filter(|p| p.verdict != Verdict::Sustained).map(|p| p.rate);
        let fail = fail.fold(f64::INFINITY, f64::min);
        let good = points.iter().map(|p| p.rate).filter(|r| *r < fail).fold(0.0, f64::max);
        (good, fail)
    };
    for _ in 0..plan.refine {
        let (good, fail) = limits(&points);
        if !fail.is_finite() {
            break;
        }
        run((good + fail) / 2.0, &mut points)?;
    }
    let (sustained_rps, fail) = limits(&points);
    points.sort_by(|a, b| a.rate.total_cmp(&b.rate));
    Ok(Ramp {
        points,
        sustained_rps,
        unloaded: unloaded.unwrap_or_default(),
        first_failing_rps: fail.is_finite().then_some(fail),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug, PartialEq)]
    struct Point {
        lost: u64,
        p99_ms: f64,
        kept: bool,
    }

    impl Measured for Point {
        fn lost(&self) -> u64 {
            self.lost
        }
        fn p50(&self) -> Duration {
            Duration::from_secs_f64(self.p99_ms / 2e3)
        }
        fn p99(&self) -> Duration {
            Duration::from_secs_f64(self.p99_ms / 1e3)
        }
        fn schedule_kept(&self) -> bool {
            self.kept
        }
    }

    /// A queue that saturates at `capacity`: latency grows as 1 / (1 - load), and beyond it requests are lost.
    fn queue(capacity: f64) -> impl FnMut(f64) -> Result<Point> {
        move |rate| {
            let load = rate / capacity;
            let lost = if load >= 1.0 { 5 } else { 0 };
            Ok(Point { lost, p99_ms: if lost > 0 { 1000.0 } else { 1.0 / (1.0 - load) }, kept: true })
        }
    }

    fn plan(rates: &[f64]) -> RampPlan {
        RampPlan::new(rates.to_vec(), Some(Duration::from_millis(1)))
    }

    fn check(plan: &RampPlan, measure: impl FnMut(f64) -> Result<Point>, rates: &[f64], sustained: f64) {
        let ramp = ramp(plan, measure).unwrap();
        assert_eq!(ramp.points.iter().map(|p| p.rate).collect::<Vec<_>>(), rates);
        assert_eq!(ramp.sustained_rps, sustained);
    }

    #[test]
    fn the_limit_is_bracketed_and_refined() {
        // P99 reaches ten times the unloaded latency at 90 % of the capacity: at 88.2.
        let grid = [20.0, 40.0, 60.0, 80.0, 100.0, 120.0, 140.0];
        check(&plan(&grid), queue(98.0), &[20.0, 40.0, 60.0, 80.0, 85.0, 90.0, 100.0, 120.0], 85.0);
        let finer = RampPlan { refine: 7, beyond: 0, ..plan(&grid) };
        let found = ramp(&finer, queue(98.0)).unwrap();
        assert!((88.0..=88.2).contains(&found.sustained_rps), "{}", found.sustained_rps);
        assert!(found.first_failing_rps.unwrap() - found.sustained_rps < 0.2);
    }

    #[test]
    fn verdicts_name_the_reason() {
        let found = ramp(&plan(&[50.0, 95.0, 150.0]), queue(100.0)).unwrap();
        let verdict = |rate: f64| found.points.iter().find(|p| p.rate == rate).unwrap().verdict;
        assert_eq!(verdict(50.0), Verdict::Sustained);
        assert_eq!(verdict(95.0), Verdict::TooSlow);
        assert_eq!(verdict(150.0), Verdict::Lost);
        let late = |rate| Ok(Point { lost: 0, p99_ms: rate / 3.0, kept: false });
        let found = ramp(&RampPlan { refine: 0, ..plan(&[20.0, 40.0]) }, late).unwrap();
        assert_eq!(found.points[0].verdict, Verdict::Sustained);
        assert_eq!(found.points[1].verdict, Verdict::GeneratorLate);
        assert_eq!(found.sustained_rps, 20.0);
    }

    #[test]
    fn a_late_generator_gets_another_chance() {
        let mut calls = 0u32;
        let once = |_| {
            calls += 1;
            let late = calls == 2;
            Ok(Point { lost: u64::from(late), p99_ms: 1.0, kept: !late })
        };
        check(&plan(&[20.0, 40.0]), once, &[20.0, 40.0], 40.0);
        assert_eq!(calls, 3);
        calls = 0;
        let found = ramp(&plan(&[20.0, 40.0]), |_| {
            calls += 1;
            Ok(Point { lost: 0, p99_ms: 1.0 + f64::from(calls == 2) * 99.0, kept: calls != 2 })
        });
        let counts: Vec<usize> = found.unwrap().points.iter().map(|p| p.measurements).collect();
        assert_eq!(counts, [1, 2]);
    }

    #[test]
    fn nothing_sustained_is_zero_and_everything_sustained_has_no_limit() {
        check(&RampPlan { refine: 1, beyond: 0, ..plan(&[200.0, 300.0]) }, queue(50.0), &[100.0, 200.0], 0.0);
        let found = ramp(&plan(&[1.0, 2.0, 3.0]), queue(1e6)).unwrap();
        assert_eq!((found.sustained_rps, found.first_failing_rps), (3.0, None));
    }

    #[test]
    fn a_good_point_above_a_bad_one_does_not_count() {
        let odd = |rate: f64| Ok(Point { lost: u64::from(rate == 40.0), p99_ms: 1.0, kept: true });
        let grid = RampPlan { refine: 0, beyond: 5, ..plan(&[20.0, 40.0, 60.0]) };
        check(&grid, odd, &[20.0, 40.0, 60.0], 20.0);
    }

    #[test]
    fn the_first_point_gives_the_unloaded_latency_if_none_is_known() {
        let unknown = RampPlan { unloaded: None, ..plan(&[1.0, 99.0]) };
        // The median of the first point is half its P99, so the limit lies at five times the P99.
        let found = ramp(&unknown, queue(100.0)).unwrap();
        assert_eq!(found.unloaded, Duration::from_secs_f64(0.5e-3 / 0.99));
    }

    #[test]
    fn bad_plans_and_errors_are_told() {
        assert!(ramp(&plan(&[]), queue(1.0)).is_err());
        assert!(ramp(&plan(&[2.0, 1.0]), queue(1.0)).is_err());
        assert!(ramp(&plan(&[f64::NAN]), queue(1.0)).is_err());
        assert!(ramp(&RampPlan { latency_factor: 0.0, ..plan(&[1.0]) }, queue(1.0)).is_err());
        let broken = |_| Err::<Point, _>(Error::new("the rack fell over"));
        assert_eq!(ramp(&plan(&[1.0]), broken).unwrap_err().to_string(), "the rack fell over");
    }
}
