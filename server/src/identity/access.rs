//! Everybody who may call, as one file says: static tokens, those whose signature is believed, and certificates.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
    fmt,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use jsonwebtoken::Algorithm;
use ring::digest;
use serde::Deserialize;

use super::{
    Identity, Projects, Proven, Role, Roles,
    claims::{Grant, Kind},
    jwt::{self, Issuer},
    keys::KeySet,
    ring_verifier,
};

/// Signed tokens whose check is remembered, at most: a check takes some tens of microseconds, a Predict ten.
const REMEMBERED: usize = 10_000;
/// Seconds by which the clocks of two machines may differ.
const LEEWAY: u64 = 60;

type Digest = [u8; digest::SHA256_OUTPUT_LEN];

/// Why a caller gets no answer. The text is for the caller: it helps the honest and tells an attacker nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Denied {
    /// Nothing says who calls.
    #[error("nothing says who calls: send a token (authorization: Bearer ...) or a client certificate")]
    Nobody,
    /// What says who calls is not believed.
    #[error("the token {0}")]
    NotAccepted(&'static str),
    /// It is believed, and nothing is granted to it.
    #[error("the token is good, but nothing is granted to its claims")]
    NoGrant,
    /// It may do other things.
    #[error("{name} has not the role {}", role.as_str())]
    NotAllowed { name: Arc<str>, role: Role },
}

impl Denied {
    /// Its name in metrics.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Nobody => "nobody",
            Self::NotAccepted(_) => "not_accepted",
            Self::NoGrant => "no_grant",
            Self::NotAllowed { .. } => "not_allowed",
        }
    }
}

/// The token in a header `authorization`: of the scheme Bearer, or the password of the scheme Basic, which browsers and many
/// scrapers can send.
///
/// # Errors
/// It is of another scheme, or no token can be read from it.
pub(crate) fn bearer(header: &str) -> Result<Cow<'_, str>, Denied> {
    let (scheme, rest) = header.split_once(' ').unwrap_or((header, ""));
    if scheme.eq_ignore_ascii_case("bearer") {
        return Ok(Cow::Borrowed(rest.trim()));
    }
    let basic = scheme.eq_ignore_ascii_case("basic").then(|| BASE64_STANDARD.decode(rest.trim()).ok());
    let basic = basic.flatten().and_then(|decoded| String::from_utf8(decoded).ok());
    let token = basic.as_deref().and_then(|pair| pair.split_once(':')).map(|(_name, token)| token.to_owned());
    token.map(Cow::Owned).ok_or(Denied::NotAccepted("must come as authorization: Bearer TOKEN"))
}

/// The file of access, as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct AccessFile {
    anonymous: AnonymousTable,
    token: Vec<TokenTable>,
    issuer: Vec<IssuerTable>,
    certificate: Vec<CertificateTable>,
}

/// What callers may do of whom nothing is known.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct AnonymousTable {
    roles: Vec<Role>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenTable {
    name: String,
    /// SHA-256 of the token, in hexadecimal digits.
    sha256: String,
    roles: Vec<Role>,
    #[serde(default)]
    projects: Vec<String>,
    #[serde(default)]
    trusted: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct IssuerTable {
    issuer: String,
    kind: Kind,
    audience: String,
    /// File with the issuer's JSON Web Key Set.
    keys_file: PathBuf,
    #[serde(default = "usual_algorithms")]
    algorithms: Vec<Algorithm>,
    grant: Vec<GrantTable>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct GrantTable {
    #[serde(default)]
    claims: BTreeMap<String, String>,
    roles: Vec<Role>,
    #[serde(default)]
    projects: Vec<String>,
    #[serde(default)]
    trusted: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CertificateTable {
    /// A DNS name that the certificate is for.
    dns_name: String,
    roles: Vec<Role>,
    #[serde(default)]
    projects: Vec<String>,
    #[serde(default)]
    trusted: bool,
}

fn usual_algorithms() -> Vec<Algorithm> {
    vec![Algorithm::RS256, Algorithm::ES256]
}

/// Who may do what.
pub(crate) struct Access {
    anonymous: Roles,
    tokens: HashMap<Digest, Arc<Identity>>,
    issuers: Vec<Issuer>,
    certificates: HashMap<String, Arc<Identity>>,
    remembered: Mutex<HashMap<Digest, (Arc<Identity>, u64)>>,
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (tokens, issuers) = (self.tokens.len(), self.issuers.len());
        write!(f, "Access({tokens} tokens, {issuers} issuers, {} certificates)", self.certificates.len())
    }
}

impl AccessFile {
    /// Reads the text of a file.
    ///
    /// # Errors
    /// With the line: it is no TOML, or has a word that is not known.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|error| error.to_string())
    }

    /// All files that it names.
    pub(crate) fn files(&self) -> impl Iterator<Item = &PathBuf> {
        self.issuer.iter().map(|issuer| &issuer.keys_file)
    }
}

impl Access {
    /// What a file says. `read` gives the text of a file that it names.
    ///
    /// # Errors
    /// All that is wrong in it, one line each: what is half right is not used.
    pub(crate) fn new(
        file: AccessFile,
        read: impl Fn(&PathBuf) -> Result<String, String>,
    ) -> Result<Self, String> {
        ring_verifier::install();
        let mut wrong = Vec::new();
        let mut access = Self {
            anonymous: file.anonymous.roles.into_iter().collect(),
            tokens: HashMap::new(),
            issuers: Vec::new(),
            certificates: HashMap::new(),
            remembered: Mutex::default(),
        };
        for token in file.token {
            let name = token.name.clone();
            if let Err(why) = access.add_token(token) {
                wrong.push(format!("token {name:?}: {why}"));
            }
        }
        for issuer in file.issuer {
            let name = issuer.issuer.clone();
            match issuer.checked(&read) {
                Ok(issuer) if access.issuers.iter().any(|known| known.name == issuer.name) => {
                    wrong.push(format!("issuer {name:?}: is there twice; put its grants together"));
                }
                Ok(issuer) => access.issuers.push(issuer),
                Err(why) => wrong.push(format!("issuer {name:?}: {why}")),
            }
        }
        for table in file.certificate {
            let CertificateTable { dns_name, roles, projects, trusted } = table;
            let identity = stated(&dns_name, roles.into_iter().collect(), projects, trusted);
            if access.certificates.insert(dns_name.clone(), identity).is_some() {
                wrong.push(format!("certificate {dns_name:?}: is there twice"));
            }
        }
        if wrong.is_empty() { Ok(access) } else { Err(wrong.join("\n")) }
    }

    fn add_token(&mut self, token: TokenTable) -> Result<(), String> {
        let digest = hexadecimal(&token.sha256)
            .ok_or("sha256 must be 64 hexadecimal digits: printf %s TOKEN | sha256sum")?;
        let identity = stated(&token.name, token.roles.into_iter().collect(), token.projects, token.trusted);
        match self.tokens.insert(digest, identity) {
            Some(other) => Err(format!("is the token of {:?} too", other.name)),
            None => Ok(()),
        }
    }

    /// Who calls with this token, or with a certificate for these names. `now` is in seconds since 1970.
    ///
    /// # Errors
    /// Nothing says who, or it is not believed.
    pub(crate) fn identify(
        &self,
        bearer: Option<&str>,
        certificate: &[String],
        now: u64,
    ) -> Result<Arc<Identity>, Denied> {
        if let Some(token) = bearer {
            return self.of_token(token, now);
        }
        let known = certificate.iter().find_map(|name| self.certificates.get(name));
        match known {
            Some(identity) => Ok(Arc::clone(identity)),
            None if self.anonymous == Roles::default() => Err(Denied::Nobody),
            None => Ok(stated("anonymous", self.anonymous, Vec::new(), false)),
        }
    }

    /// Signed tokens whose check is remembered.
    #[cfg(test)]
    pub(super) fn remembered(&self) -> usize {
        self.remembered.lock().unwrap().len()
    }

    fn of_token(&self, token: &str, now: u64) -> Result<Arc<Identity>, Denied> {
        if token.len() > jwt::TOKEN_BYTES {
            return Err(Denied::NotAccepted("is longer than 16 KiB"));
        }
        let digest = sha256(token.as_bytes());
        if let Some(identity) = self.tokens.get(&digest) {
            return Ok(Arc::clone(identity));
        }
        let mut remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        match remembered.get(&digest) {
            Some((identity, until)) if now < *until => return Ok(Arc::clone(identity)),
            Some(_expired) => drop(remembered.remove(&digest)),
            None => {}
        }
        // checking takes tens of microseconds: nobody waits for it
        drop(remembered);
        let (identity, until) = jwt::check(token, &self.issuers)?;
        let identity = Arc::new(identity);
        let mut remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        if remembered.len() >= REMEMBERED {
            remembered.clear();
        }
        remembered.insert(digest, (Arc::clone(&identity), until));
        Ok(identity)
    }
}

impl IssuerTable {
    fn checked(self, read: impl Fn(&PathBuf) -> Result<String, String>) -> Result<Issuer, String> {
        let Self { issuer, kind, audience, keys_file, algorithms, grant } = self;
        if issuer.is_empty() || audience.is_empty() {
            return Err("issuer and audience must not be empty".to_owned());
        }
        let secret = |algorithm: &Algorithm| {
            matches!(algorithm, Algorithm::HS256 | Algorithm::HS384 | Algorithm::HS512)
        };
        if algorithms.is_empty() || algorithms.iter().any(secret) {
            return Err(
                "algorithms must be some of RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, EdDSA"
                    .into(),
            );
        }
        if grant.is_empty() {
            return Err("has no grant: nobody would get in by it".to_owned());
        }
        let keys =
            KeySet::parse(&read(&keys_file)?).map_err(|why| format!("{} {why}", keys_file.display()))?;
        let grants = grant.into_iter().map(|table| Grant {
            claims: table.claims,
            roles: table.roles.into_iter().collect(),
            projects: table.projects.into(),
            trusted: table.trusted,
        });
        Ok(Issuer {
            name: issuer,
            kind,
            audience,
            algorithms,
            leeway: LEEWAY,
            grants: grants.collect(),
            keys,
        })
    }
}

/// Somebody of whom the file says all there is.
fn stated(name: &str, roles: Roles, projects: Vec<String>, trusted: bool) -> Arc<Identity> {
    Arc::new(Identity {
        name: name.into(),
        roles,
        projects: Projects::from(projects),
        proven: Proven::default(),
        trusted,
    })
}

fn sha256(bytes: &[u8]) -> Digest {
    let mut sum = Digest::default();
    sum.copy_from_slice(digest::digest(&digest::SHA256, bytes).as_ref());
    sum
}

fn hexadecimal(text: &str) -> Option<Digest> {
    let mut digest = Digest::default();
    if text.len() != 2 * digest.len() || !text.is_ascii() {
        return None;
    }
    for (byte, pair) in digest.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(digest)
}
