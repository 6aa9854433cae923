//! `plimsoll attach`: measure a build that is already running.

use std::{path::PathBuf, time::Duration};

use clap::Args;

use super::{delivery_args::DeliveryArgs, help, output::ReportArgs};
use crate::{
    attach::{self, ContainerChoice, Target, command_line},
    key::CiJob,
};

const EXIT_STATUSES: &str = "Exit status: 0 the build was followed to its end, or until a signal came; 2 wrong usage, or several containers \
fit; 4 nothing was measured: the build never appeared, or it may not be read.";

/// Measure a build that runs already, until it ends.
///
/// Choose the build with one of --pid, --container, --container-name, --cgroup and --pod-uid. The agent takes the best way to see it:
/// its cgroup in the agent's own mounts, below /proc/PID/root (needs shareProcessNamespace in a pod, and the same user or
/// the right to trace), or below --host-cgroup; else its process tree. It logs which way it took, and why not a better one. It sends
/// the build no signals, except with --rescue. It learns the exit status from --exit-file, or of a process from the kernel (Linux 6.15 or later). SIGTERM ends it at once, after delivering what it has seen.
#[derive(Debug, Args)]
#[command(after_help = help::end(EXIT_STATUSES, &[
    "attach --pid 4711 --key package=zlib",
    "attach --container-name build",
]))]
pub(super) struct AttachArgs {
    /// Follow this process and what it starts.
    #[arg(long, value_name = "N", value_parser = Target::process, allow_hyphen_values = true)]
    pid: Option<i32>,
    /// Follow the container with this id (or its first 8 digits or more); with --pod-uid, one of that pod.
    #[arg(long, value_name = "ID", value_parser = Target::container)]
    container: Option<String>,
    /// Follow the container with this name, of the agent's own pod or that of --pod-uid.
    #[arg(long, value_name = "NAME", value_parser = Target::name)]
    container_name: Option<String>,
    /// Follow a cgroup: a path below the mounted hierarchies, or the folder.
    #[arg(long, value_name = "PATH", value_parser = Target::group)]
    cgroup: Option<PathBuf>,
    /// Follow a container of this pod, through the cgroups of its host.
    #[arg(long, value_name = "UID", value_parser = Target::uid)]
    pod_uid: Option<String>,
    /// Where the host's /sys/fs/cgroup is mounted, for example /host/sys/fs/cgroup; read only is enough.
    #[arg(long, value_name = "DIR")]
    host_cgroup: Option<PathBuf>,
    /// Where the host's /proc is mounted. Process IDs are the host's then.
    #[arg(long, value_name = "DIR")]
    host_proc: Option<PathBuf>,
    /// How long to wait for the build to appear. A process given by --pid must be there.
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = humantime::parse_duration)]
    wait: Duration,
    /// With --cgroup: end when the group's first process ends, not when the group is empty.
    #[arg(long, requires = "cgroup")]
    until_exit: bool,
    /// Also take the cgroup that the agent itself is in, if no more than 16 MiB are used in it yet: the container of a job that starts
    /// the agent first. The agent's few MiB count too.
    #[arg(long)]
    own_cgroup: bool,
    /// With --pid: the process is the runner of a CI job, and the job is what it starts from now on. A cgroup with a memory limit is
    /// measured whole, with the runner and the agent; without a limit, the processes are.
    #[arg(long, requires = "pid", conflicts_with = "own_cgroup")]
    runner: bool,
    /// The build has ended when this regular file appears. Its first line is the exit status (0 to 255): `echo $? > FILE.new && mv FILE.new FILE`.
    #[arg(long, value_name = "FILE")]
    exit_file: Option<PathBuf>,
    #[command(flatten)]
    measured: DeliveryArgs,
    #[command(flatten)]
    report: ReportArgs,
    /// Hidden option of `run`: using it here is an error with an explanation.
    #[arg(long, hide = true)]
    exit_code_for: Vec<String>,
    /// Hidden option of `run`: using it here is an error with an explanation.
    #[arg(long, hide = true)]
    retry_in_place: Option<String>,
}

impl AttachArgs {
    /// The settings of `attach`, from its options and the CI job.
    pub(super) fn settings(self, job: &CiJob) -> Result<attach::Settings, String> {
        if !self.exit_code_for.is_empty() || self.retry_in_place.is_some() {
            return Err("--exit-code-for and --retry-in-place are for `plimsoll run -- COMMAND`: attach follows a build that is \
                        already running, so it can neither start it again nor change its exit code"
                .to_owned());
        }
        let target = self.target()?;
        let command = match &target {
            // a runner's own command names no build
            Target::Process(_runner) if self.runner => Vec::new(),
            Target::Process(pid) => command_line(self.host_proc.as_deref(), *pid),
            _others => Vec::new(),
        };
        // the source is where the build works, not where the agent was started
        let directory = match &target {
            Target::Process(_runner) if self.runner => job.directory.clone(),
            Target::Process(pid) if self.host_proc.is_none() => {
                std::fs::read_link(format!("/proc/{pid}/cwd")).ok()
            }
            _others => None,
        };
        let job = &job.in_directory(directory);
        Ok(attach::Settings {
            attempt: self.measured.settings(job, &command, self.report.settings(job)?)?,
            target,
            host_cgroup: self.host_cgroup,
            host_proc: self.host_proc,
            wait: self.wait,
            until_exit: self.until_exit,
            own_cgroup: self.own_cgroup,
            runner: self.runner,
            exit_file: self.exit_file,
        })
    }

    fn target(&self) -> Result<Target, String> {
        let choice = match (&self.container, &self.container_name) {
            (None, None) => ContainerChoice::Only,
            (Some(id), None) => ContainerChoice::Id(id.clone()),
            (None, Some(name)) => ContainerChoice::Named(name.clone()),
            (Some(_), Some(_)) => return Err("give --container or --container-name, not both".to_owned()),
        };
        match (self.pid, &self.cgroup, &self.pod_uid, choice) {
            (Some(pid), None, None, ContainerChoice::Only) => Ok(Target::Process(pid)),
            (None, Some(path), None, ContainerChoice::Only) => Ok(Target::Group(path.clone())),
            (None, None, Some(uid), choice) => Ok(Target::Pod(uid.clone(), choice)),
            (None, None, None, ContainerChoice::Id(id)) => Ok(Target::Container(id)),
            (None, None, None, ContainerChoice::Named(name)) => Ok(Target::Named(name)),
            _other => Err("say which build: one of --pid, --container, --container-name, --cgroup, \
                 or --pod-uid with or without a container"
                .to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::commands::{Cli, Command};

    fn settings(words: &[&str]) -> Result<attach::Settings, String> {
        let line = ["plimsoll", "attach", "--key", "package=zlib"].iter().chain(words);
        match Cli::try_parse_from(line).map_err(|error| error.to_string())?.command {
            Command::Attach(args) => args.settings(&CiJob::read(|_name| None)),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn one_build_is_named_in_one_way() {
        let target = |words: &[&str]| settings(words).unwrap().target;
        assert_eq!(target(&["--pid", "1"]), Target::Process(1));
        assert_eq!(target(&["--cgroup", "a b/c"]), Target::Group("a b/c".into()));
        assert_eq!(target(&["--container-name", "build"]), Target::Named("build".to_owned()));
        let pod = target(&["--pod-uid", "5f0e", "--container", "abcdef12"]);
        assert_eq!(pod, Target::Pod("5f0e".to_owned(), ContainerChoice::Id("abcdef12".to_owned())));
        assert_eq!(settings(&["--pid", "1"]).unwrap().wait, Duration::from_mins(5));
    }

    #[test]
    fn wrong_usage_is_refused_before_anything_is_searched() {
        for (line, expected) in [
            (vec![], "say which build"),
            (vec!["--pid", "1", "--retry-in-place", "2"], "are for `plimsoll run -- COMMAND`"),
            (vec!["--pid", "1", "--exit-code-for", "no=3"], "are for `plimsoll run -- COMMAND`"),
            (vec!["--pid", "1", "--cgroup", "x"], "say which build"),
            (vec!["--pid", "1", "--container-name", "x"], "say which build"),
            (vec!["--container", "abcdef12", "--container-name", "x"], "not both"),
            (vec!["--pid", "0"], "1 or more"),
            (vec!["--pid", "-3"], "1 or more"),
            (vec!["--cgroup", "../x"], "'..' leads out"),
            (vec!["--container-name", "a b"], "expected 1 to 253"),
            (vec!["--pod-uid", "../x"], "expected 1 to 253"),
            (vec!["--pid", "1", "--until-exit"], "--cgroup"),
            (vec!["--cgroup", "x", "--runner"], "--pid"),
            (vec!["--pid", "1", "--runner", "--own-cgroup"], "--own-cgroup"),
            (vec!["--pid", "1", "--wait", "soon"], "--wait"),
        ] {
            let error = settings(&line).unwrap_err();
            assert!(error.contains(expected), "{line:?}: {error}");
        }
    }
}
