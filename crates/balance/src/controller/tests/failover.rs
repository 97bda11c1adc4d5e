//! Several controllers of one switch, and other clients, with messages in any order between them.

use super::*;

/// Foreign clients have numbers from here.
const FOREIGN: u32 = 100;

struct Member {
    controller: Controller,
    connected: bool,
    events: Vec<Event>,
    to_switch: VecDeque<Output>,
    inbox: VecDeque<Input>,
}

/// Controllers by number; a dead one is None.
struct Cluster {
    switch: Switch,
    rack: Rack,
    members: Vec<Option<Member>>,
    random: Random,
    now: Duration,
    up: bool,
    started: u64,
    /// Changes of the switch's primary.
    changes: Vec<(Duration, Option<u32>)>,
}

impl Cluster {
    fn new(members: usize, seed: u64, rack: Rack) -> Cluster {
        let mut c = Cluster {
            switch: Switch::new(rack.clone()),
            rack,
            members: (0..members).map(|_| None).collect(),
            random: Random::new(seed << 32),
            now: ms(0),
            up: true,
            started: seed << 16,
            changes: vec![(ms(0), None)],
        };
        (0..members).for_each(|i| c.start(i));
        c
    }

    fn start(&mut self, i: usize) {
        self.started += 1;
        let controller = Controller::new(self.rack.clone(), program()).expect("the balancer");
        self.members[i] = Some(Member {
            controller: controller.with_seed(self.started),
            connected: false,
            events: Vec::new(),
            to_switch: VecDeque::new(),
            inbox: VecDeque::new(),
        });
        self.input(i, Input::Tick);
    }

    /// The process ends: messages already sent arrive or do not.
    fn kill(&mut self, i: usize) {
        if let Some(mut m) = self.members[i].take()
            && m.connected
        {
            for _ in 0..self.random.below(1 + m.to_switch.len() as u64) {
                if let Some(Output::Request { request, .. }) = m.to_switch.pop_front() {
                    drop(self.serve(i, &request));
                }
            }
            let notices = self.switch.hang_up(i as u32);
            self.notices(notices);
        }
    }

    fn restart_switch(&mut self) {
        self.switch.restart();
        for i in 0..self.members.len() {
            self.cut(i);
        }
    }

    fn cut(&mut self, i: usize) {
        let notices = self.switch.hang_up(i as u32);
        self.notices(notices);
        if let Some(m) = &mut self.members[i]
            && m.connected
        {
            m.connected = false;
            m.to_switch.clear();
            m.inbox.clear();
            m.inbox.push_back(Input::Disconnected("the stream was closed".into()));
        }
    }

    /// A foreign client sends this id; None: it hangs up.
    fn foreign(&mut self, client: u32, id: Option<u128>) {
        let notices = match id {
            Some(_) => self.switch.arbitrate(FOREIGN + client, id).unwrap_or_default(),
            None => self.switch.hang_up(FOREIGN + client),
        };
        self.notices(notices);
    }

    fn notices(&mut self, notices: Vec<(u32, p4rt::StreamMessageResponse)>) {
        for (client, notice) in notices {
            if let Some(Some(m)) = self.members.get_mut(client as usize) {
                m.inbox.push_back(Input::Stream(notice));
            }
        }
        if self.changes.last().is_none_or(|(_, p)| *p != self.switch.primary()) {
            self.changes.push((self.now, self.switch.primary()));
        }
    }

    fn input(&mut self, i: usize, input: Input) {
        let Some(m) = &mut self.members[i] else { return };
        for o in m.controller.step(self.now, input) {
            match o {
                Output::Event(e) => m.events.push(e),
                Output::Connect(_) => {
                    m.to_switch.clear();
                    m.inbox.clear();
                    m.connected = false;
                    m.to_switch.push_back(o);
                }
                Output::Disconnect => {
                    m.to_switch.clear();
                    m.inbox.clear();
                    m.to_switch.push_back(o);
                }
                other => m.to_switch.push_back(other),
            }
        }
    }

    fn serve(&mut self, i: usize, request: &Request) -> Result<Response, RpcError> {
        let result = self.switch.request(self.now, request);
        if matches!(request, Request::Write(_) | Request::SetPipeline(_)) && result.is_ok() {
            assert_eq!(self.switch.primary(), Some(i as u32), "only the primary writes");
        }
        result
    }

    /// The switch takes one message of a controller.
    fn at_switch(&mut self, i: usize) {
        let Some(m) = &mut self.members[i] else { return };
        match m.to_switch.pop_front() {
            Some(Output::Connect(_)) => {
                m.connected = self.up;
                let refused = Input::Disconnected("connection refused".into());
                m.inbox.push_back(if self.up { Input::Connected } else { refused });
                let notices = self.switch.hang_up(i as u32);
                self.notices(notices);
            }
            Some(Output::Disconnect) => {
                m.connected = false;
                let notices = self.switch.hang_up(i as u32);
                self.notices(notices);
            }
            Some(Output::Send(message)) if m.connected => {
                let Some(p4rt::stream_message_request::Update::Arbitration(a)) = message.update else {
                    return;
                };
                let id = a.election_id.map(|id| u128::from(id.high) << 64 | u128::from(id.low));
                match self.switch.arbitrate(i as u32, id) {
                    Some(notices) => self.notices(notices),
                    None => self.cut(i),
                }
            }
            Some(Output::Request { id, request }) if m.connected => {
                let result = self.serve(i, &request);
                if let Some(m) = &mut self.members[i] {
                    m.inbox.push_back(Input::Response { id, result });
                }
            }
            _ => {}
        }
    }

    fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        for _ in 0..1_000_000 {
            let members = self.members.iter().enumerate();
            let busy: Vec<(usize, bool)> = members
                .flat_map(|(i, m)| {
                    let ways = m
                        .iter()
                        .flat_map(|m| [(!m.inbox.is_empty(), true), (!m.to_switch.is_empty(), false)]);
                    ways.filter(|(b, _)| *b).map(move |(_, inbox)| (i, inbox)).collect::<Vec<_>>()
                })
                .collect();
            if !busy.is_empty() {
                let (i, inbox) = busy[self.random.below(busy.len() as u64) as usize];
                match self.members[i].as_mut().filter(|_| inbox).and_then(|m| m.inbox.pop_front()) {
                    Some(input) => self.input(i, input),
                    None => self.at_switch(i),
                }
                self.now = (self.now + Duration::from_micros(self.random.below(200))).min(end);
                continue;
            }
            let due = self.members.iter().enumerate();
            let due = due.filter_map(|(i, m)| Some((m.as_ref()?.controller.next_deadline()?, i))).min();
            match due {
                Some((at, i)) if at <= end => {
                    self.now = self.now.max(at);
                    self.input(i, Input::Tick);
                }
                _ => {
                    self.now = end;
                    return;
                }
            }
        }
        panic!("they spin: {:?}", self.changes);
    }

    fn status(&self, i: usize) -> Option<Status> {
        self.members[i].as_ref().map(|m| m.controller.status())
    }

    /// The one controller that leads and has brought the switch up to date, all others standing by behind it.
    fn leader(&self) -> usize {
        let leads: Vec<usize> =
            (0..self.members.len()).filter(|i| self.status(*i) == Some(Status::InSync)).collect();
        assert_eq!(leads.len(), 1, "{:?}", self.changes);
        assert_eq!(self.switch.primary(), Some(leads[0] as u32));
        for (i, m) in self.members.iter().enumerate() {
            let Some(m) = m else { continue };
            let id = ElectionId(self.switch.highest.expect("the switch has a primary"));
            if i == leads[0] {
                assert_eq!(m.controller.leader(), Leader::Own(id));
            } else {
                assert_eq!((m.controller.status(), m.controller.leader().id()), (Status::Backup, Some(id)));
            }
        }
        assert_complete(&self.switch.entries(), &self.rack, "led");
        leads[0]
    }

    fn had(&self, i: usize, wanted: impl Fn(&Event) -> bool) -> bool {
        self.members[i].as_ref().is_some_and(|m| m.events.iter().any(wanted))
    }
}

fn cluster(members: usize, seed: u64) -> Cluster {
    let mut c = Cluster::new(members, seed, shape().rack());
    c.run_for(ms(1_000));
    c
}

/// The first one leads; after its death another one takes over, and a restarted one becomes its standby.
#[test]
fn a_standby_takes_over() {
    for seed in 0..20 {
        let mut c = cluster(2 + seed as usize % 2, seed);
        for _ in 0..3 {
            let dead = c.leader();
            let (before, writes, installs) = (c.changes.len(), c.switch.writes, c.switch.installs);
            c.kill(dead);
            c.run_for(ms(500));
            let next = c.leader();
            assert_eq!((c.switch.writes, c.switch.installs), (writes, installs), "nothing had changed");
            assert!(c.changes.len() - before <= 4, "seed {seed}: they fight: {:?}", c.changes);
            let changes = c.changes.len();
            c.start(dead);
            c.run_for(ms(60_000));
            assert_eq!((c.leader(), c.changes.len()), (next, changes), "seed {seed}: {:?}", c.changes);
        }
    }
}

/// A controller that is alone leads at once after a restart, whatever the switch's highest id is.
#[test]
fn a_restarted_controller_leads_again() {
    let mut c = cluster(1, 5);
    let high = c.switch.highest;
    c.kill(0);
    c.start(0);
    c.run_for(ms(50));
    assert_eq!(c.leader(), 0);
    assert!(c.switch.highest > high);
    // The switch has not yet noticed the end of the old connection.
    if let Some(m) = &mut c.members[0] {
        let id = m.controller.leader().id().map(|id| id.0);
        drop(c.switch.hang_up(0));
        drop(c.switch.arbitrate(FOREIGN, id));
        m.inbox.push_back(Input::Disconnected("no route to host".into()));
    }
    c.run_for(ms(300));
    assert_eq!(c.leader(), 0);
}

#[test]
fn the_switch_restarts() {
    for seed in 0..10 {
        let mut c = cluster(3, seed);
        c.restart_switch();
        c.up = false;
        c.run_for(ms(20_000));
        c.up = true;
        c.run_for(ms(1_000));
        c.leader();
        let changes = c.changes.len();
        c.run_for(ms(60_000));
        c.leader();
        assert_eq!(c.changes.len(), changes);
    }
}

/// A foreign client with a higher id holds the switch as long as it is connected, however high its id is.
#[test]
fn a_foreign_client_does_not_lock_controllers_out() {
    let high = [7, 1 << 70, u128::MAX << 64, u128::MAX - 1, u128::MAX];
    for (seed, id) in high.into_iter().enumerate() {
        let mut c = cluster(2, seed as u64);
        // Above the controllers' ids in any case.
        let id = id.max(((c.switch.highest.expect("one leads") >> 64) + 1) << 64);
        c.foreign(0, Some(id));
        let writes = c.switch.writes;
        c.run_for(ms(60_000));
        assert_eq!(c.changes.last().map(|(_, p)| *p), Some(Some(FOREIGN)), "it is alive");
        for i in 0..2 {
            assert_eq!(c.status(i), Some(Status::Backup));
            let foreign = Event::Backup { leader: Leader::Foreign(ElectionId(id)) };
            assert!(c.had(i, |e| *e == foreign), "{id:x}");
        }
        assert_eq!(c.switch.writes, writes);
        c.foreign(0, None);
        c.run_for(ms(1_000));
        // Once ids have no room for a mark, a standby cannot recognise the owner of an id, but remains a standby.
        let leads = c.switch.primary().expect("one took over") as usize;
        assert!(leads < 2);
        let changes = c.changes.len();
        c.run_for(ms(60_000));
        assert_eq!((c.status(leads), c.status(1 - leads)), (Some(Status::InSync), Some(Status::Backup)));
        assert_eq!(c.changes.len(), changes, "{id:x}: {:?}", c.changes);
        c.kill(leads);
        c.run_for(ms(1_000));
        assert_eq!(c.status(1 - leads), Some(Status::InSync), "{id:x}");
    }
}

/// If the rack's file allows it, the switch is taken from foreign clients, less and less often if they come back.
#[test]
fn preemption() {
    let mut rack = shape().rack();
    rack.switch.preempt = true;
    let mut c = Cluster::new(1, 3, rack);
    c.run_for(ms(1_000));
    let next = |c: &Cluster| c.switch.highest.map(|h| ((h + (1 << 70)) >> 64) << 64);
    c.foreign(0, next(&c));
    c.run_for(ms(50));
    assert_eq!(c.leader(), 0, "{:?}", c.changes);
    let before = c.changes.len();
    for _ in 0..600 {
        if c.switch.primary() != Some(FOREIGN) {
            c.foreign(0, next(&c));
        }
        c.run_for(ms(1_000));
    }
    let taken = c.changes.len() - before;
    assert!((20..60).contains(&taken), "{taken} changes in ten minutes");
    c.foreign(0, Some(u128::MAX));
    let changes = c.changes.len();
    c.run_for(ms(300_000));
    assert_eq!(c.changes.len(), changes, "nothing is higher");
}

/// Everything that can happen to controllers, in any order: in the end one leads within two seconds, and keeps leading.
#[test]
fn chaos_among_controllers() {
    for seed in 0..12 {
        let mut c = Cluster::new(3, seed, shape().rack());
        for _ in 0..60 {
            let i = c.random.below(3) as usize;
            match c.random.below(8) {
                0 => c.kill(i),
                1 if c.members[i].is_none() => c.start(i),
                2 => c.cut(i),
                3 => c.restart_switch(),
                4 => c.up = c.random.below(2) == 0,
                5 => {
                    let high = c.switch.highest.map_or(1, |h| h + 1 + u128::from(c.random.below(1 << 40)));
                    c.foreign(i as u32, Some(high));
                }
                6 => c.foreign(i as u32, None),
                _ => {
                    let wait = ms(c.random.below(400));
                    c.run_for(wait);
                }
            }
        }
        c.up = true;
        for i in 0..3 {
            c.foreign(i as u32, None);
            if c.members[i].is_none() {
                c.start(i);
            }
        }
        c.run_for(ms(2_000));
        let (leader, changes) = (c.leader(), c.changes.len());
        c.run_for(ms(60_000));
        assert_eq!((c.leader(), c.changes.len()), (leader, changes), "seed {seed}: {:?}", c.changes);
    }
}
