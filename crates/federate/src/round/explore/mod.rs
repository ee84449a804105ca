//! Every state that small federations can reach, whatever happens in whatever order.

mod long;
mod monitor;

use std::collections::{BTreeMap, HashSet};
use std::fmt::Debug;
use std::hash::{DefaultHasher, Hash, Hasher};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{
    Action, Asynchronous, Digest, Round, RoundEvent, RoundSettings, Rounds, Stream, Time, TimeSpan, Upload,
};
use crate::ClientId;
use monitor::{Monitor, Rules};

/// What the exploration needs to know of a machine.
pub(super) trait Machine: Clone + PartialEq + Debug + Serialize + DeserializeOwned {
    /// Hashes all that its future depends on, with times told in relation to now.
    fn hash_shape(&self, hasher: &mut DefaultHasher);
    fn now(&self) -> Time;
    fn current(&self) -> Round;
    fn next_wake(&self) -> Option<Time>;
    fn step(&mut self, at: Time, event: RoundEvent) -> Vec<Action>;
    fn is_idle(&self) -> bool;
}

fn upload(client: u64, round: Round, content: u64) -> RoundEvent {
    RoundEvent::Update(Upload {
        client: ClientId(client),
        round,
        digest: Digest::of(&(client * 10 + content).to_be_bytes()),
        bytes: 1,
        samples: 1,
    })
}

/// What can happen next: after how long, and what. Clients are alike, so one of them sends malformed updates and one
/// changes its mind for all.
fn happenings(clients: u64, current: Round) -> Vec<(TimeSpan, RoundEvent)> {
    let soon = |event| (TimeSpan(0), event);
    let mut all = vec![
        (TimeSpan(1), RoundEvent::Tick),
        soon(RoundEvent::Restarted),
        (TimeSpan(1), RoundEvent::Restarted),
    ];
    all.push(soon(upload(0, current.next(), 0)));
    all.push(soon(upload(0, current, 1)));
    all.push(soon(RoundEvent::Malformed {
        client: ClientId(1),
        round: current,
        reason: "empty".into(),
    }));
    for client in 0..clients {
        let id = ClientId(client);
        all.push(soon(RoundEvent::CheckIn { client: id }));
        all.push(soon(RoundEvent::Dropped { client: id }));
        for ago in 0..=current.0.min(2) {
            all.push(soon(upload(client, Round(current.0 - ago), 0)));
        }
    }
    all
}

/// Visits every state up to a round, and checks each step, each state's way through a file, and that each state
/// comes to rest in silence and to a commit with clients that do their work. Gives the number of states.
fn explore<M: Machine>(start: M, rules: Rules, clients: u64, last: Round) -> usize {
    let mut seen = HashSet::from([fingerprint(&start, &Monitor::default())]);
    let mut open = vec![(start, Monitor::default())];
    while let Some((machine, monitor)) = open.pop() {
        let stored: M = serde_json::from_str(&serde_json::to_string(&machine).unwrap()).unwrap();
        assert_eq!(stored, machine);
        falls_silent(machine.clone());
        commits_with_diligent_clients(machine.clone(), monitor.clone(), rules, clients);
        if machine.current() > last {
            continue;
        }
        for (after, event) in happenings(clients, machine.current()) {
            let (mut next, mut monitor) = (machine.clone(), monitor.clone());
            let actions = next.step(machine.now() + after, event.clone());
            monitor.follow(rules, &event, &actions);
            if seen.insert(fingerprint(&next, &monitor)) {
                open.push((next, monitor));
            }
        }
    }
    seen.len()
}

fn fingerprint<M: Machine>(machine: &M, monitor: &Monitor) -> u64 {
    let mut hasher = DefaultHasher::new();
    machine.hash_shape(&mut hasher);
    monitor.hash(&mut hasher);
    hasher.finish()
}

/// When nobody does anything, every round ends and nothing is left to wait for.
fn falls_silent<M: Machine>(mut machine: M) {
    for _ in 0..4 {
        let Some(wake) = machine.next_wake() else { break };
        assert!(wake > machine.now(), "time stands still in {machine:?}");
        machine.step(wake, RoundEvent::Tick);
    }
    assert!(machine.is_idle(), "never comes to rest: {machine:?}");
}

/// From wherever the machine is, clients that check in and report bring about a commit.
fn commits_with_diligent_clients<M: Machine>(
    mut machine: M,
    mut monitor: Monitor,
    rules: Rules,
    clients: u64,
) {
    let begin = machine.current();
    let mut given = BTreeMap::new();
    for _ in 0..4 {
        for client in 0..clients {
            let event = RoundEvent::CheckIn {
                client: ClientId(client),
            };
            given.extend(tell(&mut machine, &mut monitor, rules, TimeSpan(0), event));
        }
        while let Some((client, round)) = given.pop_first() {
            given.extend(tell(
                &mut machine,
                &mut monitor,
                rules,
                TimeSpan(0),
                upload(client.0, round, 2),
            ));
            if monitor.has_committed(begin) {
                return;
            }
        }
        let wait = machine
            .next_wake()
            .map_or(TimeSpan(1), |wake| wake - machine.now());
        given.extend(tell(&mut machine, &mut monitor, rules, wait, RoundEvent::Tick));
        if monitor.has_committed(begin) {
            return;
        }
    }
    panic!("never commits: {machine:?}");
}

/// One step, and the work that it gave out.
fn tell<M: Machine>(
    machine: &mut M,
    monitor: &mut Monitor,
    rules: Rules,
    after: TimeSpan,
    event: RoundEvent,
) -> Vec<(ClientId, Round)> {
    let actions = machine.step(machine.now() + after, event.clone());
    monitor.follow(rules, &event, &actions);
    let work = |action: &Action| match action {
        Action::Configure { client, round, .. } => Some((*client, *round)),
        _ => None,
    };
    actions.iter().filter_map(work).collect()
}

fn small(goal: usize, minimum_fraction: f64, over_selection: f64) -> RoundSettings {
    RoundSettings {
        goal,
        minimum_fraction,
        over_selection,
        selection_timeout: TimeSpan(2),
        report_timeout: TimeSpan(2),
        grace: TimeSpan(1),
        waiting_room: 1.0,
        ..RoundSettings::default()
    }
}

fn explore_rounds(settings: RoundSettings, clients: u64, last: u64) -> usize {
    let rules = Rules::of(&settings);
    explore(Rounds::new(settings, 3).unwrap(), rules, clients, Round(last))
}

#[test]
fn two_clients_of_whom_the_first_wins() {
    let states = explore_rounds(small(1, 1.0, 2.0), 2, 2);
    assert!(states > 2_000, "{states}");
}

#[test]
fn three_clients_of_whom_two_are_needed_and_one_will_do() {
    let states = explore_rounds(small(2, 0.5, 1.5), 3, 1);
    assert!(states > 40_000, "{states}");
}

#[test]
fn three_clients_who_are_all_hoped_for_and_of_whom_two_will_do() {
    let states = explore_rounds(small(3, 0.6, 1.0), 3, 1);
    assert!(states > 40_000, "{states}");
}

#[test]
fn four_clients_for_two_places() {
    let states = explore_rounds(small(2, 1.0, 1.0), 4, 1);
    assert!(states > 50_000, "{states}");
}

fn explore_stream(asynchronous: Asynchronous, minimum_fraction: f64, clients: u64, last: u64) -> usize {
    let settings = RoundSettings {
        asynchronous: Some(asynchronous),
        ..small(1, minimum_fraction, 1.0)
    };
    let rules = Rules::of(&settings);
    explore(Stream::new(settings, 3).unwrap(), rules, clients, Round(last))
}

#[test]
fn two_clients_whose_every_update_is_a_version() {
    let states = explore_stream(
        Asynchronous {
            buffer: 1,
            concurrency: 2,
            staleness: 1,
        },
        1.0,
        2,
        2,
    );
    assert!(states > 400, "{states}");
}

#[test]
fn three_clients_two_at_work_two_to_a_version() {
    let states = explore_stream(
        Asynchronous {
            buffer: 2,
            concurrency: 2,
            staleness: 1,
        },
        1.0,
        3,
        1,
    );
    assert!(states > 6_000, "{states}");
}

#[test]
fn three_clients_three_to_a_version_or_fewer_in_time() {
    let states = explore_stream(
        Asynchronous {
            buffer: 3,
            concurrency: 3,
            staleness: 0,
        },
        0.3,
        3,
        1,
    );
    assert!(states > 10_000, "{states}");
}
