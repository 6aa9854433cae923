//! Parses the rules of the operator's file.

use toml::Spanned;

use super::{PlacementReader, tables::RuleTable};
use crate::{
    domain::Millis,
    placement::{
        Placement,
        copr::{CoprEntry, CoprTable},
        pattern::Pattern,
        rule::{NeedThreshold, PlacementRule, RuleField, RuleTarget, WhenBusy},
    },
};

impl PlacementReader<'_> {
    pub(super) fn read_rule(
        &mut self,
        at: usize,
        table: Spanned<RuleTable>,
        placement: &Placement,
    ) -> Option<PlacementRule> {
        let (line, before) = (self.line_of(&table), self.mistakes.len());
        let table = table.into_inner();
        let name = if table.name.is_empty() { format!("number {}", at + 1) } else { table.name.clone() };
        let at = format!("rule {name}");
        let fields = self.read_fields(&at, &table);
        let over = self.read_thresholds(line, &at, &table);
        let copr = table.copr.as_ref().and_then(|text| self.read_copr(&at, text, placement));
        let wanted = self.read_target(line, &at, &table, placement);
        let when_busy = self.read_when_busy(line, &at, &table, placement);
        let rule = PlacementRule { name, line, fields, thresholds: over, copr, target: wanted?, when_busy };
        (self.mistakes.len() == before).then_some(rule)
    }

    fn read_fields(&mut self, at: &str, table: &RuleTable) -> Vec<(RuleField, Pattern)> {
        let named = [
            (RuleField::Project, &table.project),
            (RuleField::Owner, &table.owner),
            (RuleField::Stack, &table.stack),
            (RuleField::Package, &table.package),
            (RuleField::Version, &table.version),
            (RuleField::Arch, &table.arch),
            (RuleField::Ref, &table.r#ref),
            (RuleField::RefClass, &table.ref_class),
            (RuleField::Kind, &table.kind),
            (RuleField::Key, &table.key),
        ];
        let labels = table.labels.iter().map(|(name, text)| (RuleField::Label(name.clone()), text));
        let named = named.into_iter().filter_map(|(field, text)| Some((field, text.as_ref()?)));
        let mut fields = Vec::new();
        for (field, text) in named.chain(labels) {
            if let Some(pattern) = self.read_pattern(at, &field.name(), text) {
                fields.push((field, pattern));
            }
        }
        fields
    }

    fn read_thresholds(&mut self, line: usize, at: &str, table: &RuleTable) -> Vec<NeedThreshold> {
        let mut over = Vec::new();
        over.extend(self.read_size(at, "memory_over", table.memory_over.clone()).map(NeedThreshold::Memory));
        over.extend(self.read_cores(at, "cores_over", table.cores_over.clone()).map(NeedThreshold::Cores));
        for (field, text, measure) in [
            ("wall_p50_over", &table.wall_p50_over, NeedThreshold::WallP50 as fn(Millis) -> NeedThreshold),
            ("wall_p95_over", &table.wall_p95_over, NeedThreshold::WallP95),
        ] {
            let Some(text) = text else { continue };
            match humantime::parse_duration(text) {
                Ok(time) => over.push(measure(Millis(u64::try_from(time.as_millis()).unwrap_or(u64::MAX)))),
                Err(_unhelpful) => {
                    self.add_mistake(
                        line,
                        format!("{at}: {field}: {text:?} is not a time; write it as 2h or 90min"),
                    );
                }
            }
        }
        over
    }

    fn read_copr(&mut self, at: &str, text: &Spanned<String>, placement: &Placement) -> Option<CoprTable> {
        // the content of a multi-line string starts on the line after its quotes
        let below = self
            .text
            .get(text.span())
            .is_some_and(|text| text.starts_with("'''\n") || text.starts_with("\"\"\"\n"));
        let first = self.line_of(text) - 1 + usize::from(below);
        let copr = match CoprTable::parse(text.get_ref()) {
            Ok(copr) => copr,
            Err(wrong) => {
                self.add_mistake(first + wrong.line, format!("{at}: copr: {}", wrong.text));
                return None;
            }
        };
        self.count_patterns(first + 1, copr.entries.len());
        let unknown =
            |entry: &CoprEntry| Some((first + entry.line, unknown_tag(&entry.tags, placement)?.clone()));
        for (line, tag) in copr.entries.iter().filter_map(unknown) {
            self.add_mistake(line, format!("{at}: copr: no pool has the tag {tag:?}"));
        }
        Some(CoprTable { lines_before: first, ..copr })
    }

    fn read_target(
        &mut self,
        line: usize,
        at: &str,
        table: &RuleTable,
        placement: &Placement,
    ) -> Option<RuleTarget> {
        match (&table.pool, table.tags.is_empty(), table.copr.is_some()) {
            (Some(name), true, false) => {
                if placement.pool(name).is_none() {
                    self.add_mistake(
                        line,
                        format!("{at}: pool {name:?} is not there; there are {}", pool_names(placement)),
                    );
                    return None;
                }
                Some(RuleTarget::Pool(name.clone()))
            }
            (None, _, has_table) if has_table || !table.tags.is_empty() => {
                if let Some(tag) = unknown_tag(&table.tags, placement) {
                    self.add_mistake(line, format!("{at}: no pool has the tag {tag:?}"));
                }
                Some(RuleTarget::Tags(table.tags.clone()))
            }
            _ => {
                self.add_mistake(
                    line,
                    format!("{at}: needs a pool, or tags, or a table of copr; not a pool with others"),
                );
                None
            }
        }
    }

    fn read_when_busy(
        &mut self,
        line: usize,
        at: &str,
        table: &RuleTable,
        placement: &Placement,
    ) -> Option<WhenBusy> {
        if table.busy_from == Some(0) {
            self.add_mistake(line, format!("{at}: busy_from is 0, so the pool would always be busy"));
        }
        let Some(other) = &table.when_busy else {
            if table.busy_from.is_some() {
                self.add_mistake(line, format!("{at}: busy_from says when; when_busy must say where to"));
            }
            return None;
        };
        if placement.pool(other).is_none() {
            self.add_mistake(
                line,
                format!("{at}: when_busy: pool {other:?} is not there; there are {}", pool_names(placement)),
            );
        }
        if table.pool.as_ref() == Some(other) {
            self.add_mistake(line, format!("{at}: when_busy names the pool that is busy"));
        }
        let bound = table.pool.as_deref().and_then(|name| placement.pool(name)).map(|pool| pool.at_once);
        if table.busy_from.is_none() && bound == Some(None) {
            self.add_mistake(
                line,
                format!("{at}: the pool has no at_once: say with busy_from when it is busy"),
            );
        }
        Some(WhenBusy { pool: other.clone(), from: table.busy_from })
    }
}

fn unknown_tag<'t>(tags: &'t [String], placement: &Placement) -> Option<&'t String> {
    tags.iter().find(|tag| placement.pools.iter().all(|pool| !pool.tags.contains(tag)))
}

fn pool_names(placement: &Placement) -> String {
    let names: Vec<&str> = placement.pools.iter().map(|pool| pool.name.as_str()).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
