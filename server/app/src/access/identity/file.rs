//! Format of the access file.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use jsonwebtoken::Algorithm;
use plimsoll_proto::figures::counted;
use ring::digest;
use serde::Deserialize;
use tokio::time::Instant;

use super::{
    Role, Roles,
    bounds::BoundsTable,
    can_match,
    claims::{Grant, IssuerKind},
    fetched::{FetchedKeys, KeySetSource, safe_address},
    jwt::{Issuer, IssuerKeys},
    keys::KeySet,
    usage::Usages,
};

/// Seconds by which the clocks of two machines may differ.
const CLOCK_TOLERANCE_SECONDS: u64 = 60;

/// Text in the TOML parser's messages before the list of what the parser expected.
const EXPECTED_MARK: &str = ", expected ";

/// SHA-256 of a token.
pub(super) type Digest = [u8; digest::SHA256_OUTPUT_LEN];

/// Format of the access file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct AccessFile {
    /// Callers that prove nothing. Without this table they are refused.
    pub(super) anonymous: AnonymousTable,
    /// Static tokens.
    pub(super) token: Vec<TokenTable>,
    /// Issuers of signed tokens: GitLab, Kubernetes.
    pub(super) issuer: Vec<IssuerTable>,
    /// Client certificates.
    pub(super) certificate: Vec<CertificateTable>,
}

/// Permissions of anonymous callers.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AnonymousTable {
    /// What every caller may do who proves nothing.
    /// Value: list of `agent`, `caller`, `reader`, `hook`, `operator`.
    pub(super) roles: Vec<Role>,
    /// How much all of them together may do.
    #[serde(default)]
    pub(super) bounds: BoundsTable,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TokenTable {
    /// Name of the caller in logs and answers. Never the token itself.
    pub(super) name: String,
    /// SHA-256 of the token (`printf %s TOKEN | sha256sum`), once in the file.
    /// Value: 64 hexadecimal digits.
    pub(super) sha256: String,
    /// What the caller may do.
    /// Value: list of `agent`, `caller`, `reader`, `hook`, `operator`.
    pub(super) roles: Vec<Role>,
    /// Projects that the caller may write to, ask for and see.
    /// Value: list of `group/project` and `group/*`; not empty.
    /// Default: every project.
    pub(super) projects: Option<Vec<String>>,
    /// What the caller delivers may lower other predictions, and its verdicts are kept.
    #[serde(default)]
    pub(super) trusted: bool,
    /// Limits of what the caller uses, such as calls at once and open attempts.
    #[serde(default)]
    pub(super) bounds: BoundsTable,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct IssuerTable {
    /// The claim `iss` of its tokens, once in the file. Its keys are fetched from there.
    /// Value: text, not empty; an address with `https://` where the keys are fetched from it.
    pub(super) issuer: String,
    /// What signs.
    /// Value: `gitlab` or `github` (ID tokens of jobs; `github` also of Forgejo), or `kubernetes` (tokens of service
    /// accounts).
    pub(super) kind: IssuerKind,
    /// The claim `aud` of its tokens.
    /// Value: text, not empty.
    pub(super) audience: String,
    /// File with the issuer's JSON Web Key Set. It is read again when it changes.
    /// Value: path.
    /// Default: the keys are fetched.
    pub(super) keys_file: Option<PathBuf>,
    /// Address of the key set. Not with `keys_file`.
    /// Value: address with `https://`.
    /// Default: what the issuer's description says.
    pub(super) keys_url: Option<String>,
    /// PEM file of the CA that signs the issuer's certificate, in addition to those that the system trusts. Not with
    /// `keys_file`.
    /// Value: path.
    /// Default: none.
    pub(super) ca_file: Option<PathBuf>,
    /// File with a token that the issuer wants to see. Not with `keys_file`.
    /// Value: path.
    /// Default: none.
    pub(super) bearer_file: Option<PathBuf>,
    /// Algorithms of its signatures.
    /// Value: list of `RS256`, `RS384`, `RS512`, `PS256`, `PS384`, `PS512`, `ES256`, `ES384`, `EdDSA`; not empty.
    /// Default: `RS256`, `ES256`.
    #[serde(default = "usual_algorithms")]
    pub(super) algorithms: Vec<Algorithm>,
    /// What its tokens may do. The first grant with matching claims counts.
    /// Value: at least 1 table.
    pub(super) grant: Vec<GrantTable>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GrantTable {
    /// Claims that the token must have, each with its text, or with its beginning and `*`. Claims of a service
    /// account are named by their path. With `kind = "github"` they must name an owner or repository.
    /// Value: table of texts.
    /// Default: every token.
    #[serde(default)]
    claims: BTreeMap<String, String>,
    /// What the caller may do.
    /// Value: list of `agent`, `caller`, `reader`, `hook`, `operator`.
    roles: Vec<Role>,
    /// Projects that the caller may write to, ask for and see. With `kind = "kubernetes"` the roles `agent` and
    /// `caller` need it.
    /// Value: list of `group/project` and `group/*`; not empty.
    /// Default: the project that the token names, or every project.
    projects: Option<Vec<String>>,
    /// What the caller delivers may lower other predictions, and its verdicts are kept.
    #[serde(default)]
    trusted: bool,
    /// Limits of what the caller uses, such as calls at once and open attempts.
    #[serde(default)]
    bounds: BoundsTable,
}

impl GrantTable {
    /// Checks that the patterns for claims and projects can match anything, and not the jobs of all.
    fn can_match(&self, kind: IssuerKind) -> Result<(), String> {
        kind.names_owner(&self.claims)?;
        can_match("claims", self.claims.values())?;
        can_match("projects", self.projects.iter().flatten())
    }

    /// Whether the grant lets a caller write to or ask for any project that the caller names.
    fn is_for_all_projects(&self) -> bool {
        let says_project = |role: &Role| matches!(role, Role::Agent | Role::Caller);
        self.projects.is_none() && self.roles.iter().any(says_project)
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CertificateTable {
    /// A DNS name that the certificate is for, once in the file.
    pub(super) dns_name: String,
    /// What the caller may do.
    /// Value: list of `agent`, `caller`, `reader`, `hook`, `operator`.
    pub(super) roles: Vec<Role>,
    /// Projects that the caller may write to, ask for and see.
    /// Value: list of `group/project` and `group/*`; not empty.
    /// Default: every project.
    pub(super) projects: Option<Vec<String>>,
    /// What the caller delivers may lower other predictions, and its verdicts are kept.
    #[serde(default)]
    pub(super) trusted: bool,
    /// Limits of what the caller uses, such as calls at once and open attempts.
    #[serde(default)]
    pub(super) bounds: BoundsTable,
}

fn usual_algorithms() -> Vec<Algorithm> {
    vec![Algorithm::RS256, Algorithm::ES256]
}

/// The parser's message without text from the file, because a secret may have been written anywhere
/// in it. Kept are the list of what the parser expected and the name of a missing field: they are
/// not text from the file.
fn without_words(message: &str) -> String {
    if message.starts_with("missing field `") {
        return message.to_owned();
    }
    // the last occurrence: the file's text may contain the same words
    let (mistake, expected) = message.rsplit_once(EXPECTED_MARK).unwrap_or((message, ""));
    let kind = mistake.split(['`', '"', '\'']).next().unwrap_or_default().trim_end();
    let kind = if kind == "invalid type: string" { "invalid type: a text" } else { kind };
    if expected.is_empty() { kind.to_owned() } else { format!("{kind}{EXPECTED_MARK}{expected}") }
}

impl AccessFile {
    /// Parses a file.
    /// Errors: the text is not TOML, or has an unknown field. The error names the line but does not quote it, because it may contain a
    /// token.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|error: toml::de::Error| {
            let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
            format!("line {}: {}", before.matches('\n').count() + 1, without_words(error.message()))
        })
    }

    /// A summary of the callers in the file, for log and output.
    pub(crate) fn in_words(&self) -> String {
        let anonymous = self.anonymous.roles.iter().copied().collect::<Roles>();
        let grants = self.issuer.iter().flat_map(|issuer| &issuer.grant).flat_map(|grant| &grant.roles);
        let proven = self.token.iter().flat_map(|token| &token.roles).chain(grants);
        let proven = proven.chain(self.certificate.iter().flat_map(|certificate| &certificate.roles));
        let count = |callers: usize, what: &str| counted(u64::try_from(callers).unwrap_or(u64::MAX), what);
        let words = |roles: Roles| {
            let words = roles.words().replace(" or ", ", ");
            if words.is_empty() { "nothing".to_owned() } else { words }
        };
        format!(
            "{}, {}, {} with the roles {}; callers without a proof: {}",
            count(self.token.len(), "token"),
            count(self.issuer.len(), "issuer"),
            count(self.certificate.len(), "certificate"),
            words(proven.copied().collect()),
            words(anonymous)
        )
    }

    /// The files that the access file names.
    pub(crate) fn files(&self) -> impl Iterator<Item = &PathBuf> {
        self.issuer.iter().filter_map(|issuer| issuer.keys_file.as_ref())
    }
}

/// What [`Access::new`](super::Access::new) needs besides the parsed file.
#[derive(Clone, Copy)]
pub(crate) struct Sources<'a> {
    /// Reads a file and returns its text.
    pub(crate) read: &'a dyn Fn(&PathBuf) -> Result<String, String>,
    /// Use of bounds so far, by caller; it is kept when the file is reloaded.
    pub(crate) usages: &'a Usages,
    /// Time at which the file is loaded.
    pub(crate) moment: Instant,
    /// Returns the keys fetched from an origin, shared with the task that fetches them.
    pub(crate) fetched: &'a dyn Fn(KeySetSource) -> Arc<FetchedKeys>,
}

impl IssuerTable {
    pub(super) fn into_issuer(self, sources: Sources<'_>) -> Result<Issuer, String> {
        if self.issuer.is_empty() || self.audience.is_empty() {
            return Err("issuer and audience must not be empty".to_owned());
        }
        let secret = |algorithm: &Algorithm| {
            matches!(algorithm, Algorithm::HS256 | Algorithm::HS384 | Algorithm::HS512)
        };
        if self.algorithms.is_empty() || self.algorithms.iter().any(secret) {
            return Err(
                "algorithms must be some of RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, EdDSA"
                    .into(),
            );
        }
        if self.grant.is_empty() {
            return Err("has no grant: it would let no caller in".to_owned());
        }
        if self.kind == IssuerKind::Kubernetes && self.grant.iter().any(GrantTable::is_for_all_projects) {
            return Err(
                "a grant with the role agent or caller needs projects, because such a token names none: \
                        projects = [\"group/*\"], or [\"*\"] for every project"
                    .to_owned(),
            );
        }
        for (number, table) in (1..).zip(&self.grant) {
            table.can_match(self.kind).map_err(|why| format!("grant {number}: {why}"))?;
        }
        let keys = self.keys(sources)?;
        let Self { issuer, kind, audience, algorithms, grant, .. } = self;
        let grants = grant.into_iter().map(|table| {
            Ok(Grant {
                claims: table.claims,
                roles: table.roles.into_iter().collect(),
                projects: named_projects(table.projects)?.into(),
                trusted: table.trusted,
                bounds: table.bounds,
            })
        });
        let grants = grants.collect::<Result<_, String>>()?;
        Ok(Issuer { name: issuer, kind, audience, algorithms, leeway: CLOCK_TOLERANCE_SECONDS, grants, keys })
    }

    fn keys(&self, sources: Sources<'_>) -> Result<IssuerKeys, String> {
        let Self { issuer, keys_file, keys_url, ca_file, bearer_file, .. } = self;
        let Some(file) = keys_file else {
            match keys_url {
                Some(url) => safe_address(url).map_err(|why| format!("keys_url: {why}"))?,
                None => safe_address(issuer).map_err(|why| {
                    format!("its keys cannot be fetched: {why}; give keys_url or keys_file")
                })?,
            }
            return Ok(IssuerKeys::Fetched((sources.fetched)(KeySetSource {
                issuer: issuer.clone(),
                keys_url: keys_url.clone(),
                ca_file: ca_file.clone(),
                bearer_file: bearer_file.clone(),
            })));
        };
        if keys_url.is_some() || ca_file.is_some() || bearer_file.is_some() {
            return Err(
                "has keys_file: keys_url, ca_file and bearer_file are for keys that are fetched".into()
            );
        }
        let keys = KeySet::parse(&(sources.read)(file).map_err(|why| format!("keys_file {why}"))?);
        keys.map(IssuerKeys::Fixed).map_err(|why| format!("keys_file {why}"))
    }
}

/// The projects in a table; empty if the field is missing, which means all projects.
/// Errors: the list is empty: it would mean all projects, which is probably not intended.
pub(super) fn named_projects(projects: Option<Vec<String>>) -> Result<Vec<String>, String> {
    match projects {
        Some(projects) if projects.is_empty() => {
            Err("projects is empty: name some, or leave it out for every project".to_owned())
        }
        projects => Ok(projects.unwrap_or_default()),
    }
}

/// The SHA-256 of a token, in hexadecimal as in the access file.
pub(crate) fn hash(token: &str) -> String {
    let sum = digest::digest(&digest::SHA256, token.as_bytes());
    let digits = sum.as_ref().iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.filter_map(|digit| char::from_digit(digit.into(), 16)).collect()
}

pub(super) fn parse_digest(text: &str) -> Option<Digest> {
    let mut digest = Digest::default();
    if text.len() != 2 * digest.len() || !text.is_ascii() {
        return None;
    }
    for (byte, pair) in digest.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn access_file_errors_name_lines_and_hide_tokens() {
        const TOKEN: &str = "[[token]]\nname = \"x\"\nsha256 = \"x\"\nroles = []\n";
        let after_token = |line: &str| format!("{TOKEN}{line}");
        let issuer = |line: &str| format!("[[issuer]]\nissuer = \"x\"\naudience = \"x\"\n{line}\n");
        for (text, mistake) in [
            (
                after_token("secret = \"s3cr3t\""),
                "line 5: unknown field, expected one of `name`, `sha256`, `roles`",
            ),
            (after_token("s3cr3t = 1"), "line 5: unknown field, expected one of `name`"),
            (after_token("\"s3cr3t, expected cr3t\" = 1"), "line 5: unknown field, expected one of `name`"),
            (after_token("bounds = { s3cr3t = 1 }"), "line 5: unknown field, expected one of `streams`"),
            (after_token("bounds = { streams = \"s3cr3t\" }"), "line 5: invalid type: a text, expected u32"),
            (after_token("trusted = \"s3cr3t\""), "line 5: invalid type: a text, expected a boolean"),
            (after_token("roles = [\"s3cr3t\"]"), "line 5: duplicate key"),
            ("s3cr3t = 1".into(), "line 1: unknown field, expected one of `anonymous`, `token`"),
            ("[s3cr3t]\nname = 1".into(), "line 1: unknown field"),
            ("[[s3cr3t]]".into(), "line 1: unknown field"),
            ("\n\n[token.s3cr3t]".into(), "invalid type: map, expected a sequence"),
            ("anonymous = { roles = [], s3cr3t = 1 }".into(), "unknown field, expected `roles` or `bounds`"),
            ("anonymous = { roles = [\"s3cr3t\"] }".into(), "line 1: unknown variant, expected one of `"),
            ("anonymous = \"s3cr3t\"".into(), "line 1: invalid type: a text, expected struct AnonymousTable"),
            ("[anonymous]".into(), "missing field `roles`"),
            (issuer("kind = \"s3cr3t\""), "line 4: unknown variant, expected one of `gitlab`"),
            (issuer("algorithms = [\"s3cr3t\"]"), "line 4: unknown variant, expected one of `"),
            (issuer("[[issuer.grant]]\ns3cr3t = []"), "line 5: unknown field, expected one of `claims`"),
            (issuer("[issuer.s3cr3t]"), "line 4: unknown field"),
            ("token = \"s3cr3t\"".into(), "line 1: invalid type: a text, expected a sequence"),
            ("token = \"s3\\\", expected cr3t\"".into(), "line 1: invalid type: a text, expected a sequence"),
            ("[[token]]\nsha256 = s3cr3t".into(), "line 2: "),
            ("[[token]]\nsha256 = \"s3cr3t".into(), "line 2: "),
            ("s3cr3t".into(), "line 1: "),
            ("s3cr3t s3cr3t = 1".into(), "line 1: "),
        ] {
            let text = text.as_str();
            let wrong = AccessFile::parse(text).unwrap_err();
            assert!(wrong.contains(mistake) && !wrong.contains("cr3t"), "{text}: {wrong}");
        }
    }
}
