//! What decided a number besides the attempts: each sort declared once, with its texts. A new one is a value of the wire's `SizeBoundKind` and
//! a row here.
//!
//! A bound is sent as the message `SizeBound`, and as the text of its row for peers of 0.2.0, which know only that. The store has the text
//! alone. So texts are only added and never changed; a text that no row has, from another release, is shown as it is.

use std::fmt;

use crate::{
    WireEnum as _,
    measured::IncompleteNeed,
    v1::{self, SizeBoundKind},
};

/// What explains a number beside its bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Beside {
    /// The attempts, and "enough for N % of builds".
    Share,
    /// The attempts: the share is that of the number before the bound changed it.
    Attempts,
    /// Nothing: attempts did not decide it.
    Nothing,
}

macro_rules! size_bounds {
    ($(
        $(#[$doc:meta])*
        $Kind:ident $(($($part:ident: $Type:ty),+))?: $text:literal, $clause:literal, $beside:ident;
    )+) => {
        /// What decided a number besides the attempts. Sizes and times in it are texts for people.
        #[derive(Debug, Clone, Default, PartialEq, Eq)]
        pub enum SizeBound {
            /// Nothing: the attempts alone decided.
            #[default]
            None,
            $($(#[$doc])* $Kind $(($($Type),+))?,)+
            /// A bound that this release does not know: the text that another release sent for it.
            Other(String),
        }

        impl SizeBound {
            /// The bound as a clause of a sentence; empty for none.
            pub fn clause(&self) -> String {
                match self {
                    Self::None => String::new(),
                    $(Self::$Kind $(($($part),+))? => format!($clause),)+
                    Self::Other(text) => text.clone(),
                }
            }

            /// The bound on the wire; `None` if there is none, or the wire has only its text.
            pub fn to_wire(&self) -> Option<v1::SizeBound> {
                match self {
                    Self::None | Self::Other(_) => None,
                    $(Self::$Kind $(($($part),+))? => Some(v1::SizeBound {
                        kind: SizeBoundKind::$Kind.into(),
                        $($($part: Clone::clone($part),)+)?
                        ..v1::SizeBound::default()
                    }),)+
                }
            }

            pub(super) fn of_wire(wire: v1::SizeBound) -> Option<Self> {
                match wire.kind() {
                    SizeBoundKind::Unspecified => None,
                    $(SizeBoundKind::$Kind => Some(Self::$Kind $(($(wire.$part),+))?),)+
                }
            }

            fn beside(&self) -> Beside {
                match self {
                    Self::None | Self::Other(_) => Beside::Share,
                    $(Self::$Kind { .. } => Beside::$beside,)+
                }
            }
        }

        impl fmt::Display for SizeBound {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    Self::None => Ok(()),
                    $(Self::$Kind $(($($part),+))? => write!(f, $text),)+
                    Self::Other(text) => f.write_str(text),
                }
            }
        }

        const fn text_of(kind: SizeBoundKind) -> &'static str {
            match kind {
                SizeBoundKind::Unspecified => "",
                $(SizeBoundKind::$Kind => $text,)+
            }
        }
    };
}

// Variant with its parts; text, clause, what explains the number beside it.
size_bounds! {
    /// The configured default, because nothing is known.
    Default: "default", "the default: nothing is known about it yet", Nothing;
    /// The number in the caller's question.
    AskedFor: "asked for", "named in the key", Nothing;
    /// Lowered to the operator's cap.
    Cap(size: String): "cap of {size}", "cut to the cap of {size}", Share;
    /// Raised to the operator's floor.
    Floor(size: String): "floor of {size}", "raised to the floor of {size}", Share;
    /// A preset, used until more is known.
    Preset: "the preset", "the preset, until more is known", Nothing;
    /// A limit that was raised to its request.
    Request: "the request", "raised to the request", Share;
    /// Kept near the last size, because sizes decrease in steps.
    LastSize(size: String): "last size of {size}", "going down in steps from the last size of {size}", Share;
    /// Raised by untrusted attempts, to at most this multiple of the size from trusted ones.
    TrustedTimes(count: u64): "{count} times what trusted attempts say",
        "raised by untrusted attempts to {count} times what trusted ones need", Share;
    /// Raised by untrusted attempts, to what trusted ones of any project need.
    TrustedNeed: "what trusted attempts of any project need",
        "raised by untrusted attempts to what trusted ones of any project need", Share;
    /// Peaks that Prometheus read: they can raise a limit, but not lower it. No complete need supports a lower limit.
    PeaksFromPrometheus: "peaks from Prometheus", "peaks from Prometheus raise a limit and do not lower it", Nothing;
    /// The same of needs that are sums over processes.
    NeedsByProcesses: "needs measured by processes", "needs measured by processes raise a limit and do not lower it", Nothing;
    /// The same of needs of builds that rescue paused.
    NeedsOfPaused: "needs of paused builds", "needs of paused builds raise a limit and do not lower it", Nothing;
    /// Lowered to the largest size that the pool of this name accepts.
    Pool(pool: String, size: String): "pool {pool} takes {size} at most", "cut to what pool {pool} takes, {size}", Share;
    /// The size that the last attempt had.
    LastAttempt: "size of the last attempt", "same as the last attempt", Nothing;
    /// The limit of the last attempt, which had requested more than its limit.
    LastLimit: "limit of the last attempt", "the limit of the last attempt, although it asked for more", Nothing;
    /// A step above the size at which memory stopped the last attempt.
    Stopped(size: String): "step above {size}, where it was stopped",
        "a step above {size}, where memory stopped the last attempt", Attempts;
    /// The need of those similar builds that needed more than the size at which memory stopped the last attempt.
    NeededAbove(size: String): "needs above {size}, where it was stopped",
        "above {size}, where memory stopped the last attempt: what similar builds needed", Attempts;
    /// The size that the last attempt would have reached at its growth, above the size at which memory stopped it.
    Grown(size: String): "growth above {size}, where it was stopped",
        "above {size}, where memory stopped the last attempt: what its growth leads to", Nothing;
    /// The size in the verdict on the previous attempt.
    VerdictBefore: "size of the verdict before", "as the verdict on the attempt before named it", Nothing;
    /// The use of the last attempt, which its node evicted because it used more than its request.
    AboveRequest(size: String): "use above the request of {size}",
        "what the last attempt used above its request of {size}, with room for its files", Nothing;
    /// Number of build jobs with the most weight, because newer and more similar attempts used it, although others were used as often.
    MostWeight: "weight of the attempts", "used by the newer and more similar attempts", Attempts;
    /// A step above the size that the last attempt may have had; its true size is not known.
    MayHaveHad(size: String): "step above {size}, which it may have had",
        "a step above {size}, the limit predicted for the last attempt", Attempts;
    /// The time that the last attempt had, which was not enough.
    TooShort(size: String): "step above {size}, which was not enough", "the last attempt was not done after {size}", Nothing;
    /// A step above the number of cores at which the last attempt was throttled.
    HeldBack(size: String): "step above {size} cores, where it was held back",
        "a step above {size} cores, where the limit held the last attempt back", Nothing;
    /// Half of the last attempt's build jobs, because no more memory than this is available.
    HalfOf(count: u64, size: String): "half of {count}, because {size} is the most memory there is",
        "half of {count}, because {size} is the most memory there is", Nothing;
    /// As many build jobs as fit in the largest memory size that is available.
    RoomIn(size: String): "room in {size}, the most memory there is",
        "as many as fit in {size}, the most memory there is", Nothing;
    /// The size before a lowering that failed.
    TakenBack(size: String): "{size} before a lowering that failed",
        "back to {size}, which it had before a lowering that failed", Nothing;
}

impl SizeBound {
    /// The bound of a number; its text is read only if the other side did not send the message, or sent one of a newer release.
    pub fn of(basis: &v1::Basis) -> Self {
        basis.size_bound.clone().and_then(Self::of_wire).unwrap_or_else(|| Self::parse(&basis.bound))
    }

    /// Parses a text that [`fmt::Display`] wrote.
    pub fn parse(text: &str) -> Self {
        let other = || if text.is_empty() { Self::None } else { Self::Other(text.to_owned()) };
        let known = SizeBoundKind::all().find_map(|kind| {
            let bound = v1::SizeBound { kind: kind.into(), ..v1::SizeBound::default() };
            Self::of_wire(with_parts(bound, text_of(kind), text)?)
        });
        known.unwrap_or_else(other)
    }

    /// The bound by needs of this source.
    pub const fn incomplete(source: IncompleteNeed) -> Self {
        match source {
            IncompleteNeed::Prometheus => Self::PeaksFromPrometheus,
            IncompleteNeed::Processes => Self::NeedsByProcesses,
            IncompleteNeed::Paused => Self::NeedsOfPaused,
        }
    }

    /// Whether needs that may be below the peak decided.
    pub const fn is_incomplete(&self) -> bool {
        matches!(self, Self::PeaksFromPrometheus | Self::NeedsByProcesses | Self::NeedsOfPaused)
    }

    /// Whether a text leaves out "enough for N % of builds".
    pub(super) fn hides_coverage(&self) -> bool {
        self.beside() != Beside::Share
    }

    /// Whether the number is explained without naming attempts.
    pub(super) fn needs_no_source(&self) -> bool {
        self.beside() == Beside::Nothing
    }

    /// Whether the attempt before decided the number.
    #[rustfmt::skip]
    pub(super) const fn is_after_attempt(&self) -> bool {
        matches!(self, Self::LastAttempt | Self::LastLimit | Self::Stopped(_) | Self::NeededAbove(_) | Self::Grown(_)
            | Self::AboveRequest(_) | Self::MayHaveHad(_) | Self::TooShort(_) | Self::HeldBack(_))
    }

    /// Whether a cap or a pool made the number smaller than it should be.
    pub const fn is_cut(&self) -> bool {
        matches!(self, Self::Cap(_) | Self::Pool(..))
    }

    /// Like [`Self::clause`], with the size of the step if the bound is a step.
    pub(super) fn clause_with_step(&self, step: &str) -> String {
        self.clause().replacen("a step above ", &format!("a step of {step} above "), 1)
    }
}

/// Fills in the parts that a text has where its pattern has `{size}`, `{pool}` or `{count}`; `None` if the text is not of the pattern.
fn with_parts(mut bound: v1::SizeBound, pattern: &str, text: &str) -> Option<v1::SizeBound> {
    let Some((head, rest)) = pattern.split_once('{') else { return (pattern == text).then_some(bound) };
    let (part, tail) = rest.split_once('}')?;
    let text = text.strip_prefix(head)?;
    // what is between two parts
    let between = tail.split('{').next()?;
    let at = if between.is_empty() { text.len() } else { text.rfind(between)? };
    let (value, rest) = text.split_at_checked(at)?;
    match part {
        "size" => value.clone_into(&mut bound.size),
        "pool" => value.clone_into(&mut bound.pool),
        _ => bound.count = value.parse().ok()?,
    }
    with_parts(bound, tail, rest)
}
