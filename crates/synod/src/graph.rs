//! `synod graph`: what the compiler makes of a model.

use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use serde_json::json;
use synod_engine::plan::max_live;
use synod_engine::{Graph, Options, compile, passes};
use synod_nn::{Loss, Model, Optimizer, zoo};

/// Prints a model's graph before and after each compiler pass, its cost and its memory plan.
#[derive(Args)]
#[command(after_help = "Examples:
  synod graph autoencoder --batch 10 --train      the paper's autoencoder, one training step
  synod graph model.safetensors                   a stored model's inference
  synod graph autoencoder --dot | dot -Tsvg -o graph.svg")]
pub(crate) struct GraphCommand {
    /// A model file, or the name of a model of the zoo (autoencoder, cnn-mnist, resnet50, …).
    model: String,
    /// Rows per batch.
    #[arg(long, default_value_t = 1)]
    batch: usize,
    /// The graph of a training step instead of inference.
    #[arg(long)]
    train: bool,
    /// The optimiser of the training step, when the file does not name one.
    #[arg(long, value_enum, default_value = "rmsprop", requires = "train")]
    optimizer: Rule,
    /// Graphviz text of the compiled graph.
    #[arg(long, conflicts_with = "json")]
    dot: bool,
    /// One JSON document.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Rule {
    Sgd,
    Rmsprop,
    Adam,
}

impl GraphCommand {
    pub(crate) fn run(&self) -> Result<()> {
        ensure!(self.batch > 0, "--batch must be at least 1");
        let model = load(&self.model)?;
        let (graph, options) = self.graph(&model)?;
        let mut stages = vec![];
        let optimised = passes::optimise(&graph, |name, g| stages.push((name, g.clone())))?;
        let mut out = std::io::stdout().lock();
        if self.dot {
            return Ok(out.write_all(optimised.to_dot().as_bytes())?);
        }
        let program = compile(
            &optimised,
            &Options {
                optimise: false,
                ..options
            },
        )?;
        let (lifetimes, _) = program.plan();
        let (cost, live) = (graph.cost(), max_live(lifetimes));
        if self.json {
            let shown: Vec<_> = stages
                .iter()
                .map(|(n, g)| json!({ "pass": n, "nodes": g.nodes().len() }))
                .collect();
            let line = json!({
                "model": self.model, "batch": self.batch, "parameters": model.layout().len(),
                "nodes": graph.nodes().len(), "flops": cost.flops, "bytes": cost.bytes, "passes": shown,
                "graph": optimised.to_string(), "tasks": program.calls(),
                "arena_bytes": program.arena() * 4, "max_live_bytes": live * 4, "memory_bytes": program.memory() * 4,
            });
            return Ok(writeln!(out, "{line}")?);
        }
        writeln!(
            out,
            "# {}, batch {}: {} parameters",
            self.model,
            self.batch,
            model.layout().len()
        )?;
        writeln!(out, "\n## traced: {} nodes\n\n{graph}", graph.nodes().len())?;
        let mut before = graph.clone();
        for (name, after) in &stages {
            match *after == before {
                true => writeln!(out, "## {name}: no change\n")?,
                false => writeln!(out, "## {name}: {} nodes\n\n{after}", after.nodes().len())?,
            }
            before = after.clone();
        }
        let mflop = cost.flops as f64 / 1e6;
        writeln!(
            out,
            "## cost\n\n{mflop:.3} MFLOP, {:.3} MB moved before fusion",
            cost.bytes as f64 / 1e6
        )?;
        let compiled = optimised.cost();
        writeln!(out, "{:.3} MB moved after fusion", compiled.bytes as f64 / 1e6)?;
        writeln!(
            out,
            "\n## memory\n\n{} tasks; offsets and lengths in f32",
            program.calls()
        )?;
        write!(out, "{}", program.describe())?;
        let ratio = program.arena() as f64 / live.max(1) as f64;
        let (total, arena) = (program.memory() * 4, program.arena() * 4);
        writeln!(
            out,
            "\n{total} bytes in all, {arena} of them arena: {ratio:.2} x the most that lives at once"
        )?;
        Ok(())
    }

    fn graph(&self, model: &Model) -> Result<(Graph, Options)> {
        if !self.train {
            return Ok((model.graph(self.batch)?, Options::default()));
        }
        let chosen = match self.optimizer {
            Rule::Sgd => Optimizer::sgd(1e-3),
            Rule::Rmsprop => Optimizer::rmsprop(1e-3),
            Rule::Adam => Optimizer::adam(1e-3),
        };
        let (loss, optimizer) = model
            .progress()
            .map_or((Loss::Rmse, chosen), |p| (p.loss, p.optimizer));
        let itself = model.input_shape() == model.output_shape();
        Ok((
            model.step_graph(loss, optimizer, self.batch, itself)?,
            model.step_options(optimizer),
        ))
    }
}

fn load(name: &str) -> Result<Model> {
    let path = Path::new(name);
    if path.exists() {
        return Ok(Model::load(path)?);
    }
    zoo::by_name(name, 0).with_context(|| format!("`{name}` is neither a file nor a model of the zoo"))
}
