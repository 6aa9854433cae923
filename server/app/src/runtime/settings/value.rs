//! How values of settings are parsed and printed, by type. Errors describe a valid text, and what
//! is printed can be parsed again.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use plimsoll_core::{
    domain::{Bytes, Cores},
    gantry::ExtraVariable,
    stats::{Prices, RefClasses},
};

use super::{
    LogFormat,
    by_module::{
        admission::{AdmissionMode, PodSize},
        gitlab::BaseUrl,
    },
    parse,
};

/// A value that can be written as text in a settings file.
pub(super) trait Written {
    /// The value as written in a file; empty if it is not set.
    fn written(&self) -> String;
}

/// A type of which one text gives the whole value.
pub(super) trait Value: Sized {
    /// Parses a value; the error describes a valid text.
    fn parse(text: &str) -> Result<Self, String>;
}

impl<T: Written> Written for Option<T> {
    fn written(&self) -> String {
        self.as_ref().map(T::written).unwrap_or_default()
    }
}

impl<T: Value> Value for Option<T> {
    fn parse(text: &str) -> Result<Self, String> {
        T::parse(text).map(Some)
    }
}

/// Implements [`Written`] for types that are displayed as they are written in a file.
macro_rules! written_as_displayed {
    ($($type:ty),+) => {
        $(impl Written for $type {
            fn written(&self) -> String {
                self.to_string()
            }
        })+
    };
}

written_as_displayed!(String, u8, u32, usize, f64, SocketAddr, BaseUrl, Prices, RefClasses);

macro_rules! read_by {
    ($($type:ty: $parse:expr),+ $(,)?) => {
        $(impl Value for $type {
            fn parse(text: &str) -> Result<Self, String> {
                $parse(text)
            }
        })+
    };
}

read_by! {
    bool: parse::on_off,
    Bytes: parse::size,
    Cores: parse::cores,
    Duration: parse::time,
    SocketAddr: parse::address,
    PathBuf: parse::file,
    BaseUrl: BaseUrl::parse,
    Prices: Prices::parse,
    RefClasses: RefClasses::parse,
    LogFormat: parse::log_format,
    AdmissionMode: |text| parse::word(text, &AdmissionMode::ALL, AdmissionMode::as_str),
    Vec<PodSize>: |text| parse::words(text, &PodSize::ALL, PodSize::as_str),
    Vec<ExtraVariable>: |text| parse::words(text, &ExtraVariable::ALL, ExtraVariable::as_str),
    Vec<(String, Bytes)>: parse::sizes,
    Vec<(String, f64)>: parse::shares,
}

impl Written for bool {
    fn written(&self) -> String {
        if *self { "on" } else { "off" }.to_owned()
    }
}

impl Written for PathBuf {
    fn written(&self) -> String {
        self.display().to_string()
    }
}

impl Written for Bytes {
    /// The exact size; what is displayed for people is rounded.
    fn written(&self) -> String {
        match self {
            Self(n) if n.is_multiple_of(1 << 30) => format!("{}GiB", n >> 30),
            Self(n) if n.is_multiple_of(1 << 20) => format!("{}MiB", n >> 20),
            Self(n) => format!("{n}B"),
        }
    }
}

impl Written for Cores {
    /// The exact number; what is displayed for people is rounded.
    fn written(&self) -> String {
        self.0.to_string()
    }
}

impl Written for Duration {
    /// The duration in the largest unit that divides it: `365days`, `36h`, `15s`. Months and years
    /// are not used, because their length is a mean: a year would be `11months 30days 3h 50m 24s`.
    fn written(&self) -> String {
        let units = [("days", 86_400), ("h", 3600), ("m", 60), ("s", 1)];
        let seconds = self.as_secs();
        let fits = |(_, unit): &(&str, u64)| seconds >= *unit && seconds.is_multiple_of(*unit);
        match units.into_iter().find(fits).filter(|_| self.subsec_nanos() == 0) {
            Some(("days", 86_400)) if seconds == 86_400 => "1day".to_owned(),
            Some((name, unit)) => format!("{}{name}", seconds / unit),
            None => humantime::format_duration(*self).to_string(),
        }
    }
}

impl Written for LogFormat {
    fn written(&self) -> String {
        match self {
            Self::Text => "text".to_owned(),
            Self::Json => "json".to_owned(),
        }
    }
}

impl Written for AdmissionMode {
    fn written(&self) -> String {
        self.as_str().to_owned()
    }
}

impl Written for PodSize {
    fn written(&self) -> String {
        self.as_str().to_owned()
    }
}

impl Written for ExtraVariable {
    fn written(&self) -> String {
        self.as_str().to_owned()
    }
}

impl<T: Written> Written for (String, T) {
    fn written(&self) -> String {
        format!("{}={}", self.0, self.1.written())
    }
}

impl<T: Written> Written for Vec<T> {
    fn written(&self) -> String {
        self.iter().map(T::written).collect::<Vec<_>>().join(",")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_use_the_largest_unit_and_round_trip() {
        for (seconds, text) in [
            (365 * 86_400, "365days"),
            (86_400, "1day"),
            (129_600, "36h"),
            (90, "90s"),
            (600, "10m"),
            (0, "0s"),
        ] {
            let time = Duration::from_secs(seconds);
            assert_eq!(time.written(), text);
            assert_eq!(humantime::parse_duration(text), Ok(time));
        }
        assert_eq!(Duration::from_millis(1500).written(), "1s 500ms");
    }
}
