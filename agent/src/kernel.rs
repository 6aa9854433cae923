//! Files of the kernel, read through a root path, so that a folder of text files is a kernel too.
//!
//! Three rules hold for all of them: an absent file is `None`, because kernels and containers differ in what they show; any
//! other failure carries the path; and nothing here knows what a file means.

use std::{
    fs::File,
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

/// Enough for every file that is read here in one piece; the longest, v2 `memory.stat`, has 2 to 3 KiB.
const BUFFER_BYTES: usize = 16 * 1024;
/// No file that is read here has any business to be longer.
const BUFFER_MAX: usize = 1024 * 1024;

/// What went wrong with a file of the kernel.
#[derive(Debug, thiserror::Error)]
#[error("{}: {problem}", path.display())]
pub struct Error {
    /// The file.
    pub path: PathBuf,
    /// What the system said, or what was expected of the content.
    #[source]
    pub problem: io::Error,
}

impl Error {
    /// An error of the system about `path`.
    pub fn new(path: &Path, problem: io::Error) -> Self {
        Self { path: path.to_owned(), problem }
    }

    /// The content of `path` is not what the kernel documents.
    pub fn content(path: &Path, expected: &str) -> Self {
        Self::new(path, io::Error::new(io::ErrorKind::InvalidData, format!("expected {expected}")))
    }
}

/// A kernel: the running one, or a folder that looks like one.
#[derive(Debug, Clone)]
pub struct Kernel {
    root: PathBuf,
}

impl Kernel {
    /// The kernel below `root`.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The running kernel.
    pub fn running() -> Self {
        Self::at("/")
    }

    /// Where `absolute` lies for this kernel.
    pub fn path(&self, absolute: impl AsRef<Path>) -> PathBuf {
        let absolute = absolute.as_ref();
        self.root.join(absolute.strip_prefix("/").unwrap_or(absolute))
    }
}

/// Reads a whole file; `None` if there is none.
pub fn read(path: &Path) -> Result<Option<String>, Error> {
    match std::fs::read(path) {
        // names of cgroups are bytes; one that is not UTF-8 is not found later, which is an honest "absent"
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(problem) if is_absent(&problem) => Ok(None),
        Err(problem) => Err(Error::new(path, problem)),
    }
}

/// Says whether an error means that this kernel has no such file. `ENODEV` is what a file says whose cgroup was removed.
fn is_absent(problem: &io::Error) -> bool {
    matches!(problem.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
        || problem.raw_os_error() == Some(nix::libc::ENODEV)
}

/// A file that is kept open and read again and again: seven times cheaper than to open it each time.
#[derive(Debug)]
pub struct KeptFile {
    file: File,
    path: PathBuf,
}

impl KeptFile {
    /// Opens a file; `None` if there is none.
    pub fn open(path: PathBuf) -> Result<Option<Self>, Error> {
        match File::open(&path) {
            Ok(file) => Ok(Some(Self { file, path })),
            Err(problem) if is_absent(&problem) => Ok(None),
            Err(problem) => Err(Error::new(&path, problem)),
        }
    }

    /// Reads the content of now into `buffer`. One `pread`: a second one, only to see the end, would make the kernel put
    /// the whole text together again.
    pub fn read<'b>(&self, buffer: &'b mut Vec<u8>) -> Result<&'b str, Error> {
        if buffer.is_empty() {
            buffer.resize(BUFFER_BYTES, 0);
        }
        loop {
            let count = self.file.read_at(buffer, 0).map_err(|problem| Error::new(&self.path, problem))?;
            if count < buffer.len() {
                let text = buffer.get(..count).unwrap_or_default();
                return str::from_utf8(text).map_err(|_bytes| Error::content(&self.path, "text"));
            }
            if buffer.len() >= BUFFER_MAX {
                return Err(Error::content(&self.path, "a short text"));
            }
            buffer.resize(buffer.len() * 2, 0);
        }
    }

    /// Reads a file that holds one number.
    pub fn read_number(&self, buffer: &mut Vec<u8>) -> Result<u64, Error> {
        let number = self.read(buffer)?.trim().parse();
        number.map_err(|_text: std::num::ParseIntError| Error::content(&self.path, "a number"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absent_file_is_none_and_other_errors_name_the_path() {
        let dir = tempfile::tempdir().unwrap();
        let kernel = Kernel::at(dir.path());
        assert!(read(&kernel.path("/proc/1/cgroup")).unwrap().is_none());
        assert!(KeptFile::open(kernel.path("/none")).unwrap().is_none());
        let error = read(dir.path()).unwrap_err();
        assert!(error.to_string().contains(dir.path().to_str().unwrap()), "{error}");
    }

    #[test]
    fn a_kept_file_shows_the_content_of_now() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a b");
        std::fs::write(&path, "12345\n").unwrap();
        let kept = KeptFile::open(path.clone()).unwrap().unwrap();
        let mut buffer = Vec::new();
        assert_eq!(kept.read_number(&mut buffer).unwrap(), 12345);
        std::fs::write(&path, "7\n").unwrap();
        assert_eq!(kept.read_number(&mut buffer).unwrap(), 7);
        std::fs::write(&path, "seven\n").unwrap();
        let error = kept.read_number(&mut buffer).unwrap_err().to_string();
        assert!(error.ends_with("a b: expected a number"), "{error}");
    }

    #[test]
    fn a_text_longer_than_the_buffer_is_read_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("long");
        std::fs::write(&path, "x".repeat(BUFFER_BYTES * 3)).unwrap();
        let kept = KeptFile::open(path).unwrap().unwrap();
        assert_eq!(kept.read(&mut Vec::new()).unwrap().len(), BUFFER_BYTES * 3);
    }
}
