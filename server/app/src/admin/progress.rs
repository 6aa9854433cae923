//! A progress line on the terminal, with rate and remaining time. Nothing is shown if standard
//! error is not a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Updates of the line in a second.
const UPDATES_PER_SECOND: u8 = 10;
/// Steps into which a share of 0 to 1 is divided, for the progress bar.
const SHARE_STEPS: u32 = 1000;

/// What is shown after the name of the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProgressForm {
    /// Percent.
    Share,
    /// Percent, and bytes per second.
    Bytes,
    /// Bytes done, and bytes per second; the total is unknown.
    BytesSoFar,
    /// Percent, and steps per second.
    Part,
    /// Items that are done, and items per second; the total is unknown.
    Count,
}

impl ProgressForm {
    const fn template(self) -> &'static str {
        match self {
            Self::Share => "{msg:<16} [{bar:30}] {percent:>3} %  {eta} left",
            Self::Bytes => "{msg:<16} [{bar:30}] {percent:>3} %  {binary_bytes_per_sec}, {eta} left",
            Self::BytesSoFar => "{msg:<16} {binary_bytes}  {binary_bytes_per_sec}",
            Self::Part => "{msg:<16} [{bar:30}] {percent:>3} %  {per_sec}, {eta} left",
            Self::Count => "{msg:<16} {human_pos}  {per_sec}",
        }
    }
}

/// Shows a share that is done, 0 to 1, until it is dropped.
pub(super) fn shares(what: &'static str) -> impl FnMut(f64) {
    let mut progress = Progress::new();
    move |share| progress.show_share(what, share)
}

/// Shows how many bytes of `whole` are done, until it is dropped; `whole` is 0 if unknown.
pub(super) fn bytes(what: &'static str, whole: u64) -> impl FnMut(u64) {
    let mut progress = Progress::new();
    move |done| progress.bytes(what, done, whole)
}

/// A progress bar. The line is cleared when it is dropped.
#[derive(Debug)]
pub(super) struct Progress {
    bar: ProgressBar,
    /// Name of the work that is shown, and its form.
    shown: Option<(String, ProgressForm)>,
}

impl Progress {
    /// A progress line, shown only if standard error is a terminal.
    pub(super) fn new() -> Self {
        Self::on_target(ProgressDrawTarget::stderr_with_hz(UPDATES_PER_SECOND))
    }

    fn on_target(target: ProgressDrawTarget) -> Self {
        Self { bar: ProgressBar::with_draw_target(None, target), shown: None }
    }

    /// Shows that `count` of `what` are done; the total is unknown.
    pub(super) fn count(&mut self, what: &str, count: u64) {
        self.show(what, ProgressForm::Count, count, 0);
    }

    /// Shows that `done` of `whole` steps are finished.
    pub(super) fn show_part(&mut self, what: &str, done: u64, whole: u64) {
        self.show(what, ProgressForm::Part, done.min(whole), whole);
    }

    /// Shows that `done` bytes of `whole` are done; `whole` is 0 if unknown.
    fn bytes(&mut self, what: &str, done: u64, whole: u64) {
        let form = if whole > 0 { ProgressForm::Bytes } else { ProgressForm::BytesSoFar };
        // the store may grow during the backup, so the total is not exceeded
        self.show(what, form, if whole > 0 { done.min(whole) } else { done }, whole);
    }

    /// Shows the share that is done, 0 to 1.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and SHARE_STEPS")]
    fn show_share(&mut self, what: &str, share: f64) {
        let steps = (share.clamp(0.0, 1.0) * f64::from(SHARE_STEPS)).round() as u64;
        self.show(what, ProgressForm::Share, steps, u64::from(SHARE_STEPS));
    }

    fn show(&mut self, what: &str, form: ProgressForm, done: u64, whole: u64) {
        let is_shown = self.shown.as_ref().is_some_and(|(shown, of)| shown == what && *of == form);
        if !is_shown {
            // rate and remaining time are of this work alone
            self.bar.reset();
            if let Ok(style) = ProgressStyle::with_template(form.template()) {
                self.bar.set_style(style.progress_chars("#."));
            }
            self.bar.set_message(what.to_owned());
            self.shown = Some((what.to_owned(), form));
        }
        if whole > 0 {
            self.bar.set_length(whole);
        } else {
            self.bar.unset_length();
        }
        self.bar.set_position(done);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use indicatif::InMemoryTerm;

    use super::*;

    #[test]
    fn each_progress_form_shows_and_clears_its_line() {
        let terminal = InMemoryTerm::new(5, 80);
        let mut progress = Progress::on_target(ProgressDrawTarget::term_like(Box::new(terminal.clone())));
        let mut shown = |tell: &mut dyn FnMut(&mut Progress)| {
            tell(&mut progress);
            progress.bar.force_draw();
            terminal.contents()
        };
        let half = shown(&mut |progress| progress.show_share("reading", 0.5));
        assert!(half.starts_with("reading          [###############") && half.contains(" 50 %"), "{half}");
        assert!(half.ends_with(" left"), "{half}");
        let bytes = shown(&mut |progress| progress.bytes("backup", 3 << 20, 4 << 20));
        assert!(bytes.starts_with("backup ") && bytes.contains(" 75 %") && bytes.contains("/s, "), "{bytes}");
        let grown = shown(&mut |progress| progress.bytes("backup", 9 << 20, 4 << 20));
        assert!(grown.contains("100 %"), "{grown}");
        let unknown = shown(&mut |progress| progress.bytes("restoring", 3 << 20, 0));
        assert!(unknown.starts_with("restoring        3.00 MiB  ") && unknown.ends_with("/s"), "{unknown}");
        let part = shown(&mut |progress| progress.show_part("series", 1, 4));
        assert!(part.starts_with("series ") && part.contains(" 25 %") && part.ends_with(" left"), "{part}");
        let count = shown(&mut |progress| progress.count("attempts", 1_234));
        assert!(count.starts_with("attempts         1,234  "), "{count}");
        drop(progress);
        assert_eq!(terminal.contents(), "");
    }
}
