//! The settings and rates of queues as values.

use super::{Pace, PaceImage, Port, PortRate, QueueConfig, Queues, SharedBuffer};
use crate::time::Time;

/// The settings of a port's queues, by priority, if they differ from those of other ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PortSettings {
    pub port: u32,
    pub rate: Option<PortRate>,
    pub queues: Vec<QueueConfig>,
}

/// The settings of all queues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QueueSettings {
    /// Queues per port.
    pub priorities: u8,
    pub default: QueueConfig,
    pub buffer: Option<SharedBuffer>,
    pub ports: Vec<PortSettings>,
}

/// The rates' clocks of a port that is busy, and those of its queues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PortPaces {
    pub port: u32,
    pub own: Option<PaceImage>,
    pub queues: Vec<Option<PaceImage>>,
}

impl<P> Queues<P> {
    /// The settings.
    pub fn settings(&self) -> QueueSettings {
        let special = |p: &Port<P>| p.rate.is_some() || p.queues.iter().any(|q| q.config != self.default);
        let settings = |(port, p): (u32, &Port<P>)| PortSettings {
            port,
            rate: p.rate,
            queues: p.queues.iter().map(|q| q.config).collect(),
        };
        QueueSettings {
            priorities: self.waiting.len() as u8,
            default: self.default,
            buffer: self.buffer,
            ports: self.ports.iter().filter(|(_, p)| special(p)).map(settings).collect(),
        }
    }

    /// Applies settings for as many queues a port.
    pub fn set_all(&mut self, settings: &QueueSettings) {
        self.configure_all(settings.default);
        self.set_buffer(settings.buffer);
        for PortSettings { port, rate, queues } in &settings.ports {
            for (priority, config) in (0u8..).zip(queues) {
                self.configure(*port, Some(priority), *config);
            }
            self.set_rate(*port, *rate);
        }
    }

    /// The rates' clocks that still run.
    pub fn paces(&self, now: Time) -> Vec<PortPaces> {
        let paces = |(port, p): (u32, &Port<P>)| PortPaces {
            port,
            own: p.pace.image(now.0),
            queues: p.queues.iter().map(|q| q.pace.image(now.0)).collect(),
        };
        let runs = |p: &PortPaces| p.own.is_some() || p.queues.iter().any(Option::is_some);
        self.ports.iter().map(paces).filter(runs).collect()
    }

    /// Lets rates' clocks run on.
    pub fn set_paces(&mut self, now: Time, paces: &[PortPaces]) {
        let pace = |image: &Option<PaceImage>| image.map_or_else(Pace::default, |i| Pace::of_image(now.0, i));
        for PortPaces { port, own, queues } in paces {
            let of_port = self.port(*port);
            of_port.pace = pace(own);
            for (queue, image) in of_port.queues.iter_mut().zip(queues) {
                queue.pace = pace(image);
            }
        }
    }
}
