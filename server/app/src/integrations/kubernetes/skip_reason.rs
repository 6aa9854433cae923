//! Why a pod passes without new sizes, as metrics and the log say it.

/// Why a pod keeps the sizes that it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SkipReason {
    /// The question is not about a new pod.
    NoPod,
    /// It is in a namespace that is not ours.
    Namespace,
    /// It has no job's number, or no container that builds.
    NotAJob,
    /// It was looked at before.
    Done,
    /// Its sizes are what they should be.
    Fits,
    /// It says that it wants to be left alone.
    OptedOut,
    /// It has sizes for the whole pod, with which those of a container might not go together.
    PodSizes,
    /// It runs on another system than Linux, where no build is measured.
    OtherSystem,
    /// Too little is known of its job.
    Unsure,
    /// Shadow mode is on for its job.
    Shadow,
    /// The pod, or its job, cannot be read.
    Unreadable,
    /// Something went wrong here.
    Failed,
    /// The answer took too long.
    Late,
    /// Too many pods were asked about at once.
    TooMany,
    /// The question is no review of `admission.k8s.io/v1`.
    Malformed,
    /// Nothing proves that the API server asks.
    NotProven,
}

impl SkipReason {
    /// All of them.
    pub(crate) const ALL: [Self; 16] = [
        Self::NoPod,
        Self::Namespace,
        Self::NotAJob,
        Self::Done,
        Self::Fits,
        Self::OptedOut,
        Self::PodSizes,
        Self::OtherSystem,
        Self::Unsure,
        Self::Shadow,
        Self::Unreadable,
        Self::Failed,
        Self::Late,
        Self::TooMany,
        Self::Malformed,
        Self::NotProven,
    ];

    /// The word in metrics.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::NoPod => "no_pod",
            Self::Namespace => "other_namespace",
            Self::NotAJob => "no_job",
            Self::Done => "done_before",
            Self::Fits => "fits",
            Self::OptedOut => "opted_out",
            Self::PodSizes => "pod_sizes",
            Self::OtherSystem => "other_system",
            Self::Unsure => "unsure",
            Self::Shadow => "shadow",
            Self::Unreadable => "unreadable",
            Self::Failed => "failed",
            Self::Late => "late",
            Self::TooMany => "too_many",
            Self::Malformed => "malformed",
            Self::NotProven => "not_proven",
        }
    }

    /// Why, as a sentence for the log.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::NoPod => "the question is not about a new pod",
            Self::Namespace => "its namespace is not in admit_namespaces",
            Self::NotAJob => "it has no job id, or no container named build",
            Self::Done => "it was sized before",
            Self::Fits => "its sizes are right",
            Self::OptedOut => "its annotation plimsoll/admit is off",
            Self::PodSizes => "it has sizes for the whole pod (spec.resources)",
            Self::OtherSystem => "it does not run on Linux",
            Self::Unsure => "too little is known of its job (admit_confidence)",
            Self::Shadow => "shadow mode is on for its job",
            Self::Unreadable => "the pod or its job cannot be read",
            Self::Failed => "the server could not work it out",
            Self::Late => "the answer took longer than admit_within",
            Self::TooMany => "too many pods were asked about at once",
            Self::Malformed => "the question is no AdmissionReview of admission.k8s.io/v1",
            Self::NotProven => "the question came without the secret in admit_secret_file",
        }
    }

    /// Whether a CI job's pod keeps its own sizes for this reason, or what may be one: such pods are counted, because a runner or an API
    /// server that changed could keep all of them away from sizes without another sign.
    pub(crate) fn is_unsized(self) -> bool {
        !matches!(self, Self::NoPod | Self::Namespace | Self::NotAJob | Self::Done | Self::Fits)
    }
}
