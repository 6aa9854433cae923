//! `plimsoll`: every command that asks, and what `run` says at the end.

use super::{
    assert_is_the_file,
    store::{Week, a_week},
    transcript::{Shown, Transcript},
};

/// What is built, as a job of the week says it.
const LLVM: &str = "--key project=spack/packages --key stack=e4s --key package=llvm --key version=19.1.0 --key compiler=gcc --key compiler_version=14.2.0 --key arch=x86_64_v3";

/// Heads, and the commands below them.
const ASKED: [(&str, &[&str]); 7] = [
    (
        "Sizes",
        &[
            "predict LLVM",
            "predict --key project=spack/packages --key package=zlib --key arch=",
            "predict --key package=zlib --key arch=",
            "predict --key package=never-seen --key arch=",
            "predict LLVM --key build_jobs=16",
            "predict LLVM --explain jobs --limit-memory 3GiB",
            "predict LLVM -o env",
        ],
    ),
    ("Why these sizes", &["explain LLVM", "explain --key package=never-seen --key arch="]),
    (
        "Verdicts",
        &[
            "should-retry --attempt 204 --log killed.log",
            "should-retry --attempt 204",
            "should-retry --attempt 301 --log broken.log",
            "should-retry --attempt 302 --log broken.log",
            "should-retry --attempt 101",
            "should-retry --attempt 901 --key package=trilinos --exit-code 2 --log killed.log",
            "should-retry --attempt 902 LLVM --container-reason OOMKilled",
            "should-retry --attempt 903 LLVM --failure-reason job_execution_timeout",
            "should-retry --attempt 904 LLVM --pod-reason Preempted",
            "should-retry --attempt 905 LLVM --exit-code 1 --log strange.log",
            "should-retry --attempt 906 LLVM --exit-code 1 --log network.log",
        ],
    ),
    ("One attempt", &["show 204", "show 101", "show 301"]),
    (
        "Attempts",
        &[
            "attempts",
            "attempts --outcome failed --package llvm",
            "attempts --order need --limit 2",
            "attempts --package never-seen",
        ],
    ),
    (
        "The fleet",
        &[
            "stats",
            "stats --by package",
            "stats --by cause",
            "stats --since 2025-03-03 --until 2025-03-06 --step 1d",
            "stats --package never-seen",
            "recommend --since 2025-03-03 --until 2025-03-10",
        ],
    ),
    (
        "What cannot be answered",
        &[
            "show 999",
            "predict --key packge=zlib",
            "predict --key package=",
            "should-retry",
            "attempts --since tomorrow",
            "predict --server http://127.0.0.1:9 --key package=zlib",
        ],
    ),
];

fn ask(transcript: &mut Transcript, week: &Week, line: &str) {
    let mut words = line.replace("LLVM", LLVM);
    for (real, shown) in week.dates() {
        words = words.replace(&shown, &real);
    }
    let mut command = week.site.agent.command(&words.split(' ').collect::<Vec<_>>());
    transcript.run(&format!("plimsoll {line}"), command.current_dir(&week.logs));
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_output_matches_the_golden_file() {
    let week = a_week().await;
    let dates = week.dates();
    let mut shown: Vec<(&str, &str)> =
        dates.iter().map(|(real, shown)| (real.as_str(), shown.as_str())).collect();
    // it holds the time of an attempt, which moves by a week each Monday
    shown.push((r"--page-token \S+", "--page-token TOKEN"));
    let mut transcript = Transcript::new(&shown);
    for (head, lines) in ASKED {
        transcript.head(head);
        if head == "Sizes" {
            transcript.note(&format!("LLVM stands for {LLVM}"));
        }
        for line in lines {
            ask(&mut transcript, &week, line);
        }
    }
    build(&mut transcript, &week);
    assert_is_the_file(transcript.text(), "plimsoll.txt");
}

/// What the page at the end of a build that failed says of a retry: the rest of it depends on the machine.
fn build(transcript: &mut Transcript, week: &Week) {
    transcript.head("A build that fails; of the page at its end, what does not depend on the machine");
    let line = "run --attempt 501 --patience 1min --phases gitlab --report text -- sh -c";
    let build = "echo 'x.c:3:1: error: unknown type name' >&2; exit 2";
    let mut words: Vec<&str> = line.split(' ').collect();
    words.push(build);
    // a job's log is no terminal
    let ended = week.site.agent.call(&words);
    let same = |line: &&str| {
        !["  memory", "  cpu", "plimsoll: plimsoll-tests", "full height"]
            .iter()
            .any(|part| line.contains(part))
    };
    let page = ended.stderr.split_inclusive('\n').filter(same);
    let page = page.take_while(|line| !line.starts_with("  next run"));
    let shown = Shown { text: page.collect(), status: ended.code };
    transcript.write(&format!("plimsoll {line} \"{build}\""), &shown);
    ask(transcript, week, "run -- no-such-program");
}
