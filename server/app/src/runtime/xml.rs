//! XML of others, looked at before anything is made of it.

use quick_xml::{Reader, events::Event};

/// Most elements nested in each other: a list in an argument has 7 of them, a field of a struct in an answer 8. Reading recurses once for
/// each nested element.
const MAX_NESTING: usize = 16;

/// Checks a text: it must be well-formed XML, and not nested too deeply.
/// Errors: it is not, or it defines entities of its own.
pub(crate) fn check(text: &str) -> Result<(), String> {
    let (mut reader, mut depth) = (Reader::from_str(text), 0_usize);
    loop {
        match reader.read_event().map_err(|error| format!("is not well-formed XML: {error}"))? {
            Event::Start(_) if depth == MAX_NESTING => {
                return Err(format!("has more than {MAX_NESTING} elements within each other"));
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
