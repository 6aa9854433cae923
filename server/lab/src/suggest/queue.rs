//! What a list does to queue and cost: recorded builds on two pools of builders, each build on a builder of its own, in the order they came.

use std::{cmp::Reverse, collections::BinaryHeap};

use plimsoll_core::{domain::Millis, placement::CoprTable};

use super::{Builder, RecordedBuilds, SuggestTerms, has_tag, speed::GroupSpeed};
use crate::simulate::aligned;

/// Queue and cost of the builds of a file with one list.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ListEffect {
    /// Number of builds.
    pub builds: usize,
    /// Number of builds that run on powerful builders.
    pub powerful: usize,
    /// Time that each build waited for a builder, milliseconds, sorted.
    waits: Vec<u64>,
    /// Time from coming to the end, milliseconds, sorted.
    times: Vec<u64>,
    /// Hours for which builders are in use, over all builders.
    pub builder_hours: f64,
    /// Price of these builder hours.
    pub money: f64,
}

impl ListEffect {
    /// The wait that this share of the builds did not exceed (nearest rank).
    pub fn wait(&self, share: f64) -> Millis {
        rank(&self.waits, share)
    }

    /// The time from arrival to end that this share of the builds did not exceed (nearest rank).
    pub fn time(&self, share: f64) -> Millis {
        rank(&self.times, share)
    }
}

fn rank(sorted: &[u64], share: f64) -> Millis {
    let count = Millis(u64::try_from(sorted.len()).unwrap_or(u64::MAX)).as_f64();
    let rank = usize::try_from(Millis::from_f64((count * share).ceil()).0).unwrap_or(usize::MAX);
    Millis(sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default())
}

/// The builders of a pool, by the time at which each is free.
struct BuilderQueue<'b> {
    builder: &'b Builder,
    free_at: BinaryHeap<Reverse<u64>>,
}

impl BuilderQueue<'_> {
    /// Runs a build on the builder that becomes free first; returns when the build starts.
    fn run(&mut self, came: u64, wall: Millis) -> u64 {
        let most =
            self.builder.at_once.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX));
        let is_full = self.free_at.len() >= most;
        let free = if is_full { self.free_at.pop().map_or(0, |Reverse(at)| at) } else { 0 };
        let start = came.max(free);
        self.free_at.push(Reverse(start.saturating_add(wall.0)));
        start
    }
}

/// Simulates a list: builds that the list gives `tag` run on powerful builders, all others on usual ones. Only builds that succeeded and
/// that both pools can run are included.
pub fn effect(builds: &RecordedBuilds, list: &CoprTable, tag: &str, terms: &SuggestTerms) -> ListEffect {
    let mut all = Vec::new();
    for group in builds.groups.iter().filter(|group| terms.can_run(group.family)) {
        let tagged: Vec<bool> = group.names.iter().map(|name| has_tag(list, name, tag)).collect();
        let speed = GroupSpeed::of(group, terms);
        for run in &group.runs {
            let listed = tagged.get(run.name).copied().unwrap_or_default();
            let builder = if listed { &terms.powerful } else { &terms.normal };
            all.push((run.start_ms, listed, speed.moved(run, builder)));
        }
    }
    all.sort_unstable();
    let queue = |builder| BuilderQueue { builder, free_at: BinaryHeap::new() };
    let (mut normal, mut powerful) = (queue(&terms.normal), queue(&terms.powerful));
    let mut effect = ListEffect { builds: all.len(), ..ListEffect::default() };
    for (came, listed, wall) in all {
        let queue = if listed { &mut powerful } else { &mut normal };
        let start = queue.run(came, wall);
        effect.powerful += usize::from(listed);
        effect.waits.push(start.saturating_sub(came));
        effect.times.push(start.saturating_add(wall.0).saturating_sub(came));
        effect.builder_hours += wall.hours();
        effect.money += wall.hours() * queue.builder.price_hour;
    }
    effect.waits.sort_unstable();
    effect.times.sort_unstable();
    effect
}

/// The same for programs: one JSON object. Times are in milliseconds.
pub fn effect_json(effects: &[(&str, ListEffect)], currency: &str) -> String {
    let one = |(name, effect): &(&str, ListEffect)| {
        serde_json::json!({
            "list": name,
            "builds": effect.builds,
            "powerful": effect.powerful,
            "wait_p50_ms": effect.wait(0.5).0,
            "wait_p95_ms": effect.wait(0.95).0,
            "time_p50_ms": effect.time(0.5).0,
            "time_p95_ms": effect.time(0.95).0,
            "builder_hours": effect.builder_hours,
            "money": effect.money,
        })
    };
    let lists: Vec<serde_json::Value> = effects.iter().map(one).collect();
    serde_json::json!({ "currency": currency, "lists": lists }).to_string() + "\n"
}

/// A table with a row for each list. It shows money only if one of them costs some.
pub fn effect_text(effects: &[(&str, ListEffect)], currency: &str) -> String {
    let money = if currency.is_empty() { "money" } else { currency };
    let head =
        ["list", "builds", "powerful", "wait p50", "wait p95", "time p50", "time p95", "builder·h", money];
    let columns = head.len() - usize::from(effects.iter().all(|(_, effect)| effect.money <= 0.0));
    let row = |(name, effect): &(&str, ListEffect)| {
        vec![
            (*name).to_owned(),
            effect.builds.to_string(),
            effect.powerful.to_string(),
            effect.wait(0.5).to_string(),
            effect.wait(0.95).to_string(),
            effect.time(0.5).to_string(),
            effect.time(0.95).to_string(),
            format!("{:.1}", effect.builder_hours),
            format!("{:.2}", effect.money),
        ]
    };
    let mut rows: Vec<Vec<String>> =
        [head.map(str::to_owned).to_vec()].into_iter().chain(effects.iter().map(row)).collect();
    for row in &mut rows {
        row.truncate(columns);
    }
    aligned(&rows)
}
