//! Who calls. While a long call lasts, its caller is checked again: the call ends when the token
//! expires, or when the caller's access changes.

use std::{
    ops::Deref,
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

/// Who calls: the identity, which says what the caller may do and see, and the admission that it rests on. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    identity: Arc<Identity>,
    /// `None` if nothing is known that could end: then the caller stays admitted, and its bounds are not checked.
    admission: Option<Arc<Admission>>,
}

/// What is needed to check an admitted caller again.
#[derive(Debug)]
struct Admission {
    guard: Guard,
    authorization: Option<HeaderValue>,
    /// DNS names in the caller's client certificate.
    names: Arc<[String]>,
    roles: Roles,
    /// Version of the access rules at the last check of this caller.
    rules_version: AtomicU64,
}

impl Deref for Caller {
    type Target = Arc<Identity>;

    fn deref(&self) -> &Arc<Identity> {
        &self.identity
    }
}

impl From<Arc<Identity>> for Caller {
    /// A caller that stays admitted, and whose bounds are not checked.
    fn from(identity: Arc<Identity>) -> Self {
        Self { identity, admission: None }
    }
}

impl Caller {
    /// Admits a caller: see [`Guard::check`].
    /// Errors: the caller is unknown, or lacks the role.
    pub(crate) fn admit(
        guard: &Guard,
        authorization: Option<&HeaderValue>,
        names: Arc<[String]>,
        roles: impl Into<Roles>,
        what: &str,
    ) -> Result<Self, Denied> {
        let rules_version = AtomicU64::new(guard.generation());
        let roles = roles.into();
        let identity = guard.check(as_text(authorization), &names, roles, what)?;
        let (guard, authorization) = (guard.clone(), authorization.cloned());
        let admission = Admission { guard, authorization, names, roles, rules_version };
        Ok(Self { identity, admission: Some(Arc::new(admission)) })
    }

    /// Whether the caller is still admitted; cheap while nothing has changed.
    /// Errors: the token has expired, or the caller's access has changed.
    pub(crate) fn check(&self) -> Result<(), Denied> {
        let Some(admission) = &self.admission else { return Ok(()) };
        let generation = admission.guard.generation();
        let is_due = self.identity.expires.is_some_and(|expires| admission.guard.now() >= expires);
        if is_due || admission.rules_version.swap(generation, Relaxed) != generation {
            admission.check_again(&self.identity)
        } else {
            Ok(())
        }
    }

    /// Runs `asked`, which charges the caller's rate limits. If a limit is exceeded, that is counted
    /// and logged. Returns the default if bounds are not checked.
    pub(crate) fn within<T: Default>(
        &self,
        asked: impl FnOnce(&Identity) -> Result<T, ExceededBound>,
    ) -> Result<T, ExceededBound> {
        let Some(admission) = &self.admission else { return Ok(T::default()) };
        asked(&self.identity).inspect_err(|exceeded| admission.guard.exceeded(&self.identity, exceeded))
    }

    /// Waits until the caller is no longer admitted; returns the reason.
    pub(crate) async fn admission_ended(&self) -> Denied {
        let Some(admission) = &self.admission else { return std::future::pending().await };
        let guard = &admission.guard;
        let mut changes = guard.0.changes.subscribe();
        loop {
            if let Err(denied) = admission.check_again(&self.identity) {
                guard.refused(&denied, guard.now(), "a call that lasted");
                return denied;
            }
            let left = self.identity.expires.map(|expires| expires.saturating_sub(guard.now()));
            // the token library may accept the token a moment longer than `expires`; wait at
            // least a second, so that this loop does not spin
            let left =
                left.map_or(CHECK_INTERVAL, |left| Duration::from_secs(left.max(1)).min(CHECK_INTERVAL));
            select! {
                () = sleep(left) => {}
                // never closed: `guard` holds the sender
                _ = changes.changed() => {}
            }
        }
    }
}

impl Admission {
    /// Identifies the caller again; fails if its identity has changed.
    fn check_again(&self, before: &Identity) -> Result<(), Denied> {
        let now = self.guard.identify(as_text(self.authorization.as_ref()), &self.names, self.roles)?;
        if *now == *before { Ok(()) } else { Err(Denied::Changed) }
    }
}

/// The text of the header; empty, and so never a valid token, if the header is not text.
fn as_text(authorization: Option<&HeaderValue>) -> Option<&str> {
    authorization.map(|header| header.to_str().unwrap_or_default())
}
