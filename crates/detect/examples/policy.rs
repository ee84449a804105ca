//! An alarm policy of your own: what is unusual must be so in three of the latest four windows.
//!
//!     cargo run --release -p synod-detect --example policy
//!
//! Whatever implements `Policy` can stand behind a `Monitor`: it is stored and taken up again with the rest of a node's state.

use std::error::Error;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use synod_core::{Frame, Random};
use synod_detect::{AlarmBudget, Calibrator, Change, Monitor, NodeModel, Policy, Recipe, Verdict};

/// Another policy, heard when it says so in three of the latest four windows.
#[derive(Serialize, Deserialize)]
struct ThreeOfFour {
    policy: Calibrator,
    latest: [bool; 4],
}

impl Policy for ThreeOfFour {
    fn push(&mut self, score: f32, measured: f32) -> Verdict {
        let verdict = self.policy.push(score, measured);
        self.latest.rotate_right(1);
        self.latest[0] = verdict.alarm;
        Verdict {
            alarm: self.latest.iter().filter(|alarm| **alarm).count() >= 3,
            ..verdict
        }
    }
}

/// A node of eight metrics, with a fault of so many windows.
fn node(fault: std::ops::Range<usize>) -> Result<Frame, synod_core::Error> {
    let mut random = Random::from_state(3);
    let rows = 600;
    let mut values = vec![];
    for t in 0..rows {
        let load = (t as f32 * 0.1).sin();
        let wrong = if fault.contains(&t) { 9.0 } else { 0.0 };
        values.extend((0..8).map(|m| load + 0.3 * random.normal() as f32 + if m == 2 { wrong } else { 0.0 }));
    }
    let times = (0..rows as i64).map(|t| 60 * t).collect();
    Frame::new("n1", 60, times, (0..8).map(|m| format!("m{m}")).collect(), values)
}

#[expect(clippy::print_stdout, reason = "the result of the example")]
fn main() -> Result<(), Box<dyn Error>> {
    let model = Arc::new(NodeModel::fit(&node(0..0)?, &Recipe::standard(1))?);
    let policy = ThreeOfFour {
        policy: Calibrator::new(model.reference(), AlarmBudget::default(), model.step()),
        latest: [false; 4],
    };
    let mut monitor = Monitor::new("n1", model.clone(), policy);
    let (test, mut opened) = (node(400..430)?, vec![]);
    // Stored and taken up again in the middle of it.
    for part in [0..401, 401..600] {
        monitor.advance(&test.slice(part), &mut |judged| {
            if let Some(Change::Opened(alarm)) = judged.change {
                opened.push(alarm);
            }
        })?;
        monitor = Monitor::resume("n1", model.clone(), &monitor.save()?)?;
    }
    for alarm in &opened {
        println!(
            "{} from window {}, first {}",
            alarm.id,
            alarm.from / 60,
            alarm.metrics[0].metric
        );
    }
    assert!(opened.len() == 1 && opened[0].from == 402 * 60 && opened[0].metrics[0].metric == "m2");
    Ok(())
}

#[test]
fn it_does_what_it_says() -> Result<(), Box<dyn Error>> {
    main()
}
