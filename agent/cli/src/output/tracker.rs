//! Determines the current phase of the build from the markers, in their order.
//!
//! Sections nest: when one ends, its parent is current again. A phase from a line (Spack, the user's patterns)
//! belongs to the section in which it started, and lasts until the next such line or the end of that section.
//! The innermost section or phase is the current phase.

use super::markers::PhaseMark;

/// Deepest nesting of sections. A deeper section counts as part of its parent.
const DEEPEST_NESTING: usize = 32;

#[derive(Debug, Clone, PartialEq, Eq)]
enum OpenSection {
    Section(String),
    Line(String),
}

/// The open sections and phases of the build.
#[derive(Debug, Default)]
pub(super) struct PhaseTracker {
    open_sections: Vec<OpenSection>,
}

impl PhaseTracker {
    /// Applies a marker. Returns whether the current phase has changed; [`Self::phase`] returns it.
    pub(super) fn apply_mark(&mut self, mark: PhaseMark) -> bool {
        match mark {
            PhaseMark::SectionStart(name) => self.enter_section(OpenSection::Section(name)),
            PhaseMark::SectionEnd(name) => {
                let section = OpenSection::Section(name);
                let found = self.open_sections.iter().rposition(|level| *level == section);
                // the end of a section also ends the open sections inside it; an end without a start is ignored
                found.map(|at| self.open_sections.truncate(at)).is_some()
            }
            PhaseMark::Phase(name) => {
                self.leave_line_sections();
                self.enter_section(OpenSection::Line(name))
            }
            PhaseMark::PhaseEnd => self.leave_line_sections(),
        }
    }

    fn enter_section(&mut self, level: OpenSection) -> bool {
        let room = self.open_sections.len() < DEEPEST_NESTING;
        if room {
            self.open_sections.push(level);
        }
        room
    }

    fn leave_line_sections(&mut self) -> bool {
        self.open_sections.pop_if(|level| matches!(level, OpenSection::Line(_))).is_some()
    }

    /// The name of the current phase; `None` if there is none.
    pub(super) fn phase(&self) -> Option<&str> {
        self.open_sections.last().map(|(OpenSection::Section(name) | OpenSection::Line(name))| name.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn follow(marks: &[&str]) -> Vec<Option<String>> {
        let mut tracker = PhaseTracker::default();
        let take = |text: &&str| {
            let (kind, name) = text.split_at(1);
            let name = name.to_owned();
            let news = tracker.apply_mark(match kind {
                "+" => PhaseMark::SectionStart(name),
                "-" => PhaseMark::SectionEnd(name),
                ":" => PhaseMark::Phase(name),
                _ => PhaseMark::PhaseEnd,
            });
            news.then(|| tracker.phase().map(str::to_owned))
        };
        marks.iter().filter_map(take).collect()
    }

    fn names(names: &[&str]) -> Vec<Option<String>> {
        names.iter().map(|name| (!name.is_empty()).then(|| (*name).to_owned())).collect()
    }

    #[test]
    fn a_section_end_returns_to_its_parent() {
        assert_eq!(follow(&["+a", "+b", "-b", "+c", "-c", "-a"]), names(&["a", "b", "a", "c", "a", ""]));
    }

    #[test]
    fn unclosed_sections_end_with_their_parent() {
        assert_eq!(follow(&["+a", "+b", "-a", "-b", "-x"]), names(&["a", "b", ""]));
    }

    #[test]
    fn a_line_phase_lasts_until_the_next() {
        let seen = follow(&["+a", ":one", ":two", "!", "!", ":three", "-a", ":four"]);
        assert_eq!(seen, names(&["a", "one", "two", "a", "three", "", "four"]));
    }

    #[test]
    fn the_depth_is_bounded() {
        let deep = vec!["+a"; 10_000];
        assert_eq!(follow(&deep).len(), DEEPEST_NESTING);
    }
}
