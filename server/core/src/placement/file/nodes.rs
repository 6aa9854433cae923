//! Parses the nodes of the operator's file, and checks that orchestrators do not share nodes with other builds.

use super::{PlacementReader, tables::NodeTable};
use crate::placement::{
    Placement,
    kind::{BuildKind, KindPolicy},
    names,
    nodes::Node,
};

impl PlacementReader<'_> {
    pub(super) fn read_node(&mut self, table: NodeTable, before: &Placement) -> Node {
        let line = self.line_of(&table.name);
        let name = table.name.into_inner();
        if name.is_empty() {
            self.add_mistake(line, "a node needs a name".to_owned());
        }
        if before.nodes.iter().any(|node| node.name == name) {
            self.add_mistake(line, format!("node {name} is there twice"));
        }
        if table.at_once == Some(0) {
            self.add_mistake(
                line,
                format!("node {name}: at_once is 0, so nothing could run; leave the node out"),
            );
        }
        for (label, value) in &table.labels {
            if let Some(why) = names::key_mistake(label) {
                self.add_mistake(line, format!("node {name}: labels: {why}"));
            }
            if let Some(why) = names::value_mistake(value) {
                self.add_mistake(line, format!("node {name}: labels: {label}: {why}"));
            }
        }
        let node = Node { name, labels: table.labels, at_once: table.at_once.unwrap_or(1) };
        self.check_orchestrator_node(line, &node, before);
        node
    }

    /// Checks that a node does not take both orchestrators and builds of other kinds. An orchestrator waits for the builds of its image,
    /// and on the same node it would take the slot of a build that it waits for.
    fn check_orchestrator_node(&mut self, line: usize, node: &Node, before: &Placement) {
        let taken = before.kinds.iter().filter(|(_, policy)| node.suits(&policy.place));
        let kinds: Vec<BuildKind> = taken.map(|(kind, _)| *kind).collect();
        if kinds.len() > 1 && kinds.contains(&BuildKind::Orchestrator) {
            let name = &node.name;
            let kinds = kinds.into_iter().map(BuildKind::as_str).collect::<Vec<_>>().join(", ");
            self.add_mistake(
                line,
                format!("node {name} takes kinds {kinds}: give orchestrators nodes of their own"),
            );
        }
    }

    /// Checks in a file without nodes that orchestrators do not share nodes with builds of other kinds: the labels that orchestrators
    /// select may not include all labels of another kind, nor the reverse. A kind without labels passes, because it may run on any node, so
    /// also on nodes without orchestrators.
    pub(super) fn check_orchestrator_labels(
        &mut self,
        line: usize,
        (kind, policy): &(BuildKind, KindPolicy),
        nodes: &[NodeTable],
        before: &Placement,
    ) {
        let is_one = |kind: BuildKind| kind == BuildKind::Orchestrator;
        let kind = *kind;
        let others =
            before.kinds.iter().filter(|(other, _)| nodes.is_empty() && is_one(*other) != is_one(kind));
        for (other, others) in others {
            let both = [&policy.place.node_selector, &others.place.node_selector];
            let [orchestrators, workers] = if is_one(kind) { both } else { [both[1], both[0]] };
            let (fewer, more) = if orchestrators.len() <= workers.len() {
                (orchestrators, workers)
            } else {
                (workers, orchestrators)
            };
            let is_part = fewer.iter().all(|(label, value)| more.get(label) == Some(value));
            if is_part && !workers.is_empty() {
                let (kind, other) = (kind.as_str(), other.as_str());
                let text = format!(
                    "kinds {kind} and {other} select the same nodes: give orchestrators a label of their own"
                );
                self.add_mistake(line, text);
            }
        }
    }
}
