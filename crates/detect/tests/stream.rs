//! A history scored in pieces, killed and taken up again anywhere, is the history scored at once.

use std::sync::{Arc, OnceLock};

use proptest::prelude::*;
use synod_core::Frame;
use synod_detect::{
    AlarmBudget, Calibrator, Change, Error, Judged, Monitor, NodeModel, Recipe, Scored, Verdict,
};

const METRICS: usize = 9;

/// What the node goes through.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Event {
    Nothing,
    /// So many windows are not there.
    Gap(usize),
    /// So many windows come without any value.
    Silence(usize),
    /// So many windows are told to be missing.
    Dead(usize),
    /// A metric jumps for so many windows.
    Jump(usize),
    /// A metric stands still for so many windows.
    Stuck(usize),
}

/// A window: its time, and its values if it came.
type Window = (i64, Option<Vec<f32>>);

fn noise(i: u64) -> f32 {
    let z = (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    ((z ^ (z >> 32)) >> 40) as f32 / (1u64 << 24) as f32 - 0.5
}

/// A node with a counter, metrics that follow a load, and one that rests.
fn row(t: u64) -> Vec<f32> {
    let load = (t as f32 * 0.13).sin();
    let metric = |m: u64| match m {
        0 => t as f32 * 3.0 + noise(t),
        1 => (t / 5 % 3) as f32,
        m => load * (1.0 - 0.2 * m as f32) + 0.3 * noise(t * 16 + m),
    };
    (0..METRICS as u64).map(metric).collect()
}

fn metrics() -> Vec<String> {
    (0..METRICS).map(|m| format!("m{m}")).collect()
}

fn history(step: i64, events: &[Event]) -> Vec<Window> {
    let (mut windows, mut t) = (vec![], 400u64);
    for event in events {
        let calm = |windows: &mut Vec<Window>, t: &mut u64, count: usize, change: &dyn Fn(&mut Vec<f32>)| {
            for _ in 0..count {
                let mut values = row(*t);
                change(&mut values);
                windows.push((*t as i64 * step, Some(values)));
                *t += 1;
            }
        };
        calm(&mut windows, &mut t, 12, &|_| {});
        match *event {
            Event::Nothing => {}
            Event::Gap(count) => t += count as u64,
            Event::Silence(count) => calm(&mut windows, &mut t, count, &|values| values.fill(f32::NAN)),
            Event::Dead(count) => {
                windows.extend((0..count as u64).map(|i| ((t + i) as i64 * step, None)));
                t += count as u64;
            }
            Event::Jump(count) => calm(&mut windows, &mut t, count, &|values| values[4] += 30.0),
            Event::Stuck(count) => calm(&mut windows, &mut t, count, &|values| values[5] = 0.25),
        }
    }
    windows
}

fn model(name: &str, step: i64, detrend: bool) -> Arc<NodeModel> {
    let mut recipe = Recipe::named(name, 1).expect("a recipe");
    recipe.set_epochs(1);
    recipe.features.detrend = detrend.then_some(20 * step);
    let times = (0..400).map(|t| t * step).collect();
    let values = (0..400).flat_map(row).collect();
    let frame = Frame::new("n", step, times, metrics(), values).expect("a frame");
    Arc::new(NodeModel::fit(&frame, &recipe).expect("a model"))
}

/// Every kind of detector at three steps, fitted once.
fn models() -> &'static [Arc<NodeModel>] {
    static MODELS: OnceLock<Vec<Arc<NodeModel>>> = OnceLock::new();
    MODELS.get_or_init(|| {
        let steps = [30, 60, 900];
        let kinds = [
            ("default", false),
            ("default+lstm-autoencoder", false),
            ("autoencoder+pca", true),
        ];
        let pairs = steps.iter().flat_map(|step| kinds.map(|kind| (*step, kind)));
        pairs
            .map(|(step, (name, detrend))| model(name, step, detrend))
            .collect()
    })
}

fn policy(model: &NodeModel) -> Calibrator {
    Calibrator::new(model.reference(), AlarmBudget::default(), model.step())
}

/// What was said of one window, to the bit.
#[derive(Debug, PartialEq)]
struct Said {
    at: i64,
    scores: [u32; 4],
    verdict: (u32, bool, bool),
    change: Option<Change>,
}

fn bits(verdict: Verdict) -> (u32, bool, bool) {
    (verdict.threshold.to_bits(), verdict.alarm, verdict.adopted)
}

fn said(scored: &Scored<'_>, verdict: Verdict, change: Option<Change>) -> Said {
    Said {
        at: scored.at,
        scores: [scored.score, scored.measured, scored.instant, scored.silence].map(f32::to_bits),
        verdict: bits(verdict),
        change,
    }
}

/// The windows up to one that did not come, as a frame.
fn frame(windows: &[Window], step: i64) -> Option<Frame> {
    let came: Vec<_> = windows
        .iter()
        .map_while(|(at, row)| Some((*at, row.as_ref()?)))
        .collect();
    let times = came.iter().map(|(at, _)| *at).collect();
    let values = came.iter().flat_map(|(_, row)| row.iter().copied()).collect();
    let frame = Frame::new("n", step, times, metrics(), values).expect("a frame");
    (frame.rows() > 0).then_some(frame)
}

/// In pieces, each as a frame or window by window, stored and taken up again between them.
fn in_pieces(model: &Arc<NodeModel>, mut windows: &[Window], cuts: &[(usize, bool, bool)]) -> Vec<Said> {
    let mut monitor = Monitor::new("n", model.clone(), policy(model));
    let mut found = vec![];
    let mut cuts = cuts.iter().copied().cycle();
    while !windows.is_empty() {
        let (length, whole, killed) = cuts.next().unwrap_or((usize::MAX, true, false));
        let (mut piece, rest) = windows.split_at(length.clamp(1, windows.len()));
        windows = rest;
        while !piece.is_empty() {
            if let Some(frame) = frame(piece, model.step()).filter(|_| whole) {
                let each = &mut |judged: Judged<'_>| {
                    found.push(said(judged.scored, judged.verdict, judged.change));
                };
                monitor.advance(&frame, each).expect("in order");
                piece = &piece[frame.rows()..];
                continue;
            }
            let (at, row) = &piece[0];
            monitor.reads(&metrics());
            let pushed = match row {
                Some(row) => monitor.push(*at, row),
                None => monitor.no_window(*at),
            };
            let (scored, change) = pushed.expect("in order");
            let nothing = Verdict {
                threshold: 0.0,
                alarm: false,
                adopted: false,
            };
            let mut one = said(&scored, nothing, change);
            one.verdict = bits(monitor.episodes().verdict());
            found.push(one);
            piece = &piece[1..];
        }
        if killed {
            let stored = monitor.save().expect("stored");
            monitor = Monitor::resume("n", model.clone(), &stored).expect("taken up");
        }
    }
    found
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        2 => Just(Event::Nothing),
        1 => (1usize..200).prop_map(Event::Gap),
        1 => (1usize..12).prop_map(Event::Silence),
        1 => (1usize..12).prop_map(Event::Dead),
        2 => (1usize..25).prop_map(Event::Jump),
        1 => (10usize..30).prop_map(Event::Stuck),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn in_pieces_and_at_once_are_the_same_to_the_bit(
        model in 0usize..9,
        events in prop::collection::vec(event(), 1..12),
        cuts in prop::collection::vec((1usize..60, any::<bool>(), any::<bool>()), 1..8),
    ) {
        let model = &models()[model];
        let windows = history(model.step(), &events);
        let whole = in_pieces(model, &windows, &[(usize::MAX, true, false)]);
        prop_assert_eq!(whole.len(), windows.len());
        prop_assert_eq!(&in_pieces(model, &windows, &cuts), &whole);
        prop_assert_eq!(&in_pieces(model, &windows, &[(1, false, true)]), &whole);
    }
}

#[test]
fn the_histories_hold_alarms_that_open_change_and_close() {
    let model = &models()[6];
    let calm = [Event::Nothing; 5];
    let events = [&calm[..], &[Event::Jump(12)], &calm, &[Event::Dead(12)], &calm].concat();
    let windows = history(900, &events);
    let found = in_pieces(model, &windows, &[(usize::MAX, true, false)]);
    let count = |kind: fn(&Change) -> bool| {
        found
            .iter()
            .filter_map(|s| s.change.as_ref())
            .filter(|c| kind(c))
            .count()
    };
    assert!(count(|c| matches!(c, Change::Opened(_))) >= 2);
    assert!(count(|c| matches!(c, Change::Updated(_))) >= 2);
    assert!(count(|c| matches!(c, Change::Closed(_))) >= 1);
}

#[test]
fn a_node_that_dies_is_in_alarm_and_says_that_it_is_silent() {
    let model = &models()[0];
    let windows = history(30, &[Event::Nothing, Event::Dead(12)]);
    let mut monitor = Monitor::new("n", model.clone(), policy(model));
    for (at, row) in &windows {
        match row {
            Some(row) => monitor.push(*at, row),
            None => monitor.no_window(*at),
        }
        .expect("in order");
    }
    let alarm = monitor.episodes().open().expect("it is silent");
    assert!(alarm.from > windows[23].0, "{alarm:?}");
    assert!(alarm.metrics.iter().all(|m| m.observed.is_none()), "{alarm:?}");
}

#[test]
fn windows_out_of_order_and_rows_of_another_width_are_refused_and_change_nothing() {
    let model = &models()[0];
    let mut monitor = Monitor::new("n", model.clone(), policy(model));
    monitor.push(12_000, &row(400)).expect("the first");
    let before = monitor.save().expect("stored");
    for at in [12_000, 11_970, i64::MIN] {
        let refused = monitor.push(at, &row(401)).map(|_| ());
        assert!(matches!(refused, Err(Error::Order { .. })), "{refused:?}");
    }
    let refused = monitor.push(12_030, &row(401)[1..]).map(|_| ());
    assert!(
        matches!(refused, Err(Error::Width { given: 8, wanted: 9 })),
        "{refused:?}"
    );
    assert_eq!(monitor.save().expect("stored"), before);
}

#[test]
fn a_state_that_is_cut_changed_or_somebody_elses_is_refused() {
    let (model, other) = (&models()[0], &models()[6]);
    let mut monitor = Monitor::new("n", model.clone(), policy(model));
    monitor.push(12_000, &row(400)).expect("the first");
    let whole = monitor.save().expect("stored");
    let refused = |node: &str, model: &Arc<NodeModel>, bytes: &[u8]| {
        let error = Monitor::<Calibrator>::resume(node, model.clone(), bytes).expect_err("refused");
        let said = error.to_string();
        assert!(said.contains("begin anew"), "{said}");
        said
    };
    assert!(refused("m", model, &whole).contains("node n"));
    assert!(refused("n", other, &whole).contains("another detector"));
    for cut in 0..whole.len() {
        refused("n", model, &whole[..cut]);
    }
    for at in 0..whole.len() {
        let mut changed = whole.clone();
        changed[at] ^= 1 << (at % 8);
        refused("n", model, &changed);
    }
}
