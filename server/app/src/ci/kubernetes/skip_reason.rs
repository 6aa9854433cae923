//! Why a pod keeps its sizes, for metrics and the log.

use plimsoll_base::named_enum;

named_enum! {
    /// Why a pod keeps its sizes.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) enum SkipReason {
        /// The request is not about a new pod.
        NoPod => "no_pod",
        /// The pod's namespace is excluded.
        Namespace => "other_namespace",
        /// The pod has no job number, or no build container.
        NotAJob => "no_job",
        /// The pod was reviewed already.
        Done => "done_before",
        /// The pod's sizes are already right.
        Fits => "fits",
        /// An annotation of the pod opts out.
        OptedOut => "opted_out",
        /// The pod has pod-level sizes, which might contradict those of a container.
        PodSizes => "pod_sizes",
        /// The pod runs on a system other than Linux, where builds are not measured.
        OtherSystem => "other_system",
        /// Too little is known about the pod's job.
        Unsure => "unsure",
        /// The pod's job is in shadow mode.
        Shadow => "shadow",
        /// The pod or its job cannot be parsed.
        Unreadable => "unreadable",
        /// The server failed to compute the sizes.
        Failed => "failed",
        /// The answer took too long.
        Late => "late",
        /// Too many requests arrived at once.
        TooMany => "too_many",
        /// The request is not a review of `admission.k8s.io/v1`.
        Malformed => "malformed",
        /// The request does not prove that it comes from the API server.
        NotProven => "not_proven",
    }
}

impl SkipReason {
    /// The reason as a sentence, for the log.
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

    /// Whether the pod may be of a CI job and stays without sizes for this reason. Such pods are
    /// counted: a changed runner or API server could otherwise leave all pods without sizes,
    /// unnoticed.
    pub(crate) fn is_unsized(self) -> bool {
        !matches!(self, Self::NoPod | Self::Namespace | Self::NotAJob | Self::Done | Self::Fits)
    }
}
