//! Secrets that are known by how they begin, or by where they stand.
//!
//! The beginnings are those that the issuers publish for scanners of leaked tokens (GitHub "About authentication", GitLab "Token
//! overview", AWS IAM identifiers, Slack "Token types", and so on). Lengths are taken generously: a token that was cut is masked too.

use std::{borrow::Cow, sync::LazyLock};

use regex::{Captures, Regex, RegexSet};

use super::MASK;

// Borders of words are those of ASCII (`(?-u:\b)`): others take the slow way of the library in each text that has a letter beyond.

/// Tokens; all of a match is the secret.
const TOKENS: [&str; 13] = [
    // GitHub
    r"gh[opusr]_[A-Za-z0-9]{10,}|github_pat_[A-Za-z0-9_]{10,}",
    // GitLab
    r"gl(?:pat|dt|rt|rtr|cbt|ptt|ft|imt|agent|oas|soat|ffct|wt)-[A-Za-z0-9_.\-]{10,}|GR1348941[A-Za-z0-9_\-]{10,}",
    r"whsec_[A-Za-z0-9+/=]{10,}",
    // AWS: keys, for ever and for a session
    r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{12,}",
    // Google
    r"AIza[A-Za-z0-9_\-]{20,}|ya29\.[A-Za-z0-9_.\-]{10,}|GOCSPX-[A-Za-z0-9_\-]{10,}",
    // Slack
    r"xox[a-z](?:\.xox[a-z])?-[A-Za-z0-9\-]{8,}|xapp-[A-Za-z0-9\-]{10,}|hooks\.slack\.com/(?:services|workflows)/[A-Za-z0-9/_\-]{8,}",
    // npm, PyPI, crates.io, RubyGems
    r"npm_[A-Za-z0-9]{20,}|pypi-AgE[A-Za-z0-9_\-]{8,}|(?-u:\b)cio[A-Za-z0-9]{32}(?-u:\b)|rubygems_[a-f0-9]{20,}",
    // Docker, Hugging Face, Vault, DigitalOcean
    r"dckr_(?:pat|oat)_[A-Za-z0-9_\-]{10,}|(?-u:\b)hf_[A-Za-z0-9]{20,}|(?-u:\b)hv[sbr]\.[A-Za-z0-9_\-]{20,}|do[opr]_v1_[a-f0-9]{20,}",
    // Stripe, SendGrid, OpenAI, Anthropic
    r"(?-u:\b)[rs]k_(?:live|test)_[A-Za-z0-9]{10,}|(?-u:\b)SG\.[A-Za-z0-9_\-]{16,}\.[A-Za-z0-9_\-]{16,}|(?-u:\b)sk-(?:proj-|ant-|svcacct-)?[A-Za-z0-9_]{20,}[A-Za-z0-9_\-]*",
    // age
    r"AGE-SECRET-KEY-1[A-Z0-9]{10,}",
    // signed tokens: two parts of JSON in base64, and a signature that may be cut off
    r"eyJ[A-Za-z0-9_\-]{6,}\.eyJ[A-Za-z0-9_\-]{6,}(?:\.[A-Za-z0-9_\-]*)*",
    // the same with one part: encrypted, or cut
    r"(?-u:\b)eyJ(?:hbGci|0eXAi|raWQi)[A-Za-z0-9_\-]{6,}(?:\.[A-Za-z0-9_\-]*)*",
    // a signature in an address is as good as a password for what it signs
    r"(?i:[?&](?:sig|signature|x-amz-signature|x-amz-credential|x-goog-signature)=)[^&\s\x22']{8,}",
];

/// Places; the group `secret` of a match is the secret.
const PLACES: [&str; 17] = [
    r#"(?i)authorization["']?\s{0,4}[:=]\s{0,4}["']?(?:(?:basic|bearer|token|digest|negotiate|ntlm|apikey|key)\s{1,4})?(?<secret>[^\s"'][^\r\n"']*)"#,
    r"(?i)(?-u:\b)bearer\s{1,4}(?<secret>[A-Za-z0-9._~+/=\-]{12,})",
    r#"(?i)(?-u:\b)(?:(?:private|job|deploy|x-auth|x-vault|x-gitlab|x-amz-security)-token|x-api-key|(?:set-)?cookie)["']?\s{0,4}:\s{0,4}["']?(?<secret>[^\s"'][^\r\n"']*)"#,
    r#"(?i)(?:\s-u|--user|--proxy-user)[ =]["']?[^\s:"']+:(?<secret>[^\s"']+)"#,
    // netrc
    r"(?i)(?-u:\b)login\s{1,8}\S+\s{1,8}password\s{1,8}(?<secret>\S+)",
    // the password of an address
    r#"://[^\s/?#"'<>@:]*:(?<secret>[^\s/?#"'<>]+)@"#,
    // the same, where the text is cut before the `@`: no port and no name of a host is like that
    r#"://[^\s/?#"'<>@:]*:(?<secret>[^\s/?#"'<>@:]{8,})\z"#,
    r"://(?<secret>[A-Za-z0-9_\-]{18,})\z",
    // the password of an address with letters that should have been escaped; no port, which a path follows
    r#"://[^\s/?#"'<>@:]*:(?<secret>[0-9]*[^\s/?#"'<>@0-9][^\s"'<>@]*[/?#][^\s"'<>@]*)@"#,
    r#"(?i)(?-u:\b)curl(?-u:\b)[^\r\n]{0,200}?\s-u["']?[^\s:"']+:(?<secret>[^\s"']+)"#,
    r#"(?i)(?-u:\b)sshpass\s{1,4}-p\s{0,4}["']?(?<secret>[^\s"']+)"#,
    // a field of XML, of an array in a shell's or a query's words, of an escaped form
    r"(?i)(?:pass(?:word|wd|phrase)|secret|token|api[_-]?key)>(?<secret>[^<\s][^<\r\n]{3,})</",
    r#"(?i)(?:pass(?:word|wd|phrase)|secret|token|api[_-]?key)["']?\]=["']?(?<secret>[^\s"'$&][^\s"'&]{3,})"#,
    r#"(?i)(?:pass(?:word|wd|phrase)|secret|token|api[_-]?key)%3D(?<secret>[^\s"'&%][^\s"'&]{3,})"#,
    // of JSON that stands in a text of JSON
    r#"(?i)(?:pass(?:word|wd|phrase)|secret|token|credential|api[_-]?key)\\{1,3}"\s{0,4}:\s{0,4}\\{1,3}"(?<secret>[^"\\]{4,})"#,
    // Vault: what the name of an id says of others does not hold here
    r#"(?i)secret_id["']?\s{0,4}[:=]\s{0,4}["']?(?<secret>[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f\-]{8,})"#,
    // an escaped space goes on with the value; what stands before it is found by its name
    r#"(?i)(?:pass(?:word|wd|phrase)|secret|token)=(?<secret>[^\s"'$\\]+(?:\\ [^\s"'\\]+)+)"#,
];

/// A user without a password in an address: a token, if it is long. Nobody's name is.
const USER: &str = r#"://(?<secret>[^\s/?#"'<>@:]{16,}|[A-Za-z]*[0-9][A-Za-z0-9]{8,}):?@"#;

static PATTERNS: LazyLock<Option<Patterns>> = LazyLock::new(|| Patterns::new().ok());

/// Which of them are in a text at all is found in one pass; most texts have none.
struct Patterns {
    any: RegexSet,
    each: Vec<Regex>,
}

impl Patterns {
    fn new() -> Result<Self, regex::Error> {
        let token = |token: &&str| format!("(?<secret>{token})");
        let places = PLACES.iter().chain([&USER]).map(|place| (*place).to_owned());
        let sources: Vec<String> = TOKENS.iter().map(token).chain(places).collect();
        let each = sources.iter().map(|source| Regex::new(source)).collect::<Result<_, _>>()?;
        Ok(Self { any: RegexSet::new(&sources)?, each })
    }
}

/// Whether the patterns are ones: a mistake in them must not pass unseen.
#[cfg(test)]
pub(super) fn are_read() -> bool {
    PATTERNS.is_some()
}

/// The text without them.
pub(super) fn mask(text: &str) -> Cow<'_, str> {
    let Some(patterns) = PATTERNS.as_ref() else { return Cow::Borrowed(text) };
    let mut masked = Cow::Borrowed(text);
    for index in patterns.any.matches(text) {
        let Some(pattern) = patterns.each.get(index) else { continue };
        if let Cow::Owned(changed) = pattern.replace_all(&masked, without_secret) {
            masked = Cow::Owned(changed);
        }
    }
    masked
}

/// The match with a mask in the place of its group `secret`.
pub(super) fn without_secret(found: &Captures<'_>) -> String {
    let Some((whole, secret)) = found.get(0).zip(found.name("secret")) else { return MASK.to_owned() };
    let text = whole.as_str();
    let before = text.get(..secret.start().saturating_sub(whole.start())).unwrap_or_default();
    let behind = text.get(secret.end().saturating_sub(whole.start())..).unwrap_or_default();
    format!("{before}{MASK}{behind}")
}
