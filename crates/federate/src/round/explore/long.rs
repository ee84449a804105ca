//! Long histories of larger federations, at random.

use proptest::prelude::*;

use super::*;
use crate::round::{Engine, Tally};

const CLIENTS: u64 = 8;

/// Something happens to a client after a while: what, and with how old a round and which content if it sends one.
type Happening = (u64, u8, u64, u64, u64);

fn happening() -> impl Strategy<Value = Happening> {
    (
        0..CLIENTS,
        0u8..20,
        0u64..4,
        prop::sample::select(vec![0, 0, 0, 0, 1, 2, 5]),
        0u64..2,
    )
}

fn event((client, kind, _, ago, content): Happening, current: Round) -> RoundEvent {
    let (id, round) = (ClientId(client), Round(current.0.saturating_sub(ago)));
    match kind {
        0..8 => RoundEvent::CheckIn { client: id },
        8..15 => upload(client, round, content),
        15 => upload(client, current.next(), content),
        16 => RoundEvent::Malformed {
            client: id,
            round,
            reason: "empty".into(),
        },
        17 => RoundEvent::Dropped { client: id },
        18 => RoundEvent::Population { clients: CLIENTS },
        _ if content == 0 => RoundEvent::Tick,
        _ => RoundEvent::Restarted,
    }
}

fn rounds() -> impl Strategy<Value = RoundSettings> {
    (1usize..6, 1u8..=10, 10u8..=16, 10u8..=20).prop_map(|(goal, minimum, over, room)| RoundSettings {
        selection_timeout: TimeSpan(10),
        report_timeout: TimeSpan(20),
        grace: TimeSpan(3),
        waiting_room: f64::from(room) / 10.0,
        ..small(goal, f64::from(minimum) / 10.0, f64::from(over) / 10.0)
    })
}

fn streams() -> impl Strategy<Value = RoundSettings> {
    (rounds(), 1usize..5, 4usize..8, 0u64..4).prop_map(|(rounds, buffer, concurrency, staleness)| {
        RoundSettings {
            asynchronous: Some(Asynchronous {
                buffer,
                concurrency,
                staleness,
            }),
            ..rounds
        }
    })
}

/// Runs a history through an engine and through one that is stored and restored after every event.
fn run(settings: &RoundSettings, seed: u64, history: &[Happening]) -> (Engine, Time) {
    let rules = Rules::of(settings);
    let (mut now, mut monitor) = (Time(0), Monitor::default());
    let mut engine = Engine::new(settings.clone(), seed).unwrap();
    let mut resumed = engine.clone();
    for &happening in history {
        now = now + TimeSpan(happening.2);
        let event = event(happening, engine.round());
        let before = *engine.tally();
        let actions = engine.on(now, event.clone());
        monitor.follow(rules, &event, &actions);
        assert_counted(&actions, engine.tally().since(&before));
        resumed = serde_json::from_str(&serde_json::to_string(&resumed).unwrap()).unwrap();
        assert_eq!(resumed.on(now, event), actions);
    }
    assert_eq!(resumed, engine);
    (engine, now)
}

/// What was counted in a step is what was done in it.
fn assert_counted(actions: &[Action], step: Tally) {
    let count = |which: fn(&Action) -> bool| actions.iter().filter(|action| which(action)).count() as u64;
    let refused = step.late + step.stale + step.unselected + step.conflicting + step.malformed;
    assert_eq!(step.committed, count(|a| matches!(a, Action::Commit { .. })));
    assert_eq!(step.abandoned, count(|a| matches!(a, Action::Abandon { .. })));
    assert_eq!(
        step.reported + step.duplicates,
        count(|a| matches!(a, Action::Acknowledge { .. }))
    );
    assert_eq!(
        step.selected + step.configured_again,
        count(|a| matches!(a, Action::Configure { .. }))
    );
    assert_eq!(step.rejected, count(|a| matches!(a, Action::Reject { .. })));
    assert_eq!(refused, count(|a| matches!(a, Action::Refuse { .. })));
    assert_eq!(step.bytes, step.reported);
}

proptest! {
    #[test]
    fn rounds_keep_every_rule_and_lose_nobody(
        settings in rounds(),
        seed in any::<u64>(),
        history in prop::collection::vec(happening(), 1..400),
    ) {
        let (mut engine, now) = run(&settings, seed, &history);
        // Those who wait are invited in one round after another, and time out.
        for days in 1..20 {
            engine.on(now + TimeSpan(days * TimeSpan::DAY.0), RoundEvent::Tick);
        }
        let tally = engine.tally();
        prop_assert_eq!(engine.wake(), None);
        prop_assert_eq!(tally.selected, tally.reported + tally.straggling + tally.dropped + tally.failed);
    }

    #[test]
    fn asynchronous_work_keeps_every_rule(
        settings in streams(),
        seed in any::<u64>(),
        history in prop::collection::vec(happening(), 1..400),
    ) {
        let (engine, _) = run(&settings, seed, &history);
        let tally = engine.tally();
        prop_assert!(tally.selected >= tally.reported + tally.straggling + tally.dropped + tally.failed);
    }
}
