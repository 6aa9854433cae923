//! Tokens that an issuer has signed, checked offline.

use std::{sync::Arc, time::Duration};

use jsonwebtoken::{
    Algorithm, DecodingKey, Validation,
    dangerous::insecure_decode,
    errors::{Error, ErrorKind},
};

use super::{
    Identity,
    claims::{Claims, Grant, Kind, host_of},
    denied::Denied,
    fetched::{Fetched, Missing},
    keys::KeySet,
};

/// Bytes of a token, at most. Those of GitLab have about 2 KiB.
pub(super) const TOKEN_BYTES: usize = 16 * 1024;

/// An issuer whose signature is trusted.
#[derive(Debug)]
pub(super) struct Issuer {
    /// As in the claim `iss`.
    pub(super) name: String,
    pub(super) kind: Kind,
    /// What the claim `aud` must be or hold: a token for another server is not accepted.
    pub(super) audience: String,
    pub(super) algorithms: Vec<Algorithm>,
    /// Seconds by which clocks may differ.
    pub(super) leeway: u64,
    /// The first that fits counts.
    pub(super) grants: Vec<Grant>,
    pub(super) keys: Keys,
}

impl Issuer {
    /// Whether the ids of its jobs can be those of the other's: they begin with the host alone, so two servers on one host share them.
    pub(super) fn has_jobs_of(&self, other: &Self) -> bool {
        let both_gitlab = [self.kind, other.kind] == [Kind::Gitlab; 2];
        both_gitlab && host_of(&self.name).eq_ignore_ascii_case(host_of(&other.name))
    }
}

/// The keys of an issuer.
#[derive(Debug)]
pub(super) enum Keys {
    /// From a file.
    Fixed(KeySet),
    /// From the issuer itself.
    Fetched(Arc<Fetched>),
}

impl Keys {
    /// The key with this id, and until when it serves, seconds since 1970.
    fn find(&self, id: Option<&str>, now: u64) -> Result<(DecodingKey, u64), Missing> {
        match self {
            Self::Fixed(keys) => keys.find(id).cloned().map(|key| (key, u64::MAX)).ok_or(Missing::Unknown),
            Self::Fetched(fetched) => fetched.find(id, now),
        }
    }
}

/// Who shows a token that was checked.
#[derive(Debug)]
pub(super) struct Checked {
    pub(super) identity: Identity,
    /// Until when the check need not be done again, seconds since 1970.
    pub(super) until: u64,
}

impl Issuer {
    /// Who shows this token, and until when it is good, seconds since 1970.
    fn check(&self, token: &str, algorithm: Algorithm, key: &DecodingKey) -> Result<(Identity, u64), Denied> {
        if !self.algorithms.contains(&algorithm) {
            return Err(Denied::NotAccepted(NOT_SIGNED));
        }
        // one at a time: the library wants all that it is given to be of the key's family
        let mut validation = Validation::new(algorithm);
        validation.leeway = self.leeway;
        validation.validate_nbf = true;
        validation.set_issuer(&[&self.name]);
        validation.set_audience(&[&self.audience]);
        validation.set_required_spec_claims(&["exp", "iss", "aud"]);
        let claims =
            jsonwebtoken::decode::<Claims>(token, key, &validation).map_err(|error| why(&error))?.claims;
        let expires = claims.get("exp").and_then(seconds).ok_or(Denied::NotAccepted(LACKS))?;
        let grant = self.grants.iter().find(|grant| grant.fits(&claims)).ok_or(Denied::NoGrant)?;
        let identity = grant.identity(self.kind, &self.name, &claims);
        let identity = identity
            .ok_or(Denied::NotAccepted("lacks what says whose it is (project_path and job_id, or sub)"))?;
        // the library takes a token until the last of these seconds is over
        Ok((identity, expires.saturating_add(self.leeway).saturating_add(1)))
    }
}

/// Who shows `token`. `now` is in seconds since 1970.
///
/// # Errors
/// No trusted issuer has signed it, or it is not for here and now, or no grant fits.
pub(super) fn check(token: &str, issuers: &[Issuer], now: u64) -> Result<Checked, Denied> {
    if token.len() > TOKEN_BYTES {
        return Err(Denied::NotAccepted("is longer than 16 KiB"));
    }
    // not believed yet: only to know whose keys to try
    let claimed =
        insecure_decode::<Claims>(token).map_err(|_shape| Denied::NotAccepted("is not known here"))?;
    let named = claimed.claims.get("iss").and_then(serde_json::Value::as_str);
    let issuer = issuers.iter().find(|issuer| Some(issuer.name.as_str()) == named);
    // the answer does not show which issuers and keys are known here
    let issuer = issuer.ok_or(Denied::NotAccepted(NOT_SIGNED))?;
    let (key, serves) =
        issuer.keys.find(claimed.header.kid.as_deref(), now).map_err(|missing| match missing {
            Missing::Unknown => Denied::NotAccepted(NOT_SIGNED),
            Missing::NotNow => Denied::NotNow,
        })?;
    let (identity, expires) = issuer.check(token, claimed.header.alg, &key)?;
    let identity = Identity { expires: Some(expires), ..identity };
    Ok(Checked { identity, until: expires.min(serves) })
}

const NOT_SIGNED: &str = "is not signed by an issuer that is trusted here";
const LACKS: &str = "lacks an expiry, an issuer or an audience";

/// A time as tokens write it: seconds since 1970, perhaps with a fraction (RFC 7519, 2).
fn seconds(claim: &serde_json::Value) -> Option<u64> {
    claim.as_u64().or_else(|| Duration::try_from_secs_f64(claim.as_f64()?).ok().map(|time| time.as_secs()))
}

/// What helps the honest: what they can mend. All else looks the same.
fn why(error: &Error) -> Denied {
    Denied::NotAccepted(match error.kind() {
        ErrorKind::ExpiredSignature => "has expired",
        ErrorKind::ImmatureSignature => "is not valid yet; look at the clocks",
        ErrorKind::InvalidAudience => "is for another audience",
        ErrorKind::MissingRequiredClaim(_) | ErrorKind::InvalidClaimFormat(_) => LACKS,
        _ => NOT_SIGNED,
    })
}
