//! Training steps at full speed: a compiled program per batch size, parameters and state in its session.

use std::sync::Arc;

use synod_engine::ops::{KEY, Rule, Update, key};
use synod_engine::{Builder, Graph, Options, Session, Type, Value, compile, value_and_grad};
use synod_kernels::{Ahead, gather_rows};

use crate::data::Data;
use crate::error::Result;
use crate::loss::Loss;
use crate::model::{Model, loss_graph};
use crate::optimizer::Optimizer;
use crate::terms::{self, Terms};

/// Programs of short batches that are kept at once.
const SHORT: usize = 32;

/// The compiled training step of a model and the memory it works in.
///
/// A step allocates nothing. Parameters and optimiser state are flat slices like the model's own.
pub struct Trainer {
    session: Session,
    rest: Vec<(usize, Session)>,
    model: Model,
    spec: Spec,
    step: u64,
}

#[derive(Clone, Copy)]
struct Spec {
    loss: Loss,
    optimizer: Optimizer,
    batch: usize,
    seed: u64,
    itself: bool,
    threads: usize,
    terms: Terms,
}

impl Trainer {
    /// Compiles the step for `batch` rows; `itself` means that inputs are their own targets.
    pub fn new(
        model: &Model,
        loss: Loss,
        optimizer: Optimizer,
        batch: usize,
        itself: bool,
        seed: u64,
    ) -> Result<Trainer> {
        let spec = Spec {
            loss,
            optimizer,
            batch,
            seed,
            itself,
            threads: 1,
            terms: Terms::default(),
        };
        let session = make_session(model, &spec, batch)?;
        let mut trainer = Trainer {
            session,
            rest: vec![],
            model: model.clone(),
            spec,
            step: 0,
        };
        trainer.set_parameters(model.parameters());
        trainer.set_buffers(model.buffers());
        Ok(trainer)
    }

    /// With further terms in the loss. What they refer to is zero until it is set.
    pub fn with_terms(self, terms: Terms) -> Result<Trainer> {
        let spec = Spec { terms, ..self.spec };
        self.with_spec(spec)
    }

    /// With up to `threads` threads inside large ops. The default of one leaves the cores to other trainers; the results
    /// do not depend on it.
    pub fn with_threads(self, threads: usize) -> Result<Trainer> {
        let spec = Spec { threads, ..self.spec };
        self.with_spec(spec)
    }

    fn with_spec(self, spec: Spec) -> Result<Trainer> {
        let session = make_session(&self.model, &spec, spec.batch)?;
        let mut trainer = Trainer {
            session,
            rest: vec![],
            model: self.model.clone(),
            spec,
            step: self.step,
        };
        trainer.set_parameters(self.parameters());
        trainer.set_states(self.states());
        trainer.set_buffers(self.buffers());
        Ok(trainer)
    }

    fn count(&self) -> usize {
        self.model.layout().entries().len()
    }

    fn state_range(&self) -> std::ops::Range<usize> {
        let (count, states) = (self.count(), self.spec.optimizer.rule.states());
        count..count * (1 + states)
    }

    fn buffer_range(&self) -> std::ops::Range<usize> {
        let start = self.state_range().end;
        start..start + self.model.buffer_layout().entries().len()
    }

    /// The parameters, flat.
    pub fn parameters(&self) -> &[f32] {
        self.session.params_between(0..self.count())
    }

    /// Replaces the parameters.
    pub fn set_parameters(&mut self, values: &[f32]) {
        let count = self.count();
        self.session.params_between_mut(0..count).copy_from_slice(values);
    }

    /// The optimiser's state, flat: as many buffers like the parameters' as its rule has states, in the
    /// [`unit`](Rule::unit) of the last step.
    pub fn states(&self) -> &[f32] {
        self.session.params_between(self.state_range())
    }

    /// Replaces the optimiser's state; an empty slice clears it.
    pub fn set_states(&mut self, values: &[f32]) {
        let range = self.state_range();
        let states = self.session.params_between_mut(range);
        if values.is_empty() {
            states.fill(0.0)
        } else {
            states.copy_from_slice(values)
        }
    }

    /// The state that is not trained, flat, as the last step left it.
    pub fn buffers(&self) -> &[f32] {
        self.session.params_between(self.buffer_range())
    }

    /// Replaces the state that is not trained.
    pub fn set_buffers(&mut self, values: &[f32]) {
        let range = self.buffer_range();
        self.session.params_between_mut(range).copy_from_slice(values);
    }

    /// Where the parameters are pulled to, and how strongly; for [`Terms::proximal`].
    pub fn set_anchor(&mut self, strength: f32, anchor: &[f32]) {
        let start = self.buffer_range().end;
        let count = self.count();
        if self.spec.terms.proximal {
            let range = start..start + count;
            self.session.params_between_mut(range).copy_from_slice(anchor);
            self.session.param_mut(start + count).copy_from_slice(&[strength]);
        }
    }

    /// The slope that is added to the loss; for [`Terms::linear`].
    pub fn set_slope(&mut self, slope: &[f32]) {
        if self.spec.terms.linear {
            let end = self.terms_range().end;
            let range = end - self.count()..end;
            self.session.params_between_mut(range).copy_from_slice(slope);
        }
    }

    fn terms_range(&self) -> std::ops::Range<usize> {
        let start = self.buffer_range().end;
        start..start + self.spec.terms.inputs(self.count())
    }

    /// Steps done.
    pub fn steps(&self) -> u64 {
        self.step
    }

    /// True if the optimiser's steps depend on how many there were.
    pub fn counts_steps(&self) -> bool {
        matches!(self.spec.optimizer.rule, Rule::Adam { .. })
    }

    /// Continues counting from here. States that are not zero have to be those of this step.
    pub fn set_steps(&mut self, step: u64) {
        self.step = step;
    }

    /// The program of a full batch.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// One optimiser step on the named rows of the data, at a learning rate; returns the loss before the step.
    pub fn step(&mut self, data: &Data<'_>, rows: &[u32], rate: f32) -> Result<f32> {
        self.step_before(data, rows, &[], rate)
    }

    /// [`Trainer::step`], and meanwhile has the rows of the `next` one fetched from memory.
    pub fn step_before(&mut self, data: &Data<'_>, rows: &[u32], next: &[u32], rate: f32) -> Result<f32> {
        if rows.len() == self.spec.batch {
            return Ok(run(
                &mut self.session,
                &self.spec,
                data,
                [rows, next],
                rate,
                &mut self.step,
            ));
        }
        // A short batch has a program of its own; parameters and state move over and back.
        let kept = [0..self.count(), self.state_range(), self.buffer_range()];
        let mut place = self.rest.iter().position(|(n, _)| *n == rows.len());
        if place.is_none() {
            if self.rest.len() == SHORT {
                self.rest.remove(0);
            }
            let session = make_session(&self.model, &self.spec, rows.len())?;
            self.rest.push((rows.len(), session));
            place = Some(self.rest.len() - 1);
        }
        let terms = self.terms_range();
        let Some((_, session)) = place.and_then(|i| self.rest.get_mut(i)) else {
            return Ok(f32::NAN);
        };
        for range in kept.iter().cloned().chain(self.spec.terms.ranges(terms)) {
            let from = self.session.params_between(range.clone());
            session.params_between_mut(range).copy_from_slice(from);
        }
        let loss = run(session, &self.spec, data, [rows, next], rate, &mut self.step);
        for range in kept {
            let from = session.params_between(range.clone());
            self.session.params_between_mut(range).copy_from_slice(from);
        }
        Ok(loss)
    }
}

fn run(
    session: &mut Session,
    spec: &Spec,
    data: &Data<'_>,
    [rows, next]: [&[u32]; 2],
    rate: f32,
    step: &mut u64,
) -> f32 {
    *step += 1;
    let last = session.program().param_count() - 1;
    let input = if spec.itself { last } else { last - 1 };
    session
        .param_mut(input - 2)
        .copy_from_slice(&spec.optimizer.rule.hyper(rate, *step));
    session
        .param_mut(input - 1)
        .copy_from_slice(&key(spec.seed as u32 ^ (spec.seed >> 32) as u32, *step as u32));
    gather_rows(data.inputs(), data.width(), rows, session.param_mut(input));
    let targets = data.targets().filter(|_| !spec.itself);
    if let Some((targets, width)) = targets {
        gather_rows(targets, width, rows, session.param_mut(last));
    }
    let (targets, width) = targets.unwrap_or_default();
    let mut ahead = [
        Ahead::new(data.inputs(), data.width(), next),
        Ahead::new(targets, width, next),
    ];
    session.run_while(|calls| {
        for ahead in &mut ahead {
            ahead.fetch(ahead.lines().div_ceil(calls));
        }
    });
    session.output(0)[0]
}

fn make_session(model: &Model, spec: &Spec, batch: usize) -> Result<Session> {
    let mut options = Options {
        threads: spec.threads,
        ..model.step_options(spec.optimizer)
    };
    let start = options.contiguous.last().map_or(0, |r| r.end);
    let terms = start..start + spec.terms.inputs(model.layout().entries().len());
    options.contiguous.extend(spec.terms.ranges(terms));
    Ok(Session::new(Arc::new(compile(
        &step_graph(model, spec, batch)?,
        &options,
    )?)))
}

impl Model {
    /// The graph of one training step: `(parameters..., states..., buffers..., hyper, key, input, [target]) -> (loss,
    /// parameters..., states..., buffers...)`.
    pub fn step_graph(&self, loss: Loss, optimizer: Optimizer, batch: usize, itself: bool) -> Result<Graph> {
        step_graph(
            self,
            &Spec {
                loss,
                optimizer,
                batch,
                seed: 0,
                itself,
                threads: 1,
                terms: Terms::default(),
            },
            batch,
        )
    }

    /// How a step graph is compiled: new parameters, states and buffers take the place of the old, each kind side by side.
    pub fn step_options(&self, optimizer: Optimizer) -> Options {
        let (count, states) = (self.layout().entries().len(), optimizer.rule.states());
        let trained = count * (1 + states);
        let all = trained + self.buffer_layout().entries().len();
        Options {
            donate: (0..all).map(|i| (1 + i, i)).collect(),
            contiguous: vec![0..count, count..trained, trained..all],
            ..Options::default()
        }
    }
}

fn step_graph(model: &Model, spec: &Spec, batch: usize) -> Result<Graph> {
    let target = spec.loss.target_width(model.output_shape());
    let (entries, kept) = (model.layout().entries(), model.buffer_layout().entries());
    let training = model.training_graph(batch)?;
    let loss = loss_graph(&training, kept.len(), spec.loss, spec.itself, target)?;
    let loss = terms::add(loss, entries, spec.terms)?;
    let gradient = value_and_grad(&loss, &(0..entries.len()).collect::<Vec<_>>())?;
    let rule = spec.optimizer.rule;
    let mut b = Builder::new();
    let like_parameters = |b: &mut Builder, prefix: &str| -> Vec<Value> {
        entries
            .iter()
            .map(|e| b.param(Type::tensor(&e.shape), &format!("{prefix}{}", e.name)))
            .collect()
    };
    let parameters = like_parameters(&mut b, "");
    let states: Vec<Vec<Value>> = (0..rule.states())
        .map(|k| like_parameters(&mut b, &format!("optimizer.{k}/")))
        .collect();
    let buffers: Vec<Value> = kept
        .iter()
        .map(|e| b.param(Type::tensor(&e.shape), &e.name))
        .collect();
    let types = loss.param_types();
    let own = types.len() - spec.terms.inputs(entries.len());
    let further: Vec<Value> = (own..types.len())
        .map(|i| b.param(types[i].clone(), loss.param_name(i)))
        .collect();
    let hyper = b.param(Type::tensor([3]), "hyper");
    let mut args = [&parameters[..], &buffers].concat();
    for (i, ty) in types.iter().enumerate().take(own).skip(args.len()) {
        debug_assert!(i != entries.len() + kept.len() || *ty == Type::tensor([KEY]));
        args.push(b.param(ty.clone(), loss.param_name(i)));
    }
    args.extend(further);
    let given = b.inline(&gradient, &args);
    let (given_buffers, gradients) = given[1..].split_at(kept.len());
    let mut outs = vec![given[0]];
    let mut next: Vec<Vec<Value>> = vec![vec![]; rule.states()];
    for (i, &p) in parameters.iter().enumerate() {
        let old: Vec<Value> = states.iter().map(|s| s[i]).collect();
        let stepped = b.apply(Update { rule }, &[&[p, gradients[i], hyper][..], &old].concat());
        outs.push(stepped[0]);
        next.iter_mut().zip(&stepped[1..]).for_each(|(n, &s)| n.push(s));
    }
    outs.extend(next.into_iter().flatten());
    outs.extend(given_buffers);
    Ok(b.finish(&outs)?)
}
