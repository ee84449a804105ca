//! A federation of a million clients with faults, driven as a simulation drives it: in the order of time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use synod_federate::ClientId;
use synod_federate::round::trace::{Behaviour, Fate, Work};
use synod_federate::round::{
    Action, Asynchronous, Digest, Engine, Round, RoundEvent, RoundSettings, Tally, Time, TimeSpan, Upload,
};
use synod_federate::select::{self, Population, Selection};

const SEED: u64 = 42;
const WORK: Work = Work {
    samples: 60,
    epochs: 5,
    bytes_down: 31_400,
    bytes_up: 31_400,
};

/// What comes next: when, whose, and what it is.
type Queue = BinaryHeap<Reverse<(Time, ClientId, Round, Kind)>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Report,
    Garbage,
    Drop,
}

/// A simulation: all that it must keep to go on is the engine, and the work that is under way.
#[derive(Clone)]
struct Simulation {
    engine: Engine,
    selection: select::SelectionSettings,
    behaviour: Behaviour,
    now: Time,
    queue: Queue,
    at_work: BTreeMap<ClientId, Round>,
    commits: Vec<(Round, Vec<Upload>)>,
}

struct Crowd<'a>(&'a BTreeMap<ClientId, Round>);

impl Population for Crowd<'_> {
    fn clients(&self) -> u64 {
        1_000_000
    }

    fn free(&self, client: ClientId) -> bool {
        !self.0.contains_key(&client)
    }
}

impl Simulation {
    fn new(settings: RoundSettings, behaviour: Behaviour) -> Simulation {
        let mut engine = Engine::new(settings, SEED).unwrap();
        engine.on(Time(0), RoundEvent::Population { clients: 1_000_000 });
        Simulation {
            engine,
            selection: select::SelectionSettings {
                by: Selection::Availability,
                ..select::SelectionSettings::default()
            },
            behaviour,
            now: Time(0),
            queue: Queue::new(),
            at_work: BTreeMap::new(),
            commits: Vec::new(),
        }
    }

    fn tell(&mut self, event: RoundEvent) {
        for action in self.engine.on(self.now, event) {
            match action {
                Action::Configure { client, round, .. } => self.begin(client, round),
                Action::Commit { round, updates } => {
                    for update in &updates {
                        self.at_work.remove(&update.client);
                    }
                    self.commits.push((round, updates));
                }
                Action::Stop { client, .. } | Action::Refuse { client, .. } => {
                    self.at_work.remove(&client);
                }
                Action::Abandon { .. } => self.at_work.clear(),
                // A client whose update is stored is not free before the commit.
                Action::Accept { .. } | Action::Reject { .. } | Action::Acknowledge { .. } => {}
            }
        }
    }

    fn begin(&mut self, client: ClientId, round: Round) {
        self.at_work.insert(client, round);
        let fate = self.behaviour.fate(SEED, client, round, WORK);
        let kind = match fate {
            Fate::Reports { .. } => Kind::Report,
            Fate::SendsGarbage { .. } => Kind::Garbage,
            Fate::Drops { noticed: true, .. } => Kind::Drop,
            Fate::Drops { noticed: false, .. } => return,
        };
        self.queue
            .push(Reverse((self.now + fate.after(), client, round, kind)));
    }

    /// Invites whom the engine can use, or lets time pass to whatever comes first.
    fn step(&mut self) {
        let (round, count) = (self.engine.round(), self.engine.invites());
        if count > 0 {
            let chosen = self
                .selection
                .pick(&Crowd(&self.at_work), SEED, round, self.now, count);
            chosen
                .into_iter()
                .for_each(|client| self.tell(RoundEvent::CheckIn { client }));
            return;
        }
        let next = self.queue.peek().map(|Reverse((at, ..))| *at);
        let wake = self.engine.wake().unwrap();
        if next.is_none_or(|at| wake < at) {
            self.now = wake;
            return self.tell(RoundEvent::Tick);
        }
        if let Some(Reverse((at, client, round, kind))) = self.queue.pop() {
            self.now = at;
            let (digest, bytes) = (Digest::of(&client.0.to_be_bytes()), WORK.bytes_up);
            self.tell(match kind {
                Kind::Report => RoundEvent::Update(Upload {
                    client,
                    round,
                    digest,
                    bytes,
                    samples: WORK.samples,
                }),
                Kind::Garbage => RoundEvent::Malformed {
                    client,
                    round,
                    reason: "not a number".into(),
                },
                Kind::Drop => RoundEvent::Dropped { client },
            });
        }
    }
}

fn faulty() -> Behaviour {
    Behaviour {
        samples_per_second: 100.0,
        speed_spread: 0.3,
        link_spread: 0.5,
        dropout: 0.05,
        crash: 0.1,
        straggle: 0.1,
        slowdown: 4.0,
        ..Behaviour::default()
    }
}

fn thousand() -> RoundSettings {
    RoundSettings {
        goal: 1000,
        report_timeout: TimeSpan::seconds(30.0),
        ..RoundSettings::default()
    }
}

#[test]
fn a_thousand_of_a_million_report_in_every_round_though_a_quarter_is_faulty() {
    let mut simulation = Simulation::new(thousand(), faulty());
    while simulation.commits.len() < 10 {
        simulation.step();
    }
    assert!(
        simulation
            .commits
            .iter()
            .all(|(_, updates)| updates.len() == 1000)
    );
    let Tally {
        selected,
        reported,
        straggling,
        dropped,
        failed,
        abandoned,
        malformed,
        ..
    } = *simulation.engine.tally();
    assert_eq!((selected, reported, abandoned), (13_000, 10_000, 0));
    assert_eq!(reported + straggling + dropped + failed, selected);
    assert!(
        (500..700).contains(&dropped),
        "a twentieth crashes midway: {dropped}"
    );
    assert!(
        (500..700).contains(&failed) && failed <= malformed,
        "a twentieth sends garbage: {failed}"
    );
    assert!(
        straggling > 650,
        "a twentieth is silent and a tenth too slow: {straggling}"
    );
}

#[test]
fn with_more_faults_than_foreseen_the_minimum_commits_in_time() {
    let mut simulation = Simulation::new(
        thousand(),
        Behaviour {
            dropout: 0.2,
            ..faulty()
        },
    );
    while simulation.commits.len() < 3 {
        simulation.step();
    }
    assert!(
        simulation
            .commits
            .iter()
            .all(|(_, updates)| (800..1000).contains(&updates.len()))
    );
    assert_eq!(simulation.now, Time(90_000), "each round takes all of its time");
}

#[test]
fn a_simulation_resumed_anywhere_commits_the_same() {
    let mut whole = Simulation::new(
        RoundSettings {
            goal: 20,
            ..thousand()
        },
        faulty(),
    );
    let mut resumed = whole.clone();
    for step in 0..300 {
        whole.step();
        if step % 7 == 0 {
            resumed.engine = serde_json::from_str(&serde_json::to_string(&resumed.engine).unwrap()).unwrap();
        }
        resumed.step();
    }
    assert!(whole.commits.len() > 5);
    assert_eq!((resumed.commits, resumed.engine), (whole.commits, whole.engine));
}

#[test]
fn asynchronous_clients_are_replaced_as_they_report() {
    let asynchronous = Some(Asynchronous {
        buffer: 50,
        concurrency: 200,
        staleness: 10,
    });
    let mut simulation = Simulation::new(
        RoundSettings {
            asynchronous,
            ..thousand()
        },
        faulty(),
    );
    while simulation.commits.len() < 40 {
        simulation.step();
    }
    let staleness = |(round, updates): &(Round, Vec<Upload>)| {
        let sum: u64 = updates.iter().map(|update| round.0 - update.round.0).sum();
        (updates.len(), sum as f64 / updates.len() as f64)
    };
    let last = staleness(&simulation.commits[39]);
    assert_eq!(last.0, 50);
    // 200 at work and 50 to a version: an update sees about four versions come about.
    assert!((2.0..5.0).contains(&last.1), "{last:?}");
}
