//! Decides for each package of an answer whether its size in Spack's `ci` section changes.

use plimsoll_base::quantity;
use plimsoll_proto::{figures, recommendations::reason, v1::Recommendation};

use super::{
    Decision, KEPT, MIN_SAVING, NEW,
    by_hand::{ByHand, Mention, package_of},
    choice::{self, Choice, SpecBuilds},
    classes::{Class, Classes},
    decide,
    region::{Attributes, Groups},
    report::{Change, Evidence, Report},
};

const UNKNOWN: &str = "the need at the build jobs of the classes is not known";

/// A mapping while it is brought up to date.
#[derive(Debug)]
pub(super) struct SpackUpdate<'a> {
    pub(super) classes: &'a Classes,
    pub(super) by_hand: &'a ByHand,
    pub(super) groups: Groups,
    pub(super) report: &'a mut Report,
}

impl<'a> SpackUpdate<'a> {
    /// Brings one package up to date.
    /// Errors: the answer has no sizes by build jobs.
    pub(super) fn package(&mut self, row: &Recommendation) -> Result<(), String> {
        let package = &row.package;
        let entries = self.groups.entries.keys();
        let known: Vec<String> = entries.filter(|spec| package_of(spec) == Some(package)).cloned().collect();
        let by_hand = self.by_hand;
        let mentions = by_hand.packages.get(package).map(Vec::as_slice).unwrap_or_default();
        let whole = mentions.iter().find(|mention| mention.is_whole && mention.sets_size);
        let has_size = mentions.iter().any(|mention| mention.sets_size);
        if let Some(why) = reason(row) {
            if !known.is_empty() || has_size {
                self.report.keep(why, package);
            }
        } else if package_of(package) != Some(package) {
            self.report.keep("Spack has no package of such a name", package);
        } else if row.builds.is_empty() {
            return Err(
                "the server gives no sizes by build jobs: update it, it is older than this command".into()
            );
        } else if let Some(mention) = whole {
            self.leave_to_people(row, &known, mention);
        } else if has_size && known.is_empty() {
            self.report.keep("people gave versions or variants of them a size", package);
        } else {
            self.sizes(row, &known);
        }
        Ok(())
    }

    /// Sets the sizes of a package and of its specs.
    fn sizes(&mut self, row: &Recommendation, known: &[String]) {
        for of in choice::specs(row, self.classes, known) {
            let spec = &of.spec;
            let entry = self.groups.entries.get(spec);
            if entry.is_some_and(|entry| entry.is_kept) {
                self.report.keep(KEPT, spec);
                continue;
            }
            let old = entry.map(|entry| entry.attributes.clone());
            let found = match &old {
                Some(old) => self.changed(&of, old, row),
                None => choice::cheapest(&of, self.classes).map(|best| (best, NEW.to_owned())).ok_or(UNKNOWN),
            };
            if found.as_ref().is_ok_and(|(choice, _)| choice.is_clamped) {
                self.report.notes.push(format!("{spec} needs more than any class has"));
            }
            let (new, why) = match (found, &old) {
                (Ok((choice, why)), _) => (Attributes::of(choice.class, choice.request), why),
                (Err(_), Some(old)) if self.refreshed(old) != *old => {
                    (self.refreshed(old), format!("the class {} changed", old.class()))
                }
                (Err(reason), _) => {
                    self.report.keep(reason, spec);
                    continue;
                }
            };
            let saved = saved(row, &of, old.as_ref(), &new);
            let change = Change {
                name: spec.clone(),
                old: old.map(|old| old.words()).unwrap_or_default(),
                new: new.words(),
                why,
                evidence: Evidence::of(&[row]),
                saved,
                ..Change::default()
            };
            self.groups.entries.entry(spec.clone()).or_default().attributes = new;
            self.report.changes.push(change);
        }
    }

    /// The new size of a spec that the file has, and why it changes; or why it stays. A size that cannot stay becomes one that requests no less;
    /// less takes the same reasons as for any other size.
    fn changed(
        &self,
        of: &SpecBuilds<'_>,
        old: &Attributes,
        row: &Recommendation,
    ) -> Result<(Choice<'a>, String), &'static str> {
        let request = quantity::bytes(old.memory()).unwrap_or_default();
        // not all builds are known, so one of the others may have needed the most
        let highest = row.highest_need_bytes.filter(|_| row.has_more_builds).unwrap_or_default();
        let of = of.at_least(highest.min(request));
        let raised = match self.problem(&of, old, request)? {
            Some(problem) => {
                let held = of.at_least(request);
                let best = choice::cheapest(&held, self.classes).ok_or(UNKNOWN)?;
                Some((self.preferred(&held, self.classes.named(old.class()), best), problem))
            }
            None => None,
        };
        let (class, request) = match &raised {
            Some((choice, _)) => (choice.class, choice.request),
            None => (self.classes.named(old.class()).ok_or(UNKNOWN)?, request),
        };
        let best = choice::cheapest(&of, self.classes).ok_or(UNKNOWN)?;
        let best = self.preferred(&of, Some(class), best);
        let (_, cost) = choice::need_and_cost(&of.builds, class, request, self.classes).ok_or(UNKNOWN)?;
        // in the same class memory is compared, else what an attempt costs
        let ratio = if best.class.name == class.name {
            figures::float(best.request) / figures::float(request.max(1))
        } else {
            best.cost / cost
        };
        match (decide(1.0 - ratio, row.confidence), raised) {
            (Decision::Change(why), None) => Ok((best, why)),
            (Decision::Change(why), Some((_, problem))) => Ok((best, format!("{problem}; {why}"))),
            (Decision::Keep(_), Some(raised)) => Ok(raised),
            (Decision::Keep(reason), None) => Err(reason),
        }
    }

    /// Why a size cannot stay; `None` if it can.
    /// Errors: the need is not known.
    fn problem(
        &self,
        of: &SpecBuilds<'_>,
        old: &Attributes,
        request: u64,
    ) -> Result<Option<String>, &'static str> {
        let most = self.classes.most_memory();
        let Some(class) = self.classes.named(old.class()) else {
            return Ok(Some(format!("there is no class {} any more", old.class())));
        };
        if request > class.memory {
            return Ok(Some(format!("the class {} has less memory now", class.name)));
        }
        let (need, _) = choice::need_and_cost(&of.builds, class, request, self.classes).ok_or(UNKNOWN)?;
        let is_too_small = request < need.min(most) || class.memory < of.floor.min(most);
        Ok(is_too_small.then(|| "it was too small".to_owned()))
    }

    /// The choice for a size that the file has: in the same class, unless it does not hold the need or another one costs less by more than
    /// [`MIN_SAVING`].
    fn preferred(&self, of: &SpecBuilds<'_>, class: Option<&'a Class>, best: Choice<'a>) -> Choice<'a> {
        let same = class.and_then(|class| choice::in_class(of, class, self.classes));
        let stays = |same: &Choice<'_>| !same.is_clamped && best.cost >= same.cost * (1.0 - MIN_SAVING);
        same.filter(stays).unwrap_or(best)
    }

    /// The attributes as the class gives them now, with the memory request that the file has.
    fn refreshed(&self, old: &Attributes) -> Attributes {
        let Some(class) = self.classes.named(old.class()) else { return old.clone() };
        let mut new = Attributes::of(class, 0);
        if let (Some(new), Some(old)) = (new.variables.last_mut(), old.variables.last()) {
            new.clone_from(old);
        }
        new
    }

    /// A package that people gave a size keeps it. Its sizes in the marked lines go, unless they are marked.
    fn leave_to_people(&mut self, row: &Recommendation, known: &[String], mention: &Mention) {
        for spec in known {
            if self.groups.entries.get(spec).is_some_and(|entry| entry.is_kept) {
                continue;
            }
            let old = self.groups.entries.remove(spec).map(|of| of.attributes.words()).unwrap_or_default();
            self.report.changes.push(Change {
                name: spec.clone(),
                old,
                new: format!("as in line {}", mention.line),
                why: "people gave it a size".to_owned(),
                evidence: Evidence::of(&[row]),
                ..Change::default()
            });
        }
        self.report.keep("people gave them a size outside of the marked lines", &row.package);
    }

    /// Sets what all other packages get, if a class is named for it.
    pub(super) fn default_group(&mut self) {
        let Some(class) = &self.classes.default else { return };
        if !self.by_hand.packages.is_empty() || !self.by_hand.broad.is_empty() {
            let note = "no default group was written: Spack would join its tags with those of the groups that people wrote";
            self.report.notes.push(note.to_owned());
            return;
        }
        let new = Attributes::of(class, class.memory);
        if self.groups.default.as_ref() != Some(&new) {
            let old = self.groups.default.as_ref().map(Attributes::words).unwrap_or_default();
            let why = "the class of all other packages".to_owned();
            let name = "all others".to_owned();
            self.report.changes.push(Change { name, old, new: new.words(), why, ..Change::default() });
            self.groups.default = Some(new);
        }
    }
}

/// GiB·h a month that the new size saves. The attempts of a package are shared among its specs by their builds.
fn saved(
    row: &Recommendation,
    of: &SpecBuilds<'_>,
    old: Option<&Attributes>,
    new: &Attributes,
) -> Option<f64> {
    let count = |builds: usize| figures::float(u64::try_from(builds).unwrap_or(u64::MAX));
    let share = count(of.builds.len()) / count(row.builds.len());
    let today = row.today.as_ref().and_then(|today| today.memory_request_bytes);
    let old = old.and_then(|old| quantity::bytes(old.memory()).ok()).or(today)?;
    Evidence::of(&[row]).saved(old, quantity::bytes(new.memory()).ok()?, share)
}
