//! What a round does, told as stories.

use proptest::prelude::*;
use synod_federate::ClientId;
use synod_federate::round::{
    Action, Asynchronous, Digest, Engine, Phase, Refusal, Round, RoundEvent, RoundSettings, Time, TimeSpan,
    Upload,
};

fn check_in(client: u64) -> RoundEvent {
    RoundEvent::CheckIn {
        client: ClientId(client),
    }
}

fn update(client: u64, round: u64, content: u64) -> RoundEvent {
    RoundEvent::Update(Upload {
        client: ClientId(client),
        round: Round(round),
        digest: Digest::of(&content.to_be_bytes()),
        bytes: 100,
        samples: 600,
    })
}

fn dropped(client: u64) -> RoundEvent {
    RoundEvent::Dropped {
        client: ClientId(client),
    }
}

fn engine(goal: usize, minimum_fraction: f64, over_selection: f64) -> Engine {
    let settings = RoundSettings {
        goal,
        minimum_fraction,
        over_selection,
        ..RoundSettings::default()
    };
    Engine::new(settings, 1).unwrap()
}

/// An engine whose clients 0, 1, ... are all at work in round 0 since time 0.
fn reporting(goal: usize, minimum_fraction: f64, over_selection: f64) -> Engine {
    let mut engine = engine(goal, minimum_fraction, over_selection);
    for client in 0..engine.invites() as u64 {
        engine.on(Time(0), check_in(client));
    }
    assert_eq!(engine.invites(), 0);
    engine
}

fn committed(actions: &[Action]) -> Option<Vec<u64>> {
    actions.iter().find_map(|action| match action {
        Action::Commit { updates, .. } => Some(updates.iter().map(|update| update.client.0).collect()),
        _ => None,
    })
}

fn configured(actions: &[Action]) -> Vec<(u64, u64)> {
    let work = |action: &Action| match action {
        Action::Configure { client, round, .. } => Some((client.0, round.0)),
        _ => None,
    };
    actions.iter().filter_map(work).collect()
}

fn refusal(actions: &[Action]) -> Option<Refusal> {
    actions.iter().find_map(|action| match action {
        Action::Refuse { why, .. } => Some(why.clone()),
        _ => None,
    })
}

fn acknowledged(actions: &[Action]) -> bool {
    actions
        .iter()
        .any(|action| matches!(action, Action::Acknowledge { .. }))
}

#[test]
fn thirteen_are_invited_for_ten_and_the_rest_are_told_that_it_is_too_late() {
    let mut engine = reporting(10, 0.8, 1.3);
    let mut actions = Vec::new();
    for client in (3..13).rev() {
        assert_eq!(committed(&actions), None);
        actions = engine.on(Time(5), update(client, 0, client));
    }
    assert_eq!(committed(&actions), Some((3..13).collect()));
    let stopped = actions
        .iter()
        .filter(|action| matches!(action, Action::Stop { .. }))
        .count();
    assert_eq!((stopped, engine.tally().straggling), (3, 3));
    assert_eq!(refusal(&engine.on(Time(6), update(0, 0, 0))), Some(Refusal::Late));
    assert_eq!(engine.tally().late, 1);
}

#[test]
fn a_stored_update_outranks_its_senders_liveness() {
    let mut engine = reporting(2, 1.0, 1.0);
    assert!(acknowledged(&engine.on(Time(1), update(0, 0, 7))));
    engine.on(Time(2), dropped(0));
    assert_eq!(committed(&engine.on(Time(3), update(1, 0, 8))), Some(vec![0, 1]));
}

#[test]
fn a_client_that_lost_its_connection_may_still_report_or_fetch_its_plan_again() {
    let mut engine = reporting(3, 1.0, 1.0);
    engine.on(Time(1), dropped(0));
    engine.on(Time(1), dropped(1));
    assert!(acknowledged(&engine.on(Time(2), update(0, 0, 7))));
    assert_eq!(configured(&engine.on(Time(3), check_in(1))), [(1, 0)]);
    engine.on(Time(4), update(1, 0, 8));
    assert_eq!(
        committed(&engine.on(Time(5), update(2, 0, 9))),
        Some(vec![0, 1, 2])
    );
}

#[test]
fn what_is_sent_twice_is_acknowledged_twice_and_counted_once() {
    let mut engine = reporting(2, 1.0, 1.0);
    for _ in 0..3 {
        assert!(acknowledged(&engine.on(Time(1), update(0, 0, 7))));
    }
    let stored = Digest::of(&7u64.to_be_bytes());
    assert_eq!(
        refusal(&engine.on(Time(1), update(0, 0, 8))),
        Some(Refusal::Conflict { stored })
    );
    assert_eq!(committed(&engine.on(Time(1), update(1, 0, 9))), Some(vec![0, 1]));
    assert!(
        acknowledged(&engine.on(Time(2), update(1, 0, 9))),
        "its sender did not hear that the round is over"
    );
    let tally = engine.tally();
    assert_eq!((tally.reported, tally.duplicates, tally.conflicting), (2, 3, 1));
}

#[test]
fn strangers_the_past_the_future_and_nonsense_are_refused_with_a_reason() {
    let mut engine = reporting(1, 1.0, 2.0);
    assert_eq!(
        refusal(&engine.on(Time(1), update(9, 0, 1))),
        Some(Refusal::Unselected)
    );
    let early = refusal(&engine.on(Time(1), update(0, 1, 1)));
    assert_eq!(early, Some(Refusal::Early { current: Round(0) }));
    let (client, round, reason) = (ClientId(0), Round(0), "holds NaN".to_string());
    let nonsense = engine.on(
        Time(1),
        RoundEvent::Malformed {
            client,
            round,
            reason: reason.clone(),
        },
    );
    assert_eq!(refusal(&nonsense), Some(Refusal::Malformed { reason }));
    assert!(
        acknowledged(&engine.on(Time(1), update(0, 0, 1))),
        "a better one is welcome"
    );
    for round in 1..3 {
        engine.on(Time(2), check_in(0));
        engine.on(Time(2), check_in(1));
        engine.on(Time(2), update(0, round, 1));
    }
    let stale = refusal(&engine.on(Time(3), update(1, 0, 1)));
    assert_eq!(stale, Some(Refusal::Stale { current: Round(3) }));
    let tally = engine.tally();
    assert_eq!((tally.unselected, tally.stale, tally.malformed), (1, 2, 1));
}

#[test]
fn when_time_is_over_the_minimum_commits_and_less_is_abandoned() {
    let due = Time(600_000);
    for (reports, commits) in [(8, true), (7, false)] {
        let mut engine = reporting(10, 0.8, 1.3);
        for client in 0..reports {
            engine.on(Time(1), update(client, 0, client));
        }
        assert_eq!(engine.wake(), Some(due));
        assert_eq!(engine.on(Time(due.0 - 1), RoundEvent::Tick), []);
        let actions = engine.on(due, RoundEvent::Tick);
        assert_eq!(committed(&actions).is_some(), commits);
        let abandoned = Action::Abandon {
            round: Round(0),
            phase: Phase::Reporting,
            had: 7,
            needed: 8,
        };
        assert_eq!(actions.contains(&abandoned), !commits);
        assert_eq!(
            (engine.round(), engine.tally().discarded),
            (Round(1), if commits { 0 } else { 7 })
        );
    }
}

#[test]
fn a_round_does_not_wait_long_once_everyone_left_is_gone() {
    let mut engine = reporting(2, 0.5, 1.0);
    engine.on(Time(1000), update(0, 0, 7));
    engine.on(Time(2000), dropped(1));
    assert_eq!(engine.wake(), Some(Time(12_000)));
    assert_eq!(
        committed(&engine.on(Time(12_000), RoundEvent::Tick)),
        Some(vec![0])
    );
}

#[test]
fn a_selection_that_finds_too_few_sends_them_away_to_meet_again() {
    let mut engine = engine(10, 0.8, 1.3);
    engine.on(Time(0), RoundEvent::Population { clients: 13 });
    for client in 0..7 {
        engine.on(Time(1000 * client), check_in(client));
    }
    let actions = engine.on(Time(60_000), RoundEvent::Tick);
    let windows: Vec<_> = actions
        .iter()
        .filter_map(|action| match action {
            Action::Reject { retry, .. } => Some(*retry),
            _ => None,
        })
        .collect();
    assert_eq!(windows.len(), 7);
    assert!(
        windows
            .iter()
            .all(|window| *window == windows[0] && window.from == Time(120_000))
    );
    assert_eq!((engine.wake(), engine.round()), (None, Round(1)));
}

#[test]
fn a_small_federation_does_not_wait_for_clients_that_do_not_exist() {
    let mut engine = engine(10, 0.8, 1.3);
    engine.on(Time(0), RoundEvent::Population { clients: 10 });
    for client in 0..9 {
        assert_eq!(configured(&engine.on(Time(0), check_in(client))), []);
    }
    assert_eq!(configured(&engine.on(Time(0), check_in(9))).len(), 10);
}

#[test]
fn who_checks_in_during_a_round_is_in_the_next_one_at_once() {
    let mut engine = reporting(2, 1.0, 1.0);
    engine.on(Time(1), update(0, 0, 7));
    assert!(matches!(
        engine.on(Time(2), check_in(0))[..],
        [Action::Accept { .. }]
    ));
    engine.on(Time(2), check_in(5));
    let actions = engine.on(Time(3), update(1, 0, 8));
    assert_eq!(committed(&actions), Some(vec![0, 1]));
    assert_eq!(configured(&actions), [(0, 1), (5, 1)]);
}

#[test]
fn a_restarted_server_gives_clients_the_time_it_was_away() {
    let mut engine = reporting(2, 1.0, 1.0);
    engine.on(Time(1000), update(0, 0, 7));
    engine.on(Time(1000), check_in(0));
    let text = serde_json::to_string(&engine).unwrap();

    let mut engine: Engine = serde_json::from_str(&text).unwrap();
    let back = Time(10_000_000);
    assert_eq!(engine.on(back, RoundEvent::Restarted), []);
    assert_eq!(engine.wake(), Some(back + TimeSpan(599_000)));
    assert_eq!(configured(&engine.on(back, check_in(1))), [(1, 0)]);
    let actions = engine.on(back, update(1, 0, 8));
    assert_eq!(committed(&actions), Some(vec![0, 1]));
    assert_eq!(
        configured(&actions),
        [],
        "who waited before has to check in again"
    );
}

#[test]
fn a_stored_state_with_senseless_settings_is_not_read() {
    let text = serde_json::to_string(&reporting(2, 1.0, 1.0)).unwrap();
    let wrong = text.replace("\"goal\":2", "\"goal\":0");
    assert_ne!(text, wrong);
    let error = serde_json::from_str::<Engine>(&wrong).unwrap_err().to_string();
    assert!(error.contains("goal must be"), "{error}");
}

fn stream(buffer: usize, concurrency: usize, staleness: u64) -> Engine {
    let asynchronous = Some(Asynchronous {
        buffer,
        concurrency,
        staleness,
    });
    Engine::new(
        RoundSettings {
            asynchronous,
            ..RoundSettings::default()
        },
        1,
    )
    .unwrap()
}

#[test]
fn asynchronous_clients_work_on_while_versions_come_about() {
    let mut engine = stream(2, 3, 1);
    for client in 0..3 {
        assert_eq!(configured(&engine.on(Time(0), check_in(client))), [(client, 0)]);
    }
    engine.on(Time(1), update(0, 0, 1));
    assert!(
        matches!(engine.on(Time(1), check_in(0))[..], [Action::Accept { .. }]),
        "it is in the buffer"
    );
    let actions = engine.on(Time(2), update(1, 0, 2));
    assert_eq!(
        (committed(&actions), configured(&actions)),
        (Some(vec![0, 1]), vec![(0, 1)])
    );

    // Client 2 began a version ago and is still welcome; its staleness is in the commit.
    engine.on(Time(3), update(2, 0, 3));
    let actions = engine.on(Time(4), update(0, 1, 4));
    let Some(Action::Commit { round, updates }) = actions.get(1) else {
        panic!("{actions:?}")
    };
    let staleness: Vec<_> = updates
        .iter()
        .map(|u| (u.client.0, round.0 - u.round.0))
        .collect();
    assert_eq!(staleness, [(0, 0), (2, 1)]);
}

#[test]
fn asynchronous_work_that_is_too_old_is_stopped_and_refused() {
    let mut engine = stream(1, 2, 0);
    engine.on(Time(0), check_in(0));
    engine.on(Time(0), check_in(1));
    let actions = engine.on(Time(1), update(0, 0, 1));
    assert!(actions.iter().any(|a| matches!(
        a,
        Action::Stop {
            client: ClientId(1),
            round: Round(0),
            ..
        }
    )));
    let stale = refusal(&engine.on(Time(2), update(1, 0, 2)));
    assert_eq!(stale, Some(Refusal::Stale { current: Round(1) }));
}

#[test]
fn a_client_that_takes_too_long_gives_its_place_to_one_that_waits() {
    let mut engine = stream(2, 1, 5);
    engine.on(Time(0), check_in(0));
    assert!(matches!(
        engine.on(Time(0), check_in(1))[..],
        [Action::Accept { .. }]
    ));
    assert_eq!(engine.wake(), Some(Time(600_000)));
    assert_eq!(configured(&engine.on(Time(600_000), RoundEvent::Tick)), [(1, 0)]);
    assert!(
        acknowledged(&engine.on(Time(600_001), update(0, 0, 1))),
        "late, but not too old"
    );
}

#[test]
fn a_crowd_that_comes_and_goes_does_not_fill_the_memory() {
    let mut engine = stream(10, 5, 5);
    for client in 0..10_000 {
        engine.on(Time(client), check_in(client));
        engine.on(Time(client), dropped(client));
    }
    let size = serde_json::to_string(&engine).unwrap().len();
    assert!(size < 3000, "{size}");
    assert!(engine.tally().dropped >= 9_990);
}

proptest! {
    #[test]
    fn the_order_of_arrival_does_not_matter_when_all_fit(
        order in Just((0u64..12).collect::<Vec<_>>()).prop_shuffle(),
        arrivals in Just((0u64..12).collect::<Vec<_>>()).prop_shuffle(),
    ) {
        let commit = |check_ins: &[u64], updates: &[u64]| {
            let mut engine = engine(12, 1.0, 1.0);
            check_ins.iter().for_each(|&client| drop(engine.on(Time(1), check_in(client))));
            let all: Vec<_> = updates.iter().flat_map(|&client| engine.on(Time(2), update(client, 0, client))).collect();
            let commits: Vec<_> = all.into_iter().filter(|a| matches!(a, Action::Commit { .. })).collect();
            (commits, engine)
        };
        let in_order: Vec<u64> = (0..12).collect();
        prop_assert_eq!(commit(&order, &arrivals), commit(&in_order, &in_order));
    }
}
