//! What decided a number besides the attempts: a cap, a floor, the last attempt, and so on.
//!
//! | text on the wire and on disk | why the number is what it is |
//! |---|---|
//! | (empty) | the attempts alone decided |
//! | `default` | nothing is known |
//! | `asked for` | the request for a prediction contains the number |
//! | `cap of 400 MiB`, `floor of 64 MiB` | the operator set a largest or smallest size |
//! | `the preset` | the operator set a size that is used until more attempts are known |
//! | `the request` | a limit is never below its request |
//! | `last size of 15.62 GiB` | sizes decrease in steps, so this one may not be far below the last one |
//! | `4 times what trusted attempts say`, `what trusted attempts of any project need` | untrusted attempts may raise a size only up to this |
//! | `peaks from Prometheus`, `needs measured by processes` | only lower bounds of the peak are known: they may raise a limit, but not lower it |
//! | `pool big takes 256.00 GiB at most` | the largest builder of the pool has no more |
//! | `size of the last attempt`, `limit of the last attempt` | the retry gets the same size; a request above the limit counts as the limit |
//! | `step above 280 MiB, where it was stopped` | memory was short at this size |
//! | `needs above 280 MiB, where it was stopped` | memory was short at this size, and similar builds show how much more is needed |
//! | `growth above 280 MiB, where it was stopped` | memory was short at this size, and the need was still growing |
//! | `size of the verdict before` | the verdict on the attempt before named this size, and a next size is never smaller |
//! | `use above the request of 100 MiB` | the node evicted the attempt for memory, and the attempt used more than it had requested |
//! | `weight of the attempts` | several numbers of build jobs were used equally often; the one of the newer and more similar attempts was taken |
//! | `step above 4.00 GiB, which it may have had` | memory was short, and the attempt's size is not known |
//! | `step above 1 min 0 s, which was not enough` | the time limit was too short |
//! | `step above 2.00 cores, where it was held back` | the CPU limit slowed the build down |
//! | `half of 4, because 400 MiB is the most memory there is` | memory cannot be raised, so the build gets fewer jobs |
//! | `room in 400 MiB, the most memory there is` | memory cannot be raised, so the build gets as many jobs as fit |
//!
//! Texts are only added and never changed, because agent and server may be of different releases.

use std::fmt;

use crate::measured::IncompleteNeed;

/// What decided a number besides the attempts. Sizes and times in it are texts for people.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum SizeBound {
    /// Nothing: the attempts alone decided.
    #[default]
    None,
    /// The configured default, because nothing is known.
    Default,
    /// The number in the caller's question.
    AskedFor,
    /// Lowered to the operator's cap.
    Cap(String),
    /// Raised to the operator's floor.
    Floor(String),
    /// A preset, used until more is known.
    Preset,
    /// A limit that was raised to its request.
    Request,
    /// Kept near the last size, because sizes decrease in steps.
    LastSize(String),
    /// Raised by untrusted attempts, to at most this multiple of the size from trusted ones.
    TrustedTimes(u64),
    /// Raised by untrusted attempts, to what trusted ones of any project need.
    TrustedNeed,
    /// Needs that may be below the peak: they can raise a limit, but not lower it. No complete need supports a lower limit.
    Incomplete(IncompleteNeed),
    /// Lowered to the largest size that this pool accepts.
    Pool {
        /// Name of the pool.
        name: String,
        /// The largest size that the pool accepts.
        most: String,
    },
    /// The size that the last attempt had.
    LastAttempt,
    /// The limit of the last attempt, which had requested more than its limit.
    LastLimit,
    /// A step above the size at which memory stopped the last attempt.
    Stopped(String),
    /// The need of those similar builds that needed more than the size at which memory stopped the last attempt.
    NeededAbove(String),
    /// The size that the last attempt would have reached at its growth, above the size at which memory stopped it.
    Grown(String),
    /// The size in the verdict on the previous attempt.
    VerdictBefore,
    /// The use of the last attempt, which its node evicted because it used more than its request.
    AboveRequest(String),
    /// Number of build jobs with the most weight, because newer and more similar attempts used it, although others were used as often.
    MostWeight,
    /// A step above the size that the last attempt may have had; its true size is not known.
    MayHaveHad(String),
    /// The time that the last attempt had, which was not enough.
    TooShort(String),
    /// A step above the number of cores at which the last attempt was throttled.
    HeldBack(String),
    /// Half of the last attempt's build jobs, because no more memory is available.
    HalfOf {
        /// Build jobs of the last attempt.
        jobs: u64,
        /// The most memory that is available.
        most: String,
    },
    /// As many build jobs as fit in the largest memory size that is available.
    RoomIn(String),
    /// A bound that this release does not know: the text that another release sent for it.
    Other(String),
}

/// A bound with one text in it: the words before the text, the words after it, and the bound.
type TextBound = (&'static str, &'static str, fn(String) -> SizeBound);

/// All bounds with one text.
const WITH_ONE_TEXT: [TextBound; 11] = [
    ("cap of ", "", SizeBound::Cap),
    ("floor of ", "", SizeBound::Floor),
    ("last size of ", "", SizeBound::LastSize),
    ("room in ", ", the most memory there is", SizeBound::RoomIn),
    ("use above the request of ", "", SizeBound::AboveRequest),
    ("needs above ", ", where it was stopped", SizeBound::NeededAbove),
    ("growth above ", ", where it was stopped", SizeBound::Grown),
    ("step above ", ", where it was stopped", SizeBound::Stopped),
    ("step above ", ", which it may have had", SizeBound::MayHaveHad),
    ("step above ", ", which was not enough", SizeBound::TooShort),
    ("step above ", " cores, where it was held back", SizeBound::HeldBack),
];

impl SizeBound {
    /// Parses a text that [`fmt::Display`] wrote.
    pub fn parse(text: &str) -> Self {
        let whole = match text {
            "" => Some(Self::None),
            "default" => Some(Self::Default),
            "asked for" => Some(Self::AskedFor),
            "the preset" => Some(Self::Preset),
            "the request" => Some(Self::Request),
            "what trusted attempts of any project need" => Some(Self::TrustedNeed),
            "size of the last attempt" => Some(Self::LastAttempt),
            "limit of the last attempt" => Some(Self::LastLimit),
            "size of the verdict before" => Some(Self::VerdictBefore),
            "weight of the attempts" => Some(Self::MostWeight),
            _ => None,
        };
        let incomplete =
            || IncompleteNeed::ALL.into_iter().find(|need| need.name() == text).map(Self::Incomplete);
        whole
            .or_else(incomplete)
            .or_else(|| Self::parse_parts(text))
            .unwrap_or_else(|| Self::Other(text.to_owned()))
    }

    fn parse_parts(text: &str) -> Option<Self> {
        let between = |start: &str, end: &str| text.strip_prefix(start)?.strip_suffix(end).map(str::to_owned);
        if let Some(bound) =
            WITH_ONE_TEXT.iter().find_map(|(start, end, bound)| between(start, end).map(bound))
        {
            return Some(bound);
        }
        if let Some(pool) = between("pool ", " at most") {
            let (name, most) = pool.rsplit_once(" takes ")?;
            return Some(Self::Pool { name: name.to_owned(), most: most.to_owned() });
        }
        if let Some(half) = between("half of ", " is the most memory there is") {
            let (jobs, most) = half.split_once(", because ")?;
            return Some(Self::HalfOf { jobs: jobs.parse().ok()?, most: most.to_owned() });
        }
        between("", " times what trusted attempts say")?.parse().ok().map(Self::TrustedTimes)
    }

    /// Whether a text leaves out "enough for N % of builds": that share is of the number before this reason changed it.
    pub(super) fn hides_coverage(&self) -> bool {
        matches!(
            self,
            Self::Default
                | Self::AskedFor
                | Self::Preset
                | Self::Incomplete(_)
                | Self::LastAttempt
                | Self::LastLimit
                | Self::Stopped(_)
                | Self::NeededAbove(_)
                | Self::Grown(_)
                | Self::VerdictBefore
                | Self::AboveRequest(_)
                | Self::MostWeight
                | Self::MayHaveHad(_)
                | Self::TooShort(_)
                | Self::HeldBack(_)
                | Self::HalfOf { .. }
                | Self::RoomIn(_)
        )
    }

    /// Whether the number is explained without naming attempts, because attempts did not decide it.
    pub(super) fn needs_no_source(&self) -> bool {
        // these four bounds are taken from similar builds, so the attempts are named
        self.hides_coverage()
            && !matches!(
                self,
                Self::NeededAbove(_) | Self::Stopped(_) | Self::MayHaveHad(_) | Self::MostWeight
            )
    }

    /// Whether a cap or a pool made the number smaller than it should be.
    pub fn is_cut(&self) -> bool {
        matches!(self, Self::Cap(_) | Self::Pool { .. })
    }

    /// Like [`Self::clause`], with the size of the step if the bound is a step.
    pub(super) fn clause_with_step(&self, step: &str) -> String {
        let clause = self.clause();
        match (self, clause.strip_prefix("a step above ")) {
            (Self::Stopped(_) | Self::MayHaveHad(_) | Self::HeldBack(_), Some(rest)) => {
                format!("a step of {step} above {rest}")
            }
            _ => clause,
        }
    }

    /// The bound as a clause of a sentence; empty for none.
    pub fn clause(&self) -> String {
        match self {
            Self::None => String::new(),
            Self::Default => "the default: nothing is known about it yet".to_owned(),
            Self::AskedFor => "named in the key".to_owned(),
            Self::Cap(cap) => format!("cut to the cap of {cap}"),
            Self::Floor(floor) => format!("raised to the floor of {floor}"),
            Self::Preset => "the preset, until more is known".to_owned(),
            Self::Request => "raised to the request".to_owned(),
            Self::LastSize(last) => format!("going down in steps from the last size of {last}"),
            Self::TrustedTimes(times) => {
                format!("raised by untrusted attempts to {times} times what trusted ones need")
            }
            Self::TrustedNeed => {
                "raised by untrusted attempts to what trusted ones of any project need".to_owned()
            }
            Self::Incomplete(need) => format!("{} raise a limit and do not lower it", need.name()),
            Self::Pool { name, most } => format!("cut to what pool {name} takes, {most}"),
            Self::LastAttempt => "same as the last attempt".to_owned(),
            Self::LastLimit => "the limit of the last attempt, although it asked for more".to_owned(),
            Self::Stopped(size) => format!("a step above {size}, where memory stopped the last attempt"),
            Self::NeededAbove(size) => {
                format!("above {size}, where memory stopped the last attempt: what similar builds needed")
            }
            Self::Grown(size) => {
                format!("above {size}, where memory stopped the last attempt: what its growth leads to")
            }
            Self::VerdictBefore => "as the verdict on the attempt before named it".to_owned(),
            Self::AboveRequest(request) => {
                format!("what the last attempt used above its request of {request}, with room for its files")
            }
            Self::MostWeight => "used by the newer and more similar attempts".to_owned(),
            Self::MayHaveHad(size) => {
                format!("a step above {size}, the limit predicted for the last attempt")
            }
            Self::TooShort(time) => format!("the last attempt was not done after {time}"),
            Self::HeldBack(cores) => {
                format!("a step above {cores} cores, where the limit held the last attempt back")
            }
            Self::HalfOf { jobs, most } => {
                format!("half of {jobs}, because {most} is the most memory there is")
            }
            Self::RoomIn(most) => format!("as many as fit in {most}, the most memory there is"),
            Self::Other(text) => text.clone(),
        }
    }
}

impl fmt::Display for SizeBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => Ok(()),
            Self::Default => f.write_str("default"),
            Self::AskedFor => f.write_str("asked for"),
            Self::Cap(cap) => write!(f, "cap of {cap}"),
            Self::Floor(floor) => write!(f, "floor of {floor}"),
            Self::Preset => f.write_str("the preset"),
            Self::Request => f.write_str("the request"),
            Self::LastSize(last) => write!(f, "last size of {last}"),
            Self::TrustedTimes(times) => write!(f, "{times} times what trusted attempts say"),
            Self::TrustedNeed => f.write_str("what trusted attempts of any project need"),
            Self::Incomplete(need) => f.write_str(need.name()),
            Self::Pool { name, most } => write!(f, "pool {name} takes {most} at most"),
            Self::LastAttempt => f.write_str("size of the last attempt"),
            Self::LastLimit => f.write_str("limit of the last attempt"),
            Self::Stopped(size) => write!(f, "step above {size}, where it was stopped"),
            Self::NeededAbove(size) => write!(f, "needs above {size}, where it was stopped"),
            Self::Grown(size) => write!(f, "growth above {size}, where it was stopped"),
            Self::VerdictBefore => f.write_str("size of the verdict before"),
            Self::AboveRequest(request) => write!(f, "use above the request of {request}"),
            Self::MostWeight => f.write_str("weight of the attempts"),
            Self::MayHaveHad(size) => write!(f, "step above {size}, which it may have had"),
            Self::TooShort(time) => write!(f, "step above {time}, which was not enough"),
            Self::HeldBack(cores) => write!(f, "step above {cores} cores, where it was held back"),
            Self::HalfOf { jobs, most } => {
                write!(f, "half of {jobs}, because {most} is the most memory there is")
            }
            Self::RoomIn(most) => write!(f, "room in {most}, the most memory there is"),
            Self::Other(text) => f.write_str(text),
        }
    }
}
