//! What a colour stands for.

use plimsoll_proto::v1::Cause;
use plotters::style::RGBColor;

macro_rules! tones {
    ($($tone:ident $name:literal $red:literal $green:literal $blue:literal)*) => {
        /// What a colour stands for. Each has a colour of its own on light screens; the stylesheet finds it by that colour.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(in super::super) enum Tone { $($tone),* }

        impl Tone {
            /// All of them, for the test that the stylesheet knows each.
            #[cfg(test)]
            pub(in super::super) const ALL: &[Self] = &[$(Self::$tone),*];

            /// Its name in the stylesheet.
            pub(in super::super) fn name(self) -> &'static str {
                match self { $(Self::$tone => $name),* }
            }

            pub(super) fn color(self) -> RGBColor {
                match self { $(Self::$tone => RGBColor($red, $green, $blue)),* }
            }
        }
    };
}

tones! {
    Need "need" 0x1f 0x5f 0xbf
    Memory "memory" 0x7f 0xa8 0xd8
    Limit "limit" 0xc0 0x2a 0x2a
    Ask "ask" 0xa8 0x60 0x00
    Predicted "predicted" 0x0f 0x76 0x6e
    Cpu "cpu" 0x0e 0x7a 0x6b
    Waste "waste" 0xb4 0x69 0x0e
    Used "used" 0x25 0x63 0xb8
    Oom "oom" 0xc6 0x2f 0x2f
    Starved "starved" 0xd9 0x7a 0x06
    Timeout "timeout" 0x7a 0x4f 0xbf
    Infra "infra" 0x2b 0x7d 0xb5
    Same "same" 0x5c 0x67 0x77
    Other "other" 0x94 0x9e 0xac
    Phase "phase" 0xdf 0xe6 0xef
    Phase2 "phase2" 0xec 0xf0 0xf6
    Grid "grid" 0xe2 0xe6 0xeb
    Axis "axis" 0x9a 0xa4 0xb0
    Ink "ink" 0x4a 0x55 0x65
}

impl Tone {
    /// That of a kind of failure.
    pub(in super::super) fn of_cause(cause: Cause) -> Self {
        match cause {
            Cause::Oom | Cause::ToolOom => Self::Oom,
            Cause::Starved => Self::Starved,
            Cause::Timeout => Self::Timeout,
            Cause::Infra | Cause::Preempted | Cause::NodeLost | Cause::EvictedByNode | Cause::Contention => {
                Self::Infra
            }
            Cause::Deterministic => Self::Same,
            _ => Self::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stylesheet_knows_each_tone_by_its_colour_and_by_its_name() {
        let style = include_str!("../assets/style.css");
        for tone in Tone::ALL {
            let RGBColor(red, green, blue) = tone.color();
            let color = format!("=\"#{red:02X}{green:02X}{blue:02X}\"]");
            assert!(style.contains(&color), "{tone:?}: no rule for {color}");
            let same = Tone::ALL.iter().filter(|other| other.color() == tone.color()).count();
            assert_eq!(same, 1, "{tone:?} shares its colour");
            assert!(style.matches(&format!("--{}:", tone.name())).count() >= 2, "{tone:?}: light and dark");
        }
    }
}
