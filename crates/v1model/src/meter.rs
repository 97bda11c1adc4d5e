//! Meters: two rates, three colours, colour-blind (RFC 2698 section 3).

use crate::counter::{CounterCell, CounterKind};
use crate::guarded::Guarded;
use crate::time::Time;

/// The unit of a meter (v1model's `MeterType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeterKind {
    /// Packets, whatever their length.
    Packets,
    /// Bytes of the packets as they came in.
    Bytes,
}

impl MeterKind {
    /// The kind of that name in v1model.p4.
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "packets" => MeterKind::Packets,
            "bytes" => MeterKind::Bytes,
            _ => return None,
        })
    }

    /// How much a packet of `bytes` weighs.
    pub fn amount(self, bytes: u32) -> u64 {
        match self {
            MeterKind::Packets => 1,
            MeterKind::Bytes => u64::from(bytes),
        }
    }
}

/// Result of a meter. The numbers are those that v1model programs see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Color {
    /// Within the committed rate.
    Green = 0,
    /// Above the committed rate, within the peak rate.
    Yellow = 1,
    /// Above the peak rate.
    Red = 2,
}

/// Rates in packets or bytes per second, bursts in packets or bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MeterConfig {
    /// Committed information rate.
    pub cir: u64,
    /// Committed burst size.
    pub cburst: u64,
    /// Peak information rate.
    pub pir: u64,
    /// Peak burst size.
    pub pburst: u64,
}

/// The peak rate of a meter is below its committed rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RatesError {
    /// Peak information rate.
    pub pir: u64,
    /// Committed information rate.
    pub cir: u64,
}

impl std::fmt::Display for RatesError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let RatesError { pir, cir } = self;
        write!(f, "peak rate {pir} is below the committed rate {cir}: raise pir or lower cir")
    }
}

impl std::error::Error for RatesError {}

impl MeterConfig {
    /// RFC 2698 wants the peak rate at least as large as the committed rate.
    pub fn validate(&self) -> Result<(), RatesError> {
        let MeterConfig { pir, cir, .. } = *self;
        if pir < cir { Err(RatesError { pir, cir }) } else { Ok(()) }
    }
}

/// Tokens are kept in billionths, so that rate times nanoseconds is exact.
const SCALE: u128 = 1_000_000_000;

#[derive(Clone, Copy, Debug)]
struct Buckets {
    config: MeterConfig,
    committed: u128,
    peak: u128,
    last: Time,
}

#[derive(Clone, Copy, Debug, Default)]
struct Used {
    buckets: Option<Buckets>,
    /// Packets and bytes by colour.
    marked: [CounterCell; 3],
}

impl Buckets {
    fn refill(&mut self, now: Time) {
        let elapsed = u128::from(now.since(self.last));
        self.last = self.last.max(now);
        let refill = |tokens: u128, rate: u64, burst: u64| {
            (tokens + u128::from(rate) * elapsed).min(u128::from(burst) * SCALE)
        };
        self.committed = refill(self.committed, self.config.cir, self.config.cburst);
        self.peak = refill(self.peak, self.config.pir, self.config.pburst);
    }
}

/// A meter at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MeterImage {
    /// The configuration, and the tokens in the committed and in the peak bucket, in billionths.
    pub buckets: Option<(MeterConfig, u128, u128)>,
    /// Packets and bytes by colour.
    pub marked: Vec<CounterCell>,
}

/// Why no meter can be like an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ImageError {
    Rates(RatesError),
    Tokens,
    Colours,
}

impl std::fmt::Display for ImageError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ImageError::Rates(e) => e.fmt(f),
            ImageError::Tokens => f.write_str("a meter has more tokens than its buckets hold"),
            ImageError::Colours => f.write_str("a meter counts other than three colours"),
        }
    }
}

impl std::error::Error for ImageError {}

/// One meter. Without a configuration it marks everything green.
///
/// It takes memory once it is configured or has marked a packet.
#[derive(Clone, Debug, Default)]
pub struct Meter(Option<Box<Used>>);

impl Meter {
    /// Sets rates and bursts and fills both buckets; `None` removes the configuration. Its counts stay.
    pub fn configure(&mut self, now: Time, config: Option<MeterConfig>) {
        let buckets = config.map(|config| Buckets {
            config,
            committed: u128::from(config.cburst) * SCALE,
            peak: u128::from(config.pburst) * SCALE,
            last: now,
        });
        if buckets.is_some() || self.0.is_some() {
            self.0.get_or_insert_default().buckets = buckets;
        }
    }

    /// The configuration.
    pub fn config(&self) -> Option<MeterConfig> {
        self.0.as_ref()?.buckets.map(|b| b.config)
    }

    /// Packets and bytes that it marked green, yellow and red.
    pub fn marked(&self) -> [CounterCell; 3] {
        self.0.as_ref().map(|used| used.marked).unwrap_or_default()
    }

    /// Sets what [`Meter::marked`] gives.
    pub fn set_marked(&mut self, marked: [CounterCell; 3]) {
        if self.0.is_some() || marked != <[CounterCell; 3]>::default() {
            self.0.get_or_insert_default().marked = marked;
        }
    }

    /// The meter as it is now.
    pub(crate) fn image(&self, now: Time) -> MeterImage {
        let mut buckets = self.0.as_ref().and_then(|used| used.buckets);
        buckets.iter_mut().for_each(|b| b.refill(now));
        let marked = self.marked();
        MeterImage {
            buckets: buckets.map(|b| (b.config, b.committed, b.peak)),
            marked: if marked == <[CounterCell; 3]>::default() { Vec::new() } else { marked.to_vec() },
        }
    }

    /// A meter that is now as an image shows it.
    ///
    /// # Errors
    /// No meter can be like that.
    pub(crate) fn of_image(now: Time, image: MeterImage) -> Result<Meter, ImageError> {
        let mut meter = Meter::default();
        if let Some((config, committed, peak)) = image.buckets {
            config.validate().map_err(ImageError::Rates)?;
            if committed > u128::from(config.cburst) * SCALE || peak > u128::from(config.pburst) * SCALE {
                return Err(ImageError::Tokens);
            }
            meter.0.get_or_insert_default().buckets = Some(Buckets { config, committed, peak, last: now });
        }
        match <[CounterCell; 3]>::try_from(image.marked) {
            Ok(marked) => meter.set_marked(marked),
            Err(none) if none.is_empty() => {}
            Err(_) => return Err(ImageError::Colours),
        }
        Ok(meter)
    }

    /// Marks a packet of `bytes` and counts it.
    pub fn mark(&mut self, now: Time, kind: MeterKind, bytes: u32) -> Color {
        let color = self.execute(now, kind.amount(bytes));
        self.0.get_or_insert_default().marked[color as usize].count(CounterKind::PacketsAndBytes, bytes);
        color
    }

    /// The colour of `amount` packets or bytes.
    pub fn execute(&mut self, now: Time, amount: u64) -> Color {
        let Some(b) = self.0.as_mut().and_then(|used| used.buckets.as_mut()) else { return Color::Green };
        b.refill(now);
        let amount = u128::from(amount) * SCALE;
        if b.peak < amount {
            return Color::Red;
        }
        b.peak -= amount;
        if b.committed < amount {
            return Color::Yellow;
        }
        b.committed -= amount;
        Color::Green
    }
}

/// An array of meters.
#[derive(Clone, Debug)]
pub struct MeterArray {
    /// The unit.
    pub kind: MeterKind,
    /// The meters.
    pub(crate) cells: Guarded<Vec<Meter>>,
    len: usize,
}

impl MeterArray {
    /// `size` meters without a configuration.
    pub fn new(kind: MeterKind, size: usize) -> Self {
        MeterArray { kind, cells: Guarded::new(vec![Meter::default(); size]), len: size }
    }

    /// Number of meters.
    pub fn len(&self) -> usize {
        self.len
    }

    /// No meters?
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(config: MeterConfig, packets: &[(u64, u64, Color)]) {
        let mut m = Meter::default();
        m.configure(Time::ZERO, Some(config));
        for (i, (ms, amount, color)) in packets.iter().enumerate() {
            assert_eq!(m.execute(Time::from_millis(*ms), *amount), *color, "packet {i}");
        }
    }

    #[test]
    fn two_rates_three_colours() {
        use Color::*;
        let config = MeterConfig { cir: 1000, cburst: 1000, pir: 2000, pburst: 2000 };
        check(
            config,
            &[
                (0, 1000, Green),
                (0, 1000, Yellow),
                (0, 1, Red),
                // 100 ms later: 100 committed tokens, 200 peak ones.
                (100, 100, Green),
                (100, 100, Yellow),
                (100, 1, Red),
                // Buckets do not grow beyond their bursts.
                (60_000, 1000, Green),
                (60_000, 1000, Yellow),
                (60_000, 1, Red),
                // A red packet takes nothing.
                (60_001, 3, Red),
                (60_001, 1, Green),
            ],
        );
        assert_eq!(Meter::default().execute(Time::ZERO, u64::MAX), Green);
    }

    #[test]
    fn colours_are_counted() {
        let mut m = Meter::default();
        assert_eq!(m.mark(Time::ZERO, MeterKind::Bytes, 70), Color::Green);
        m.configure(Time::ZERO, Some(MeterConfig { cir: 1, cburst: 100, pir: 1, pburst: 150 }));
        let colors = [100, 50, 9].map(|bytes| m.mark(Time::ZERO, MeterKind::Bytes, bytes));
        assert_eq!(colors, [Color::Green, Color::Yellow, Color::Red]);
        let cell = |packets, bytes| CounterCell { packets, bytes };
        assert_eq!(m.marked(), [cell(2, 170), cell(1, 50), cell(1, 9)]);
        m.configure(Time::ZERO, None);
        assert_eq!((m.config(), m.marked()[0]), (None, cell(2, 170)));
        m.set_marked(Default::default());
        assert_eq!(m.marked(), [CounterCell::default(); 3]);
    }

    /// Rates are exact: no rounding error adds up, however short the steps.
    #[test]
    fn long_run_rate_is_exact() {
        let config = MeterConfig { cir: 333, cburst: 2, pir: 333, pburst: 2 };
        let mut m = Meter::default();
        m.configure(Time::ZERO, Some(config));
        let green = (1..=300_000u64)
            .filter(|i| m.execute(Time::from_micros(i * 1001 / 10), 1) == Color::Green)
            .count();
        // 30.03 seconds at 333 a second (9999.99), and the burst.
        assert!((10_000..=10_002).contains(&green), "{green}");
        assert!(MeterConfig { cir: 2, pir: 1, ..config }.validate().is_err());
    }
}
