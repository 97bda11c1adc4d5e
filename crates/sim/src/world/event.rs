//! The events of a simulation.

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// A request of this client.
    Request(u32),
    /// The next request of a session: a connection of this client, from 0.
    Further { client: u16, connection: u32 },
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
    /// A question of the learner reaches the switch.
    LearnAsk,
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
