//! Which processes of a build may be paused. Only compilers and linkers that have no process below them: nothing waits for such a process
//! but its driver, and a driver takes no notice of a pause.

use std::collections::BTreeMap;

use crate::processes::{ProcessId, ProcessTable, ProcessView, programs};

/// Shells, which can do job control.
const SHELLS: [&str; 9] = ["sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "fish", "busybox"];

/// Processes that are paused together: the compiler, assembler and linker of one driver write to each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unit {
    /// The driver, or the process itself if it has none. The oldest unit comes first.
    pub id: ProcessId,
    /// The processes to stop and to continue.
    pub members: Vec<ProcessId>,
    /// Memory of the members, bytes.
    pub bytes: u64,
    /// CPU time of the members, clock ticks.
    pub cpu_ticks: u64,
    /// Whether all members are stopped, by whomever.
    pub is_stopped: bool,
}

/// The units of a build, oldest first. `is_more` names further programs that may be paused, `bytes` returns the memory of a process. A unit
/// with one process that must not be paused is left out as a whole.
pub fn pausable_units(
    table: &ProcessTable,
    is_more: impl Fn(&str) -> bool,
    bytes: impl Fn(&ProcessView) -> u64,
) -> Vec<Unit> {
    let mut units: BTreeMap<ProcessId, (Unit, bool, bool)> = BTreeMap::new();
    for (leaf, driver) in table.leaf_compilers(is_more) {
        let id = driver.id;
        let empty = Unit { id, members: Vec::new(), bytes: 0, cpu_ticks: 0, is_stopped: true };
        let (unit, may, has_stopped) = units.entry(id).or_insert((empty, true, false));
        unit.members.push(leaf.id);
        unit.bytes = unit.bytes.saturating_add(bytes(leaf));
        unit.cpu_ticks = unit.cpu_ticks.saturating_add(leaf.cpu_ticks);
        unit.is_stopped &= leaf.is_stopped();
        *has_stopped |= leaf.is_stopped();
        *may &= is_unwatched(leaf, table);
    }
    // what its owner has stopped in part is left so
    let may = |(unit, may, has_stopped): (Unit, bool, bool)| {
        (may && has_stopped == unit.is_stopped).then_some(unit)
    };
    units.into_values().filter_map(may).collect()
}

/// Whether no process above this one takes notice of a pause.
fn is_unwatched(leaf: &ProcessView, table: &ProcessTable) -> bool {
    // a shell with job control gives each of its jobs a process group
    let is_shell = |parent: &ProcessView| SHELLS.contains(&&*parent.name);
    let is_job =
        table.above(leaf.id.pid).next().is_some_and(|parent| is_shell(parent) && parent.group != leaf.group);
    !is_job && !table.above(leaf.id.pid).any(|above| programs::is_watcher(&above.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::processes::tests::process;

    /// The members of the units of these processes.
    fn units(list: Vec<ProcessView>) -> Vec<Vec<i32>> {
        let table = ProcessTable::of("/proc".into(), list, false);
        let units = pausable_units(&table, |name| name == "my compiler", |process| process.resident);
        units.iter().map(|unit| unit.members.iter().map(|id| id.pid).collect()).collect()
    }

    #[test]
    fn the_processes_of_one_driver_are_one_unit() {
        let list = vec![
            process(2, 1, "make", 1),
            process(3, 2, "g++", 1),
            process(4, 3, "cc1plus", 9),
            process(5, 3, "as", 1),
            process(6, 2, "clang-17", 9),
            process(7, 2, "my compiler", 9),
        ];
        assert_eq!(units(list.clone()), [vec![4, 5], vec![6], vec![7]]);
        assert_eq!(ProcessTable::of("/proc".into(), list, false).compilers(), 2);
    }

    #[test]
    fn what_its_owner_stopped_in_part_is_left_alone() {
        let stopped = |is_stopped: bool| ProcessView {
            state: if is_stopped { 'T' } else { 'S' },
            ..process(4, 3, "cc1plus", 9)
        };
        let list = |is_stopped| vec![process(3, 2, "g++", 1), stopped(is_stopped), process(5, 3, "as", 1)];
        assert_eq!(units(list(false)), [vec![4, 5]]);
        assert_eq!(units(list(true)), Vec::<Vec<i32>>::new());
    }

    #[test]
    fn only_leaf_compilers_are_paused() {
        let names = ["make", "sh", "bash", "ninja", "ccache", "python3", "ctest", "java", "distccd", "g++"];
        for name in names {
            assert_eq!(units(vec![process(3, 2, name, 9)]), Vec::<Vec<i32>>::new(), "{name}");
        }
        let list = vec![process(3, 2, "rustc", 9), process(4, 3, "cc", 1), process(5, 4, "ld", 9)];
        assert_eq!(units(list), [vec![5]], "it waits for its linker");
        assert_eq!(units(vec![process(3, 2, "ccache", 1), process(4, 3, "cc1plus", 9)]), [vec![4]]);
    }

    #[test]
    fn watched_processes_are_never_paused() {
        for watcher in ["timeout", "expect", "ctest", "lit", "pytest", "distccd", "iceccd", "bazel"] {
            let list = vec![process(2, 1, watcher, 1), process(3, 2, "sh", 1), process(4, 3, "cc1", 9)];
            assert_eq!(units(list), Vec::<Vec<i32>>::new(), "{watcher}");
        }
        let shell =
            |group| vec![process(3, 1, "bash", 1), ProcessView { group, ..process(4, 3, "rustc", 9) }];
        assert_eq!(units(shell(1)), [vec![4]]);
        assert_eq!(units(shell(4)), Vec::<Vec<i32>>::new(), "a job of its own");
        let list = vec![process(2, 1, "timeout", 1), process(3, 2, "g++", 1), process(4, 3, "as", 1)];
        assert_eq!(units(list), Vec::<Vec<i32>>::new());
    }
}
