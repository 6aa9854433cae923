//! XML of others, looked at before anything is made of it.

use quick_xml::{Reader, events::Event};

/// Elements within each other, at most: a list in an argument has 7 of them, a field of a struct in an answer 8. What reads the text goes
/// down by itself at each.
const DEPTH: usize = 16;

/// Looks at all of a text: it must be well-formed, and not too deep.
///
/// # Errors
/// It is not, or it defines entities of its own.
pub(crate) fn check(text: &str) -> Result<(), String> {
    let (mut reader, mut depth) = (Reader::from_str(text), 0_usize);
    loop {
        match reader.read_event().map_err(|error| format!("is not well-formed XML: {error}"))? {
            Event::Start(_) if depth == DEPTH => {
                return Err(format!("has more than {DEPTH} elements within each other"));
            }
            Event::Start(_) => depth += 1,
            Event::End(_) => depth = depth.saturating_sub(1),
            Event::DocType(_) => {
                return Err("has a document type: entities of its own are not expanded".to_owned());
            }
            Event::Eof if depth > 0 => return Err("is not well-formed XML: it ends too early".to_owned()),
            Event::Eof => return Ok(()),
            _ => {}
        }
    }
}
