//! Checks the caller of a long call while the call lasts: the call ends when the token expires, or
//! when the caller's access changes.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use axum::http::HeaderValue;
use tokio::{select, time::sleep};

use super::Guard;
use crate::access::identity::{Denied, ExceededBound, Identity, Roles};

/// How often a long call is checked even if nothing has changed: a revoked key stays usable for at
/// most this long.
const CHECK_INTERVAL: Duration = Duration::from_mins(10);

/// An admitted caller, with what is needed to check it again.
#[derive(Debug)]
pub(crate) struct Pass {
    guard: Guard,
    authorization: Option<HeaderValue>,
    /// DNS names in the caller's client certificate.
    names: Arc<[String]>,
    roles: Roles,
    identity: Arc<Identity>,
    /// Version of the access rules at the last check of this caller.
    rules_version: AtomicU64,
}

impl Pass {
    /// Admits a caller: see [`Guard::check`].
    /// Errors: the caller is unknown, or lacks the role.
    pub(crate) fn new(
        guard: &Guard,
        authorization: Option<&HeaderValue>,
        names: Arc<[String]>,
        roles: impl Into<Roles>,
        what: &str,
    ) -> Result<Self, Denied> {
        let seen = AtomicU64::new(guard.generation());
        let roles = roles.into();
        let identity = guard.check(as_text(authorization), &names, roles, what)?;
        Ok(Self {
            guard: guard.clone(),
            authorization: authorization.cloned(),
            names,
            roles,
            identity,
            rules_version: seen,
        })
    }

    pub(crate) fn caller(&self) -> &Arc<Identity> {
        &self.identity
    }

    /// Whether the caller is still admitted; cheap while nothing has changed.
    /// Errors: the token has expired, or the caller's access has changed.
    pub(crate) fn check(&self) -> Result<(), Denied> {
        let generation = self.guard.generation();
        let is_due = self.identity.expires.is_some_and(|expires| self.guard.now() >= expires);
        if is_due || self.rules_version.swap(generation, Relaxed) != generation {
            self.check_identity_again()
        } else {
            Ok(())
        }
    }

    /// Runs `asked`, which charges the caller's rate limits. If a limit is exceeded, that is counted
    /// and logged.
    pub(crate) fn within<T>(
        &self,
        asked: impl FnOnce(&Identity) -> Result<T, ExceededBound>,
    ) -> Result<T, ExceededBound> {
        asked(&self.identity).inspect_err(|exceeded| self.guard.exceeded(&self.identity, exceeded))
    }

    /// Waits until the caller is no longer admitted; returns the reason.
    pub(crate) async fn admission_ended(&self) -> Denied {
        let mut changes = self.guard.0.changes.subscribe();
        loop {
            if let Err(denied) = self.check_identity_again() {
                self.guard.refused(&denied, self.guard.now(), "a call that lasted");
                return denied;
            }
            let left = self.identity.expires.map(|expires| expires.saturating_sub(self.guard.now()));
            // the token library may accept the token a moment longer than `expires`; wait at
            // least a second, so that this loop does not spin
            let left =
                left.map_or(CHECK_INTERVAL, |left| Duration::from_secs(left.max(1)).min(CHECK_INTERVAL));
            select! {
                () = sleep(left) => {}
                // never closed: `self.guard` holds the sender
                _ = changes.changed() => {}
            }
        }
    }

    /// Identifies the caller again; fails if its identity has changed.
    fn check_identity_again(&self) -> Result<(), Denied> {
        let now = self.guard.identify(as_text(self.authorization.as_ref()), &self.names, self.roles)?;
        if *now == *self.identity { Ok(()) } else { Err(Denied::Changed) }
    }
}

/// An admitted caller; its bounds are checked through this type.
#[derive(Debug, Clone)]
pub(crate) struct AdmittedCaller {
    identity: Arc<Identity>,
    /// The proof that admitted the caller; `None` if callers need no identity: then they have no
    /// bounds either.
    pass: Option<Arc<Pass>>,
}

impl AdmittedCaller {
    pub(crate) fn new(identity: Arc<Identity>, pass: Option<Arc<Pass>>) -> Self {
        Self { identity, pass }
    }

    pub(crate) fn identity(&self) -> &Arc<Identity> {
        &self.identity
    }

    /// Runs `asked`, which charges the caller's rate limits. Returns the default if the caller has
    /// no limits.
    pub(crate) fn within<T: Default>(
        &self,
        asked: impl FnOnce(&Identity) -> Result<T, ExceededBound>,
    ) -> Result<T, ExceededBound> {
        self.pass.as_ref().map_or_else(|| Ok(T::default()), |pass| pass.within(asked))
    }
}

/// The text of the header; empty, and so never a valid token, if the header is not text.
fn as_text(authorization: Option<&HeaderValue>) -> Option<&str> {
    authorization.map(|header| header.to_str().unwrap_or_default())
}
