//! Reads files of the kernel below a root path, so that tests can use a folder of text files as the kernel.
//!
//! Four rules hold for all files: a missing file is `None`, because kernels and containers show different files; any other error contains
//! the path; the content is not interpreted here; and a build that mounts something over a file that it sees, such as a pipe or
//! `/dev/zero`, can neither stop the agent nor fill its memory.

use std::{
    fs::File,
    io::{self, Read as _},
    os::unix::fs::{FileExt, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use nix::fcntl::OFlag;

/// Initial size of the buffer in bytes: enough to read every usual file with one call; the longest, v2 `memory.stat`, has 2 to 3 KiB.
const BUFFER_BYTES: usize = 16 * 1024;
/// Most bytes of a file that is kept open.
const MAX_BUFFER_BYTES: usize = 1024 * 1024;
/// Most bytes of a file that is read once. The longest are mount tables: about 200 bytes for each mount, and the kernel allows 100,000
/// mounts in a namespace (`fs.mount-max`).
const MAX_FILE_BYTES: u64 = 32 * 1024 * 1024;

/// An error with a file of the kernel, and its path.
#[derive(Debug, thiserror::Error)]
#[error("{}: {problem}", path.display())]
pub struct Error {
    /// Path of the file.
    pub path: PathBuf,
    /// The system's error, or what the content should be.
    #[source]
    pub problem: io::Error,
}

impl Error {
    /// A system error about `path`.
    pub fn new(path: &Path, problem: io::Error) -> Self {
        Self { path: path.to_owned(), problem }
    }

    /// An error because the content of `path` is not what the kernel documents.
    pub fn content_error(path: &Path, expected: &str) -> Self {
        Self::new(path, io::Error::new(io::ErrorKind::InvalidData, format!("expected {expected}")))
    }
}

/// The root path of a kernel's files: the running kernel, or a folder with the same files.
#[derive(Debug, Clone)]
pub struct Kernel {
    root: PathBuf,
}

impl Kernel {
    /// The kernel with its files below `root`.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The running kernel.
    pub fn running() -> Self {
        Self::at("/")
    }

    /// The path of `absolute` below this kernel's root.
    pub fn path(&self, absolute: impl AsRef<Path>) -> PathBuf {
        let absolute = absolute.as_ref();
        self.root.join(absolute.strip_prefix("/").unwrap_or(absolute))
    }
}

/// Reads a whole file; `None` if it does not exist.
pub fn read(path: &Path) -> Result<Option<String>, Error> {
    match read_bytes(path) {
        // names of cgroups are bytes; a name that is not UTF-8 is not found later, and its group counts as missing
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(problem) if is_absent(&problem) => Ok(None),
        Err(problem) => Err(Error::new(path, problem)),
    }
}

/// Reads a whole file as bytes, as [`read_regular`] does.
/// Errors: as [`read_regular`], and if the file is longer than 32 MiB.
pub fn read_bytes(path: &Path) -> io::Result<Vec<u8>> {
    let bytes = read_regular(path, MAX_FILE_BYTES + 1)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("it is longer than {MAX_FILE_BYTES} bytes"),
        ));
    }
    Ok(bytes)
}

/// Reads the first bytes of a file, at most `most`. It never waits for another program.
/// Errors: the file cannot be read, or is no regular file.
pub fn read_regular(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_regular(path)?.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads the start of a file with one `read`, as much as fits into `buffer`. It never waits for another program.
pub(crate) fn read_start<'b>(path: &Path, buffer: &'b mut [u8]) -> io::Result<&'b [u8]> {
    let mut file = File::options().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path)?;
    let count = file.read(buffer)?;
    Ok(buffer.get(..count).unwrap_or_default())
}

/// Opens a regular file, which includes files of the kernel. Other files are refused: opening a pipe would wait for its writer, and a
/// device may never end.
fn open_regular(path: &Path) -> io::Result<File> {
    let file = File::options().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
    }
    Ok(file)
}

/// Whether an error means that the kernel has no such file. The kernel returns `ENODEV` for a file of a removed cgroup.
fn is_absent(problem: &io::Error) -> bool {
    matches!(problem.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
        || problem.raw_os_error() == Some(nix::libc::ENODEV)
}

/// A file that is kept open and read repeatedly, which is seven times cheaper than opening it each time.
#[derive(Debug)]
pub struct KeptFile {
    file: File,
    path: PathBuf,
}

impl KeptFile {
    /// Opens a file; `None` if it does not exist.
    pub fn open(path: PathBuf) -> Result<Option<Self>, Error> {
        match open_regular(&path) {
            Ok(file) => Ok(Some(Self { file, path })),
            Err(problem) if is_absent(&problem) => Ok(None),
            Err(problem) => Err(Error::new(&path, problem)),
        }
    }

    /// Reads the current content into `buffer` with one `pread`. A second `pread`, only to see the end, would make the kernel generate the
    /// text again.
    pub fn read<'b>(&self, buffer: &'b mut Vec<u8>) -> Result<&'b str, Error> {
        if buffer.is_empty() {
            buffer.resize(BUFFER_BYTES, 0);
        }
        loop {
            let count = self.file.read_at(buffer, 0).map_err(|problem| Error::new(&self.path, problem))?;
            if count < buffer.len() {
                let text = buffer.get(..count).unwrap_or_default();
                return str::from_utf8(text).map_err(|_bytes| Error::content_error(&self.path, "text"));
            }
            if buffer.len() >= MAX_BUFFER_BYTES {
                return Err(Error::content_error(&self.path, "a short text"));
            }
            buffer.resize(buffer.len() * 2, 0);
        }
    }

    /// Reads a file that contains one number.
    pub fn read_number(&self, buffer: &mut Vec<u8>) -> Result<u64, Error> {
        let number = self.read(buffer)?.trim().parse();
        number.map_err(|_text: std::num::ParseIntError| Error::content_error(&self.path, "a number"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_files_are_none_and_errors_name_paths() {
        let dir = tempfile::tempdir().unwrap();
        let kernel = Kernel::at(dir.path());
        assert!(read(&kernel.path("/proc/1/cgroup")).unwrap().is_none());
        assert!(KeptFile::open(kernel.path("/none")).unwrap().is_none());
        let error = read(dir.path()).unwrap_err();
        assert!(error.to_string().contains(dir.path().to_str().unwrap()), "{error}");
    }

    #[test]
    fn pipes_and_endless_or_oversized_files_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (pipe, endless, long) =
            (dir.path().join("pipe"), dir.path().join("zero"), dir.path().join("long"));
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &endless).unwrap();
        File::create(&long).unwrap().set_len(2 * MAX_FILE_BYTES).unwrap();
        for file in [&pipe, &endless] {
            assert!(read(file).unwrap_err().to_string().ends_with("it is no regular file"));
            assert!(KeptFile::open(file.clone()).unwrap_err().to_string().ends_with("it is no regular file"));
        }
        assert!(read(&long).unwrap_err().to_string().ends_with("it is longer than 33554432 bytes"));
        assert!(KeptFile::open(long).unwrap().unwrap().read(&mut Vec::new()).is_err());
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
    fn a_text_exceeding_the_buffer_is_read_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("long");
        std::fs::write(&path, "x".repeat(BUFFER_BYTES * 3)).unwrap();
        let kept = KeptFile::open(path).unwrap().unwrap();
        assert_eq!(kept.read(&mut Vec::new()).unwrap().len(), BUFFER_BYTES * 3);
    }
}
