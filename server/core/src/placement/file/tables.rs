//! The tables and fields of the operator's file. Other modules decide what they mean.

use std::collections::BTreeMap;

use plimsoll_base::quantity;
use serde::Deserialize;
use toml::Spanned;

use crate::placement::node::Toleration;

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct PlacementFile {
    /// Currency of all prices, for people.
    pub(super) currency: String,
    /// Pools of builders.
    /// Value: 0 to 64 tables.
    pub(super) pool: Vec<PoolTable>,
    /// Nodes of the cluster, for `plimsoll-server pools capacity`. The scheduler of the cluster reads its own labels.
    /// Value: 0 to 1000 tables.
    pub(super) node: Vec<NodeTable>,
    /// What the kinds of builds get: `scratch`, `explicit`, `auto`, `isolated` and `orchestrator`.
    pub(super) kind: BTreeMap<String, Spanned<KindTable>>,
    /// Rules that choose a pool. The first one that takes a build decides.
    /// Value: 0 to 500 tables; 1,000 expressions in one file.
    pub(super) rule: Vec<Spanned<RuleTable>>,
    /// How slots are shared.
    pub(super) tickets: TicketsTable,
}

/// The table `tickets`: how slots are shared among tickets.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct TicketsTable {
    /// Tickets that may run at once.
    /// Value: whole number, at least 1.
    /// Default: no limit.
    pub(super) at_once: Option<Spanned<u32>>,
    /// Tickets of each owner that is not named in `owner`.
    /// Value: whole number, at least 1.
    /// Default: no limit.
    pub(super) each_owner: Option<Spanned<u32>>,
    /// Tickets of this owner.
    /// Value: names of 1 to 256 bytes, each with a whole number of at least 1.
    pub(super) owner: BTreeMap<String, Spanned<u32>>,
    /// Tickets that need this tag: a licence, a board.
    /// Value: up to 16 names of 1 to 63 of A-Z a-z 0-9 . _ -, each with a whole number of at least 1.
    pub(super) tag: BTreeMap<String, Spanned<u32>>,
    /// Tickets for these processors, such as `x86_64` or `aarch64`.
    /// Value: names of architectures, each with a whole number of at least 1.
    pub(super) arch: BTreeMap<String, Spanned<u32>>,
    /// Tickets that are kept, granted or waiting. One more is refused.
    /// Value: whole number, 1 to 1000000.
    /// Default: `100000`.
    pub(super) most_open: Option<Spanned<u32>>,
    /// A ticket that waits ends when no caller asks for it or watches it for this time.
    /// Value: time, 1 s to 24 h.
    /// Default: `2m`.
    pub(super) ask_within: Option<Spanned<String>>,
    /// A granted ticket ends when no attempt begins in its slot within this time.
    /// Value: time, 1 s to 24 h.
    /// Default: `15m`.
    pub(super) start_within: Option<Spanned<String>>,
    /// A ticket ends when the agent of its attempt is silent for this time.
    /// Value: time, 10 s to 24 h.
    /// Default: `10m`.
    pub(super) silent_within: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PoolTable {
    /// Name of the pool, once in the file.
    /// Value: 1 to 63 of A-Z a-z 0-9 . _ -.
    pub(super) name: Spanned<String>,
    /// What its builders run.
    /// Value: `linux`, `windows`, `darwin` or `freebsd`.
    /// Default: `linux`.
    pub(super) os: Option<Spanned<String>>,
    /// Processors of its builders, such as `x86_64` or `aarch64`.
    /// Value: name of an architecture.
    /// Default: every build.
    #[serde(default)]
    pub(super) arch: String,
    /// Cores of one builder, and so of the largest build.
    /// Value: cores, more than 0.
    /// Default: no bound.
    pub(super) cores: Option<Spanned<Cpu>>,
    /// Memory of one builder, and so of the largest build.
    /// Value: size, at least 1 MiB, at most 1 PiB.
    /// Default: no bound.
    pub(super) memory: Option<Spanned<String>>,
    /// Disk of the largest build.
    /// Value: size, at least 1 MiB, at most 1 PiB.
    /// Default: no bound.
    pub(super) disk: Option<Spanned<String>>,
    /// The runner's `*_overwrite_max_allowed`: a job that asks for more fails.
    /// Default: no bound.
    pub(super) overwrite_max: Option<OverwriteMax>,
    /// Price of one GiB of memory for one hour.
    /// Value: number, 0 to 1000000000.
    #[serde(default)]
    pub(super) price_gib_hour: f64,
    /// Price of one core for one hour.
    /// Value: number, 0 to 1000000000.
    #[serde(default)]
    pub(super) price_core_hour: f64,
    /// Build jobs of one build, for `plimsoll recommend --classes`. It changes nothing here.
    /// Value: whole number, 1 to 4096.
    /// Default: `cores`, rounded up.
    pub(super) build_jobs: Option<u32>,
    /// Attempts that may run here at once.
    /// Value: whole number, at least 1.
    /// Default: no limit; in a pool with hosts, the number of hosts.
    pub(super) at_once: Option<u32>,
    /// Its builders are made on demand. Of two pools that cost the same, the standing one is taken.
    #[serde(default)]
    pub(super) on_demand: bool,
    /// Only a rule puts a build here.
    #[serde(default)]
    pub(super) by_rule: bool,
    /// Names by which rules, runners and tickets know it.
    #[serde(default)]
    pub(super) tags: Vec<String>,
    /// More of them. A client of Resalloc gets a slot here only with a ticket that names one of these.
    #[serde(default)]
    pub(super) tags_on_demand: Vec<String>,
    /// Standing machines, by name or address. Each is given to one ticket at a time, if it answers on `check_port`.
    /// Value: list of up to 1000 texts, each once in the file.
    #[serde(default)]
    pub(super) hosts: Vec<Spanned<String>>,
    /// File with more of them: one per line; `#` begins a comment. It is read again when it changes, as this file is. A name without a
    /// leading `/` is in the folder of this file.
    /// Value: path of a file with at least one host.
    /// Default: none.
    pub(super) hosts_file: Option<Spanned<String>>,
    /// TCP port on which a host must answer before it is given out. One that does not is left alone for a minute, then twice as long after
    /// each check that fails, up to 16 minutes.
    /// Value: 1 to 65535.
    /// Default: `22`.
    pub(super) check_port: Option<Spanned<u16>>,
    /// Seconds for which a host that was given back is kept for other tickets of the same project and sandbox, as in
    /// Resalloc.
    /// Value: whole number.
    /// Default: `0`.
    #[serde(default)]
    pub(super) reuse_opportunity_time: u32,
    /// Tickets of one sandbox that may have the same host one after the other; 0 is any number.
    /// Value: whole number.
    /// Default: `0`.
    #[serde(default)]
    pub(super) reuse_max_count: u32,
    /// Seconds for which one sandbox may keep a host, since its first ticket got it.
    /// Value: whole number.
    /// Default: `3600`.
    pub(super) reuse_max_time: Option<u32>,
    /// Address of a Resalloc server that starts a machine for each ticket which has its slot here. Its numbers belong to one client: unless
    /// `upstream_shared` is set, nothing but this server may take tickets there.
    /// Value: `http://HOST:PORT` or `https://HOST:PORT`, also with `USER:PASSWORD@`; not with `hosts`.
    /// Default: none.
    pub(super) upstream: Option<Spanned<String>>,
    /// File with the CA's certificate of an upstream with `https://`, in addition to those that the system trusts. It is read again when it changes.
    /// Value: path of a PEM file.
    /// Default: none.
    pub(super) upstream_ca_file: Option<Spanned<String>>,
    /// Others take tickets at the upstream, too. Then a ticket there is not closed if its number did not arrive here.
    #[serde(default)]
    pub(super) upstream_shared: bool,
    /// Tags for the upstream.
    /// Value: list of up to 8 texts of 1 to 128 bytes.
    /// Default: the ticket's tags; of a ticket that names none, `tags` of the pool.
    #[serde(default)]
    pub(super) upstream_tags: Vec<Spanned<String>>,
    /// Projects that may use it, as `owner/project`.
    /// Value: list of expressions.
    /// Default: every project.
    #[serde(default)]
    pub(super) allowed: Vec<Spanned<String>>,
    /// Labels of its nodes, which the webhook writes into pods.
    /// Value: labels of Kubernetes.
    #[serde(default)]
    pub(super) node_selector: BTreeMap<String, String>,
    /// Taints of its nodes that pods tolerate.
    #[serde(default)]
    pub(super) tolerations: Vec<Toleration>,
    /// Priority class of its pods. It must exist in the cluster.
    /// Value: name of Kubernetes.
    /// Default: none.
    #[serde(default)]
    pub(super) priority_class: String,
}

/// The largest sizes that a job may set itself: the runner's settings `*_overwrite_max_allowed`.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OverwriteMax {
    /// Largest memory request.
    /// Value: size, at least 1 MiB, at most 1 PiB.
    /// Default: `memory` of the pool.
    pub(super) memory_request: Option<Spanned<String>>,
    /// Largest memory limit.
    /// Value: size, at least 1 MiB, at most 1 PiB.
    /// Default: `memory` of the pool.
    pub(super) memory_limit: Option<Spanned<String>>,
    /// Largest CPU request.
    /// Value: cores, more than 0.
    /// Default: `cores` of the pool.
    pub(super) cpu_request: Option<Spanned<Cpu>>,
    /// Largest CPU limit.
    /// Value: cores, more than 0.
    /// Default: `cores` of the pool.
    pub(super) cpu_limit: Option<Spanned<Cpu>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NodeTable {
    /// Name of the node, once in the file.
    /// Value: text, not empty.
    pub(super) name: Spanned<String>,
    /// Its labels. It takes builds of a kind if it has all labels in the `node_selector` of the kind.
    /// Value: labels of Kubernetes.
    #[serde(default)]
    pub(super) labels: BTreeMap<String, String>,
    /// Builds that it runs at once.
    /// Value: whole number, at least 1.
    /// Default: `1`.
    pub(super) at_once: Option<u32>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct KindTable {
    /// Labels of the nodes for this kind, beside those of the pool.
    /// Value: labels of Kubernetes.
    pub(super) node_selector: BTreeMap<String, String>,
    /// Taints that pods of this kind tolerate, beside those of the pool.
    pub(super) tolerations: Vec<Toleration>,
    /// Priority class of its pods.
    /// Value: name of Kubernetes.
    /// Default: that of the pool.
    pub(super) priority_class: String,
    /// Priority class of a security fix.
    /// Value: name of Kubernetes.
    /// Default: `priority_class`.
    pub(super) raised_priority_class: String,
    /// Tickets of this kind that may run at once.
    /// Value: whole number, at least 1.
    /// Default: no limit.
    pub(super) at_once: Option<u32>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RuleTable {
    /// Name of the rule in answers and messages.
    /// Value: text.
    /// Default: its number.
    pub(super) name: String,
    /// Project of the build.
    /// Value: expression.
    /// Default: every build.
    pub(super) project: Option<Spanned<String>>,
    /// Owner of the build.
    /// Value: expression.
    /// Default: every build.
    pub(super) owner: Option<Spanned<String>>,
    /// Stack of the build.
    /// Value: expression.
    /// Default: every build.
    pub(super) stack: Option<Spanned<String>>,
    /// Package of the build.
    /// Value: expression.
    /// Default: every build.
    pub(super) package: Option<Spanned<String>>,
    /// Version of the package.
    /// Value: expression.
    /// Default: every build.
    pub(super) version: Option<Spanned<String>>,
    /// Architecture of the build, as the build says it.
    /// Value: expression.
    /// Default: every build.
    pub(super) arch: Option<Spanned<String>>,
    /// Branch or tag.
    /// Value: expression.
    /// Default: every build.
    pub(super) r#ref: Option<Spanned<String>>,
    /// Class of the branch or tag.
    /// Value: expression over `default`, `change`, `release`, `other`, `unknown`.
    /// Default: every build.
    pub(super) ref_class: Option<Spanned<String>>,
    /// Kind of the build.
    /// Value: expression.
    /// Default: every build.
    pub(super) kind: Option<Spanned<String>>,
    /// All of `owner/project/arch/package`.
    /// Value: expression.
    /// Default: every build.
    pub(super) key: Option<Spanned<String>>,
    /// Labels of the build.
    /// Value: table of expressions.
    /// Default: every build.
    pub(super) labels: BTreeMap<String, Spanned<String>>,
    /// Only builds that need more memory than this.
    /// Value: size, at least 1 MiB, at most 1 PiB.
    /// Default: every build.
    pub(super) memory_over: Option<Spanned<String>>,
    /// Only builds that need more cores than this.
    /// Value: cores, more than 0.
    /// Default: every build.
    pub(super) cores_over: Option<Spanned<Cpu>>,
    /// Only builds whose median time is longer than this.
    /// Value: time.
    /// Default: every build.
    pub(super) wall_p50_over: Option<String>,
    /// Only builds whose time for 95 % is longer than this.
    /// Value: time.
    /// Default: every build.
    pub(super) wall_p95_over: Option<String>,
    /// Copr's `EXTRA_BUILDCHROOT_TAGS`, as it stands in `copr.conf`. The tags of all patterns that match are wanted
    /// together.
    /// Value: text.
    /// Default: none.
    pub(super) copr: Option<Spanned<String>>,
    /// Pool that takes these builds. A rule has either this, or `tags`, `copr` or both.
    /// Value: name of a pool.
    /// Default: none.
    pub(super) pool: Option<String>,
    /// The cheapest pool with all of these tags takes these builds.
    pub(super) tags: Vec<String>,
    /// Pool to take when the wanted one is busy.
    /// Value: name of another pool.
    /// Default: the wanted pool.
    pub(super) when_busy: Option<String>,
    /// Builds that run or wait in the wanted pool, from which on it is busy. It needs `when_busy`.
    /// Value: whole number, at least 1.
    /// Default: the pool's `at_once`.
    pub(super) busy_from: Option<u32>,
}

/// A number of cores: a number, or a text as Kubernetes writes it.
#[derive(Clone, Deserialize)]
#[serde(untagged)]
pub(super) enum Cpu {
    Number(f64),
    Text(String),
}

impl Cpu {
    /// The number of cores.
    pub(super) fn cores(&self) -> Result<f64, String> {
        match self {
            Self::Number(number) if number.is_finite() && *number >= 0.0 => {
                quantity::parse_cores(&number.to_string())
            }
            Self::Number(number) => Err(format!("{number} is not a number of cores")),
            Self::Text(text) => quantity::parse_cores(text),
        }
    }
}
