//! Verifies tokens that an issuer has signed, without a request to the issuer.

use std::{sync::Arc, time::Duration};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD as URL_SAFE_NO_PAD};
use jsonwebtoken::{
    Algorithm, DecodingKey, Validation,
    dangerous::insecure_decode,
    errors::{Error, ErrorKind},
};

use plimsoll_base::ci::github_run;

use super::{
    Identity,
    claims::{Claims, Grant, IssuerKind, host_of},
    denied::Denied,
    fetched::{FetchedKeys, MissingKey},
    keys::KeySet,
};

/// Most bytes of a token. GitLab's tokens have about 2 KiB.
pub(super) const TOKEN_BYTES: usize = 16 * 1024;

/// A trusted issuer.
#[derive(Debug)]
pub(super) struct Issuer {
    /// The issuer's name, as in the claim `iss`.
    pub(super) name: String,
    pub(super) kind: IssuerKind,
    /// Required value of the claim `aud`, so that a token for another server is refused.
    pub(super) audience: String,
    pub(super) algorithms: Vec<Algorithm>,
    /// Seconds by which the clocks of issuer and server may differ.
    pub(super) leeway: u64,
    /// What the issuer's tokens may do. The first grant with matching claims is used.
    pub(super) grants: Vec<Grant>,
    pub(super) keys: IssuerKeys,
}

impl Issuer {
    /// Whether jobs of both issuers may have the same attempt ids: an id starts with the host
    /// without its port, so two GitLab servers on one host share their ids. GitHub's own issuers
    /// share them, too, but no repository.
    pub(super) fn has_jobs_of(&self, other: &Self) -> bool {
        match (self.kind, other.kind) {
            (IssuerKind::Gitlab, IssuerKind::Gitlab) => {
                host_of(&self.name).eq_ignore_ascii_case(host_of(&other.name))
            }
            (IssuerKind::Github, IssuerKind::Github) => {
                let [one, two] = [self, other].map(|issuer| github_run(&issuer.name, "", "", "").0);
                one.ends_with('/') && one.eq_ignore_ascii_case(&two)
            }
            _different => false,
        }
    }
}

#[derive(Debug)]
pub(super) enum IssuerKeys {
    /// Keys from a file.
    Fixed(KeySet),
    /// Keys fetched from the issuer.
    Fetched(Arc<FetchedKeys>),
}

impl IssuerKeys {
    /// The key with this id, and until when it may be used, seconds since 1970.
    fn find(&self, id: Option<&str>, now: u64) -> Result<(DecodingKey, u64), MissingKey> {
        match self {
            Self::Fixed(keys) => keys.find(id).cloned().map(|key| (key, u64::MAX)).ok_or(MissingKey::Unknown),
            Self::Fetched(fetched) => fetched.find(id, now),
        }
    }
}

/// Result of a token's verification.
#[derive(Debug)]
pub(super) struct VerifiedToken {
    pub(super) identity: Identity,
    /// When this result expires, seconds since 1970.
    pub(super) until: u64,
}

impl Issuer {
    /// Verifies a token. Returns the identity and when the token expires, seconds since 1970.
    fn verify(
        &self,
        token: &str,
        algorithm: Algorithm,
        key: &DecodingKey,
    ) -> Result<(Identity, u64), Denied> {
        if !self.algorithms.contains(&algorithm) {
            return Err(Denied::NotAccepted(NOT_SIGNED));
        }
        // only one algorithm: the library requires that all given algorithms fit the key
        let mut validation = Validation::new(algorithm);
        validation.leeway = self.leeway;
        validation.validate_nbf = true;
        validation.set_issuer(&[&self.name]);
        validation.set_audience(&[&self.audience]);
        validation.set_required_spec_claims(&["exp", "iss", "aud"]);
        let claims = jsonwebtoken::decode::<Claims>(token, key, &validation)
            .map_err(|error| refusal_of(&error))?
            .claims;
        let expires = claims.get("exp").and_then(seconds).ok_or(Denied::NotAccepted(LACKS_CLAIMS))?;
        let grant = self.grants.iter().find(|grant| grant.fits(&claims)).ok_or(Denied::NoGrant)?;
        let identity = grant.identity(self.kind, &self.name, &claims);
        let identity = identity.ok_or(Denied::NotAccepted(LACKS_OWNER))?;
        // the library accepts a token until the end of its last second
        Ok((identity, expires.saturating_add(self.leeway).saturating_add(1)))
    }
}

/// Identifies the bearer of `token`. `now` is in seconds since 1970.
/// Errors: no trusted issuer has signed the token, it is not valid for this server or at this time, or no grant matches.
pub(super) fn verify_token(token: &str, issuers: &[Issuer], now: u64) -> Result<VerifiedToken, Denied> {
    if token.len() > TOKEN_BYTES {
        return Err(Denied::NotAccepted("is longer than 16 KiB"));
    }
    if has_further_rules(token) {
        return Err(Denied::NotAccepted("has crit or b64 in its header, which are not supported"));
    }
    // the issuer and the key id are read before verification, only to select the keys
    let claimed =
        insecure_decode::<Claims>(token).map_err(|_shape| Denied::NotAccepted("is not known here"))?;
    let named = claimed.claims.get("iss").and_then(serde_json::Value::as_str);
    let issuer = issuers.iter().find(|issuer| Some(issuer.name.as_str()) == named);
    // the refusal does not reveal which issuers and keys this server knows
    let issuer = issuer.ok_or(Denied::NotAccepted(NOT_SIGNED))?;
    let (key, serves) =
        issuer.keys.find(claimed.header.kid.as_deref(), now).map_err(|missing| match missing {
            MissingKey::Unknown => Denied::NotAccepted(NOT_SIGNED),
            MissingKey::NotNow => Denied::NotNow,
        })?;
    let (identity, expires) = issuer.verify(token, claimed.header.alg, &key)?;
    let identity = Identity { expires: Some(expires), ..identity };
    Ok(VerifiedToken { identity, until: expires.min(serves) })
}

/// Whether a token's header says that it is verified by more rules than its signature's (RFC 7515, section 4.1.11; RFC 7797).
fn has_further_rules(token: &str) -> bool {
    let header = token.split('.').next().and_then(|part| URL_SAFE_NO_PAD.decode(part).ok());
    let header: Option<serde_json::Map<String, serde_json::Value>> =
        header.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    // what is no header is refused as an unknown token
    header.is_some_and(|header| ["crit", "b64"].iter().any(|name| header.contains_key(*name)))
}

const NOT_SIGNED: &str = "is not signed by an issuer that is trusted here";
const LACKS_OWNER: &str =
    "does not name its owner (project_path and job_id; repository, run_id and run_attempt; or sub)";
const LACKS_CLAIMS: &str = "lacks an expiry, an issuer or an audience";

/// A timestamp in a token: seconds since 1970, possibly with a fraction (RFC 7519, section 2).
fn seconds(claim: &serde_json::Value) -> Option<u64> {
    claim.as_u64().or_else(|| Duration::try_from_secs_f64(claim.as_f64()?).ok().map(|time| time.as_secs()))
}

/// The refusal for an error of the library. It has details only if a legitimate caller can fix the
/// cause.
fn refusal_of(error: &Error) -> Denied {
    Denied::NotAccepted(match error.kind() {
        ErrorKind::ExpiredSignature => "has expired",
        ErrorKind::ImmatureSignature => "is not valid yet; look at the clocks",
        ErrorKind::InvalidAudience => "is for another audience",
        ErrorKind::MissingRequiredClaim(_) | ErrorKind::InvalidClaimFormat(_) => LACKS_CLAIMS,
        _ => NOT_SIGNED,
    })
}
