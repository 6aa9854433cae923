//! Another try in the same place: fewer jobs, or later; never against a signal that asks the job to end.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    process::{Child, Stdio},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use plimsoll_proto::v1::{Action, Cause, Outlook, Verdict};
use plimsoll_tests::{Agent, Answer, Programs, Server};

use tempfile::TempDir;

use super::judge::{Judge, verdict};

/// Each job holds 40 MiB until all of them do, so that their number decides what the build needs. Jobs that were killed end the wait
/// too.
const HUNGRY: &str = "cd $DIR && rm -f done.*; n=0; pids=
while [ $n -lt {jobs} ]; do
  { head -c 40M /dev/zero; : >done.$n; until [ $(ls done.* | wc -l) -ge {jobs} ]; do sleep 0.05; done; } | tail >/dev/null &
  pids=\"$pids $!\"; n=$((n + 1))
done
for pid in $pids; do wait $pid || failed=1; done; [ -z \"$failed\" ] || exit 2";

/// The attempt `mine`, which waits so long for a verdict that no slow machine is without one.
const MINE: [&str; 7] = ["run", "--attempt", "mine", "--patience", "2m", "--key", "package=zlib"];

/// The agent of a judge that gives these verdicts, and its directory, which is `DIR` to its commands.
async fn judged(verdicts: &[Verdict]) -> (TempDir, Judge, Agent) {
    let (dir, judge) = (tempfile::tempdir().unwrap(), Judge::with(verdicts).await);
    let agent = Agent::new(Programs::for_tests(), judge.url(), &dir.path().join("spool"));
    let agent = agent.with("DIR", dir.path().to_str().unwrap());
    (dir, judge, agent)
}

/// Runs a shell script as the attempt `mine`, with these options.
async fn run(agent: &Agent, options: &[&str], script: &str) -> Answer {
    let line = [&MINE, options, &["--", "sh", "-c", script]];
    let line: Vec<String> = line.concat().into_iter().map(str::to_owned).collect();
    let agent = agent.clone();
    let call = move || agent.call(&line.iter().map(String::as_str).collect::<Vec<_>>());
    tokio::task::spawn_blocking(call).await.unwrap()
}

fn as_is(wait_ms: u64) -> Verdict {
    Verdict { outlook: Some(Outlook { wait_ms, ..Outlook::default() }), ..verdict(Action::AsIs) }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_oom_killed_build_passes_with_fewer_jobs() {
    let dir = tempfile::tempdir().unwrap();
    // the largest place that there is has 100 MiB
    let cap =
        ["--memory-cap", "100MiB", "--default-memory-limit", "64MiB", "--default-memory-request", "64MiB"];
    let server = Server::start_with(Programs::for_tests(), &dir.path().join("data"), &cap).unwrap();
    let agent = Agent::new(Programs::for_tests(), server.url(), &dir.path().join("spool"));
    let agent = agent.with("DIR", dir.path().to_str().unwrap());
    let options = "--limit-memory 100MiB --key build_jobs=4 --retry-in-place 2 --exit-code-for no=80";
    let ran = run(&agent, &options.split(' ').collect::<Vec<_>>(), HUNGRY).await;
    if ran.stderr.contains("without the memory limit") {
        eprintln!("skipped: {}", ran.stderr);
        return;
    }
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stderr.contains("tries again here (1 of 2) with -j2: "), "{}", ran.stderr);
    let [first, second] =
        ["mine", "mine/2"].map(|id| agent.json(&["show", "--attempt", id])["summary"].clone());
    assert_eq!((&first["cause"], &first["outcome"]), (&"oom".into(), &"failed".into()), "{first}");
    assert_eq!(first["key"]["build_jobs"], 4, "{first}");
    assert_eq!((&second["retries"], &second["number"]), (&"mine".into(), &2.into()), "{second}");
    assert_eq!(second["key"]["build_jobs"], 2, "{second}");
    assert_eq!(second["outcome"], "succeeded", "{second}");
}

#[tokio::test(flavor = "multi_thread")]
async fn fewer_jobs_replace_an_unavailable_larger_place() {
    let oom = Verdict { cause: Cause::Oom.into(), ..verdict(Action::Bigger) };
    let (_dir, _judge, agent) = judged(&[oom.clone(), oom]).await;
    let options = ["--retry-in-place", "1", "--key", "build_jobs=4"];
    let here = run(&agent, &options, "echo {jobs}; [ {jobs} = 2 ] || exit 3").await;
    assert_eq!((here.code, here.stdout.as_str()), (Some(0), "4\n2\n"), "{here:?}");
    assert!(here.stderr.contains("there is no more memory here, so with fewer jobs"), "{}", here.stderr);
    let options = [&options[..], &["--exit-code-for", "bigger=82"]].concat();
    let elsewhere = run(&agent, &options, "echo {jobs}; exit 3").await;
    assert_eq!((elsewhere.code, elsewhere.stdout.as_str()), (Some(82), "4\n"), "{elsewhere:?}");
    assert!(elsewhere.stderr.contains("it needs a larger place"), "{}", elsewhere.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_verdict_decides_the_exit_code() {
    let (_dir, _judge, agent) = judged(&[as_is(10), as_is(10), as_is(0), verdict(Action::Elsewhere)]).await;
    let script = "echo x >>$DIR/tries; exit $(wc -l <$DIR/tries)";
    let codes = ["--exit-code-for", "elsewhere=85"];
    let ran = run(&agent, &[&["--retry-in-place", "1"], &codes[..]].concat(), script).await;
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.stderr.contains("1 retry is allowed, and none is left"), "{}", ran.stderr);
    assert!(ran.stderr.contains("exit code 2 stays: no code is set for the verdict as is"), "{}", ran.stderr);
    let ran = run(&agent, &[&["--retry-in-place", "5"], &codes[..]].concat(), script).await;
    assert_eq!(ran.code, Some(85), "{ran:?}");
    assert!(ran.stderr.contains("does not try again here: it needs another place"), "{}", ran.stderr);
}

/// Starts the agent, reads what it and its command say on standard error until a line holds `words`, and sends it SIGTERM.
async fn terminate_at(agent: &Agent, options: &[&str], script: &str, words: &str) -> (Option<i32>, String) {
    let line = [&MINE, options, &["--", "sh", "-c", script]];
    let mut command = agent.command(&line.concat());
    let mut child: Child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let (stderr, words) = (child.stderr.take().unwrap(), words.to_owned());
    let wait = move || {
        let (mut printed, mut sent) = (String::new(), false);
        for line in BufReader::new(stderr).lines() {
            let line = line.unwrap();
            if !sent && line.contains(&words) {
                kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGTERM).unwrap();
                sent = true;
            }
            printed.push_str(&line);
            printed.push('\n');
        }
        (child.wait().unwrap().code(), printed)
    };
    tokio::task::spawn_blocking(wait).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_ends_the_wait_for_a_retry() {
    let (dir, _judge, agent) = judged(&[as_is(600_000)]).await;
    let options = ["--retry-in-place", "3", "--exit-code-for", "as-is=81"];
    let script = "echo x >>$DIR/tries; exit 3";
    let (code, stderr) =
        terminate_at(&agent, &options, script, "tries again here (1 of 3) after 600.0s").await;
    assert_eq!(code, Some(3), "{stderr}");
    assert!(stderr.contains("does not try again: SIGTERM came while it waited"), "{stderr}");
    assert_eq!(fs::read_to_string(dir.path().join("tries")).unwrap(), "x\n");
}
