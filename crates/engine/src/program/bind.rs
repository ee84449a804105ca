//! From a graph to bound tasks: cut, compile, choose places.

use synod_kernels::Span;

use super::{Bound, Options, Program};
use crate::backend::{Backend, CallFrame, InPlace, KernelCall, RowDependence, assign, partition};
use crate::error::Result;
use crate::graph::{Graph, Value};
use crate::plan::{ALIGNMENT, Lifetime, plan};
use crate::types::Type;

pub(super) fn bind(
    graph: &Graph,
    options: &Options,
    rows: RowDependence,
    backends: &[&dyn Backend],
) -> Result<Program> {
    let mut lowering = Lowering::new(graph, options);
    lowering.cut(rows, backends)?;
    lowering.settle();
    lowering.keep_outputs();
    lowering.copy_before_overwriting();
    Ok(lowering.place())
}

/// Tasks over values; values beyond the graph's own are made here.
struct Lowering<'a> {
    graph: &'a Graph,
    options: &'a Options,
    tasks: Vec<KernelCall>,
    slots: Vec<usize>,
    outputs: Vec<Value>,
}

impl<'a> Lowering<'a> {
    fn new(graph: &'a Graph, options: &'a Options) -> Lowering<'a> {
        let slots = (0..graph.values())
            .map(|i| graph.ty(Value(i as u32)).slots())
            .collect();
        Lowering {
            graph,
            options,
            tasks: vec![],
            slots,
            outputs: graph.outputs().to_vec(),
        }
    }

    fn fresh(&mut self, slots: usize) -> Value {
        self.slots.push(slots);
        Value(self.slots.len() as u32 - 1)
    }

    fn cut(&mut self, rows: RowDependence, backends: &[&dyn Backend]) -> Result<()> {
        if let [only] = backends {
            self.tasks = only.compile(self.graph, rows)?;
            return Ok(());
        }
        for region in partition(self.graph, &assign(self.graph, backends)?)? {
            let mut outside: Vec<Option<Value>> = vec![None; region.graph.values()];
            let inside = region.graph.params().iter().chain(region.graph.outputs());
            for (i, o) in inside.zip(region.args.iter().chain(&region.outs)) {
                outside[i.index()] = Some(*o);
            }
            for mut task in backends[region.backend].compile(&region.graph, rows)? {
                for v in task.args.iter_mut().chain(&mut task.outs) {
                    *v = *outside[v.index()].get_or_insert_with(|| self.fresh(region.graph.ty(*v).slots()));
                }
                self.tasks.push(task);
            }
        }
        Ok(())
    }

    /// Finds what is the same in every run, lets tasks have their frozen arguments in the form they like best, and puts
    /// what is computed once before everything else.
    fn settle(&mut self) {
        if self.options.inner {
            self.tasks.iter_mut().for_each(|task| task.constant = false);
            return;
        }
        let mut known = vec![false; self.slots.len()];
        let params = self.graph.params().iter().enumerate();
        for (_, p) in params
            .take(self.options.frozen)
            .filter(|(i, _)| !self.is_donated(*i))
        {
            known[p.index()] = true;
        }
        let (mut once, mut tasks) = (vec![], vec![]);
        for mut task in std::mem::take(&mut self.tasks) {
            let is_known = |v: &Value| known.get(v.index()) == Some(&true);
            task.constant |= !task.args.is_empty()
                && task.args.iter().all(is_known)
                && task.outs.iter().all(|&o| self.is_tensor(o));
            if let Some(form) = task.prepared.take_if(|form| is_known(&task.args[form.arg])) {
                let (from, to) = (task.args[form.arg], self.fresh(form.slots));
                once.push(KernelCall {
                    kernel: form.prepare,
                    constant: true,
                    ..self.copy_task(from, to)
                });
                task.args[form.arg] = to;
                (task.kernel, task.scratch) = (form.kernel, form.scratch);
            }
            if task.constant {
                task.outs.iter().for_each(|o| known[o.index()] = true);
                once.push(task);
            } else {
                tasks.push(task);
            }
        }
        once.append(&mut tasks);
        self.tasks = once;
    }

    fn is_donated(&self, param: usize) -> bool {
        self.options.donate.iter().any(|(_, p)| *p == param)
    }

    fn is_tensor(&self, value: Value) -> bool {
        value.index() < self.graph.values() && matches!(self.graph.ty(value), Type::Tensor(_))
    }

    fn copy_task(&self, from: Value, to: Value) -> KernelCall {
        let kernel = |mut frame: CallFrame<'_>| {
            let (from, to) = (frame.arg(0), frame.out(0));
            frame.copy(from, to);
        };
        KernelCall {
            name: "copy".into(),
            kernel: Box::new(kernel),
            args: vec![from],
            outs: vec![to],
            in_place: vec![],
            scratch: 0,
            constant: false,
            prepared: None,
        }
    }

    /// An output that is a parameter gets a place of its own, unless it stays where it is.
    fn keep_outputs(&mut self) {
        for i in 0..self.outputs.len() {
            let out = self.outputs[i];
            let Some(p) = self.graph.params().iter().position(|p| *p == out) else {
                continue;
            };
            let home = self.options.donate.iter().find(|(o, _)| *o == i).map(|(_, p)| *p);
            if home == Some(p) || (home.is_none() && !self.overwritable(out)) {
                continue;
            }
            let copy = self.fresh(self.slots[out.index()]);
            self.tasks.push(self.copy_task(out, copy));
            self.outputs[i] = copy;
        }
    }

    /// True for a parameter that nobody needs after its last read.
    fn overwritable(&self, v: Value) -> bool {
        match self.graph.params().iter().position(|p| *p == v) {
            Some(p) => {
                let Options {
                    inner, kept, donate, ..
                } = self.options;
                (*inner && p < *kept) || donate.iter().any(|(_, d)| *d == p)
            }
            None => true,
        }
    }

    /// What each value is at last, by being changed in place; an output is changed no more.
    fn endings(&self) -> Vec<Value> {
        let mut endings: Vec<Value> = (0..self.slots.len()).map(|i| Value(i as u32)).collect();
        for task in self.tasks.iter().rev() {
            for &(out, arg, how) in &task.in_place {
                let (o, a) = (task.outs[out], task.args[arg]);
                if how == InPlace::Must && !self.outputs.contains(&a) {
                    endings[a.index()] = endings[o.index()];
                }
            }
        }
        endings
    }

    /// True if a value that ends as `end` may lie where parameter `p` lies, which another output may be wanted in.
    fn may_take(&self, end: Value, p: Value) -> bool {
        let index = self.graph.params().iter().position(|q| *q == p);
        let (Some(index), false) = (index, self.options.donate.is_empty()) else {
            return true;
        };
        let mut homes = (0..self.outputs.len())
            .filter(|&o| self.outputs[o] == end)
            .peekable();
        homes.peek().is_none() || homes.any(|o| self.options.donate.contains(&(o, index)))
    }

    /// The last task that reads each value; outputs, and what is computed once for every run, are needed to the end.
    fn last_reads(&self) -> Vec<Option<usize>> {
        let mut last = vec![None; self.slots.len()];
        let mut once = vec![false; self.slots.len()];
        for (t, task) in self.tasks.iter().enumerate() {
            if task.constant {
                task.outs.iter().for_each(|o| once[o.index()] = true);
            }
            for a in &task.args {
                let stays = once[a.index()] && !task.constant;
                last[a.index()] = Some(if stays { usize::MAX } else { t }).max(last[a.index()]);
            }
        }
        self.outputs
            .iter()
            .for_each(|o| last[o.index()] = Some(usize::MAX));
        last
    }

    /// Where a kernel changes an argument that is still needed, it gets a copy.
    fn copy_before_overwriting(&mut self) {
        let (last, endings) = (self.last_reads(), self.endings());
        let mut tasks = vec![];
        for (t, mut task) in std::mem::take(&mut self.tasks).into_iter().enumerate() {
            for j in 0..task.in_place.len() {
                let (out, arg, how) = task.in_place[j];
                let (v, end) = (task.args[arg], endings[task.outs[out].index()]);
                let needed = last[v.index()] != Some(t) || !self.overwritable(v) || !self.may_take(end, v);
                let twice = task.args.iter().filter(|a| **a == v).count() > 1;
                if how == InPlace::Must && (needed || twice) {
                    let copy = self.fresh(self.slots[v.index()]);
                    tasks.push(KernelCall {
                        constant: task.constant,
                        ..self.copy_task(v, copy)
                    });
                    task.args[arg] = copy;
                }
            }
            tasks.push(task);
        }
        self.tasks = tasks;
    }

    fn place(self) -> Program {
        let (last, endings) = (self.last_reads(), self.endings());
        let params = self.param_spans();
        let fixed = params
            .iter()
            .map(|s| s.start + s.len)
            .max()
            .unwrap_or(0)
            .next_multiple_of(ALIGNMENT);
        // A place is shared by values that follow each other in it.
        let mut place_of: Vec<usize> = (0..self.slots.len()).collect();
        let mut home: Vec<Option<Span>> = vec![None; self.slots.len()];
        let mut ends: Vec<Option<usize>> = last.clone();
        self.graph
            .params()
            .iter()
            .zip(&params)
            .for_each(|(p, s)| home[p.index()] = Some(*s));
        for (t, task) in self.tasks.iter().enumerate() {
            let mut claimed: Vec<usize> = vec![];
            for &(out, arg, how) in &task.in_place {
                let (o, a) = (task.outs[out], task.args[arg]);
                let place = place_of[a.index()];
                let root = Value(place as u32);
                let dies = ends[place].is_none_or(|e| e <= t) && self.overwritable(root);
                let fits =
                    self.slots[a.index()] == self.slots[o.index()] && self.may_take(endings[o.index()], root);
                if how == InPlace::Must || (dies && fits && !claimed.contains(&place)) {
                    claimed.push(place);
                    place_of[o.index()] = place;
                    ends[place] = ends[place].max(last[o.index()]);
                }
            }
        }
        let mut first: Vec<Option<usize>> = vec![None; self.slots.len()];
        let mut until: Vec<usize> = vec![0; self.slots.len()];
        let end = self.tasks.len();
        for (t, task) in self.tasks.iter().enumerate() {
            for v in task.args.iter().chain(&task.outs) {
                let place = place_of[v.index()];
                // What is computed once and stays is better packed as if it had always been there.
                let stays = task.constant && last[v.index()] == Some(usize::MAX);
                let start = if stays { 0 } else { t };
                first[place] = Some(first[place].map_or(start, |f| f.min(start)));
                until[place] = until[place].max(t).max(last[v.index()].unwrap_or(t).min(end));
            }
        }
        let mut lifetimes = vec![];
        let mut index: Vec<Option<usize>> = vec![None; self.slots.len()];
        for place in 0..self.slots.len() {
            if let (Some(first), None) = (first[place], home[place]) {
                index[place] = Some(lifetimes.len());
                lifetimes.push(Lifetime {
                    size: self.slots[place],
                    first,
                    last: until[place],
                });
            }
        }
        let scratch_at = lifetimes.len();
        for (t, task) in self.tasks.iter().enumerate().filter(|(_, task)| task.scratch > 0) {
            lifetimes.push(Lifetime {
                size: task.scratch,
                first: t,
                last: t,
            });
            let _ = task;
        }
        let planned = plan(&lifetimes);
        let span = |v: Value| {
            let place = place_of[v.index()];
            match (home[place], index[place]) {
                (Some(span), _) => span,
                (None, Some(i)) => Span {
                    start: fixed + planned.offsets[i],
                    len: self.slots[v.index()],
                },
                (None, None) => Span::default(),
            }
        };
        let outputs: Vec<Span> = self.outputs.iter().map(|&o| span(o)).collect();
        let mut homing = vec![];
        for &(o, p) in &self.options.donate {
            if outputs[o] != params[p] {
                homing.push((outputs[o], params[p]));
            }
        }
        let (mut once, mut tasks) = (vec![], vec![]);
        let mut scratches = scratch_at;
        for task in self.tasks {
            let mut scratch = Span { start: fixed, len: 0 };
            if task.scratch > 0 {
                scratch = Span {
                    start: fixed + planned.offsets[scratches],
                    len: task.scratch,
                };
                scratches += 1;
            }
            let spans = |values: &[Value]| values.iter().map(|&v| span(v)).collect();
            let (args, outs) = (spans(&task.args), spans(&task.outs));
            let bound = Bound {
                name: task.name,
                kernel: task.kernel,
                args,
                outs,
                scratch,
            };
            if task.constant {
                once.push(bound)
            } else {
                tasks.push(bound)
            }
        }
        let memory = fixed + planned.arena;
        let (arena, offsets) = (planned.arena, planned.offsets);
        Program {
            once,
            tasks,
            frozen: self.options.frozen,
            params,
            outputs,
            homing,
            memory,
            lifetimes,
            offsets,
            arena,
        }
    }

    fn param_spans(&self) -> Vec<Span> {
        let mut at = 0;
        let mut spans = vec![];
        for (i, p) in self.graph.params().iter().enumerate() {
            let joined = self
                .options
                .contiguous
                .iter()
                .any(|r| r.contains(&i) && r.start != i);
            if !joined {
                at = usize::next_multiple_of(at, ALIGNMENT);
            }
            let len = self.slots[p.index()];
            spans.push(Span { start: at, len });
            at += len;
        }
        spans
    }
}
