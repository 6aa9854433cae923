//! Texts with made-up secrets, from templates as `patterns.toml` has them.

/// A text with secrets in it.
#[derive(Debug, Clone)]
pub(super) struct Planted {
    pub(super) text: String,
    /// What must not be left of it.
    pub(super) secrets: Vec<String>,
}

/// Random letters, again and again the same for the same seed (xorshift64*, Vigna 2016).
#[derive(Debug, Clone)]
pub(super) struct Letters(u64);

impl Letters {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn of(&mut self, alphabet: &[u8], count: usize) -> String {
        let mut next = || {
            self.0 ^= self.0 >> 12;
            self.0 ^= self.0 << 25;
            self.0 ^= self.0 >> 27;
            usize::try_from(self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33).unwrap()
        };
        (0..count).map(|_| char::from(alphabet[next() % alphabet.len()])).collect()
    }

    fn uuid(&mut self) -> String {
        [8, 4, 4, 4, 12].map(|count| self.of(b"0123456789abcdef", count)).join("-")
    }

    /// The template with letters in the place of its braces.
    pub(super) fn fill(&mut self, template: &str) -> Planted {
        let mut planted = Planted { text: String::new(), secrets: Vec::new() };
        let mut rest = template;
        while let Some((before, behind)) = rest.split_once('{') {
            planted.text.push_str(before);
            let made = behind.split_once('}').and_then(|(what, behind)| Some((self.made(what)?, behind)));
            if let Some((made, behind)) = made {
                planted.text.push_str(&made);
                planted.secrets.push(made);
                rest = behind;
            } else {
                planted.text.push('{');
                rest = behind;
            }
        }
        planted.text.push_str(rest);
        // a few letters are no secret; the rest of theirs is
        planted.secrets.retain(|secret| secret.len() > 6);
        planted
    }

    fn made(&mut self, what: &str) -> Option<String> {
        if what == "u" {
            return Some(self.uuid());
        }
        let alphabet: &[u8] = match what.chars().next()? {
            'A' => b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
            'a' => b"abcdefghijklmnopqrstuvwxyz0123456789",
            'U' => b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567",
            'l' => b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
            'x' => b"0123456789abcdef",
            'X' => b"0123456789ABCDEF",
            'd' => b"123456789",
            'w' => b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-",
            'b' => b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
            _ => return None,
        };
        Some(self.of(alphabet, what[1..].parse().ok()?))
    }
}

impl Planted {
    /// Whether so many letters in a row of a secret are in the text, or all of a shorter one.
    pub(super) fn leaks(&self, masked: &str, letters: usize) -> bool {
        let there = |part: &[u8]| memchr::memmem::find(masked.as_bytes(), part).is_some();
        self.secrets.iter().any(|secret| secret.as_bytes().windows(letters.min(secret.len())).any(there))
    }
}
