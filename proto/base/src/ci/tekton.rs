//! Tekton. It sets no variable: a step takes them from substitutions (<https://tekton.dev/docs/pipelines/variables/>) and from the labels of
//! its pod (<https://tekton.dev/docs/pipelines/labels/>). The guide has the lines.
//!
//! A retry is the same `TaskRun` with a higher retry count. Nothing documented says where a change comes from: trust follows from the token.

use super::{CiJob, CiSystem, Columns, Sources, Support, id, place, word};

/// The row of Tekton.
pub(super) static TEKTON: CiSystem = CiSystem {
    name: "tekton",
    title: "Tekton",
    recognized_by: Some(("PLIMSOLL_TEKTON_TASK_RUN", "")),
    needs: &["PLIMSOLL_TEKTON_NAMESPACE", "PLIMSOLL_TEKTON_UID", "PLIMSOLL_TEKTON_TASK"],
    job_variable: "PLIMSOLL_TEKTON_UID",
    workspace: "",
    read,
    phases: None,
    fold: None,
    links: None,
    columns: Columns {
        key: "project namespace and pipeline, else namespace and task; package the task in the pipeline, else the task",
        id: "`tekton:NAMESPACE:UID.ATTEMPT/TASK`",
        untrusted: "not known: its token decides",
    },
    support: Support {
        measured: "`plimsoll run` in a step",
        judged: "yes",
        sized: "by `plimsoll predict`",
        retried: "whatever the cause: `retries`; in place by the verdict",
    },
};

fn read(sources: &Sources<'_>) -> CiJob {
    // a version that lacks a substitution leaves it as it is written
    let get =
        |name: &str| sources.get(&format!("PLIMSOLL_TEKTON_{name}")).filter(|value| !value.contains("$("));
    let namespace = get("NAMESPACE").unwrap_or_default();
    let task = get("PIPELINE_TASK").or_else(|| get("TASK")).unwrap_or_default();
    let of = get("PIPELINE").or_else(|| get("TASK")).unwrap_or_default();
    let attempt = get("RETRY").map_or(Some(1), |retries| retries.parse::<u32>().ok()?.checked_add(1));
    let run = get("PIPELINE_RUN").or_else(|| get("TASK_RUN"));
    let unit =
        get("UID").zip(attempt).map(|(uid, attempt)| format!("{}.{attempt}/{}", word(&uid), word(&task)));
    let mut labels: Vec<(&'static str, String)> = run.map(|run| ("pipeline", run)).into_iter().collect();
    labels.push(("job", task.clone()));
    CiJob {
        id: unit.filter(|_| !namespace.is_empty()).map(|unit| id("tekton", &place(&namespace), &unit)),
        project: if of.is_empty() { namespace } else { format!("{namespace}/{of}") },
        number: attempt,
        job: task,
        labels,
        ..CiJob::default()
    }
}
