//! Wraps text to a width, for people at a terminal.
//!
//! All programs wrap text for people when they write it to a terminal, and only then. Output to a pipe or a file, JSON, shell assignments,
//! generated files and command lines to copy are not wrapped, so that programs can read them line by line.

/// Least width that is left beside the indent of continued lines.
const MIN_TEXT_WIDTH: usize = 40;
/// Indent of continued lines, for a line without columns.
const HANGING_INDENT: usize = 2;

/// Units that stay on the same line as their number.
const UNIT_NAMES: [&str; 13] =
    ["%", "B", "KiB", "MiB", "GiB", "TiB", "s", "min", "h", "core", "cores", "attempt", "attempts"];

/// Breaks each line of a text at spaces, so that it fits in `columns` cells. Continued lines are indented to the last column of the line;
/// two spaces mark a column. Words are never split, not even those wider than `columns`. Colours and other escape sequences have no width.
#[must_use]
pub fn wrapped(text: &str, columns: usize) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 16);
    for line in text.split_inclusive('\n') {
        let (line, end) = line.strip_suffix('\n').map_or((line, ""), |line| (line, "\n"));
        wrap_line(&mut out, line, columns);
        out.push_str(end);
    }
    out
}

fn wrap_line(out: &mut String, line: &str, columns: usize) {
    if cell_width(line) <= columns {
        out.push_str(line);
        return;
    }
    let hang = hanging_column(line, columns.saturating_sub(MIN_TEXT_WIDTH).max(HANGING_INDENT));
    let (indent, mut rest) = line.split_at(indent(line));
    out.push_str(indent);
    let (mut used, mut is_first) = (indent.len(), true);
    while !rest.trim_start_matches(' ').is_empty() {
        let text = rest.trim_start_matches(' ');
        let (word, behind) = text.split_at(first_word_bytes(text));
        let mut spaces = rest.len() - text.len();
        if !is_first && used + spaces + cell_width(word) > columns {
            out.push('\n');
            (spaces, used) = (hang, 0);
        }
        out.extend(std::iter::repeat_n(' ', spaces));
        out.push_str(word);
        used += spaces + cell_width(word);
        (rest, is_first) = (behind, false);
    }
}

/// Length in bytes of the first word. A number and its unit are one word: `99 %`, `5.13 GiB`.
fn first_word_bytes(text: &str) -> usize {
    let (word, behind) = text.split_at(text.find(' ').unwrap_or(text.len()));
    let is_number = word.ends_with(|letter: char| letter.is_ascii_digit());
    let Some(behind) = behind.strip_prefix(' ').filter(|_| is_number) else { return word.len() };
    let (unit, _) = behind.split_at(behind.find(' ').unwrap_or(behind.len()));
    let is_unit = UNIT_NAMES.contains(&unit.trim_end_matches([',', ';', '.', ')', ':']));
    word.len() + if is_unit { 1 + unit.len() } else { 0 }
}

/// Number of spaces before the first word.
fn indent(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

/// Indent of continued lines: the last column of the line, at most `most`; without columns, a little more than the line's own indent.
fn hanging_column(line: &str, most: usize) -> usize {
    let (first, letters) = (indent(line), visible(line).collect::<Vec<_>>());
    let begins_column = |three: &[char]| matches!(three, [' ', ' ', letter] if *letter != ' ');
    let columns = letters.windows(3).zip(2..).filter(|(three, _)| begins_column(three)).map(|(_, at)| at);
    columns.filter(|at| *at > first && *at <= most).last().unwrap_or(first + HANGING_INDENT).min(most)
}

/// Number of cells that a text takes on a terminal.
fn cell_width(text: &str) -> usize {
    visible(text).count()
}

/// The letters of a text without its colour sequences.
fn visible(text: &str) -> impl Iterator<Item = char> {
    let mut escape = false;
    text.chars().filter(move |letter| {
        let is_hidden = escape || *letter == '\u{1b}';
        escape = is_hidden && !letter.is_ascii_alphabetic();
        !is_hidden
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_wrapped_line_continues_below_its_last_column() {
        let text = "\
memory limit   5.13 GiB     covers 99 % of similar builds, with 685 MiB more for file pages (4 attempts)
  + log       compile-error: /builds/hdf5/src/H5Zszip.c:24:10: fatal error: szlib.h: No such file
it ran out of memory (oom_kill 1: the kernel killed for memory at the build's own limit): retry
short
";
        let expected = "\
memory limit   5.13 GiB     covers 99 % of similar builds, with 685 MiB more for
                            file pages (4 attempts)
  + log       compile-error: /builds/hdf5/src/H5Zszip.c:24:10: fatal error:
              szlib.h: No such file
it ran out of memory (oom_kill 1: the kernel killed for memory at the build's
  own limit): retry
short
";
        assert_eq!(wrapped(text, 80), expected);
    }

    #[test]
    fn words_stay_whole_and_colours_have_no_width() {
        let path = "/a/path/that/is/longer/than/the/line";
        assert_eq!(wrapped(&format!("see {path} there"), 20), format!("see\n  {path}\n  there"));
        let red = "\u{1b}[31mfailed\u{1b}[0m, because it had";
        assert_eq!(wrapped(red, 22), red);
        assert_eq!(wrapped("needs about 5.13 GiB, or 99 %", 16), "needs about\n  5.13 GiB, or\n  99 %");
        assert_eq!(wrapped(red, 16), "\u{1b}[31mfailed\u{1b}[0m, because\n  it had");
    }

    #[test]
    fn a_far_right_column_still_leaves_room() {
        let row = format!("name      value{:50}b c d e f g h i j k l m n o p q r s t u", "");
        let wrapped = wrapped(&row, 80);
        assert_eq!(wrapped.lines().nth(1), Some("          j k l m n o p q r s t u"), "{wrapped}");
    }

    proptest! {
        #[test]
        fn wrapping_respects_the_width_and_loses_nothing(text in "([a-z]{1,9} {1,3}){0,30}[a-z]{0,9}\n?", columns in 60_usize..120) {
            let wrapped = wrapped(&text, columns);
            prop_assert!(wrapped.lines().all(|line| cell_width(line.trim_end()) <= columns), "{wrapped}");
            let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            prop_assert_eq!(words(&wrapped), words(&text));
        }
    }
}
