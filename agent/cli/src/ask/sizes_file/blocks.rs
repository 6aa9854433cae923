//! Jobs of GitLab and Kubernetes in the marked lines of a file: a block of lines for each. Only the values of sizes change in a block that is
//! there; its other lines are of people.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_base::quantity;
use plimsoll_proto::{
    recommendations::{JobPatch, cpu_text, gitlab_jobs, kubernetes_jobs, memory_text, quoted},
    v1::RecommendResponse,
};

use super::{
    change,
    region::{self, is_keep, split_comment},
    report::{Change, Report},
    yaml::{self, Documents, Node},
};

/// The proposals of an answer as jobs, and the number of rows that are left out.
type Jobs<'r> = Result<(Vec<JobPatch<'r>>, usize), String>;

/// What tells one format from the other.
pub(super) struct BlockFormat {
    jobs: for<'r> fn(&'r RecommendResponse) -> Jobs<'r>,
    /// Whether a line begins a job.
    begins: fn(&str) -> bool,
    names: fn(&Documents) -> Vec<String>,
    /// Keys of memory request, memory limit and CPU request: a map, and a value in it.
    sizes: [[&'static str; 2]; 3],
}

pub(super) const GITLAB: BlockFormat = BlockFormat {
    jobs: gitlab_jobs,
    begins: |line| !line.is_empty() && !line.starts_with([' ', '#', '\t']),
    names: |documents| {
        let keys = documents.all.iter().flat_map(|document| document.pairs());
        keys.map(|(key, _)| key.text().to_owned()).collect()
    },
    sizes: [
        ["variables", "KUBERNETES_MEMORY_REQUEST"],
        ["variables", "KUBERNETES_MEMORY_LIMIT"],
        ["variables", "KUBERNETES_CPU_REQUEST"],
    ],
};

pub(super) const KUBERNETES: BlockFormat = BlockFormat {
    jobs: kubernetes_jobs,
    begins: |line| line.trim_end() == "---",
    names: |documents| {
        let name =
            |document: &std::rc::Rc<Node>| Some(document.get("metadata")?.get("name")?.text().to_owned());
        documents.all.iter().filter_map(name).collect()
    },
    sizes: [["requests", "memory"], ["limits", "memory"], ["requests", "cpu"]],
};

/// The file with the sizes of this answer.
/// Errors: the proposals are for several projects; the file is no YAML, or a job is twice in the marked lines.
pub(super) fn updated(
    old: &str,
    answer: &RecommendResponse,
    format: &BlockFormat,
    report: &mut Report,
) -> Result<String, String> {
    let (jobs, _) = (format.jobs)(answer)?;
    let lines: Vec<&str> = old.lines().collect();
    yaml::parse(old)?;
    let marked = region::find(&lines)?;
    let range = marked.clone().unwrap_or(lines.len()..lines.len());
    let outside: Vec<&str> =
        lines.iter().enumerate().map(|(at, line)| if range.contains(&at) { "" } else { *line }).collect();
    let by_hand: BTreeSet<String> = (format.names)(&yaml::parse(&outside.join("\n"))?).into_iter().collect();
    let inner = if marked.is_some() { range.start + 1..range.end - 1 } else { 0..0 };
    let first = inner.start + 1;
    let (mut blocks, rest) = read_blocks(lines.get(inner).unwrap_or_default(), first, format)?;
    for job in jobs {
        if by_hand.contains(&job.name) {
            report.keep("people wrote them outside of the marked lines", &job.name);
            continue;
        }
        let block = blocks.get(&job.name).map(String::as_str);
        let Some((text, change)) = updated_block(&job, block, format, report)? else { continue };
        blocks.insert(job.name.clone(), text);
        report.changes.push(change);
    }
    if report.changes.is_empty() {
        return Ok(old.to_owned());
    }
    let text = region::marked("", &(blocks.into_values().collect::<String>() + &rest));
    let new = region::with_marked(old, (range.start, range.len()), &text);
    yaml::parse(&new).map(|_| new)
}

/// The blocks by the names of their jobs, each with the comments above it, and the comments below the last one.
fn read_blocks(
    lines: &[&str],
    first: usize,
    format: &BlockFormat,
) -> Result<(BTreeMap<String, String>, String), String> {
    let line = |at: usize| lines.get(at).copied().unwrap_or_default();
    let mut starts: Vec<usize> = (0..lines.len()).filter(|at| (format.begins)(line(*at))).collect();
    let is_comment = |at: usize| line(at).starts_with('#') || line(at).trim().is_empty();
    for start in &mut starts {
        while *start > 0 && is_comment(*start - 1) {
            *start -= 1;
        }
    }
    let text = |range: std::ops::Range<usize>| {
        lines.get(range).unwrap_or_default().iter().flat_map(|line| [*line, "\n"]).collect::<String>()
    };
    let mut blocks = BTreeMap::new();
    let last = (0..lines.len()).rposition(|at| !is_comment(at)).map_or(0, |at| at + 1);
    let odd = |at: usize| {
        format!("line {}: is no job that Plimsoll writes: move it out of the marked lines", first + at)
    };
    if starts.first().map_or(last, |start| *start) > 0 {
        return Err(odd(0));
    }
    for (at, start) in starts.iter().enumerate() {
        let block = text(*start..starts.get(at + 1).copied().unwrap_or(last));
        let documents = yaml::parse(&block)?;
        let names = (format.names)(&documents);
        let [name] = names.as_slice() else { return Err(odd(*start)) };
        if let Some(line) = ambiguous(&documents, format) {
            let line = first + start + line - 1;
            return Err(format!(
                "line {line}: {name} has sizes in several places: move it out of the marked lines"
            ));
        }
        if blocks.insert(name.clone(), block).is_some() {
            return Err(format!("line {}: {name} is there twice: delete one", first + start));
        }
    }
    Ok((blocks, text(last..lines.len())))
}

/// The new block of a job, with the change for the report; `None` if it stays.
fn updated_block(
    job: &JobPatch<'_>,
    block: Option<&str>,
    format: &BlockFormat,
    report: &mut Report,
) -> Result<Option<(String, Change)>, String> {
    let Some(block) = block else {
        let change = change(&job.name, None, (job.request_bytes, job.limit_bytes), &job.rows, report);
        return Ok(change.map(|change| (job.text.clone(), change)));
    };
    let documents = yaml::parse(block)?;
    let value = |[outer, inner]: [&str; 2]| values(&documents, outer).find_map(|of| of.get(inner));
    let bytes = |key: [&str; 2]| quantity::bytes(value(key)?.text()).ok().filter(|bytes| *bytes > 0);
    let [request, limit, cpu] = format.sizes;
    let Some(had) = bytes(request) else {
        report.keep("people removed their memory request", &job.name);
        return Ok(None);
    };
    let limit_bytes = job.limit_bytes.or_else(|| bytes(limit)).map(|limit| limit.max(job.request_bytes));
    let is_kept = block.lines().any(|line| is_keep(split_comment(line).1));
    let old = Some(((had, bytes(limit)), is_kept));
    let Some(change) = change(&job.name, old, (job.request_bytes, limit_bytes), &job.rows, report) else {
        return Ok(None);
    };
    let mut sizes =
        [Some(change.request), limit_bytes.map(|limit| limit.max(change.request)), job.millicores];
    if change.is_raise {
        let cores = value(cpu).and_then(|of| quantity::parse_cores(of.text()).ok());
        let [_, new_limit, new_cpu] = &mut sizes;
        *new_limit = (*new_limit).max(bytes(limit));
        *new_cpu = (*new_cpu).max(cores.map(quantity::rounded_millicores));
    }
    let [new_request, new_limit, new_cpu] = sizes;
    let texts = [new_request.map(memory_text), new_limit.map(memory_text), new_cpu.map(cpu_text)];
    let mut lines: Vec<String> = block.lines().map(str::to_owned).collect();
    for (key, text) in format.sizes.into_iter().zip(&texts) {
        let (Some(node), Some(text)) = (value(key), text) else { continue };
        let Some(line) = lines.get_mut(node.line - 1) else { continue };
        replace_value(line, key, text, &job.name)?;
    }
    let today = job.rows.iter().filter_map(|row| row.today.as_ref()?.memory_limit_bytes).min();
    if let ([_, Some(text), _], None, Some(node)) = (&texts, value(limit), value(request))
        && today.is_some_and(|today| today < change.request)
        && !add_limit(&mut lines, node.line - 1, format, text)
    {
        report.notes.push(format!("{} needs more than its limit of today: give it a limit", job.name));
        report.keep("the limit that they need has no place in their lines", &job.name);
        return Ok(None);
    }
    Ok(Some((lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect(), change)))
}

/// Sets the value in the line of its key, and keeps the comment behind it.
/// Errors: the key is on another line.
fn replace_value(line: &mut String, [_, name]: [&str; 2], text: &str, job: &str) -> Result<(), String> {
    let (content, comment) = split_comment(line);
    let (before, _) = content.split_once(':').unwrap_or((content, ""));
    if !before.ends_with(name) {
        return Err(format!("the value of {name} of {job} is not on the line of its key: write it so"));
    }
    let comment = if comment.is_empty() { String::new() } else { format!(" {comment}") };
    *line = format!("{before}: {}{comment}", quoted(text));
    Ok(())
}

/// Adds a limit to a job without one: below its request, or in a map of its own above that of the requests. `false` if it has no place.
fn add_limit(lines: &mut Vec<String>, at: usize, format: &BlockFormat, text: &str) -> bool {
    let [[outer, _], [own, name], _] = format.sizes;
    let indent = |line: &String| region::indent_of(line).to_owned();
    let Some(inner) = lines.get(at).map(indent) else { return false };
    let value = format!("{inner}{name}: {}", quoted(text));
    if own == outer {
        lines.insert(at + 1, value);
        return true;
    }
    let is_key = |line: &str, key: &str| line.trim().strip_suffix(':') == Some(key);
    let above = lines.iter().take(at).rposition(|line| is_key(line, outer));
    let Some(above) = above.filter(|_| !lines.iter().any(|line| line.contains(&format!("{own}:")))) else {
        return false;
    };
    let map = lines.get(above).map(indent).unwrap_or_default();
    lines.insert(above, value);
    lines.insert(above, format!("{map}{own}:"));
    true
}

/// Values of a key in all maps of the documents, at any depth.
fn values<'n>(documents: &'n Documents, key: &str) -> std::vec::IntoIter<&'n Node> {
    fn add<'n>(node: &'n Node, key: &str, found: &mut Vec<&'n Node>) {
        for (name, value) in node.pairs() {
            if name.text() == key {
                found.push(value);
            }
            add(value, key, found);
        }
        node.list().iter().for_each(|value| add(value, key, found));
    }
    let mut found = Vec::new();
    documents.all.iter().for_each(|document| add(document, key, &mut found));
    found.into_iter()
}

/// The line of a second container, or of a second place with sizes; `None` if it is clear which one is meant.
fn ambiguous(documents: &Documents, format: &BlockFormat) -> Option<usize> {
    let lists = ["containers", "initContainers"].into_iter().flat_map(|key| values(documents, key));
    let containers: Vec<usize> = lists.flat_map(Node::list).map(|node| node.line).collect();
    let [[outer, inner], [limits, limit], _] = format.sizes;
    let lines =
        |outer, inner| values(documents, outer).filter_map(move |of| Some(of.get(inner)?.line)).nth(1);
    containers.get(1).copied().or_else(|| lines(outer, inner)).or_else(|| lines(limits, limit))
}
