//! Loops and branches whose conditions are known: unrolled, so that every runtime executes them.

use synod_engine::Graph;
use synod_engine::ops::{If, While};

use super::held::Held;
use super::ops::walk;
use super::writer::Writer;

/// More passes than this make no useful file.
const MOST: usize = 4096;

pub(super) fn unrolled(w: &mut Writer, loops: [&While; 2], args: &[&Held]) -> Result<Vec<Held>, String> {
    let captures: Vec<Held> = args[loops[0].carried()..].iter().map(|&a| a.clone()).collect();
    let mut state: Vec<Held> = args[..loops[0].carried()].iter().map(|&a| a.clone()).collect();
    for _ in 0..MOST {
        let all = [state.as_slice(), &captures].concat();
        let condition = walk(w, loops.map(|l| l.cond.as_ref()), all.clone())?;
        match condition.first().and_then(Held::number) {
            Some(0.0) => return Ok(state),
            Some(_) => state = walk(w, loops.map(|l| l.body.as_ref()), all)?,
            None => return Err("a loop runs for as long as its data say".into()),
        }
    }
    Err(format!("a loop runs more than {MOST} times"))
}

pub(super) fn branch(w: &mut Writer, branches: [&If; 2], args: &[&Held]) -> Result<Vec<Held>, String> {
    let side = |taken: bool| -> [&Graph; 2] {
        branches.map(|b| {
            if taken {
                b.then.as_ref()
            } else {
                b.otherwise.as_ref()
            }
        })
    };
    match args.first().and_then(|c| c.number()) {
        Some(condition) => walk(
            w,
            side(condition != 0.0),
            args[1..].iter().map(|&a| a.clone()).collect(),
        ),
        None => Err("a branch depends on the data".into()),
    }
}
