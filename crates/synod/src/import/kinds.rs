//! The kinds of sources, as the command line names them.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Subcommand, ValueEnum};
use synod_telemetry::sources::Table;
use synod_telemetry::sources::m100;
use synod_telemetry::sources::prometheus::PrometheusServer;

use super::sources::find;
use super::{Import, Target, duration, time};
use crate::train::Misuse;

#[derive(Subcommand)]
pub(super) enum Source {
    /// Raw metrics of M100: a folder of year_month=…/plugin=…/metric=…/*.parquet.
    M100Raw(M100Raw),
    /// M100's windows by node: Parquet files with `timestamp`, `<metric>_{avg,std,min,max}` and the label `value`.
    M100(Tables),
    /// One Parquet, CSV or record file per node whose rows are windows.
    Table(Tables),
    /// CSV files of LDMS' store_csv, one per sampler.
    Ldms(Ldms),
    /// Scrapes in Prometheus' text format, one per file.
    Exposition(Scrapes),
    /// What ipmitool sdr printed, once or again and again with Timestamp: lines.
    Ipmitool(Scrapes),
    /// What a Prometheus server has recorded.
    Prometheus(Prometheus),
}

/// How samples become windows.
#[derive(Args)]
pub(super) struct Windowing {
    /// The width of a window.
    #[arg(long, default_value = "15m", value_parser = duration)]
    pub(super) window: i64,
    /// What is kept of a window's samples.
    #[arg(long, value_enum, default_value_t = Kept::All)]
    pub(super) keep: Kept,
    /// How many windows before the newest stay open for late samples.
    #[arg(long, default_value_t = 1)]
    pub(super) late: usize,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Kept {
    /// The mean, under the metric's own name.
    Mean,
    /// METRIC_avg, _std, _min and _max.
    All,
}

#[derive(Args)]
pub(super) struct M100Raw {
    /// The folder that holds year_month=… folders.
    pub(super) folder: PathBuf,
    /// The Nagios check whose results in the folder become labels: 0 is healthy, above is anomalous.
    #[arg(long, default_value = m100::STATE)]
    pub(super) state: String,
    #[command(flatten)]
    pub(super) windowing: Windowing,
    #[command(flatten)]
    pub(super) target: Target,
}

#[derive(Args)]
pub(super) struct Tables {
    /// Files of one node each, called as the node; patterns with * are allowed.
    #[arg(required = true)]
    pub(super) files: Vec<String>,
    /// The label column: above 0 is anomalous, missing is unknown.
    #[arg(long)]
    pub(super) label: Option<String>,
    /// The time column.
    #[arg(long)]
    pub(super) time: Option<String>,
    /// The distance between rows, if there is no time column.
    #[arg(long, value_parser = duration)]
    pub(super) step: Option<i64>,
    #[command(flatten)]
    pub(super) target: Target,
}

#[derive(Args)]
pub(super) struct Ldms {
    /// Files called as their sampler, such as meminfo or meminfo.1746581500; patterns with * are allowed.
    #[arg(required = true)]
    pub(super) files: Vec<String>,
    #[command(flatten)]
    pub(super) windowing: Windowing,
    #[command(flatten)]
    pub(super) target: Target,
}

#[derive(Args)]
pub(super) struct Scrapes {
    /// Files of one node each; patterns with * are allowed.
    #[arg(required = true)]
    pub(super) files: Vec<String>,
    /// What names the node of a file: its own name without the extension, or its folder's.
    #[arg(long, value_enum, default_value_t = NodeFrom::File)]
    pub(super) node_from: NodeFrom,
    /// The time of samples that have none of their own; otherwise when their file was last changed.
    #[arg(long, value_parser = time)]
    pub(super) time: Option<i64>,
    #[command(flatten)]
    pub(super) windowing: Windowing,
    #[command(flatten)]
    pub(super) target: Target,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum NodeFrom {
    File,
    Folder,
}

#[derive(Args)]
pub(super) struct Prometheus {
    /// The server, as http://host:port.
    pub(super) url: String,
    /// A query in PromQL, for many metrics a selector such as {job="node"}; may be given again.
    #[arg(long, visible_alias = "match", required = true)]
    pub(super) query: Vec<String>,
    /// The first time to ask for.
    #[arg(long, value_parser = time)]
    pub(super) from: i64,
    /// The last time to ask for.
    #[arg(long, value_parser = time)]
    pub(super) to: i64,
    /// The distance between samples.
    #[arg(long, default_value = "1m", value_parser = duration)]
    pub(super) step: i64,
    /// How much time one request asks for.
    #[arg(long, default_value = "1h", value_parser = duration)]
    pub(super) span: i64,
    /// The label whose value, without a port, is the node's name.
    #[arg(long, default_value = "instance")]
    pub(super) node_label: String,
    #[command(flatten)]
    pub(super) windowing: Windowing,
    #[command(flatten)]
    pub(super) target: Target,
}

impl Source {
    pub(super) fn target(&self) -> &Target {
        match self {
            Source::M100Raw(raw) => &raw.target,
            Source::M100(tables) | Source::Table(tables) => &tables.target,
            Source::Ldms(ldms) => &ldms.target,
            Source::Exposition(scrapes) | Source::Ipmitool(scrapes) => &scrapes.target,
            Source::Prometheus(server) => &server.target,
        }
    }

    /// Finds mistakes in the call before anything is written.
    pub(super) fn check(&self) -> Result<()> {
        let found = match self {
            Source::M100Raw(raw) if !raw.folder.is_dir() => Err(format!(
                "{} is no folder; name the one that holds year_month=… folders",
                raw.folder.display()
            )),
            Source::M100Raw(_) => Ok(()),
            Source::M100(Tables { files, .. })
            | Source::Table(Tables { files, .. })
            | Source::Ldms(Ldms { files, .. })
            | Source::Exposition(Scrapes { files, .. })
            | Source::Ipmitool(Scrapes { files, .. }) => find(files).map(drop).map_err(|e| e.to_string()),
            Source::Prometheus(server) if server.to <= server.from => {
                Err("--to is not after --from; there is nothing between".to_owned())
            }
            Source::Prometheus(server) => PrometheusServer::new(&server.url)
                .map(drop)
                .map_err(|e| e.to_string()),
        };
        found.map_err(|problem| Misuse(problem).into())
    }

    pub(super) fn import(&self, import: &mut Import<'_>) -> Result<()> {
        match self {
            Source::M100Raw(raw) => raw.import(import),
            Source::M100(tables) => tables.import(import, &m100::aggregated()),
            Source::Table(tables) => tables.import(import, &Table::default()),
            Source::Ldms(ldms) => ldms.import(import),
            Source::Exposition(scrapes) => scrapes.import(import, false),
            Source::Ipmitool(scrapes) => scrapes.import(import, true),
            Source::Prometheus(server) => server.import(import),
        }
    }
}
