//! What lets a caller in, for calls that last: it ends when its token expires, or when access changes.

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
use crate::access::identity::{Denied, Exceeded, Identity, Roles};

/// How often a call that lasts is looked at, whatever happens: a key that an issuer took back is good for so long.
const LOOK: Duration = Duration::from_mins(10);

/// A caller that was let in.
#[derive(Debug)]
pub(crate) struct Pass {
    guard: Guard,
    authorization: Option<HeaderValue>,
    /// DNS names in the certificate of its connection.
    names: Arc<[String]>,
    roles: Roles,
    identity: Arc<Identity>,
    /// The access that it was checked against last.
    seen: AtomicU64,
}

impl Pass {
    /// The caller, if it may come in: see [`Guard::check`].
    ///
    /// # Errors
    /// It is not known who calls, or the caller may not.
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
        Ok(Self { guard: guard.clone(), authorization: authorization.cloned(), names, roles, identity, seen })
    }

    /// Who it is.
    pub(crate) fn caller(&self) -> &Arc<Identity> {
        &self.identity
    }

    /// Whether the caller may go on; hardly any work while nothing has changed.
    ///
    /// # Errors
    /// The token has expired, or the caller's access has changed.
    pub(crate) fn check(&self) -> Result<(), Denied> {
        let generation = self.guard.generation();
        let is_due = self.identity.expires.is_some_and(|expires| self.guard.now() >= expires);
        if is_due || self.seen.swap(generation, Relaxed) != generation { self.look() } else { Ok(()) }
    }

    /// Asks for something that is bounded; counts it if it is too much.
    ///
    /// # Errors
    /// It is.
    pub(crate) fn within<T>(
        &self,
        asked: impl FnOnce(&Identity) -> Result<T, Exceeded>,
    ) -> Result<T, Exceeded> {
        asked(&self.identity).inspect_err(|exceeded| self.guard.exceeded(&self.identity, exceeded))
    }

    /// Waits until the caller may not go on; says why.
    pub(crate) async fn over(&self) -> Denied {
        let mut changes = self.guard.0.changes.subscribe();
        loop {
            if let Err(denied) = self.look() {
                self.guard.refused(&denied, self.guard.now(), "a call that lasted");
                return denied;
            }
            let left = self.identity.expires.map(|expires| expires.saturating_sub(self.guard.now()));
            // where the library takes it a moment longer, nothing spins for that moment
            let left = left.map_or(LOOK, |left| Duration::from_secs(left.max(1)).min(LOOK));
            select! {
                () = sleep(left) => {}
                // the sender of changes lives as long as this
                _ = changes.changed() => {}
            }
        }
    }

    /// Looks again who calls.
    fn look(&self) -> Result<(), Denied> {
        let now = self.guard.identify(as_text(self.authorization.as_ref()), &self.names, self.roles)?;
        if *now == *self.identity { Ok(()) } else { Err(Denied::Changed) }
    }
}

/// A caller with the proof by which it was let in: what is bounded for each caller is asked of it.
#[derive(Debug, Clone)]
pub(crate) struct AdmittedCaller {
    identity: Arc<Identity>,
    /// `None` where callers need no identity: nothing is bounded there.
    pass: Option<Arc<Pass>>,
}

impl AdmittedCaller {
    pub(crate) fn new(identity: Arc<Identity>, pass: Option<Arc<Pass>>) -> Self {
        Self { identity, pass }
    }

    pub(crate) fn identity(&self) -> &Arc<Identity> {
        &self.identity
    }

    /// Asks for something that is bounded for each caller.
    ///
    /// # Errors
    /// The caller has gone beyond it.
    pub(crate) fn within<T: Default>(
        &self,
        asked: impl FnOnce(&Identity) -> Result<T, Exceeded>,
    ) -> Result<T, Exceeded> {
        self.pass.as_ref().map_or_else(|| Ok(T::default()), |pass| pass.within(asked))
    }
}

/// A header that is no text is no token.
fn as_text(authorization: Option<&HeaderValue>) -> Option<&str> {
    authorization.map(|header| header.to_str().unwrap_or_default())
}
