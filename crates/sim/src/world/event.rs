//! The events of a simulation.

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// A request of this client.
    Request(u32),
    /// A frame comes out of this link's upward direction, at the switch.
    Up(u32),
    /// Of its downward direction, at a host.
    Down(u32),
    /// A worker of a device is done.
    Done { worker: u16, device: u32 },
    /// An agent's deadline.
    Agent(u32),
    /// An agent looks at processor use.
    Sample(u32),
    /// A report leaves an agent.
    Report(u32),
    /// A device sends a probe.
    Probe(u32),
    /// The deadline of the controllers of all switches.
    Tick,
    /// A message reaches this switch.
    AtSwitch(u32),
    /// A message of this switch reaches its controller.
    AtController(u32),
    /// The Prometheus server looks at all devices.
    Scrape,
    /// A query reaches it.
    AtPrometheus,
    /// The deadline of a module that asks it.
    Chooser(u32),
    /// The next of the scenario's events.
    Action,
    /// An interval's observation begins.
    LearnBegin,
    /// The learner reads registers.
    LearnPoll,
    /// An answer reaches the learner.
    AtLearner,
    /// The learner decides.
    Decide,
    /// A client's TCP connection has something to do.
    ClientStream(u32),
    /// A device's.
    DeviceStream(u32),
    /// Results count from here.
    WarmedUp,
    /// Clients stop.
    Stop,
}

/// An event as a number, which the calendar moves about in one piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Code(u64);

/// Its kind and its owner.
#[inline(always)]
fn code(what: u8, worker: u16, of: u32) -> u64 {
    u64::from(of) << 32 | u64::from(worker) << 16 | u64::from(what)
}

impl From<Event> for Code {
    #[inline(always)]
    fn from(event: Event) -> Self {
        Code(match event {
            Event::Request(of) => code(0, 0, of),
            Event::Up(of) => code(1, 0, of),
            Event::Down(of) => code(2, 0, of),
            Event::Done { worker, device } => code(3, worker, device),
            Event::Agent(of) => code(4, 0, of),
            Event::Sample(of) => code(5, 0, of),
            Event::Report(of) => code(6, 0, of),
            Event::Probe(of) => code(7, 0, of),
            Event::Tick => code(8, 0, 0),
            Event::AtSwitch(of) => code(9, 0, of),
            Event::AtController(of) => code(10, 0, of),
            Event::Scrape => code(11, 0, 0),
            Event::AtPrometheus => code(12, 0, 0),
            Event::Chooser(of) => code(13, 0, of),
            Event::Action => code(14, 0, 0),
            Event::LearnBegin => code(15, 0, 0),
            Event::LearnPoll => code(16, 0, 0),
            Event::AtLearner => code(17, 0, 0),
            Event::Decide => code(18, 0, 0),
            Event::ClientStream(of) => code(19, 0, of),
            Event::DeviceStream(of) => code(20, 0, of),
            Event::WarmedUp => code(21, 0, 0),
            Event::Stop => code(22, 0, 0),
        })
    }
}

impl From<Code> for Event {
    #[inline(always)]
    fn from(code: Code) -> Self {
        let (of, worker) = ((code.0 >> 32) as u32, (code.0 >> 16) as u16);
        match code.0 as u8 {
            0 => Event::Request(of),
            1 => Event::Up(of),
            2 => Event::Down(of),
            3 => Event::Done { worker, device: of },
            4 => Event::Agent(of),
            5 => Event::Sample(of),
            6 => Event::Report(of),
            7 => Event::Probe(of),
            8 => Event::Tick,
            9 => Event::AtSwitch(of),
            10 => Event::AtController(of),
            11 => Event::Scrape,
            12 => Event::AtPrometheus,
            13 => Event::Chooser(of),
            14 => Event::Action,
            15 => Event::LearnBegin,
            16 => Event::LearnPoll,
            17 => Event::AtLearner,
            18 => Event::Decide,
            19 => Event::ClientStream(of),
            20 => Event::DeviceStream(of),
            21 => Event::WarmedUp,
            _ => Event::Stop,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes() {
        let all = [
            Event::Request(7),
            Event::Up(7),
            Event::Down(7),
            Event::Done { worker: u16::MAX, device: 9 },
            Event::Agent(7),
            Event::Sample(7),
            Event::Report(7),
            Event::Probe(7),
            Event::Tick,
            Event::AtSwitch(7),
            Event::AtController(7),
            Event::Scrape,
            Event::AtPrometheus,
            Event::Chooser(7),
            Event::Action,
            Event::LearnBegin,
            Event::LearnPoll,
            Event::AtLearner,
            Event::Decide,
            Event::ClientStream(7),
            Event::DeviceStream(7),
            Event::WarmedUp,
            Event::Stop,
        ];
        for event in all {
            assert_eq!(Event::from(Code::from(event)), event);
        }
    }
}
