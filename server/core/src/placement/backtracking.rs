//! Finds regular expressions that may take exponential time in an engine that backtracks. The server matches in linear time, but Python
//! matches the table that is printed for Copr.
//!
//! The time grows exponentially if a repeated part matches the same text in several ways: each repetition multiplies the ways (Kirrage,
//! Rathnayake, Thielecke, "Static analysis for regular expression denial-of-service attacks", 2013). The test here is stricter: inside a
//! repetition it allows no repetition of a variable count, and no alternatives that can begin with the same byte. Such choices one after
//! the other multiply the ways too (`a?a?a?`), so their number is limited.

use regex_syntax::hir::{Hir, HirKind, literal::Extractor};

/// Most parts of an expression, one after the other, that can match in several ways: 256 ways if each has two.
pub(super) const MAX_CHOICES: u32 = 8;

/// Whether the expression repeats a part that can match in several ways, or has too many such parts one after the other.
pub(super) fn may_be_exponential(hir: &Hir) -> bool {
    choices(hir) > MAX_CHOICES || repeats_choices(hir)
}

/// Number of parts that can match in several ways, along the path through the expression that has most of them.
fn choices(hir: &Hir) -> u32 {
    match hir.kind() {
        HirKind::Repetition(repetition) => {
            u32::from(repetition.max != Some(repetition.min)).saturating_add(choices(&repetition.sub))
        }
        HirKind::Capture(capture) => choices(&capture.sub),
        HirKind::Concat(parts) => parts.iter().map(choices).fold(0, u32::saturating_add),
        HirKind::Alternation(parts) => {
            let most = parts.iter().map(choices).max().unwrap_or_default();
            most.saturating_add(u32::from(begin_alike(parts)))
        }
        HirKind::Empty | HirKind::Literal(_) | HirKind::Class(_) | HirKind::Look(_) => 0,
    }
}

/// Whether the expression repeats a part that can match in several ways.
fn repeats_choices(hir: &Hir) -> bool {
    match hir.kind() {
        HirKind::Repetition(repetition) => {
            let is_repeated = repetition.max.is_none_or(|most| most > 1);
            is_repeated && is_ambiguous(&repetition.sub) || repeats_choices(&repetition.sub)
        }
        HirKind::Capture(capture) => repeats_choices(&capture.sub),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => parts.iter().any(repeats_choices),
        HirKind::Empty | HirKind::Literal(_) | HirKind::Class(_) | HirKind::Look(_) => false,
    }
}

/// Whether this part of an expression may match a text in several ways.
fn is_ambiguous(hir: &Hir) -> bool {
    match hir.kind() {
        HirKind::Repetition(repetition) => {
            repetition.max != Some(repetition.min) || is_ambiguous(&repetition.sub)
        }
        HirKind::Capture(capture) => is_ambiguous(&capture.sub),
        HirKind::Concat(parts) => parts.iter().any(is_ambiguous),
        HirKind::Alternation(parts) => begin_alike(parts) || parts.iter().any(is_ambiguous),
        HirKind::Empty | HirKind::Literal(_) | HirKind::Class(_) | HirKind::Look(_) => false,
    }
}

/// Whether two alternatives can begin with the same byte; true if unknown.
fn begin_alike(parts: &[Hir]) -> bool {
    let mut seen: Vec<u8> = Vec::new();
    for part in parts {
        let literals = Extractor::new().extract(part);
        let firsts: Option<Vec<u8>> = literals
            .literals()
            .and_then(|all| all.iter().map(|literal| literal.as_bytes().first().copied()).collect());
        let Some(mut firsts) = firsts.filter(|firsts| !firsts.is_empty()) else { return true };
        firsts.sort_unstable();
        firsts.dedup();
        if firsts.iter().any(|first| seen.contains(first)) {
            return true;
        }
        seen.extend(firsts);
    }
    false
}
