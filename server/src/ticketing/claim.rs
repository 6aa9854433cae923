//! What a question becomes: the pool, the limits that count it, its size and time.

use std::sync::Arc;

use ring::digest;

use super::{Refusal, Ticketing};
use crate::{
    answers::Answers,
    domain::{Claim, Fault, Fnv, Key, Millis, Prediction, TicketId},
    identity::Identity,
    learned::Learned,
    mask,
    placement::{Kind, LABEL, Needs, Placement, Pool, Subject, tickets::Counter},
    placing::Placing,
    predict,
};

/// A question, with every field within its bounds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Asked {
    pub(crate) key: Key,
    /// What the key's label says, unless it is said.
    pub(crate) kind: Option<Kind>,
    /// Who the key says, unless it is said.
    pub(crate) owner: String,
    /// Where a prediction puts it, unless it is said.
    pub(crate) pool: String,
    pub(crate) tags: Vec<String>,
}

/// Makes claims of questions.
#[derive(Debug, Clone)]
pub(crate) struct Claims {
    pub(crate) learned: Learned,
    pub(crate) answers: Arc<Answers>,
    pub(crate) predict: Arc<predict::Settings>,
    pub(crate) placing: Placing,
    pub(crate) ticketing: Ticketing,
}

impl Claims {
    /// What `caller` claims with this question under this id.
    ///
    /// # Errors
    /// A field names what is not there, or what is not for him.
    pub(crate) fn claim(&self, caller: &Identity, id: &TicketId, asked: Asked) -> Result<Claim, Refusal> {
        let mut asked = asked;
        caller.claims("key.project", &mut asked.key).map_err(Refusal::Forbidden)?;
        // of what is proven: the same words of two callers are two questions
        let question = fingerprint(&asked);
        let Asked { mut key, kind, mut owner, pool, tags } = asked;
        // both are kept and shown
        mask::key(&mut key);
        mask::by_shape(&mut owner);
        let owner = owner_of(caller, owner, &key)?;
        if let Some(kind) = kind {
            key.labels.insert(LABEL.to_owned(), kind.as_str().to_owned());
        }
        let placement = self.placing.now();
        if let Some(unknown) = tags.iter().find(|tag| !placement.knows_tag(tag)) {
            let description = format!("{unknown:?} is no tag of a pool, and not limited by the operator");
            return Err(Fault::new("tags", description).into());
        }
        let subject = Subject::of(&key);
        let prediction = self.answers.predict(&self.learned, &key, &self.predict);
        let (pool, prediction) = self.pool(&placement, &subject, &pool, prediction)?;
        let needs = Needs::of(&prediction);
        let mut tags = [tags, pool.map(|pool| pool.tags.clone()).unwrap_or_default()].concat();
        // the others count nothing, and would make the ticket's record as long as the file says
        tags.retain(|tag| placement.terms().limits.most.contains_key(&Counter::Tag(tag.clone())));
        tags.sort_unstable();
        tags.dedup();
        Ok(Claim {
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
            by: by(caller),
            proven: caller.is_own_job(id.as_str()),
            asked: question,
        })
    }

    /// The pool that is asked for, or the one for this prediction, and the prediction lowered to it. None where the operator names no
    /// pools.
    fn pool<'p>(
        &self,
        placement: &'p Placement,
        subject: &Subject<'_>,
        asked: &str,
        prediction: Prediction,
    ) -> Result<(Option<&'p Pool>, Prediction), Refusal> {
        if !asked.is_empty() {
            let names =
                || placement.pools().iter().map(|pool| pool.name.as_str()).collect::<Vec<_>>().join(", ");
            let unknown = || Fault::new("pool", format!("{asked:?} is not there; there are: {}", names()));
            let pool = placement.pool(asked).ok_or_else(unknown)?;
            if let Some(why) = placement.bars(subject, pool) {
                return Err(Fault::new("pool", why).into());
            }
            if pool.by_rule && !placement.sends(subject, &Needs::of(&prediction), pool) {
                let description =
                    format!("only a rule puts builds into {asked:?}, and none puts this one there");
                return Err(Fault::new("pool", description).into());
            }
            return Ok((Some(pool), prediction));
        }
        if placement.pools().is_empty() {
            return Ok((None, prediction));
        }
        let put = placement.put(subject, prediction, &|pool| self.placing.busy(pool));
        match placement.pool(&put.placed.pool) {
            Some(pool) => Ok((Some(pool), put)),
            None => Err(Fault::new("key", format!("no pool takes it: {}", put.placed.reason)).into()),
        }
    }
}

/// Longest name of a caller that is kept, in characters.
const NAME: usize = 64;

/// Characters of a longer name that are kept; then come a `~` and the first 8 bytes of the SHA-256 of all of it, in hexadecimal.
const START: usize = NAME - 1 - 16;

/// Who opens a ticket, as it is kept: two callers are never the same. Pods and branches choose the ends of their names, so no sum will
/// do for which others can be found.
pub(super) fn by(caller: &Identity) -> String {
    let name = &caller.name;
    if name.chars().nth(NAME).is_none() {
        return name.to_string();
    }
    let start: String = name.chars().take(START).collect();
    let sum = digest::digest(&digest::SHA256, name.as_bytes());
    let sum = sum.as_ref().iter().take(8).fold(0, |sum, byte| (sum << 8) | u64::from(*byte));
    format!("{start}~{sum:016x}")
}

/// Among whom places are shared: what is proven, else what is said, else the project. Who may see only some projects cannot make
/// owners up.
fn owner_of(caller: &Identity, said: String, key: &Key) -> Result<String, Refusal> {
    let proven = if caller.projects.is_all() { &caller.proven.owner } else { &key.project };
    let proven = if caller.proven.owner.is_empty() { proven } else { &caller.proven.owner };
    if !proven.is_empty() {
        if !said.is_empty() && said != *proven {
            let description = format!("is not {}, for whom {} may open tickets", proven, caller.name);
            return Err(Refusal::Forbidden(Fault::new("owner", description)));
        }
        return Ok(proven.clone());
    }
    let owner = [said, key.owner.clone(), key.project.clone()].into_iter().find(|owner| !owner.is_empty());
    Ok(owner.unwrap_or_default())
}

/// The same number for the same question, in this and every later release: it is kept. FNV-1a, 64 bits (draft-eastlake-fnv), over the
/// fields with their lengths. The hints of a key only say how large it is.
fn fingerprint(asked: &Asked) -> u64 {
    let Asked { key, kind, owner, pool, tags } = asked;
    let kind = kind.map_or("", Kind::as_str);
    let fields = [
        &key.project,
        &key.stack,
        &key.package,
        &key.version,
        &key.variants,
        &key.compiler,
        &key.compiler_version,
        &key.arch,
        &key.build_system,
        &key.git_ref,
        &key.owner,
        owner,
        pool,
    ];
    let labels = key.labels.iter().flat_map(|(name, value)| [name, value]);
    let parts = fields.into_iter().chain(labels).chain(tags).map(String::as_str).chain([kind]);
    parts.fold(Fnv::default(), Fnv::with_part).value()
}
