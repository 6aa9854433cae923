//! Opens tickets. Derives from a request the pool, the limits that apply, the size and the expected
//! time.

use plimsoll_core::{
    domain::{FieldViolation, Fnv, Key, Millis, Prediction, TicketClaim, TicketId},
    mask,
    placement::{BuildKind, KIND_LABEL, Placement, Pool, ResourceNeeds, RuleSubject, tickets::LimitKey},
};

use super::TicketService;
use crate::{
    access::{Refusal, Reply, identity::Identity},
    tickets::View,
};

/// Most bytes of the tags that a ticket keeps for an upstream, so that its record has one part.
const UPSTREAM_TAGS_BYTES: usize = 256;

/// A ticket request with all fields checked.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TicketQuestion {
    pub(crate) key: Key,
    /// Kind of build; `None`: taken from the key's label.
    pub(crate) kind: Option<BuildKind>,
    /// Owner; empty: taken from the key.
    pub(crate) owner: String,
    /// Name of the pool; empty: taken from a prediction.
    pub(crate) pool: String,
    pub(crate) tags: Vec<String>,
}

/// How the pool of a ticket is chosen.
#[derive(Debug, Clone, Copy)]
enum PoolSelection<'a> {
    /// The pool with this name; if the name is empty, the predicted pool.
    Name(&'a str),
    /// A pool that has all these tags.
    Tags(&'a [String]),
}

/// A ticket request of a client of Resalloc.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct TagQuestion {
    pub(crate) tags: Vec<String>,
    /// Builds with the same sandbox may use the same machine one after the other. Copr sends
    /// `OWNER/PROJECT--SUBMITTER`.
    pub(crate) sandbox: String,
}

impl TagQuestion {
    /// The key of the ticket, from the fields of the sandbox: its owner, and its project if the
    /// sandbox names one.
    fn key(&self) -> Key {
        let project = self.sandbox.split_once("--").map_or(&*self.sandbox, |(project, _submitter)| project);
        match project.split_once('/') {
            Some((owner, _)) => {
                Key { owner: owner.to_owned(), project: project.to_owned(), ..Key::default() }
            }
            None => Key { owner: project.to_owned(), ..Key::default() },
        }
    }
}

impl TicketService {
    /// The claim of `caller` for a request of a client of Resalloc.
    /// Errors: A tag is unknown, no pool has all tags, or the caller may not use a project, owner or pool that the request names.
    pub(super) fn claim_by_tags(&self, caller: &Identity, asked: &TagQuestion) -> Reply<TicketClaim> {
        let tags = asked.tags.clone();
        let question =
            TicketQuestion { key: asked.key(), kind: None, owner: String::new(), pool: String::new(), tags };
        let claim = self.claim_in(caller, question, PoolSelection::Tags(&asked.tags))?;
        Ok(TicketClaim { sandbox: asked.sandbox.clone(), ..claim })
    }

    /// Opens a ticket, or returns the status of the existing ticket with this id. The returned
    /// state is on disk.
    /// Errors: the caller may not open such a ticket, or the ticket registry refuses it.
    pub(crate) async fn open(&self, caller: &Identity, id: &TicketId, asked: TicketQuestion) -> Reply<View> {
        let claim = self.claim(caller, id, asked)?;
        self.registry.open(id, claim).await
    }

    /// The claim of `caller` with this request and id.
    /// Errors: A field names something that does not exist, or that the caller may not use.
    pub(crate) fn claim(
        &self,
        caller: &Identity,
        id: &TicketId,
        asked: TicketQuestion,
    ) -> Reply<TicketClaim> {
        let pool = asked.pool.clone();
        let claim = self.claim_in(caller, asked, PoolSelection::Name(&pool))?;
        Ok(TicketClaim { proven: caller.is_own_job(id.as_str()), ..claim })
    }

    fn claim_in(
        &self,
        caller: &Identity,
        mut asked: TicketQuestion,
        selection: PoolSelection<'_>,
    ) -> Reply<TicketClaim> {
        caller.claims(&mut asked.key).map_err(Refusal::Forbidden)?;
        // computed after proven values were filled in: the same request from two callers gives two
        // fingerprints
        let question = fingerprint(&asked);
        let TicketQuestion { mut key, kind, mut owner, tags, .. } = asked;
        // key and owner are stored and shown, so secrets in them are masked
        mask::key(&mut key);
        mask::mask(&mut owner);
        let owner = owner_of(caller, owner, &key)?;
        if let Some(kind) = kind {
            key.labels.insert(KIND_LABEL.to_owned(), kind.as_str().to_owned());
        }
        let placement = self.sizing.pools.now();
        if let Some(unknown) = tags.iter().find(|tag| !placement.knows_tag(tag)) {
            let description = format!("{unknown:?} is no tag of a pool, and not limited by the operator");
            return Err(FieldViolation::new("tags", description).into());
        }
        let subject = RuleSubject::of(&key);
        let prediction = self.sizing.sizes_without_pool(&key);
        let (pool, prediction) = match selection {
            PoolSelection::Name(name) => self.pool(&placement, &subject, name, prediction)?,
            PoolSelection::Tags(tags) => {
                (self.pool_with(&placement, &subject, tags, &prediction)?, prediction)
            }
        };
        let needs = ResourceNeeds::of(&prediction);
        let upstream_tags = pool.map_or_else(|| Ok(Vec::new()), |pool| upstream_tags(pool, &tags))?;
        let mut tags = [tags, pool.map(|pool| pool.tags.clone()).unwrap_or_default()].concat();
        // only tags with a limit are kept, so that the ticket's record stays small
        tags.retain(|tag| placement.terms().limits.other_limits.contains_key(&LimitKey::Tag(tag.clone())));
        tags.sort_unstable();
        tags.dedup();
        Ok(TicketClaim {
            owner,
            pool: pool.map(|pool| pool.name.clone()).unwrap_or_default(),
            arch: subject.family.to_owned(),
            kind: subject.kind.as_str().to_owned(),
            tags,
            raised: subject.security,
            memory: needs.memory_request,
            milli_cores: Millis::from_f64(needs.cpu_request.0 * 1000.0).0,
            wall: needs.wall_p50,
            project: key.project.clone(),
            by: caller.stored_name(),
            sandbox: String::new(),
            on_host: pool.is_some_and(Pool::gives_hosts),
            upstream_tags,
            proven: false,
            job_token_ends_unix_ms: caller.job_token_ends_unix_ms(),
            asked: question,
        })
    }

    /// The pool that has all these tags. `None` if the operator defined no pools.
    fn pool_with<'p>(
        &self,
        placement: &'p Placement,
        subject: &RuleSubject<'_>,
        tags: &[String],
        prediction: &Prediction,
    ) -> Reply<Option<&'p Pool>> {
        let needs = ResourceNeeds::of(prediction);
        let pool = placement.choose_by_tags(subject, &needs, tags, &|pool| self.sizing.pools.busy(pool));
        if pool.is_none() && !placement.pools().is_empty() {
            let description =
                format!("no pool has all of {}, and lets {:?} in", tags.join(", "), subject.owner_project);
            return Err(FieldViolation::new("tags", description).into());
        }
        Ok(pool)
    }

    /// The requested or the predicted pool, and the prediction lowered to what the pool offers.
    /// `None` if the operator defined no pools.
    fn pool<'p>(
        &self,
        placement: &'p Placement,
        subject: &RuleSubject<'_>,
        asked: &str,
        prediction: Prediction,
    ) -> Reply<(Option<&'p Pool>, Prediction)> {
        if !asked.is_empty() {
            let names =
                || placement.pools().iter().map(|pool| pool.name.as_str()).collect::<Vec<_>>().join(", ");
            let unknown =
                || FieldViolation::new("pool", format!("{asked:?} is not there; there are: {}", names()));
            let pool = placement.pool(asked).ok_or_else(unknown)?;
            if let Some(why) = placement.bars(subject, pool) {
                return Err(FieldViolation::new("pool", why).into());
            }
            if pool.by_rule && !placement.can_place(subject, &ResourceNeeds::of(&prediction), pool) {
                let description =
                    format!("only a rule puts builds into {asked:?}, and none puts this one there");
                return Err(FieldViolation::new("pool", description).into());
            }
            return Ok((Some(pool), prediction));
        }
        if placement.pools().is_empty() {
            return Ok((None, prediction));
        }
        let put = placement.put_in_pool(subject, prediction, &|pool| self.sizing.pools.busy(pool));
        match placement.pool(&put.placed.pool) {
            Some(pool) => Ok((Some(pool), put)),
            None => {
                Err(FieldViolation::new("key", format!("no pool takes it: {}", put.placed.reason)).into())
            }
        }
    }
}

/// The owner for fair sharing: the proven owner, else the claimed one, else the project. A caller
/// for some projects cannot claim another owner.
fn owner_of(caller: &Identity, claimed: String, key: &Key) -> Reply<String> {
    let proven = if caller.projects.is_all() { &caller.proven.owner } else { &key.project };
    let proven = if caller.proven.owner.is_empty() { proven } else { &caller.proven.owner };
    if !proven.is_empty() {
        if !claimed.is_empty() && claimed != *proven {
            let description = format!("is not {}, for whom {} may open tickets", proven, caller.name);
            return Err(Refusal::Forbidden(FieldViolation::new("owner", description)));
        }
        return Ok(proven.clone());
    }
    let owner = [claimed, key.owner.clone(), key.project.clone()].into_iter().find(|owner| !owner.is_empty());
    Ok(owner.unwrap_or_default())
}

/// The tags that a ticket's record keeps for the upstream of its pool.
fn upstream_tags(pool: &Pool, tags: &[String]) -> Result<Vec<String>, FieldViolation> {
    if pool.upstream.as_ref().is_none_or(|upstream| !upstream.tags.is_empty()) {
        return Ok(Vec::new());
    }
    // length in the stored JSON, which puts a backslash before each quote and backslash
    let bytes = |letter: char| letter.len_utf8() + usize::from(['"', '\\'].contains(&letter));
    if tags.iter().flat_map(|tag| tag.chars()).map(bytes).sum::<usize>() > UPSTREAM_TAGS_BYTES {
        let description = format!(
            "have more than {UPSTREAM_TAGS_BYTES} bytes together, for a pool with an upstream and without upstream_tags"
        );
        return Err(FieldViolation::new("tags", description));
    }
    Ok(tags.to_vec())
}

/// Fingerprint of a request, stable over releases, because it is stored. FNV-1a, 64 bits
/// (draft-eastlake-fnv), over the fields with their lengths. Hints of the key are left out, because
/// they affect only the size.
fn fingerprint(asked: &TicketQuestion) -> u64 {
    let TicketQuestion { key, kind, owner, pool, tags } = asked;
    let kind = kind.map_or("", BuildKind::as_str);
    let fields = key.fingerprint_texts().map(|(_, text)| text).chain([owner.as_str(), pool.as_str()]);
    let labels = key.labels.iter().flat_map(|(name, value)| [name, value]);
    let parts = fields.chain(labels.chain(tags).map(String::as_str)).chain([kind]);
    parts.fold(Fnv::default(), Fnv::with_part).value()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticket_request_fingerprints_are_stable_across_releases() {
        let mut key = Key { package: "zlib".into(), git_ref: "main".into(), ..Key::default() };
        key.labels.insert("stage".into(), "build".into());
        let tags = vec!["arm".to_owned()];
        let asked = TicketQuestion { key, kind: None, owner: "me".into(), pool: "one".into(), tags };
        assert_eq!(fingerprint(&asked), 0xae14_fa2c_d2b9_dcd5);
    }
}
