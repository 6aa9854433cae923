//! A recorded failure: turns a line of the input file into evidence for a verdict.

use std::{fmt, sync::Arc};

use plimsoll_base::log_excerpt::LogExcerpt;
use plimsoll_core::domain::{
    AttemptId, Bytes, CpuMicros, Evidence, Exit, Key, Millis, Outcome, Resources, Summary,
};
use plimsoll_proto::limits;
use serde::{Deserialize, Deserializer, de};

/// The fields of a line of the input file. Other fields of the line are ignored.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
#[expect(clippy::struct_field_names, reason = "the names are those of the file")]
pub struct Failure {
    id: Option<TextOrNumber>,
    exit: Option<i32>,
    signal: Option<i32>,
    oom_kill: Option<u64>,
    mem_limit: Option<f64>,
    mem_failcnt: Option<u64>,
    peak_bytes: Option<f64>,
    peak_rss: Option<f64>,
    wall_s: Option<f64>,
    cpu_s: Option<f64>,
    timeout_s: Option<f64>,
    package: Option<TextOrNumber>,
    version: Option<TextOrNumber>,
    jobs: Option<u32>,
    container_reason: Option<TextOrNumber>,
    pod_reason: Option<TextOrNumber>,
    failure_reason: Option<TextOrNumber>,
    log_tail: LogTail,
}

impl Failure {
    /// Reads one line of JSON; bytes that are not UTF-8 are replaced. `None` if the line is empty.
    pub(super) fn parse(line: &[u8]) -> Result<Option<Self>, String> {
        let text = String::from_utf8_lossy(line);
        // some programs begin a file with a byte order mark
        let text = text.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '\u{feff}');
        let fault = |what: String| format!("is no recorded failure: {what}");
        match text.as_bytes().first() {
            None => Ok(None),
            Some(b'{') => serde_json::from_str(text).map(Some).map_err(|error| fault(error.to_string())),
            Some(_) => Err(fault("it must be an object, {...}".to_owned())),
        }
    }

    /// ID of the failure; empty if it has none.
    pub(super) fn id(&self) -> &str {
        text_or_empty(self.id.as_ref())
    }

    fn exit(&self) -> Option<Exit> {
        match (self.exit, self.signal.filter(|signal| *signal > 0)) {
            // if code and signal disagree, the signal ended a child process and not the build: only the code
            // counts
            (Some(code), Some(signal)) if code != signal.saturating_add(128) && code != -signal => {
                Some(Exit::Code(code))
            }
            (_, Some(signal)) => Some(Exit::Signal(signal)),
            (code, None) => code.map(Exit::Code),
        }
    }

    /// The evidence about the failure. With `log_only` it has only the exit code, the signal and the log.
    pub(super) fn evidence(self, log_only: bool) -> Evidence {
        let measured = if log_only { None } else { self.measured().map(Arc::new) };
        let unless_log_only = |reason: Option<&TextOrNumber>| {
            if log_only { String::new() } else { text_or_empty(reason).to_owned() }
        };
        let id = attempt(self.id());
        Evidence {
            key: self.key(),
            measured,
            exit: self.exit(),
            failure_reason: unless_log_only(self.failure_reason.as_ref()),
            container_reason: unless_log_only(self.container_reason.as_ref()),
            pod_reason: unless_log_only(self.pod_reason.as_ref()),
            time_limit: self.timeout_s.filter(|_| !log_only).map(seconds),
            log_tail: self.log_tail.0,
            ..Evidence::about(id)
        }
    }

    fn key(&self) -> Key {
        let mut key = Key {
            package: text_or_empty(self.package.as_ref()).to_owned(),
            version: text_or_empty(self.version.as_ref()).to_owned(),
            ..Key::default()
        };
        key.hints.build_jobs = self.jobs;
        key
    }

    /// The measured numbers; `None` if the line has none.
    fn measured(&self) -> Option<Summary> {
        let numbers = [self.mem_limit, self.peak_bytes, self.peak_rss, self.wall_s];
        if numbers.iter().all(Option::is_none) && self.oom_kill.is_none() && self.mem_failcnt.is_none() {
            return None;
        }
        let size = |size: Option<f64>| Bytes::from_f64(size.unwrap_or_default());
        let (wall, exit) = (seconds(self.wall_s.unwrap_or_default()), self.exit());
        // without CPU time, assume that the build used a whole core: a verdict that the build was stuck needs a
        // measured CPU time
        let cpu = seconds(self.cpu_s.or(self.wall_s).unwrap_or_default());
        Some(Summary {
            resources: Resources {
                memory_limit: self.mem_limit.filter(|limit| *limit > 0.0).map(Bytes::from_f64),
                ..Resources::default()
            },
            wall,
            cpu: CpuMicros(cpu.0.saturating_mul(1000)),
            need_peak: size(self.peak_rss),
            need_mean: size(self.peak_rss),
            memory_peak: size(self.peak_bytes),
            oom_kill: self.oom_kill,
            reclaim_failures: self.mem_failcnt,
            outcome: match exit {
                Some(Exit::Code(0)) => Outcome::Succeeded,
                Some(_) => Outcome::Failed,
                None => Outcome::Lost,
            },
            exit,
            ..Summary::recorded(attempt(self.id()), self.key())
        })
    }
}

fn seconds(seconds: f64) -> Millis {
    Millis::from_f64(seconds * 1000.0)
}

/// The attempt's id: the id in the file, without the characters that are not allowed.
fn attempt(id: &str) -> AttemptId {
    let plain: String = id.chars().filter(|c| c.is_ascii_alphanumeric() || "._:/-".contains(*c)).collect();
    let plain = plain.get(..plain.len().min(limits::ATTEMPT_BYTES)).unwrap_or_default();
    AttemptId::parse(plain).unwrap_or_else(|_empty| AttemptId::unnamed())
}

fn text_or_empty(text: Option<&TextOrNumber>) -> &str {
    text.map(|text| text.0.as_str()).unwrap_or_default()
}

/// A text field; a number is accepted as a text too, because some programs write ids as numbers.
#[derive(Debug)]
struct TextOrNumber(String);

impl<'de> Deserialize<'de> for TextOrNumber {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct TextVisitor;
        impl de::Visitor<'_> for TextVisitor {
            type Value = TextOrNumber;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text or a whole number")
            }
            fn visit_str<E>(self, text: &str) -> Result<TextOrNumber, E> {
                Ok(TextOrNumber(text.to_owned()))
            }
            fn visit_u64<E>(self, number: u64) -> Result<TextOrNumber, E> {
                Ok(TextOrNumber(number.to_string()))
            }
            fn visit_i64<E>(self, number: i64) -> Result<TextOrNumber, E> {
                Ok(TextOrNumber(number.to_string()))
            }
        }
        from.deserialize_any(TextVisitor)
    }
}

/// An excerpt of a log, which the file has as one text or as a list of lines: its errors and its end.
#[derive(Debug, Default)]
struct LogTail(String);

impl LogTail {
    fn of(log: LogExcerpt) -> Self {
        Self(String::from_utf8_lossy(&log.finish(<[u8]>::to_vec)).into_owned())
    }
}

impl<'de> Deserialize<'de> for LogTail {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(TailVisitor)
    }
}

struct TailVisitor;

impl<'de> de::Visitor<'de> for TailVisitor {
    type Value = LogTail;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a log as a text or as a list of lines")
    }

    fn visit_unit<E>(self) -> Result<LogTail, E> {
        Ok(LogTail::default())
    }

    fn visit_str<E>(self, text: &str) -> Result<LogTail, E> {
        let mut log = LogExcerpt::new(limits::LOG_TAIL_BYTES, 0);
        log.push(text.as_bytes());
        Ok(LogTail::of(log))
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut lines: A) -> Result<LogTail, A::Error> {
        let mut log = LogExcerpt::new(limits::LOG_TAIL_BYTES, 0);
        while let Some(line) = lines.next_element::<String>()? {
            log.push(line.as_bytes());
            log.push(b"\n");
        }
        Ok(LogTail::of(log))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &[u8]) -> Result<Failure, String> {
        Failure::parse(line).map(Option::unwrap)
    }

    #[test]
    fn failure_lines_ignore_unknown_fields() {
        let failure = parse(br#"{"id":7,"exit":1,"oom_kill":null,"x":[{}],"log_tail":["a","b"]}"#).unwrap();
        assert_eq!((failure.id(), failure.exit()), ("7", Some(Exit::Code(1))));
        let evidence = failure.evidence(false);
        assert_eq!((evidence.measured, evidence.log_tail.as_str()), (None, "a\nb\n"));
        let killed = parse(br#"{"exit":137,"signal":9,"log_tail":null,"peak_rss":1e9}"#).unwrap();
        let evidence = killed.evidence(false);
        assert_eq!(evidence.exit, Some(Exit::Signal(9)));
        assert_eq!(evidence.measured.unwrap().need_peak, Bytes(1_000_000_000));
    }

    #[test]
    fn what_is_no_failure_is_named() {
        for bad in ["7", "{", r#"{"exit":"one"}"#, r#"{"log_tail":7}"#, "{\"exit\":99999999999}", "[1]"] {
            let error = parse(bad.as_bytes()).unwrap_err();
            assert!(error.starts_with("is no recorded failure: "), "{bad}: {error}");
        }
        assert!(parse(&[b'{', 0xff, b'}']).is_err());
        assert_eq!(parse(b"\xef\xbb\xbf{\"id\":\"\xff\"}").unwrap().id(), "\u{fffd}");
    }

    #[test]
    fn only_the_tail_of_long_logs_is_kept() {
        let lines: Vec<String> = (0..100_000).map(|n| format!("\"line {n}\"")).collect();
        let failure = parse(format!("{{\"log_tail\":[{}]}}", lines.join(",")).as_bytes()).unwrap();
        assert!(failure.log_tail.0.len() <= limits::LOG_TAIL_BYTES);
        assert!(failure.log_tail.0.ends_with("line 99999\n"));
    }
}
