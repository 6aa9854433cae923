//! All callers in the access file: static tokens, signed tokens of trusted issuers, and certificates.

use std::{
    borrow::Cow,
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use ring::digest;
use tokio::time::Instant;

use super::{
    Identity, Projects, ProvenClaims, Roles,
    bounds::{Bounds, BoundsTable},
    can_match,
    denied::Denied,
    file::{
        AccessFile, AnonymousTable, CertificateTable, Digest, Sources, TokenTable, named_projects,
        parse_digest,
    },
    jwt::{self, Issuer, VerifiedToken},
    ring_verifier,
    usage::Usages,
};

/// Most verified tokens in the cache. Verifying a token takes some tens of microseconds; a Predict
/// takes about ten.
const MAX_CACHED_TOKENS: usize = 10_000;

/// The token in an `authorization` header: scheme Bearer, or the password of scheme Basic, which browsers and many scrapers can send.
/// Errors: the header has another scheme, or no readable token.
pub(crate) fn bearer(header: &str) -> Result<Cow<'_, str>, Denied> {
    let (scheme, rest) = header.split_once(' ').unwrap_or((header, ""));
    let is_there = |token: &Cow<'_, str>| !token.is_empty();
    let nothing = Denied::NotAccepted("is empty");
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(Cow::Borrowed(rest.trim())).filter(is_there).ok_or(nothing);
    }
    let basic = scheme.eq_ignore_ascii_case("basic").then(|| BASE64_STANDARD.decode(rest.trim()).ok());
    let basic = basic.flatten().and_then(|decoded| String::from_utf8(decoded).ok());
    let token = basic.as_deref().and_then(|pair| pair.split_once(':')).map(|(_name, token)| token.to_owned());
    let token =
        token.map(Cow::Owned).ok_or(Denied::NotAccepted("must come as authorization: Bearer TOKEN"))?;
    Some(token).filter(is_there).ok_or(nothing)
}

/// Callers and their permissions.
pub(crate) struct Access {
    /// The anonymous caller; `None` if anonymous callers are refused.
    anonymous: Option<Arc<Identity>>,
    usages: Usages,
    identity_by_token: HashMap<Digest, Arc<Identity>>,
    issuers: Vec<Issuer>,
    identity_by_dns_name: HashMap<String, Arc<Identity>>,
    checked_tokens: Mutex<CheckedTokens>,
}

/// Cache of verified tokens: by the digest of the token, the identity and the time until which it
/// holds. That is the expiry of the token, or earlier if its key ends before.
#[derive(Default)]
struct CheckedTokens {
    checked: HashMap<Digest, (Arc<Identity>, u64)>,
    /// Number of times the cache was cleared. A result is cached only if this has not changed since
    /// its check began.
    times_cleared: u64,
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (tokens, issuers) = (self.identity_by_token.len(), self.issuers.len());
        write!(
            f,
            "Access({tokens} tokens, {issuers} issuers, {} certificates)",
            self.identity_by_dns_name.len()
        )
    }
}

impl Access {
    /// Builds the access rules from the parsed file.
    /// Errors: the file has mistakes: all of them, one a line, each with the number of its table. The text quotes nothing from the file.
    pub(crate) fn new(file: AccessFile, sources: Sources<'_>) -> Result<Self, String> {
        ring_verifier::install();
        let mut wrong = Vec::new();
        let usages = sources.usages.clone();
        let AnonymousTable { roles, bounds } = file.anonymous;
        let roles: Roles = roles.into_iter().collect();
        let anonymous = DeclaredCaller {
            name: "anonymous".into(),
            roles,
            bounds,
            is_anonymous: true,
            ..DeclaredCaller::default()
        };
        let mut access = Self {
            anonymous: (roles != Roles::default()).then(|| anonymous.into_identity(&usages, sources.moment)),
            usages,
            identity_by_token: HashMap::new(),
            issuers: Vec::new(),
            identity_by_dns_name: HashMap::new(),
            checked_tokens: Mutex::default(),
        };
        // tables are named by number: a secret may have been written in place of the name
        for (number, token) in (1..).zip(file.token) {
            if let Err(why) = access.add_token(token, sources.moment) {
                wrong.push(format!("[[token]] {number}: {why}"));
            }
        }
        for (number, issuer) in (1..).zip(file.issuer) {
            match issuer.into_issuer(sources) {
                Ok(issuer) if access.issuers.iter().any(|known| known.name == issuer.name) => {
                    wrong.push(format!("[[issuer]] {number}: is there twice; put its grants together"));
                }
                Ok(issuer) if access.issuers.iter().any(|known| issuer.has_jobs_of(known)) => wrong.push(format!(
                    "[[issuer]] {number}: is on the same host as another one of its kind, so that jobs of both would have \
                     the same ids; give one of the two another name"
                )),
                Ok(issuer) => access.issuers.push(issuer),
                Err(why) => wrong.push(format!("[[issuer]] {number}: {why}")),
            }
        }
        for (number, table) in (1..).zip(file.certificate) {
            let CertificateTable { dns_name, roles, projects, trusted, bounds } = table;
            let projects = named_projects(projects).unwrap_or_else(|why| {
                wrong.push(format!("[[certificate]] {number}: {why}"));
                Vec::new()
            });
            if let Err(why) = can_match("projects", &projects) {
                wrong.push(format!("[[certificate]] {number}: {why}"));
            }
            let (name, roles) = (dns_name.as_str().into(), roles.into_iter().collect());
            let stated = DeclaredCaller { name, roles, projects, trusted, bounds, is_anonymous: false };
            let identity = stated.into_identity(&access.usages, sources.moment);
            if access.identity_by_dns_name.insert(dns_name, identity).is_some() {
                wrong.push(format!("[[certificate]] {number}: is there twice"));
            }
        }
        if wrong.is_empty() { Ok(access) } else { Err(wrong.join("\n")) }
    }

    fn add_token(&mut self, token: TokenTable, moment: Instant) -> Result<(), String> {
        let digest = parse_digest(&token.sha256)
            .ok_or("sha256 must be 64 hexadecimal digits: printf %s TOKEN | sha256sum")?;
        if digest == sha256_of(b"") {
            return Err("sha256 is that of an empty token: the variable that held it was not set".to_owned());
        }
        let projects = named_projects(token.projects)?;
        let TokenTable { name, roles, trusted, bounds, .. } = token;
        if sha256_of(name.as_bytes()) == digest {
            return Err("name is the token itself, and is shown; give it another name".to_owned());
        }
        can_match("projects", &projects)?;
        let (name, roles) = (name.into(), roles.into_iter().collect());
        let stated = DeclaredCaller { name, roles, projects, trusted, bounds, is_anonymous: false };
        let identity = stated.into_identity(&self.usages, moment);
        match self.identity_by_token.insert(digest, identity) {
            Some(_other) => Err("sha256 is that of another one above, too".to_owned()),
            None => Ok(()),
        }
    }

    /// Identifies a caller by its token, or by the names in its certificate. `now` is in seconds
    /// since 1970, `moment` is the same time on the monotonic clock.
    /// Errors: the caller sends no proof of identity, or the proof is not accepted.
    pub(crate) fn identify(
        &self,
        bearer: Option<&str>,
        certificate: &[String],
        now: u64,
        moment: Instant,
    ) -> Result<Arc<Identity>, Denied> {
        if let Some(token) = bearer {
            return self.identify_token(token, now, moment);
        }
        let known = certificate.iter().find_map(|name| self.identity_by_dns_name.get(name));
        known.or(self.anonymous.as_ref()).cloned().ok_or(Denied::Unidentified)
    }

    /// Number of verified tokens in the cache.
    pub(crate) fn checked_token_count(&self) -> usize {
        self.checked_tokens.lock().unwrap_or_else(PoisonError::into_inner).checked.len()
    }

    fn identify_token(&self, token: &str, now: u64, moment: Instant) -> Result<Arc<Identity>, Denied> {
        if token.len() > jwt::TOKEN_BYTES {
            return Err(Denied::NotAccepted("is longer than 16 KiB"));
        }
        let digest = sha256_of(token.as_bytes());
        if let Some(identity) = self.identity_by_token.get(&digest) {
            return Ok(Arc::clone(identity));
        }
        let mut remembered = self.checked_tokens.lock().unwrap_or_else(PoisonError::into_inner);
        match remembered.checked.get(&digest) {
            Some((identity, until)) if now < *until => return Ok(Arc::clone(identity)),
            Some(_expired) => drop(remembered.checked.remove(&digest)),
            None => {}
        }
        let before = remembered.times_cleared;
        // released first, because verifying a token takes tens of microseconds
        drop(remembered);
        let VerifiedToken { identity, until } = jwt::verify_token(token, &self.issuers, now)?;
        let usage = self.usages.usage_of(&identity.name, moment);
        let identity = Arc::new(Identity { usage, ..identity });
        let mut remembered = self.checked_tokens.lock().unwrap_or_else(PoisonError::into_inner);
        if remembered.checked.len() >= MAX_CACHED_TOKENS {
            remembered.checked.clear();
        }
        if remembered.times_cleared == before {
            remembered.checked.insert(digest, (Arc::clone(&identity), until));
        }
        Ok(identity)
    }

    /// Clears the cache of verified tokens, because the keys have changed.
    pub(crate) fn forget_checked(&self) {
        let mut remembered = self.checked_tokens.lock().unwrap_or_else(PoisonError::into_inner);
        remembered.checked.clear();
        remembered.times_cleared += 1;
    }
}

/// A caller with everything that the file says about it: one with a static token, a certificate, or
/// no proof.
#[derive(Default)]
struct DeclaredCaller {
    name: Arc<str>,
    roles: Roles,
    projects: Vec<String>,
    trusted: bool,
    is_anonymous: bool,
    bounds: BoundsTable,
}

impl DeclaredCaller {
    fn into_identity(self, usages: &Usages, moment: Instant) -> Arc<Identity> {
        let Self { name, roles, projects, trusted, is_anonymous, bounds } = self;
        Arc::new(Identity {
            usage: usages.usage_of(&name, moment),
            name,
            roles,
            projects: Projects::from(projects),
            proven: ProvenClaims::default(),
            trusted,
            is_anonymous,
            is_of_job: false,
            expires: None,
            bounds: Some(bounds.or_default(Bounds::OF_FLEET.for_trust(trusted))),
        })
    }
}

fn sha256_of(bytes: &[u8]) -> Digest {
    let mut sum = Digest::default();
    sum.copy_from_slice(digest::digest(&digest::SHA256, bytes).as_ref());
    sum
}
