//! Finds regular expressions that may take exponential time in an engine that backtracks. The server matches in linear time, but Python
//! matches the table that is printed for Copr.
//!
//! The time grows exponentially if a repeated part matches the same text in several ways: each repetition multiplies the ways (Kirrage,
//! Rathnayake, Thielecke, "Static analysis for regular expression denial-of-service attacks", 2013). The test here is stricter: inside a
//! repetition it allows no repetition of a variable count, and no alternatives that can begin with the same character. Such choices one after
//! the other multiply the ways too (`a?a?a?`), so their number is limited.
//!
//! The expression is read as it is written: simplified, `(a|a)*` would be `a*`, which Python does not see.

use regex_syntax::{
    ast::{Ast, Repetition, RepetitionKind, RepetitionRange, parse::Parser},
    hir::{Class, ClassUnicode, ClassUnicodeRange, Hir, HirKind, translate::TranslatorBuilder},
};

/// Most parts of an expression, one after the other, that can match in several ways: 256 ways if each has two.
pub(super) const MAX_CHOICES: u32 = 8;

/// Whether the expression repeats a part that can match in several ways, or has too many such parts one after the other; true if unknown.
pub(super) fn may_be_exponential(pattern: &str) -> bool {
    let Ok(ast) = Parser::new().parse(pattern) else { return true };
    let written = WrittenPattern { pattern, ignores_case: pattern.contains("(?") && pattern.contains('i') };
    written.choices(&ast) > MAX_CHOICES || written.repeats_choices(&ast)
}

/// An expression, as it is written.
#[derive(Debug, Clone, Copy)]
struct WrittenPattern<'p> {
    pattern: &'p str,
    /// Whether a flag may let letters match in both cases.
    ignores_case: bool,
}

impl WrittenPattern<'_> {
    /// Number of parts that can match in several ways, along the path through the expression that has most of them.
    fn choices(self, ast: &Ast) -> u32 {
        let inside = parts(ast).iter().map(|part| self.choices(part));
        match ast {
            Ast::Repetition(repeated) => u32::from(is_variable(repeated)).saturating_add(inside.sum()),
            Ast::Alternation(either) => {
                let most = inside.max().unwrap_or_default();
                most.saturating_add(u32::from(self.begin_alike(&either.asts)))
            }
            _ => inside.fold(0, u32::saturating_add),
        }
    }

    /// Whether the expression repeats a part that can match in several ways.
    fn repeats_choices(self, ast: &Ast) -> bool {
        let is_repeated =
            matches!(ast, Ast::Repetition(repeated) if bounds(repeated).1.is_none_or(|most| most > 1));
        parts(ast).iter().any(|part| is_repeated && self.is_ambiguous(part) || self.repeats_choices(part))
    }

    /// Whether this part of an expression may match a text in several ways.
    fn is_ambiguous(self, ast: &Ast) -> bool {
        let is_itself = match ast {
            Ast::Repetition(repeated) => is_variable(repeated),
            Ast::Alternation(either) => self.begin_alike(&either.asts),
            _ => false,
        };
        is_itself || parts(ast).iter().any(|part| self.is_ambiguous(part))
    }

    /// Whether two alternatives can begin with the same character; true if unknown.
    fn begin_alike(self, alternatives: &[Ast]) -> bool {
        let mut seen = ClassUnicode::empty();
        alternatives.iter().any(|alternative| {
            let mut translator = TranslatorBuilder::new().case_insensitive(self.ignores_case).build();
            let read = translator.translate(self.pattern, alternative).ok();
            let Some(first) = read.as_ref().and_then(first_characters) else { return true };
            let mut both = seen.clone();
            both.intersect(&first);
            seen.union(&first);
            !both.ranges().is_empty()
        })
    }
}

/// The characters with which a text that matches can begin; `None` if unknown, or if the empty text matches.
fn first_characters(hir: &Hir) -> Option<ClassUnicode> {
    match hir.kind() {
        HirKind::Literal(literal) => {
            let first = std::str::from_utf8(&literal.0).ok()?.chars().next()?;
            Some(ClassUnicode::new([ClassUnicodeRange::new(first, first)]))
        }
        HirKind::Class(Class::Unicode(class)) => Some(class.clone()),
        HirKind::Repetition(repetition) if repetition.min > 0 => first_characters(&repetition.sub),
        HirKind::Capture(capture) => first_characters(&capture.sub),
        HirKind::Concat(parts) => first_characters(parts.first()?),
        HirKind::Alternation(parts) => parts.iter().try_fold(ClassUnicode::empty(), |mut all, part| {
            all.union(&first_characters(part)?);
            Some(all)
        }),
        HirKind::Empty | HirKind::Class(Class::Bytes(_)) | HirKind::Look(_) | HirKind::Repetition(_) => None,
    }
}

/// The parts that an expression consists of.
fn parts(ast: &Ast) -> &[Ast] {
    match ast {
        Ast::Repetition(repeated) => std::slice::from_ref(&*repeated.ast),
        Ast::Group(group) => std::slice::from_ref(&*group.ast),
        Ast::Concat(concat) => &concat.asts,
        Ast::Alternation(either) => &either.asts,
        _ => &[],
    }
}

fn is_variable(repeated: &Repetition) -> bool {
    let (least, most) = bounds(repeated);
    most != Some(least)
}

/// How often a part is repeated, at least and at most.
fn bounds(repeated: &Repetition) -> (u32, Option<u32>) {
    match &repeated.op.kind {
        RepetitionKind::ZeroOrOne => (0, Some(1)),
        RepetitionKind::ZeroOrMore => (0, None),
        RepetitionKind::OneOrMore => (1, None),
        RepetitionKind::Range(RepetitionRange::Exactly(times)) => (*times, Some(*times)),
        RepetitionKind::Range(RepetitionRange::AtLeast(least)) => (*least, None),
        RepetitionKind::Range(RepetitionRange::Bounded(least, most)) => (*least, Some(*most)),
    }
}
