//! Formats proposals as YAML that sets the sizes of jobs: for GitLab CI, for Kubernetes, for Spack's CI.
//!
//! Sizes are quantities of Kubernetes: whole `Mi` and thousandths of a core, rounded up. A package without a proposal is left out of the
//! patch; a comment says how many are.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::{cpu_request, memory_limit, memory_request, scope, summary};
use crate::{
    lowering::taken_back,
    v1::{RecommendResponse, Recommendation},
};

const MIB: u64 = 1 << 20;
/// Keys of `.gitlab-ci.yml` that are no jobs, names that GitLab refuses for jobs, and YAML's merge key.
const RESERVED_KEYS: [&str; 16] = [
    "default",
    "include",
    "variables",
    "stages",
    "workflow",
    "image",
    "services",
    "cache",
    "before_script",
    "after_script",
    "spec",
    "types",
    "true",
    "false",
    "nil",
    "<<",
];

/// Proposed sizes of one job.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct JobSizes {
    request_bytes: u64,
    limit: Option<u64>,
    millicores: Option<u64>,
}

impl JobSizes {
    fn of(row: &Recommendation) -> Option<Self> {
        Some(Self {
            request_bytes: memory_request(row).proposed?,
            limit: memory_limit(row).proposed,
            millicores: cpu_request(row).proposed,
        })
    }

    /// Combines the sizes of two parts of a job: the larger of each. A size stays as it is today if it does in one of the parts.
    fn with(self, other: Self) -> Self {
        let both = |a: Option<u64>, b: Option<u64>| Some(a?.max(b?));
        Self {
            request_bytes: self.request_bytes.max(other.request_bytes),
            limit: both(self.limit, other.limit),
            millicores: both(self.millicores, other.millicores),
        }
    }

    /// Variables of GitLab's Kubernetes executor, each with its value.
    fn variables(self) -> Vec<(&'static str, String)> {
        let limit = self.limit.map(|bytes| ("KUBERNETES_MEMORY_LIMIT", memory_text(bytes)));
        let cpu = self.millicores.map(|milli| ("KUBERNETES_CPU_REQUEST", cpu_text(milli)));
        [Some(("KUBERNETES_MEMORY_REQUEST", memory_text(self.request_bytes))), limit, cpu]
            .into_iter()
            .flatten()
            .collect()
    }
}

/// A job of a patch, with the proposals that it is made of: several rows if they are parts of one job.
#[derive(Debug, Clone, PartialEq)]
pub struct JobPatch<'r> {
    /// The name of the job.
    pub name: String,
    /// The YAML that sets the sizes of the job.
    pub text: String,
    /// Proposed memory request, bytes.
    pub request_bytes: u64,
    /// Proposed memory limit, bytes; `None` if today's limit should stay.
    pub limit_bytes: Option<u64>,
    /// Proposed CPU request, thousandths of a core.
    pub millicores: Option<u64>,
    /// The proposals for the job.
    pub rows: Vec<&'r Recommendation>,
}

impl<'r> JobPatch<'r> {
    fn of((name, (sizes, rows)): (String, SizedRows<'r>), write: impl Fn(&str, JobSizes) -> String) -> Self {
        let JobSizes { request_bytes, limit: limit_bytes, millicores } = sizes;
        Self { text: write(&name, sizes), name, request_bytes, limit_bytes, millicores, rows }
    }
}

/// A patch for `.gitlab-ci.yml`, with variables for each job of one project. The parts of a `parallel` or matrix are one job there, and get
/// the largest of their sizes.
/// Errors: the rows are of several projects, because their jobs may have the same names.
pub fn gitlab(answer: &RecommendResponse) -> Result<String, String> {
    let (jobs, left_out) = gitlab_jobs(answer)?;
    let reserved = answer.recommendations.iter().filter(|row| gitlab_name(row).is_none()).count();
    let mut text = head_comment(answer, left_out - reserved, "jobs");
    if reserved > 0 {
        let _written =
            writeln!(text, "# jobs with a name that has a meaning of its own in GitLab: {reserved}");
    }
    text.push_str(
        "# The runner must allow it: memory_request_overwrite_max_allowed and the others of its kind.\n",
    );
    text.extend(jobs.into_iter().map(|job| job.text));
    Ok(text)
}

/// The jobs of [`gitlab`] by their names, and the number of rows that are left out.
/// Errors: the rows are of several projects.
pub fn gitlab_jobs(answer: &RecommendResponse) -> Result<(Vec<JobPatch<'_>>, usize), String> {
    check_one_project(answer, "a GitLab patch")?;
    let write = |name: &str, sizes: JobSizes| {
        let mut text = format!("{}:\n  variables:\n", quoted(name));
        for (variable, value) in sizes.variables() {
            let _written = writeln!(text, "    {variable}: {}", quoted(&value));
        }
        text
    };
    let (jobs, left_out) = jobs(answer, gitlab_name);
    Ok((jobs.into_iter().map(|job| JobPatch::of(job, write)).collect(), left_out))
}

fn gitlab_name(row: &Recommendation) -> Option<String> {
    let name = base_name(&row.package);
    (!is_reserved(name)).then(|| name.to_owned())
}

/// Patches for Kubernetes Jobs, one document for each, as kustomize merges them. Jobs with a name that Kubernetes does not allow are left
/// out.
/// Errors: the rows are of several projects, because their jobs may have the same names.
pub fn kubernetes(answer: &RecommendResponse) -> Result<String, String> {
    let (jobs, left_out) = kubernetes_jobs(answer)?;
    let mut text = head_comment(answer, left_out, "packages");
    text.push_str("# Set kind and the name of the container to those of your objects.\n");
    text.extend(jobs.into_iter().map(|job| job.text));
    Ok(text)
}

/// The patches of [`kubernetes`] by their names, and the number of rows that are left out.
/// Errors: the rows are of several projects.
pub fn kubernetes_jobs(answer: &RecommendResponse) -> Result<(Vec<JobPatch<'_>>, usize), String> {
    check_one_project(answer, "a Kubernetes patch")?;
    let name = |row: &Recommendation| Some(row.package.clone()).filter(|name| is_object_name(name));
    let (jobs, left_out) = jobs(answer, name);
    Ok((jobs.into_iter().map(|job| JobPatch::of(job, kubernetes_job)).collect(), left_out))
}

fn kubernetes_job(name: &str, sizes: JobSizes) -> String {
    let mut text = format!(
        "---\napiVersion: batch/v1\nkind: Job\nmetadata:\n  name: {}\nspec:\n  template:\n    spec:\n      containers:\n        \
         - name: build\n          resources:\n            requests:\n              memory: {}\n",
        quoted(name),
        quoted(&memory_text(sizes.request_bytes))
    );
    if let Some(milli) = sizes.millicores {
        let _written = writeln!(text, "              cpu: {}", quoted(&cpu_text(milli)));
    }
    if let Some(limit) = sizes.limit {
        let _written =
            writeln!(text, "            limits:\n              memory: {}", quoted(&memory_text(limit)));
    }
    text
}

/// A patch for Spack's `ci` section: a mapping with variables for each package.
/// Errors: the rows are of several projects.
pub fn spack(answer: &RecommendResponse) -> Result<String, String> {
    check_one_project(answer, "a mapping for Spack")?;
    let (packages, left_out) = jobs(answer, |row| Some(row.package.clone()));
    let mut text = head_comment(answer, left_out, "packages");
    text.push_str("# Put it before other sections of pipeline-gen: an earlier one wins.\n");
    text.push_str("ci:\n  pipeline-gen:\n  - submapping:");
    if packages.is_empty() {
        text.push_str(" []");
    }
    text.push('\n');
    for (name, (sizes, _)) in packages {
        let _written =
            writeln!(text, "    - match: [{}]\n      build-job:\n        variables:", quoted(&name));
        for (variable, value) in sizes.variables() {
            let _written = writeln!(text, "          {variable}: {}", quoted(&value));
        }
    }
    Ok(text)
}

/// Checks that all rows are of one project, because names of jobs and packages are those of a project.
/// Errors: the rows are of several projects.
pub fn check_one_project(answer: &RecommendResponse, what: &str) -> Result<(), String> {
    let projects: BTreeSet<&str> = answer.recommendations.iter().map(|row| row.project.as_str()).collect();
    if projects.len() < 2 {
        return Ok(());
    }
    Err(format!("{what} is for one project, and there are {}: name one with --project", projects.len()))
}

/// The sizes of a job, with the rows that they come from.
type SizedRows<'r> = (JobSizes, Vec<&'r Recommendation>);

/// The proposed sizes by the name of the job, and the number of rows that are left out: rows without a proposal or a usable name, and rows
/// of a job with a part that has no proposal.
fn jobs<'r>(
    answer: &'r RecommendResponse,
    name: impl Fn(&Recommendation) -> Option<String>,
) -> (BTreeMap<String, SizedRows<'r>>, usize) {
    let mut jobs: BTreeMap<String, Vec<&Recommendation>> = BTreeMap::new();
    let mut left_out = 0;
    for row in &answer.recommendations {
        let usable = |name: &String| !name.is_empty() && !name.chars().any(breaks_line);
        match name(row).filter(usable) {
            Some(name) => jobs.entry(name).or_default().push(row),
            None => left_out += 1,
        }
    }
    let mut sized = BTreeMap::new();
    for (name, rows) in jobs {
        let sizes = rows.iter().map(|row| JobSizes::of(row)).reduce(|one, more| Some(one?.with(more?)));
        match sizes.flatten() {
            Some(sizes) => drop(sized.insert(name, (sizes, rows))),
            None => left_out += rows.len(),
        }
    }
    (sized, left_out)
}

/// Comments that say what a patch saves, and how many jobs it leaves out.
fn head_comment(answer: &RecommendResponse, left_out: usize, what: &str) -> String {
    let summary: String = summary(answer).chars().filter(|letter| !letter.is_control()).collect();
    let mut text = format!("# By plimsoll recommend: {summary}.\n");
    if let Some(scope) = scope(answer) {
        let _written = writeln!(text, "# {scope}");
    }
    if left_out > 0 {
        let _written = writeln!(text, "# {what} without a proposal, which keep what they have: {left_out}");
    }
    for row in &answer.recommendations {
        if let Some(lowering) = row.taken_back.as_ref().filter(|_| !row.package.chars().any(breaks_line)) {
            let _written = writeln!(text, "# {}: {}", row.package, taken_back(lowering));
        }
    }
    text
}

/// The name of a job without its part number in a `parallel` (` 2/5`) or its values in a matrix (`: [a, b]`).
fn base_name(job: &str) -> &str {
    if let Some((base, rest)) = job.rsplit_once(": [")
        && rest.ends_with(']')
    {
        return base;
    }
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match job.rsplit_once(' ').and_then(|(base, place)| Some((base, place.split_once('/')?))) {
        Some((base, (part, all))) if digits(part) && digits(all) => base,
        _ => job,
    }
}

/// Whether GitLab or YAML reads the name as something other than a job that runs. A name that starts with a dot is a hidden job.
fn is_reserved(name: &str) -> bool {
    name.starts_with('.') || RESERVED_KEYS.contains(&name)
}

/// Whether an object of Kubernetes may have this name (RFC 1123 subdomain).
fn is_object_name(name: &str) -> bool {
    let ends = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit();
    name.len() <= 253
        && name.chars().all(|letter| ends(letter) || "-.".contains(letter))
        && name.starts_with(ends)
        && name.ends_with(ends)
}

/// Memory as a quantity of Kubernetes: whole `Mi`, rounded up.
pub fn memory_text(bytes: u64) -> String {
    format!("{}Mi", bytes.div_ceil(MIB))
}

/// Thousandths of a core as a quantity of Kubernetes.
pub fn cpu_text(milli: u64) -> String {
    format!("{}m", milli.max(1))
}

/// Whether a quoted scalar cannot contain the character. YAML also breaks lines at U+2028 and U+2029, and takes U+FEFF for a mark of the encoding.
fn breaks_line(letter: char) -> bool {
    letter.is_control() || matches!(letter, '\u{2028}' | '\u{2029}' | '\u{feff}')
}

/// Quotes a text as a YAML scalar with exactly these characters. It must not contain line breaks.
pub fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
