//! The tones of charts: what each colour means.

use plimsoll_proto::{cause::Cause, v1};

macro_rules! tones {
    ($($tone:ident $name:literal)*) => {
        /// The meaning of a colour. The stylesheet has a class of the same name.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Tone { $($tone),* }

        impl Tone {
            /// All tones, for the test that the stylesheet has a class for each.
            #[cfg(test)]
            pub(crate) const ALL: &[Self] = &[$(Self::$tone),*];

            /// Name of the tone in the stylesheet.
            pub(crate) fn name(self) -> &'static str {
                match self { $(Self::$tone => $name),* }
            }
        }
    };
}

tones! {
    Need "need"
    Memory "memory"
    Limit "limit"
    Ask "ask"
    Predicted "predicted"
    Cpu "cpu"
    Waste "waste"
    Used "used"
    Oom "oom"
    Starved "starved"
    Timeout "timeout"
    Infra "infra"
    Same "same"
    Other "other"
    Phase "phase"
    Phase2 "phase2"
    Grid "grid"
    Axis "axis"
    Ink "ink"
    Sheet "sheet"
}

impl Tone {
    /// The tone of a cause of failure.
    pub(crate) fn of_cause(cause: v1::Cause) -> Self {
        match Cause::of_wire(cause) {
            Some(Cause::Oom | Cause::ToolOom) => Self::Oom,
            Some(Cause::Starved) => Self::Starved,
            Some(Cause::Timeout) => Self::Timeout,
            Some(Cause::Deterministic) => Self::Same,
            // a retry waits for what is outside the build
            Some(cause) if cause.traits().wait_s != [0, 0] => Self::Infra,
            _ => Self::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_tone_has_light_and_dark_colours() {
        let style = include_str!("../assets/style.css");
        for tone in Tone::ALL {
            let name = tone.name();
            let rule = format!("[data-tone=\"{name}\"] {{ color: var(--{name}); }}");
            assert!(style.contains(&rule), "{tone:?}: no rule {rule}");
            assert!(style.matches(&format!("--{name}:")).count() >= 2, "{tone:?}: light and dark");
        }
    }
}
