//! Inputs that are nearly right: those of a corpus, changed a little, again and again the same for the same seed.

/// Numbers that look random and can be repeated (xorshift64*, Vigna 2016).
#[derive(Debug, Clone)]
pub(crate) struct Chance(u64);

/// Bytes of the longest input.
const MOST: usize = 96 << 10;
/// Bytes and words that parsers have borders at.
const NASTY: [&[u8]; 24] = [
    b"\0",
    b"\xff",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"\x80\x80\x80\x80\x10",
    b"\x7f",
    b"\xed\xa0\x80",
    b"\xf0\x9f\x98\x80",
    b"\r\n",
    b"\x1b[31m",
    b"{",
    b"[",
    b"\"",
    b"\\",
    b"null",
    b"-1",
    b"18446744073709551616",
    b"1e999",
    b"=",
    b": ",
    b"@",
    b"%",
    b"*",
    b"-----BEGIN PRIVATE KEY-----",
    b"token=",
];

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, most: usize) -> usize {
        usize::try_from(self.next() >> 33).unwrap_or(0) % most.max(1)
    }

    /// An input of the corpus, changed in one to eight places.
    pub(crate) fn input(&mut self, corpus: &[Vec<u8>]) -> Vec<u8> {
        let mut input = corpus.get(self.below(corpus.len())).cloned().unwrap_or_default();
        for _ in 0..=self.below(8) {
            self.change(&mut input, corpus);
        }
        input.truncate(MOST);
        input
    }

    fn change(&mut self, input: &mut Vec<u8>, corpus: &[Vec<u8>]) {
        let at = self.below(input.len() + 1);
        let end = (at + self.below(16)).min(input.len());
        match self.below(8) {
            0 => drop(input.drain(at..end)),
            1 => {
                let nasty = NASTY.get(self.below(NASTY.len())).copied().unwrap_or_default();
                input.splice(at..at, nasty.iter().copied());
            }
            2 => {
                let part = input.get(at..end).unwrap_or_default().to_vec();
                for _ in 0..self.below(40) {
                    input.splice(at..at, part.iter().copied());
                }
            }
            3 => input.truncate(at),
            // the beginning of one and the end of another
            4 => {
                let other = corpus.get(self.below(corpus.len())).map_or(&[][..], Vec::as_slice);
                let from = self.below(other.len() + 1);
                input.truncate(at);
                input.extend_from_slice(other.get(from..).unwrap_or_default());
            }
            5 => {
                if let Some(byte) = input.get_mut(at) {
                    *byte = self.next().to_be_bytes()[0];
                }
            }
            6 => {
                if let Some(byte) = input.get_mut(at) {
                    *byte = byte.wrapping_add(1);
                }
            }
            _ => {
                if let Some(byte) = input.get_mut(at) {
                    *byte ^= 1 << (self.next() % 8);
                }
            }
        }
    }
}

/// The files of one target, in the order of their names, so that a seed means the same everywhere.
pub(crate) fn corpus(target: &str) -> anyhow::Result<Vec<Vec<u8>>> {
    let dir = folder(target);
    let mut paths =
        std::fs::read_dir(&dir)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()?;
    paths.sort();
    anyhow::ensure!(!paths.is_empty(), "{} is empty", dir.display());
    paths.iter().map(|path| Ok(std::fs::read(path)?)).collect()
}

/// The folder of one target's corpus.
pub(crate) fn folder(target: &str) -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target)
}
