//! How many files this process may have open. Every connection is one, and the usual soft limit of 1,024 is one of programs
//! that use `select`: whoever does not may raise it to the hard limit.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files for the store, the log and the HTTP listener, however few there are.
const RESERVED: u64 = 128;
/// Most connections that are worth a file; each holds some 20 KiB.
const MOST: u64 = 65_536;

/// Raises the bound as far as the hard limit and gives the number of gRPC connections that it leaves room for: seven eighths,
/// the rest is for the HTTP listener.
pub(crate) fn connections() -> usize {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    let files = if raised.is_ok() { maximum } else { current };
    usize::try_from(room(files.unwrap_or(u64::MAX))).unwrap_or(usize::MAX)
}

fn room(files: u64) -> u64 {
    (files.saturating_sub(RESERVED) / 8 * 7).clamp(8, MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_never_take_the_last_files() {
        assert_eq!([room(0), room(1024), room(20_000), room(u64::MAX)], [8, 784, 17_388, MOST]);
    }
}
