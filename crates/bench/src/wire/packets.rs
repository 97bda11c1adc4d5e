//! Packet rates and latencies: a lane is a test bed with a generator at its client and a sink at its server.

use super::WireError;
use super::bed::{Bed, PORT, SWITCH_MAC};
use super::report::{LaneRun, LatencyRun, us};
use pointsman_lab::frames::{
    LossRule, Offered, Pace, PacketSender, Plan, Probe, Sink, Template, generate, loss_free,
};
use pointsman_lab::rack::Mac;
use pointsman_ports::{Frame, LiveFrames, LiveFramesAccepted, accept_live_frames};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// A lost frame counts with this latency: above all others.
pub const LOST: Duration = Duration::from_secs(1);

/// Frames of each flow before anything is measured are sent at this rate, so that slow paths for new flows are behind us.
const INTRODUCTION_PPS: f64 = 20_000.0;
/// How often they are sent, if none arrives.
const INTRODUCTIONS: usize = 3;

/// Limit on the packets of one probe.
const LIMIT: u32 = 100_000_000;

/// How long to wait for packets in flight.
const PATIENCE: Duration = Duration::from_millis(500);

/// How the search's frames are sent. (Frames for latency measurement always come from a packet socket: they carry their
/// send time, with their own checksum.)
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Generator {
    /// XDP if available, else AF_PACKET.
    Auto,
    /// An XDP program in the kernel: several times as fast as the device under test; needs root.
    Xdp,
    /// A packet socket: about as fast as the device under test.
    AfPacket,
}

impl Generator {
    /// As in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Xdp => "xdp",
            Self::AfPacket => "af_packet",
        }
    }

    /// Resolves `Auto` for this machine.
    pub fn settle(self) -> Self {
        let works = || -> Result<(), WireError> {
            let bed = Bed::direct(true)?;
            let frame = vec![0; MIN_LIVE_FRAME];
            Ok(bed.client.enter(|| LiveFrames::new(&bed.client_interface, &[frame], None).map(drop))??)
        };
        match self {
            Self::Auto if works().is_ok() => Self::Xdp,
            Self::Auto => Self::AfPacket,
            settled => settled,
        }
    }
}

/// The shortest frame that every generator can send, without frame check sequence.
pub const MIN_LIVE_FRAME: usize = 64;

/// Maximum number of flows with prepared frames: the kernel keeps them all.
pub const MAX_LIVE_FLOWS: u32 = 1 << 20;

/// One forwarder with its measuring equipment.
pub struct Lane {
    /// The test bed.
    pub bed: Bed,
    /// Of a search; none: the packet socket.
    live: bool,
    /// Makes the kernel accept live frames, if necessary.
    _accepted: Option<LiveFramesAccepted>,
    socket: PacketSender,
    sink: Sink,
    template: Template,
    probe: u16,
}

impl Lane {
    /// A lane with frames of `length` bytes (without frame check sequence), in this many flows to the service.
    ///
    /// # Errors
    /// The kernel refuses sockets, or the generator so many flows.
    pub fn new(bed: Bed, generator: Generator, flows: u32, length: usize) -> Result<Self, WireError> {
        let (server, interface, _) = bed.servers.first().ok_or(WireError::Lacks("server"))?;
        let sink = Sink::open(server, interface)?;
        let socket = PacketSender::open(&bed.client, &bed.client_interface)?;
        let live = generator == Generator::Xdp;
        if live && flows > MAX_LIVE_FLOWS {
            return Err(WireError::Flows(flows));
        }
        let accepted = match bed.entrance().filter(|_| live) {
            Some((namespace, interface)) => Some(namespace.enter(|| accept_live_frames(&interface))??),
            None => None,
        };
        let (Some(IpAddr::V4(source)), SocketAddr::V4(target)) = (bed.sources.first(), bed.target) else {
            return Err(WireError::Lacks("IPv4 addresses"));
        };
        let template = Template {
            source_mac: Mac::from_ipv4(*source),
            destination_mac: SWITCH_MAC,
            source: *source,
            destination: *target.ip(),
            port: PORT,
            flows,
            length,
        };
        template.validate()?;
        Ok(Self { bed, live, _accepted: accepted, socket, sink, template, probe: 0 })
    }

    fn send(
        &mut self,
        pace: Pace,
        duration: Duration,
        limit: u32,
        timed: u32,
    ) -> Result<(Offered, pointsman_lab::frames::Arrived), WireError> {
        self.probe = (self.probe + 1) & 0x7fff;
        self.sink.begin(self.probe).map_err(WireError::of(&self.bed.name))?;
        let offered = if self.live && timed == 0 && limit == LIMIT {
            self.send_live(pace, duration)?
        } else {
            let plan = Plan { probe: self.probe, pace, duration, limit, timed };
            generate(&self.template, &plan, &mut self.socket).map_err(WireError::of(&self.bed.name))?
        };
        let arrived = self.sink.finish(PATIENCE).map_err(WireError::of(&self.bed.name))?;
        Ok((offered, arrived))
    }

    fn send_live(&self, pace: Pace, duration: Duration) -> Result<Offered, WireError> {
        let frames: Vec<Frame> =
            (0..self.template.flows).map(|flow| self.template.frame(self.probe, flow)).collect();
        let rate = match pace {
            Pace::Flood => 0,
            Pace::Rate(rate) => (rate as u64).max(1),
        };
        let run = || -> Result<_, WireError> {
            let live = LiveFrames::new(&self.bed.client_interface, &frames, None)?;
            live.run(rate, duration).map_err(WireError::Generator)
        };
        let run = self.bed.client.enter(run).map_err(WireError::Lab).flatten();
        let run = run.map_err(WireError::of(&format!("{}: generator", self.bed.name)))?;
        Ok(Offered { frames: run.frames, timed: 0, elapsed: Duration::from_nanos(run.elapsed_ns) })
    }

    /// Sends a frame of each flow, until any arrive at all: on a busy machine a port may be late.
    ///
    /// # Errors
    /// No frame arrives.
    pub fn introduce(&mut self) -> Result<(), WireError> {
        let flows = self.template.flows;
        let duration = Duration::from_secs_f64(f64::from(flows) / INTRODUCTION_PPS * 4.0 + 0.2);
        let mut frames = 0;
        for _ in 0..INTRODUCTIONS {
            let (offered, arrived) = self.send(Pace::Rate(INTRODUCTION_PPS), duration, flows.max(100), 0)?;
            if arrived.count > 0 {
                return Ok(());
            }
            frames += offered.frames;
        }
        let nothing = WireError::Nothing { frames, story: self.bed.story() };
        Err(WireError::of(&self.bed.name)(nothing))
    }

    /// One run: the search, then latencies at half of the rate found.
    ///
    /// # Errors
    /// Frames cannot be sent or received.
    pub fn run(&mut self, rule: &LossRule, duration: Duration) -> Result<LaneRun, WireError> {
        let search = loss_free(rule, |rate| {
            let pace = rate.map_or(Pace::Flood, Pace::Rate);
            let before = self.bed.cpu_time();
            let (offered, arrived) = self.send(pace, duration, LIMIT, 0)?;
            let cpu = self.bed.cpu_time().saturating_sub(before);
            Ok::<_, WireError>(Probe {
                asked_pps: rate,
                offered_pps: offered.rate_pps(),
                sent: offered.frames,
                received: arrived.count,
                cpu_ns: cpu.as_nanos() as u64,
            })
        })?;
        let rate = search.loss_free_pps / 2.0;
        let latency = if rate >= 1.0 { Some(self.latency(rate, duration)?) } else { None };
        Ok(LaneRun { search, latency })
    }

    fn latency(&mut self, rate: f64, duration: Duration) -> Result<LatencyRun, WireError> {
        let expected = (rate * duration.as_secs_f64()) as u32;
        let room = u32::try_from(self.sink.room()).unwrap_or(u32::MAX);
        let timed = (expected / 2).min(room).clamp(1, 20_000);
        let (offered, arrived) = self.send(Pace::Rate(rate), duration, LIMIT, timed)?;
        let latencies = arrived.latencies(offered.timed, LOST);
        let at = |percent| us(latencies.percentile(percent));
        Ok(LatencyRun {
            offered_pps: offered.rate_pps(),
            sent: offered.frames,
            lost: offered.frames.saturating_sub(arrived.count),
            measured: offered.timed,
            p50_us: at(50.0),
            p90_us: at(90.0),
            p99_us: at(99.0),
            p999_us: at(99.9),
            max_us: at(100.0),
        })
    }
}
