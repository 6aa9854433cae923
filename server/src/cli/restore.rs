//! `plimsoll-server restore`.

use std::{
    fs::File,
    io::{self, BufReader, Read, Write as _},
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use clap::Args;

use super::{progress::Progress, progress::share, store_settings};
use crate::{admin::backup, config::Config};

/// Makes a data directory from a backup.
#[derive(Debug, Args)]
pub struct Restore {
    /// A file that `backup` wrote, or - for standard input.
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

impl Restore {
    pub(super) fn run(self, config: &Config) -> anyhow::Result<()> {
        let settings = store_settings(config);
        let (source, whole) = self.open()?;
        let mut progress = Progress::new();
        let counted =
            Counted { source, done: 0, tell: |bytes| progress.tell("restoring", share(bytes, whole)) };
        let restored = backup::restore(counted, &settings);
        progress.end();
        writeln!(io::stdout(), "{} entries restored into {}", restored?, settings.dir.display())?;
        Ok(())
    }

    fn open(&self) -> anyhow::Result<(Box<dyn Read>, u64)> {
        if self.file == Path::new("-") {
            return Ok((Box::new(io::stdin().lock()), 0));
        }
        let file = File::open(&self.file).with_context(|| format!("cannot open {}", self.file.display()))?;
        let bytes = file.metadata()?.len();
        Ok((Box::new(BufReader::new(file)), bytes))
    }
}

/// Tells how much was read.
struct Counted<R, T> {
    source: R,
    done: u64,
    tell: T,
}

impl<R: Read, T: FnMut(u64)> Read for Counted<R, T> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(buffer)?;
        self.done += count as u64;
        (self.tell)(self.done);
        Ok(count)
    }
}
