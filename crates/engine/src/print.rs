//! Graphs as people read them: one line per node, or a Graphviz drawing.

use std::fmt::{self, Write};

use crate::graph::{Graph, Value};
use crate::types::list;

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "%{}", self.0)
    }
}

impl fmt::Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.print(f, "")
    }
}

impl Graph {
    fn print(&self, f: &mut fmt::Formatter<'_>, indent: &str) -> fmt::Result {
        write!(f, "{indent}(")?;
        let param = |(i, p): (usize, &Value)| match self.param_name(i) {
            "" => format!("{p}: {}", self.ty(*p)),
            name => format!("{p} {name}: {}", self.ty(*p)),
        };
        list(f, self.params().iter().enumerate().map(param))?;
        writeln!(f, ") {{")?;
        for node in self.nodes() {
            write!(f, "{indent}  ")?;
            list(f, node.outs.iter().map(|&o| format!("{o}: {}", self.ty(o))))?;
            write!(f, " = {}{}", node.op, if node.args.is_empty() { "" } else { " " })?;
            list(f, node.args.iter())?;
            if !node.site.file.is_empty() {
                write!(f, "  // {}", node.site)?;
            }
            writeln!(f)?;
            let inner = format!("{indent}    ");
            node.op
                .graphs()
                .into_iter()
                .try_for_each(|g| g.print(f, &inner))?;
        }
        write!(f, "{indent}  return ")?;
        list(f, self.outputs().iter())?;
        writeln!(f, "\n{indent}}}")
    }

    /// The graph for Graphviz: `dot -Tsvg`.
    pub fn to_dot(&self) -> String {
        let mut text =
            String::from("digraph synod {\n  rankdir=TB; node [shape=box, fontname=\"sans-serif\"];\n");
        let escape = |s: &str| s.replace('\\', "\\\\").replace('"', "\\\"");
        for (i, p) in self.params().iter().enumerate() {
            let label = escape(&format!("{} {}", self.param_name(i), self.ty(*p)));
            let _ = writeln!(text, "  v{} [label=\"{label}\", shape=ellipse];", p.0);
        }
        for (i, node) in self.nodes().iter().enumerate() {
            let label = escape(&format!("{}\\n{}", node.op, node.site)).replace("\\\\n", "\\n");
            let _ = writeln!(text, "  n{i} [label=\"{label}\"];");
        }
        let source = |v: Value, definitions: &[Option<usize>]| match definitions[v.index()] {
            Some(n) => format!("n{n}"),
            None => format!("v{}", v.0),
        };
        let definitions = self.definitions();
        for (i, node) in self.nodes().iter().enumerate() {
            for &a in &node.args {
                let from = source(a, &definitions);
                let _ = writeln!(
                    text,
                    "  {from} -> n{i} [label=\"{}\"];",
                    escape(&self.ty(a).to_string())
                );
            }
        }
        for (i, &o) in self.outputs().iter().enumerate() {
            let from = source(o, &definitions);
            let _ = writeln!(
                text,
                "  out{i} [label=\"output {i}\", shape=ellipse];\n  {from} -> out{i};"
            );
        }
        text + "}\n"
    }
}
