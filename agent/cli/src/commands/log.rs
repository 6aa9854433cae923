//! Reads a log file.

use std::{fs::File, io, path::Path};

use plimsoll_base::log_excerpt::LogExcerpt;
use plimsoll_proto::limits;

use crate::key::{SECRET_BYTES, Secrets};

/// What is sent of a log file: all of it, or its errors and its end, with secrets masked.
pub(super) fn log_excerpt(path: &Path, secrets: &Secrets) -> Result<Vec<u8>, String> {
    let mut excerpt = LogExcerpt::new(limits::LOG_TAIL_BYTES, SECRET_BYTES);
    let read = if path == Path::new("-") {
        excerpt.read_all(io::stdin().lock())
    } else {
        File::open(path).and_then(|file| excerpt.read_all(file))
    };
    read.map_err(|error| format!("--log {}: {error}", path.display()))?;
    Ok(excerpt.finish(|text| secrets.mask(text, text.len())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_errors_and_tail_are_sent_without_secrets() {
        let dir = tempfile::TempDir::new().unwrap();
        let path = dir.path().join("log");
        let secrets = Secrets::of([("A_TOKEN".into(), "xx-the end".into())]);
        std::fs::write(&path, format!("error: xx-the end\n{}it is xx-the end", "building\n".repeat(50_000)))
            .unwrap();
        let sent = String::from_utf8(log_excerpt(&path, &secrets).unwrap()).unwrap();
        assert!(sent.len() <= limits::LOG_TAIL_BYTES && sent.ends_with("building\nit is [MASKED]"));
        assert_eq!(sent.lines().nth(1), Some("error: [MASKED]"));
        std::fs::write(&path, "short").unwrap();
        assert_eq!(log_excerpt(&path, &secrets).unwrap(), b"short");
    }
}
