//! Words and sentences of the texts that users read: guides, help, output and messages.

/// A word of a text, in small letters, with the number of its line.
#[derive(Debug)]
struct Word {
    line: usize,
    text: String,
}

/// The words of a text. A name counts word by word: `is_told` is two.
fn words(text: &str) -> Vec<Word> {
    let of_line = |(at, line): (usize, &str)| {
        let parts = line.split(|letter: char| !letter.is_alphanumeric() && letter != '\'');
        let words = parts.map(|word| word.trim_matches('\'').to_lowercase()).filter(|word| !word.is_empty());
        words.map(|text| Word { line: at + 1, text }).collect::<Vec<_>>()
    };
    text.lines().enumerate().flat_map(of_line).collect()
}

/// Where the words of `phrase` follow each other in a text, also across lines: the numbers of the lines.
pub fn lines_with(text: &str, phrases: &[&str]) -> Vec<(usize, String)> {
    let words = words(text);
    let mut found = Vec::new();
    for phrase in phrases {
        let wanted: Vec<&str> = phrase.split(' ').collect();
        let fits = |run: &&[Word]| run.iter().map(|word| word.text.as_str()).eq(wanted.iter().copied());
        let runs = words.windows(wanted.len()).filter(fits);
        found.extend(runs.filter_map(<[Word]>::first).map(|word| (word.line, (*phrase).to_owned())));
    }
    found.sort();
    found
}

/// The texts in the string literals of Rust code, each at its line; code and comments are blank.
pub fn messages(code: &str) -> String {
    let mut found = String::new();
    let mut rest = code;
    while let Some(first) = rest.chars().next() {
        let skipped = if let Some(comment) = rest.strip_prefix("//") {
            2 + comment.find('\n').unwrap_or(comment.len())
        } else if rest.starts_with("'\"'") {
            // a quotation mark as a character is no string
            3
        } else if first == '"' {
            let text = rest.get(1..).unwrap_or_default();
            let end = end_of_string(text, rest_is_raw(code, rest));
            found.push_str(text.get(..end).unwrap_or_default());
            found.push(' ');
            (1 + end + 1).min(rest.len())
        } else {
            if first == '\n' {
                found.push('\n');
            }
            first.len_utf8()
        };
        rest = rest.get(skipped..).unwrap_or_default();
    }
    found
}

/// How many `#` end the string that begins `rest`, if it is a raw one.
fn rest_is_raw(code: &str, rest: &str) -> Option<usize> {
    let before = code.get(..code.len() - rest.len()).unwrap_or_default();
    let marks = before.len() - before.trim_end_matches('#').len();
    before.trim_end_matches('#').ends_with('r').then_some(marks)
}

/// Where a string ends whose text begins here.
fn end_of_string(text: &str, raw: Option<usize>) -> usize {
    if let Some(marks) = raw {
        return text.find(&format!("\"{}", "#".repeat(marks))).unwrap_or(text.len());
    }
    let mut is_escaped = false;
    for (at, letter) in text.char_indices() {
        match letter {
            '"' if !is_escaped => return at,
            '\\' => is_escaped = !is_escaped,
            _ => is_escaped = false,
        }
    }
    text.len()
}

/// The sentences of a guide, without tables, headings, code and HTML. A point of a list is a sentence.
pub fn sentences(guide: &str) -> Vec<String> {
    let mut text = String::new();
    let prose = guide.split("```").step_by(2).flat_map(str::lines);
    for line in prose.filter(|line| !line.starts_with(['|', '#', '<'])) {
        let item = line.trim_start();
        if item.is_empty() || item.starts_with("- ") || item.starts_with(|first: char| first.is_ascii_digit())
        {
            text.push('\n');
        }
        text.push_str(item);
        text.push(' ');
    }
    // what stands between backticks is one word, whatever is in it
    let parts = text.split('`').enumerate().map(|(at, part)| if at % 2 == 1 { "X" } else { part });
    let text: String = parts.collect();
    let ends = |at: usize, letter: char| {
        let after = text.get(at + letter.len_utf8()..).and_then(|rest| rest.chars().next());
        letter == '\n' || ".:;?!".contains(letter) && after.is_some_and(char::is_whitespace)
    };
    let mut all = vec![String::new()];
    for (at, letter) in text.char_indices() {
        if ends(at, letter) {
            all.push(String::new());
        } else if let Some(last) = all.last_mut() {
            last.push(letter);
        }
    }
    all.iter().map(|sentence| sentence.trim().to_owned()).filter(|sentence| !sentence.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phrase_is_found_in_names_and_across_lines_and_not_in_other_words() {
        let text =
            "/// What one is\n/// told of it.\nfn a_job_IS_told() {}\n// this told, is tolder, nobodys";
        let found = lines_with(text, &["is told", "nobody"]);
        assert_eq!(found, [(1, "is told".to_owned()), (3, "is told".to_owned())]);
        assert_eq!(lines_with("Nobody's turn, nobody", &["nobody"]), [(1, "nobody".to_owned())]);
    }

    #[test]
    fn messages_are_the_strings_of_code_at_their_lines() {
        let code = "// a \"comment\"\nlet a = \"one \\\" // two\";\nf('\"', r#\"three \"four\"\"#); // \"five\"\n\"six\nseven\"";
        let lines: Vec<String> = messages(code).lines().map(|line| line.trim().to_owned()).collect();
        assert_eq!(lines, ["", "one \\\" // two", "three \"four\"", "six", "seven"]);
    }

    #[test]
    fn sentences_end_at_marks_and_points_of_lists_and_leave_code_and_tables_out() {
        let guide =
            "# Title\nOne. Two `a. b` c\n- three: four v1.2\n\n| a table. |\n```text\nfive. six\n```\n";
        assert_eq!(sentences(guide), ["One", "Two X c", "- three", "four v1.2"]);
    }
}
