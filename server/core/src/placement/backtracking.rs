//! Expressions for which an engine that backtracks may take exponential time. The expressions here are matched in linear time; what is
//! printed for Copr is matched by Python.
//!
//! The time explodes if a repetition repeats something that matches the same text in several ways: each further repetition multiplies the
//! ways (Kirrage, Rathnayake, Thielecke, "Static analysis for regular expression denial-of-service attacks", 2013). The test here is
//! stricter: inside a repetition it allows no repetition of a variable count, and no alternatives that can begin with the same byte.

use regex_syntax::hir::{Hir, HirKind, literal::Extractor};

/// Whether something that can match in several ways is repeated.
pub(super) fn may_be_exponential(hir: &Hir) -> bool {
    match hir.kind() {
        HirKind::Repetition(repetition) => {
            let is_repeated = repetition.max.is_none_or(|most| most > 1);
            is_repeated && is_ambiguous(&repetition.sub) || may_be_exponential(&repetition.sub)
        }
        HirKind::Capture(capture) => may_be_exponential(&capture.sub),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => parts.iter().any(may_be_exponential),
        HirKind::Empty | HirKind::Literal(_) | HirKind::Class(_) | HirKind::Look(_) => false,
    }
}

/// Whether it may match in several ways.
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
