//! Nodes of the operator's file, and the nodes that orchestrators may not select.

use super::{Reading, tables::NodeTable};
use crate::placement::{
    Placement,
    kind::{BuildKind, KindPolicy},
    names,
    nodes::Node,
};

impl Reading<'_> {
    pub(super) fn node(&mut self, table: NodeTable, before: &Placement) -> Node {
        let line = self.line(&table.name);
        let name = table.name.into_inner();
        if name.is_empty() {
            self.wrong(line, "a node needs a name".to_owned());
        }
        if before.nodes.iter().any(|node| node.name == name) {
            self.wrong(line, format!("node {name} is there twice"));
        }
        if table.at_once == Some(0) {
            self.wrong(line, format!("node {name}: at_once is 0, so nothing could run; leave the node out"));
        }
        for (label, value) in &table.labels {
            if let Some(why) = names::wrong_key(label) {
                self.wrong(line, format!("node {name}: labels: {why}"));
            }
            if let Some(why) = names::wrong_value(value) {
                self.wrong(line, format!("node {name}: labels: {label}: {why}"));
            }
        }
        Node { name, labels: table.labels, at_once: table.at_once.unwrap_or(1) }
    }

    /// Checks that orchestrators do not select the nodes of other kinds: they wait for the builds of their image, and each would take the
    /// slot of one that it waits for.
    pub(super) fn apart(&mut self, line: usize, kind: BuildKind, policy: &KindPolicy, before: &Placement) {
        let is_one = |kind: BuildKind| kind == BuildKind::Orchestrator;
        for (other, others) in before.kinds.iter().filter(|(other, _)| is_one(*other) != is_one(kind)) {
            let selected = &others.place.node_selector;
            let shared =
                policy.place.node_selector.iter().find(|(label, value)| selected.get(*label) == Some(value));
            if let Some((label, value)) = shared {
                let text = format!(
                    "kinds {} and {} both select nodes with {label} = {value:?}: give orchestrators a label of their own",
                    kind.as_str(),
                    other.as_str()
                );
                self.wrong(line, text);
            }
        }
    }
}
