//! Reads the end of a log file.

use std::{
    fs::File,
    io::{self, Read, Seek as _, SeekFrom},
    path::Path,
};

use plimsoll_proto::limits;

use crate::key::{SECRET_BYTES, Secrets};

/// Bytes to read: as many as the wire allows, and before them the length of the longest secret, because a cut
/// could split one.
const READ_BYTES: usize = limits::LOG_TAIL_BYTES + SECRET_BYTES;

/// The end of a log file, as long as the wire allows, with secrets masked.
pub(super) fn log_tail(path: &Path, secrets: &Secrets) -> Result<Vec<u8>, String> {
    let read = if path == Path::new("-") {
        tail_of_stream(&mut io::stdin().lock())
    } else {
        File::open(path).and_then(|mut file| {
            // a pipe cannot be positioned at its end, so it is read from its start
            let length = file.seek(SeekFrom::End(0)).unwrap_or(0);
            if length > 0 {
                file.seek(SeekFrom::Start(length.saturating_sub(READ_BYTES as u64)))?;
            }
            tail_of_stream(&mut file)
        })
    };
    let tail = read.map_err(|error| format!("--log {}: {error}", path.display()))?;
    Ok(secrets.mask(&tail, limits::LOG_TAIL_BYTES))
}

fn tail_of_stream(stream: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut tail = Vec::new();
    loop {
        let most = READ_BYTES as u64;
        let read = stream.take(most).read_to_end(&mut tail)?;
        let beyond = tail.len().saturating_sub(READ_BYTES);
        tail.drain(..beyond);
        if read == 0 {
            return Ok(tail);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_end_of_a_log_is_sent() {
        let dir = tempfile::TempDir::new().unwrap();
        let path = dir.path().join("log");
        let mut log = vec![b'x'; 2 * READ_BYTES];
        log.extend(b"the end");
        std::fs::write(&path, &log).unwrap();
        let tail = log_tail(&path, &Secrets::default()).unwrap();
        assert_eq!((tail.len(), tail.ends_with(b"xthe end")), (limits::LOG_TAIL_BYTES, true));
        assert!(tail_of_stream(&mut log.as_slice()).unwrap().ends_with(&tail));
        let secrets = Secrets::of([("A_TOKEN".into(), "xx-the end".into())]);
        std::fs::write(&path, "it is xx-the end").unwrap();
        assert_eq!(log_tail(&path, &secrets).unwrap(), b"it is [MASKED]");
        std::fs::write(&path, "short").unwrap();
        assert_eq!(log_tail(&path, &Secrets::default()).unwrap(), b"short");
    }
}
