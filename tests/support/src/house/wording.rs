//! Words and sentences of the texts that people read: code, comments, messages and guides.

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
    all.iter().map(|said| said.trim().to_owned()).filter(|said| !said.is_empty()).collect()
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
    fn sentences_end_at_marks_and_points_of_lists_and_leave_code_and_tables_out() {
        let guide =
            "# Title\nOne. Two `a. b` c\n- three: four v1.2\n\n| a table. |\n```text\nfive. six\n```\n";
        assert_eq!(sentences(guide), ["One", "Two X c", "- three", "four v1.2"]);
    }
}
