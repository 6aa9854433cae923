//! YAML with the lines of its values. Tags are dropped; an alias is the value that it names.

use std::{collections::HashMap, rc::Rc};

use yaml_rust2::{Event, parser::Parser, scanner::Marker};

/// Deepest nesting.
const MAX_DEPTH: usize = 100;

/// A value.
#[derive(Debug)]
pub(super) struct Node {
    /// Line of its beginning, from 1.
    pub(super) line: usize,
    /// Line of what follows it, from 1; comments and empty lines between belong to neither.
    pub(super) end: usize,
    pub(super) value: Value,
}

#[derive(Debug)]
pub(super) enum Value {
    Text(String),
    List(Vec<Rc<Node>>),
    Map(Vec<(Rc<Node>, Rc<Node>)>),
}

/// The documents of a file.
#[derive(Debug, Default)]
pub(super) struct Documents {
    pub(super) all: Vec<Rc<Node>>,
}

/// A list or map while it is read: its anchor, line, whether it is a map, and its values.
type OpenNode = (usize, usize, bool, Vec<Rc<Node>>);

/// Parses all documents of a file.
/// Errors: the text is no YAML, or nested too deep.
pub(super) fn parse(text: &str) -> Result<Documents, String> {
    let mut parser = Parser::new_from_str(text);
    let mut found = Documents::default();
    let mut open: Vec<OpenNode> = Vec::new();
    let mut anchors: HashMap<usize, Rc<Node>> = HashMap::new();
    loop {
        let (event, marker) = parser
            .next_token()
            .map_err(|error| format!("line {}: is no YAML: {}", error.marker().line(), error.info()))?;
        let (anchor, node) = match event {
            Event::StreamEnd => return Ok(found),
            Event::MappingStart(anchor, _) => {
                open.push((anchor, marker.line(), true, Vec::new()));
                continue;
            }
            Event::SequenceStart(anchor, _) => {
                open.push((anchor, marker.line(), false, Vec::new()));
                continue;
            }
            Event::MappingEnd | Event::SequenceEnd => closed(open.pop(), marker),
            Event::Scalar(text, _, anchor, _) => {
                (anchor, Node { line: marker.line(), end: marker.line() + 1, value: Value::Text(text) })
            }
            Event::Alias(anchor) => {
                let node = anchors.get(&anchor).cloned();
                add(node.unwrap_or_else(|| Rc::new(closed(None, marker).1)), &mut open, &mut found);
                continue;
            }
            _ => continue,
        };
        let node = Rc::new(node);
        anchors.insert(anchor, Rc::clone(&node));
        add(node, &mut open, &mut found);
        if open.len() > MAX_DEPTH {
            return Err(format!("line {}: is nested more than {MAX_DEPTH} deep", marker.line()));
        }
    }
}

fn add(node: Rc<Node>, open: &mut [OpenNode], found: &mut Documents) {
    match open.last_mut() {
        Some((_, _, _, values)) => values.push(node),
        None => found.all.push(node),
    }
}

fn closed(open: Option<OpenNode>, marker: Marker) -> (usize, Node) {
    let (anchor, line, is_map, values) = open.unwrap_or_default();
    let value = if is_map {
        let mut values = values.into_iter();
        Value::Map(std::iter::from_fn(|| values.next().zip(values.next())).collect())
    } else {
        Value::List(values)
    };
    (anchor, Node { line, end: marker.line(), value })
}

impl Node {
    pub(super) fn text(&self) -> &str {
        if let Value::Text(text) = &self.value { text } else { "" }
    }

    pub(super) fn list(&self) -> &[Rc<Self>] {
        if let Value::List(list) = &self.value { list } else { &[] }
    }

    /// The keys and values of a map.
    pub(super) fn pairs(&self) -> &[(Rc<Self>, Rc<Self>)] {
        if let Value::Map(pairs) = &self.value { pairs } else { &[] }
    }

    /// The value of a key, also of one that the merge key brings.
    pub(super) fn get(&self, key: &str) -> Option<&Self> {
        let own = self.pairs().iter().find(|(name, _)| name.text() == key);
        own.map(|(_, value)| value.as_ref()).or_else(|| {
            let (_, merged) = self.pairs().iter().find(|(name, _)| name.text() == "<<")?;
            merged.own(key).or_else(|| merged.list().iter().find_map(|map| map.own(key)))
        })
    }

    fn own(&self, key: &str) -> Option<&Self> {
        self.pairs().iter().find(|(name, _)| name.text() == key).map(|(_, value)| value.as_ref())
    }
}
