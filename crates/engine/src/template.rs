//! A graph for any batch size.

use serde_json::{Map, Number, Value as Json};

use crate::error::{Error, Result, transform};
use crate::graph::Graph;

/// A graph whose extents may depend on the batch size, as affine functions of it.
///
/// It is found, not written: the same function is traced at three batch sizes, and whatever differs between the first two
/// must be affine and predict the third.
#[derive(Clone, Debug, PartialEq)]
pub struct Template(Json);

/// Values larger than this many numbers per example are refused when a template comes from outside.
const LARGEST: usize = 1 << 28;

impl Template {
    /// Traces `f(batch)` often enough to know the graph for every batch size.
    pub fn new(f: impl Fn(usize) -> Result<Graph>) -> Result<Template> {
        let json = |batch: usize| -> Result<Json> {
            serde_json::to_value(f(batch)?)
                .map_err(|e| transform("template", format!("the graph cannot be stored: {e}")))
        };
        let template = Template(join(&json(2)?, &json(3)?)?);
        match template.fill(7)? == json(7)? {
            true => Ok(template),
            false => Err(transform(
                "template",
                "the graph does not depend on the batch size in a simple way",
            )),
        }
    }

    /// The graph for a batch size.
    pub fn at(&self, batch: usize) -> Result<Graph> {
        let fail = |e: serde_json::Error| transform("template", format!("not a graph: {e}"));
        let graph: Graph = serde_json::from_value(self.fill(batch)?).map_err(fail)?;
        graph.verify()?;
        Ok(graph)
    }

    /// As text for a file.
    pub fn to_text(&self) -> String {
        self.0.to_string()
    }

    /// From untrusted text: the graph is checked at batch size 1.
    pub fn from_text(text: &str) -> Result<Template> {
        let json = serde_json::from_str(text).map_err(|e| transform("template", format!("not JSON: {e}")))?;
        let template = Template(json);
        let graph = template.at(1)?;
        check_sizes(&graph)?;
        Ok(template)
    }

    fn fill(&self, batch: usize) -> Result<Json> {
        fill(&self.0, batch as i64)
    }
}

fn check_sizes(graph: &Graph) -> Result<()> {
    let values = (0..graph.values()).map(|i| graph.ty(crate::graph::Value(i as u32)));
    if let Some(ty) = values.into_iter().find(|t| t.slots() > LARGEST) {
        return Err(transform(
            "template",
            format!("a value is {ty}, more than {LARGEST} numbers per example"),
        ));
    }
    graph
        .nodes()
        .iter()
        .flat_map(|n| n.op.graphs())
        .try_for_each(|g| check_sizes(g))
}

/// What two traces have in common, numbers that differ written as `{"batch": [a, b]}` for `a + b · batch`.
fn join(two: &Json, three: &Json) -> Result<Json> {
    let differ = || {
        transform(
            "template",
            "the function traces to different graphs for different batch sizes",
        )
    };
    match (two, three) {
        (Json::Number(x), Json::Number(y)) if x != y => {
            let (x, y) = (x.as_i64().ok_or_else(differ)?, y.as_i64().ok_or_else(differ)?);
            let slope = y - x;
            Ok(serde_json::json!({ "batch": [x - 2 * slope, slope] }))
        }
        (Json::Array(x), Json::Array(y)) if x.len() == y.len() => x
            .iter()
            .zip(y)
            .map(|(x, y)| join(x, y))
            .collect::<Result<_>>()
            .map(Json::Array),
        (Json::Object(x), Json::Object(y)) if x.len() == y.len() => {
            let pair = |(k, x): (&String, &Json)| Ok((k.clone(), join(x, y.get(k).ok_or_else(differ)?)?));
            x.iter()
                .map(pair)
                .collect::<Result<Map<_, _>>>()
                .map(Json::Object)
        }
        (x, y) if x == y => Ok(x.clone()),
        _ => Err(differ()),
    }
}

fn fill(json: &Json, batch: i64) -> Result<Json> {
    Ok(match json {
        Json::Object(map) if map.len() == 1 && map.contains_key("batch") => {
            let term = |i: usize| map["batch"].get(i).and_then(Json::as_i64);
            let bad = || Error::Transform {
                transform: "template",
                problem: "a malformed extent".into(),
            };
            let (a, b) = (term(0).ok_or_else(bad)?, term(1).ok_or_else(bad)?);
            let extent = b
                .checked_mul(batch)
                .and_then(|x| x.checked_add(a))
                .filter(|&x| x >= 0)
                .ok_or_else(bad)?;
            Json::Number(Number::from(extent))
        }
        Json::Object(map) => {
            let pair = |(k, v): (&String, &Json)| Ok((k.clone(), fill(v, batch)?));
            Json::Object(map.iter().map(pair).collect::<Result<_>>()?)
        }
        Json::Array(items) => Json::Array(items.iter().map(|v| fill(v, batch)).collect::<Result<_>>()?),
        other => other.clone(),
    })
}
