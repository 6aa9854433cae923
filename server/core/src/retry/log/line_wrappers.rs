//! Removes wrappers from a line: the prefixes that runners, containers and loggers add, several of them one after the other. Pure, and
//! applied before all rules.
//!
//! | in front of a line | written by |
//! |---|---|
//! | `2024-05-22T12:43:46.9626460Z `, `2024-05-22T12:43:46.962646Z 01O `, `[2023-03-06T18:34:20.273Z] ` | GitHub and Azure, GitLab, Jenkins |
//! | `09:42:00 `, `(16:45:36) `, `04:46.040  `, `[10:02:11]W:  [Step 1/3] ` | Jenkins, Bazel, Gradle profilers, `TeamCity` |
//! | `Apr 19 17:50:10 host runner[71]: `, `2014/07/25 18:00:59 `, `[  12.345678] ` | syslog, Go, the kernel |
//! | `#12 51.29 `, `51.29 `, `builder-1  \| `, `[linux-gcc] `, `[build : make] ` | `BuildKit`, Compose, jobs that run side by side, Tekton |
//! | `##[error]`, `::error file=x::`, `[ERROR] `, `INFO: ` | commands of GitHub and Azure, loggers |
//! | `DEBUG util.py:463:  `, `BUILDSTDERR: ` | mock in its `root.log` and `build.log` |
//! | `  >> 124    `, `     123    `, `│ ` | Spack's summary of a log, pip |
//! | `> ` | a log that quotes another |
//!
//! A line that is a JSON object counts as its message ([`json_message`]).
//!
//! Colours are removed too, also where only their letters are left (`#033[0m`, `[31m`), and so are Buildkite's markers.

use std::{borrow::Cow, sync::LazyLock};

use regex::Regex;

/// Most wrappers removed from one line.
const MAX_WRAPPERS: usize = 8;

static COLOURS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(concat!(
        r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]_P^][^\x07\x1b\n]*(?:\x07|\x1b\\)?|[()][0-9A-Z])",
        // what remains of a colour sequence after its escape character was lost, or printed as text
        r"|(?:#033|\\033|\\x1[bB]|\\u001[bB]|\^\[)\[[0-9;]*[mK]|\[[0-9]{1,3}(?:;[0-9]{1,3}){0,4}m",
    ))
    .ok()
});

/// Matches what loggers put before a line of output: a time, the number of a build step, the name of a container.
static LINE_PREFIX_OF_TOOLS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"(?x) ^[\ \t]* (?:
            [\[(]? [0-9]{4}[-/][0-9]{2}[-/][0-9]{2} [T\ ] [0-9]{2}:[0-9]{2}:[0-9]{2} (?:[.,][0-9]{1,9})?
                (?: Z | \ ?[+-][0-9]{2}:?[0-9]{2} | \ UTC )? [\])]? :? (?: \ [0-9a-f]{2}[OE][+\ ] | [\ \t] | $ )
          | \[ [0-9]{2}:[0-9]{2}:[0-9]{2} \] [WEFi\ ]? : [\ \t]*
          | [\[(]? [0-9]{1,2}:[0-9]{2} (?: :[0-9]{2} (?:[.,][0-9]{1,6})? | \.[0-9]{3} ) [\])]? (?: [\ \t] | $ )
          | [A-Z][a-z]{2} \ [\ 0-9][0-9] \ [0-9]{2}:[0-9]{2}:[0-9]{2} \ [A-Za-z0-9_.-]+ \ [A-Za-z0-9_./-]+ (?:\[[0-9]+\])? : \ ?
          | \#[0-9]+ \ (?: [0-9]+\.[0-9]{1,6} (?: \ | $ ) )?
          | [0-9]{1,7}\.[0-9]{1,6} (?: \ | $ )
          | \[ \ *[0-9]+\.[0-9]{1,6}s? \] \ ?
          | (?: [A-Z]?[a-z][A-Za-z0-9_.@/-]{0,60} | \[MASKED\] ) \ + \| (?: \ | $ )
          | \[ [A-Za-z] [A-Za-z0-9_\ .,:/@+-]{0,60} \] (?: [\ \t] | $ )
          | \#\#\[ [a-z]+ \]
          | :: (?: error | notice | debug | group ) (?: \ [^:]{1,200} )? ::
          | (?: DEBUG | INFO | ERROR | CRITICAL ) \ [a-z_]{1,40}\.py:[0-9]{1,6}: \ {1,2}
          | BUILDSTDERR: (?: \ | $ )
          | (?: TRACE | DEBUG | INFO | NOTICE ) :? [\ ]
        ) | ^\ \ + (?:>>\ )? [0-9]+ \ {4}
          | ^[\ \t]* (?: [│┃] \ ? | >{1,3} (?: \ | $ ) )",
    )
    .ok()
});

/// Matches a field of a JSON object that holds what a logger was given: its message, and the error beside it. The value may be cut.
static JSON_MESSAGE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r#""(?:@?message|msg|log|text|line|error|err|reason|detail)"[ \t]*:[ \t]*"((?:[^"\\]|\\.)*)"#)
        .ok()
});

/// Longest name before a JSON object in a line.
const PREFIX_BYTES: usize = 80;

/// The message of a line that a logger wrote as a JSON object, behind a name or alone, or as one field of it, with its wrappers; `None` for every other line. Line breaks in the message
/// become carriage returns, so that the line keeps its number.
pub(in crate::retry) fn json_message(line: &str) -> Option<String> {
    let object = behind_prefix(unwrapped(line).trim_start());
    // a field of an object that takes several lines, or the object
    let is_field = object.starts_with('"')
        && JSON_MESSAGE.as_ref()?.find(object).is_some_and(|field| field.start() == 0);
    if !is_field && (!object.starts_with('{') || !object.contains("\":")) {
        return None;
    }
    let parts: Vec<String> =
        JSON_MESSAGE.as_ref()?.captures_iter(object).map(|found| unescaped(&found[1])).collect();
    (!parts.is_empty()).then(|| parts.join(": "))
}

/// The object that ends a line, behind the name of what wrote it; any other line as it is.
fn behind_prefix(line: &str) -> &str {
    let is_prefix = |at: &usize| *at <= PREFIX_BYTES && line.ends_with('}');
    let at = line.find(" {\"").filter(is_prefix);
    let object = at.and_then(|at| line.split_at_checked(at)).filter(|(prefix, _)| !prefix.contains('"'));
    object.map_or(line, |(_, object)| object.trim_start())
}

/// The text of a JSON string. An escape that is cut or not known stays as it is.
fn unescaped(value: &str) -> String {
    let quoted = serde_json::from_str::<String>(&format!("\"{value}\""));
    quoted.unwrap_or_else(|_| value.replace("\\n", "\n").replace("\\\"", "\"")).replace('\n', "\r")
}

/// The text without colours, NUL and byte-order mark.
pub(in crate::retry) fn plain_text(text: &str) -> String {
    let plain = COLOURS.as_ref().map_or(Cow::Borrowed(text), |colours| colours.replace_all(text, ""));
    let letters = plain.chars().filter(|c| !matches!(c, '\0' | '\u{feff}'));
    // a byte-order mark of UTF-16 that was read as UTF-8 becomes this character
    letters.skip_while(|c| *c == '\u{fffd}').collect()
}

/// The line without wrappers and without white space at its end; its own indentation stays.
pub(in crate::retry) fn unwrapped(line: &str) -> &str {
    let mut line = line.trim_end();
    for _ in 0..MAX_WRAPPERS {
        let wrapper = LINE_PREFIX_OF_TOOLS.as_ref().and_then(|wrapper| wrapper.find(line));
        let Some(wrapper) = wrapper.filter(|wrapper| !is_warning(wrapper.as_str())) else { break };
        line = line.get(wrapper.end()..).unwrap_or_default();
    }
    line
}

/// Whether the wrapper marks a warning (`[WARN] `, `##[warning]`). Such a wrapper is kept, because it shows that the line is no error.
fn is_warning(wrapper: &str) -> bool {
    let letters = wrapper.trim_start_matches(|c: char| !c.is_ascii_alphabetic());
    letters.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("warn"))
}

#[cfg(test)]
pub(in crate::retry) mod tests {
    use super::*;

    /// Patterns for wrappers, one for each family.
    pub(in crate::retry) const FAMILIES: &[&str] = &[
        "2024-05-22T12:43:46.9626460Z ",
        "2024-05-22T12:43:46.962646Z 01O ",
        "2024-05-22T12:43:46.962646Z 0aE+",
        "2024-05-22 12:43:46,123 ",
        "[2023-03-06T18:34:20.273Z] ",
        "2014/07/25 18:00:59 ",
        "09:42:00 ",
        "(16:45:36) ",
        "04:46.040 ",
        "[10:02:11]W:\t [Step 1/3] ",
        "Apr 19 17:50:10 runner01 gitlab-runner[1701482]: ",
        "[   12.345678] ",
        "#12 51.29 ",
        "#12 ",
        "51.29 ",
        "builder-1  | ",
        // the sender masks the first line of a log if it may be the rest of a secret
        "[MASKED]  | ",
        "[linux-gcc] ",
        "[build : make] ",
        "[ERROR] ",
        "##[error]",
        "::error file=x.c,line=3::",
        "INFO: ",
        "DEBUG util.py:463:  ",
        "BUILDSTDERR: ",
        "  >> 124    ",
        "     123    ",
        "  │ ",
        "> ",
        "  >> ",
    ];

    #[test]
    fn whatever_wraps_a_line_is_taken_off() {
        for line in ["x.c:1:2: error: no", "  File \"x.py\", line 3", "ERROR: Job failed: exit code 1"] {
            let pairs =
                FAMILIES.iter().flat_map(|outer| FAMILIES.iter().map(move |inner| format!("{outer}{inner}")));
            for wrapper in FAMILIES.iter().map(ToString::to_string).chain(pairs) {
                assert_eq!(unwrapped(&format!("{wrapper}{line}")), line, "{wrapper}");
            }
        }
        for line in [
            "  12 files",
            "  12",
            "2024-05-22 x",
            ">>>>>>> theirs",
            ">x",
            "[  FAILED  ] a.b",
            "[28] no",
            "[WARN] x.c:1:2: no",
            "##[warning]no",
            "# FAIL: 1",
            "a|b",
            "",
        ] {
            assert_eq!(unwrapped(line), line);
        }
    }

    #[test]
    fn a_line_of_json_counts_as_its_message() {
        for (line, message) in [
            (r#"{"time": "1", "level": "info", "msg": "cc1: out of memory"}"#, "cc1: out of memory"),
            (
                r#"2024-05-22T12:43:46.9626460Z {"log":"a.c:1:2: error: no \"x\"\n","stream":"stderr"}"#,
                "a.c:1:2: error: no \"x\"\r",
            ),
            (
                r#"{"level":"error","msg":"build failed","error":"no space left on device"}"#,
                "build failed: no space left on device",
            ),
            (r#"{"msg": "cut off in the mid"#, "cut off in the mid"),
            (r#"  "message": "API rate limit exceeded","#, "API rate limit exceeded"),
            (r#"build-7 stderr: {"level":"error","msg":"disk is full"}"#, "disk is full"),
        ] {
            assert_eq!(json_message(line).as_deref(), Some(message));
        }
        for line in [
            "{",
            "{}",
            "{\"a\": 1}",
            "int f() { return 1; }",
            "\"name\": \"x\"",
            "\"a\" is no message: \"msg\": \"x\"",
            "sent \"a\" as {\"msg\": \"x\"}",
            "sent {\"msg\": \"x\"} again",
            &format!("{} {{\"msg\": \"x\"}}", "long".repeat(PREFIX_BYTES)),
        ] {
            assert_eq!(json_message(line), None);
        }
    }

    #[test]
    fn leftover_colour_codes_are_removed() {
        for coloured in [
            "\x1b[1;31ma\x1b[0m",
            "#033[0;33ma",
            "^[[31ma^[[0m",
            "[31ma[0m",
            "\x1b_bk;t=17\x07a",
            "\u{fffd}a",
        ] {
            assert_eq!(plain_text(coloured), "a", "{coloured:?}");
        }
        assert_eq!(plain_text("10 %\r\u{feff}x[3] = [28] y"), "10 %\rx[3] = [28] y");
    }
}
