//! Who may call what: one table for the rpcs, and one for the paths of the HTTP listener. The table of `security.md` is made from both.

use crate::access::identity::{Role, Roles};

/// An rpc or a path, and who may call it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Endpoint {
    /// The path, with `POST` in front where only such requests are meant; with `*` at its end, all paths that begin like this.
    path: &'static str,
    pub(super) who: Who,
    /// Whether the caller must be known by name: tickets are stored under the name of their owner.
    pub(super) needs_name: bool,
    /// Whether the call may last: it then holds no slot among the calls of its caller, but one among the streams if it has roles.
    pub(super) lasts: bool,
    /// Whether the client may send for as long as it likes.
    pub(super) sends: bool,
    /// What a caller that may see some projects can use instead, because the answer is over all projects.
    pub(super) instead: Option<&'static str>,
}

/// Whom an endpoint is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Who {
    Anyone,
    /// Callers with one of these roles.
    OneOf(&'static [Role]),
}

impl Who {
    /// The roles, one of which is enough; `None` if the endpoint is open to every caller.
    pub(super) fn roles(self) -> Option<Roles> {
        match self {
            Self::Anyone => None,
            Self::OneOf(roles) => Some(roles.iter().copied().collect()),
        }
    }
}

/// Path prefix of reflection, which is open to every caller.
pub(super) const REFLECTION: &str = "/grpc.reflection.";
/// Path of the backup on a running server.
pub(crate) const BACKUP_PATH: &str = "/admin/backup";
/// Path at which GitLab's hooks are delivered.
pub(super) const COLLECT_PATH: &str = "/v1/collect";
/// The path that clients of Resalloc ask where their address names none but `/`.
pub(super) const XML_RPC_PATH: &str = "/RPC2";

const AGENT: Who = Who::OneOf(&[Role::Agent]);
const CALLER: Who = Who::OneOf(&[Role::Caller]);
const READER: Who = Who::OneOf(&[Role::Reader]);
const OPERATOR: Who = Who::OneOf(&[Role::Operator]);
/// Of single tickets: access to one is checked later.
const CALLER_OR_OPERATOR: Who = Who::OneOf(&[Role::Caller, Role::Operator]);

/// The rpcs. What has no row here is not served.
const RPCS: [Endpoint; 23] = [
    Endpoint::of("/plimsoll.v1.Collector/Stream", AGENT).lasting().sending(),
    Endpoint::of("/plimsoll.v1.Predictor/Predict", CALLER),
    Endpoint::of("/plimsoll.v1.Predictor/PredictBatch", CALLER).lasting().sending(),
    Endpoint::of("/plimsoll.v1.Predictor/ShouldRetry", CALLER),
    Endpoint::of("/plimsoll.v1.Predictor/Explain", CALLER),
    Endpoint::of("/plimsoll.v1.Predictor/CorrectVerdict", OPERATOR),
    Endpoint::of("/plimsoll.v1.Stats/GetStats", READER),
    Endpoint::of("/plimsoll.v1.Stats/ListAttempts", READER),
    Endpoint::of("/plimsoll.v1.Stats/GetAttempt", READER),
    Endpoint::of("/plimsoll.v1.Stats/Recommend", READER),
    Endpoint::of("/plimsoll.v1.Stats/Watch", READER).lasting(),
    Endpoint::of("/plimsoll.v1.Placement/GetPools", READER),
    Endpoint::of("/plimsoll.v1.Placement/GetDemand", READER),
    Endpoint::of("/plimsoll.v1.Placement/OpenTicket", CALLER).named(),
    Endpoint::of("/plimsoll.v1.Placement/WatchTicket", CALLER_OR_OPERATOR).named().lasting(),
    Endpoint::of("/plimsoll.v1.Placement/CloseTicket", CALLER_OR_OPERATOR).named(),
    // what the caller itself may do
    Endpoint::of("/plimsoll.v1.Introspection/GetServer", Who::OneOf(&Role::ALL)),
    // the same totals of pools as GetDemand
    Endpoint::of("/externalscaler.ExternalScaler/IsActive", READER),
    Endpoint::of("/externalscaler.ExternalScaler/StreamIsActive", READER).lasting(),
    Endpoint::of("/externalscaler.ExternalScaler/GetMetricSpec", READER),
    Endpoint::of("/externalscaler.ExternalScaler/GetMetrics", READER),
    Endpoint::of("/grpc.health.*", Who::Anyone).lasting(),
    Endpoint::of("/grpc.reflection.*", Who::Anyone).lasting().sending(),
];

/// The paths of the HTTP listener.
const PATHS: [Endpoint; 11] = [
    Endpoint::of("/livez", Who::Anyone),
    Endpoint::of("/readyz", Who::Anyone),
    Endpoint::of("/readyz/reads", Who::Anyone),
    // the program contains no secret, and a job without a token should be measured too
    Endpoint::of("/agent/*", Who::Anyone),
    Endpoint::of("/v1/allocation", CALLER),
    Endpoint::of(COLLECT_PATH, Who::OneOf(&[Role::Hook])),
    Endpoint::of(BACKUP_PATH, OPERATOR)
        .over_all("a backup holds all of them, and needs an operator without projects in the access file"),
    Endpoint::of("/metrics", READER).over_all("ask over gRPC, with plimsoll stats --project"),
    // sent by the form that corrects a cause
    Endpoint::of("POST /attempts/*", OPERATOR),
    Endpoint::of("POST /RPC2", CALLER).named(),
    Endpoint::of("POST /", CALLER).named(),
];

/// GitLab's hooks where they have a secret, which proves the caller and is checked later.
pub(super) const HOOK_WITH_SECRET: Endpoint = Endpoint::of(COLLECT_PATH, Who::Anyone);
/// Kubernetes' webhook: the TLS settings of its listener, and a secret in its path, decide who may call.
pub(super) const WEBHOOK: Endpoint = Endpoint::of("/admit*", Who::Anyone);

/// Any other path, most of them pages.
const OTHER_PATHS: Endpoint = Endpoint::of("", READER);

impl Endpoint {
    const fn of(path: &'static str, who: Who) -> Self {
        Self { path, who, needs_name: false, lasts: false, sends: false, instead: None }
    }

    const fn named(self) -> Self {
        Self { needs_name: true, ..self }
    }

    const fn lasting(self) -> Self {
        Self { lasts: true, ..self }
    }

    const fn sending(self) -> Self {
        Self { sends: true, ..self }
    }

    const fn over_all(self, instead: &'static str) -> Self {
        Self { instead: Some(instead), ..self }
    }

    fn is_at(&self, path: &str, posts: bool) -> bool {
        let own = self.path.strip_prefix("POST ");
        let matches = |own: &str| own.strip_suffix('*').map_or(path == own, |start| path.starts_with(start));
        matches(own.unwrap_or(self.path)) && (posts || own.is_none())
    }
}

/// The row of an rpc; `None` for what is not served.
pub(super) fn of_rpc(path: &str) -> Option<&'static Endpoint> {
    RPCS.iter().find(|row| row.is_at(path, true))
}

/// The row of a path. `posts`: the method is `POST`.
pub(super) fn of_path(path: &str, posts: bool) -> &'static Endpoint {
    PATHS.iter().find(|row| row.is_at(path, posts)).unwrap_or(&OTHER_PATHS)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of the guide: a line for whom, with all that is for them.
    fn table() -> String {
        let whose = |who: Who| match who {
            Who::Anyone => "everyone, also without a token".to_owned(),
            Who::OneOf(roles) if roles.len() == Role::ALL.len() => "any role".to_owned(),
            Who::OneOf(roles) => {
                roles.iter().map(|role| format!("`{}`", role.as_str())).collect::<Vec<_>>().join(" or ")
            }
        };
        let shown = |row: &Endpoint| {
            let ours = ["/plimsoll.v1.", "/externalscaler."].iter().find_map(|of| row.path.strip_prefix(of));
            format!("`{}`", ours.unwrap_or(row.path))
        };
        let rows = || RPCS.iter().chain(&PATHS);
        let mut whom: Vec<Who> = Vec::new();
        for row in rows() {
            if !whom.contains(&row.who) {
                whom.push(row.who);
            }
        }
        let line = |who: &Who| {
            let names: Vec<_> = rows().filter(|row| row.who == *who).map(shown).collect();
            let others = (*who == READER).then(|| "all other paths of the HTTP port".to_owned());
            format!(
                "| {} | {} |\n",
                whose(*who),
                names.into_iter().chain(others).collect::<Vec<_>>().join(", ")
            )
        };
        "| for | rpcs and paths |\n|---|---|\n".to_owned() + &whom.iter().map(line).collect::<String>()
    }

    #[test]
    fn the_guide_says_who_may_call_what() {
        let guide = include_str!("../../../../deploy/docs/security.md");
        let from =
            guide.split_inclusive('\n').skip_while(|line| !line.starts_with("| for | rpcs and paths |"));
        let shown: String = from.take_while(|line| line.starts_with('|')).collect();
        plimsoll_proto::fixtures::assert_pinned(&table(), &shown, "who_may_call");
    }

    #[test]
    fn unknown_rpcs_are_refused_and_pages_need_readers() {
        for unknown in ["/plimsoll.v1.Stats/X", "/plimsoll.v2.Stats/Watch", "/grpc.healthX/Check", "/", ""] {
            assert!(of_rpc(unknown).is_none(), "{unknown}");
        }
        assert!(of_rpc(&format!("{REFLECTION}v1.X/Y")).is_some_and(|row| row.sends));
        assert!(of_path(XML_RPC_PATH, true).needs_name);
        assert_eq!(of_path("/attempts/x", false).who, READER, "a page");
        assert_eq!(of_path("/agent", false).who, READER);
    }
}
