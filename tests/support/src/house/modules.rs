//! The modules of one crate, and which of them use which.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use super::{
    code, files, is_of_tests,
    paths::{Names, behind},
};

/// For each module the modules that it uses.
type Arrows = BTreeMap<String, BTreeSet<String>>;

/// The modules of one crate, tests apart.
#[derive(Debug)]
pub struct Modules {
    /// The code of each module, by its path from the root of the crate.
    code: BTreeMap<Names, String>,
    /// Where a name of a module comes from that another module below it defines.
    passed_on: BTreeMap<(Names, String), Names>,
}

impl Modules {
    /// Reads the crate whose `src/` this is.
    ///
    /// # Panics
    /// The folder cannot be read.
    pub fn read(src: &Path) -> Self {
        let mut modules = Self { code: BTreeMap::new(), passed_on: BTreeMap::new() };
        for file in files(src) {
            let inner = file.strip_prefix(src).unwrap();
            let is_code = inner.extension().is_some_and(|end| end == "rs") && inner != Path::new("main.rs");
            if is_code && !is_of_tests(inner) {
                modules.code.insert(names_of(inner), code(&fs::read_to_string(&file).unwrap()));
            }
        }
        modules.passed_on =
            modules.code.iter().flat_map(|(module, code)| modules.passed_on_by(module, code)).collect();
        modules
    }

    /// The names of modules below this one that it uses itself, and so can pass on.
    fn passed_on_by(&self, module: &[String], code: &str) -> Vec<((Names, String), Names)> {
        let mut found = Vec::new();
        for names in behind(code, "use ").into_iter().filter(|names| names.len() > 1) {
            let names: Names = names.into_iter().skip_while(|name| name == "self").collect();
            let child = [module, names.get(..1).unwrap_or_default()].concat();
            let Some((last, before)) = names.split_last().filter(|_| self.code.contains_key(&child)) else {
                continue;
            };
            found.push(((module.to_vec(), last.clone()), [module, before].concat()));
        }
        found
    }

    /// The module that a path leads to.
    fn resolve(&self, from: &[String], path: &[String]) -> Names {
        let mut module = from.to_vec();
        for name in path.iter().filter(|name| *name != "self") {
            let below = [&module[..], std::slice::from_ref(name)].concat();
            if self.code.contains_key(&below) {
                module = below;
                continue;
            }
            return match self.passed_on.get(&(module.clone(), name.clone())) {
                Some(defined) => defined.clone(),
                None => module,
            };
        }
        module
    }

    /// All modules that one uses.
    fn used_by(&self, module: &[String], code: &str) -> BTreeSet<Names> {
        let from_root = behind(code, "crate::").into_iter().map(|path| self.resolve(&[], &path));
        let mut used: BTreeSet<Names> = from_root.collect();
        for path in behind(code, "super::") {
            let ups = path.iter().take_while(|name| *name == "super").count();
            let above = module.get(..module.len().saturating_sub(ups + 1)).unwrap_or_default();
            used.insert(self.resolve(above, path.get(ups..).unwrap_or_default()));
        }
        used
    }

    /// The arrows between modules beside each other, for each module that holds some.
    fn siblings(&self) -> BTreeMap<Names, Arrows> {
        let mut all: BTreeMap<Names, Arrows> = BTreeMap::new();
        for (module, code) in &self.code {
            let arrows = self.used_by(module, code).into_iter().filter_map(|used| parting(module, &used));
            for (above, from, to) in arrows {
                all.entry(above).or_default().entry(from).or_default().insert(to);
            }
        }
        all
    }

    /// Which top-level module uses which others.
    pub fn arrows(&self) -> Arrows {
        self.siblings().remove(&Vec::new()).unwrap_or_default()
    }

    /// Modules beside each other that use each other in a circle, at any depth, in words.
    pub fn circles(&self) -> Vec<String> {
        let mut circles = Vec::new();
        for (above, arrows) in self.siblings() {
            let reached: BTreeMap<&String, BTreeSet<String>> =
                arrows.keys().map(|from| (from, reached(&arrows, from))).collect();
            let round = |one: &String| reached.get(one).is_some_and(|all| all.contains(one));
            let circle: Vec<&str> = arrows.keys().filter(|name| round(name)).map(String::as_str).collect();
            if !circle.is_empty() {
                circles.push(format!("in {}: {}", place(&above), circle.join(", ")));
            }
        }
        circles
    }
}

/// Where the paths of two modules part: the module that holds both, and its parts that lead to one and the other. A module and what is
/// below it are one house, in which both may use each other.
fn parting(module: &[String], used: &[String]) -> Option<(Names, String, String)> {
    let shared = module.iter().zip(used).take_while(|(one, other)| one == other).count();
    let above = module.get(..shared)?.to_vec();
    Some((above, module.get(shared)?.clone(), used.get(shared)?.clone()))
}

/// Everything that is reached from one module over any number of arrows.
fn reached(arrows: &Arrows, from: &str) -> BTreeSet<String> {
    let (mut all, mut next) = (BTreeSet::new(), vec![from]);
    while let Some(name) = next.pop() {
        for to in arrows.get(name).into_iter().flatten() {
            if all.insert(to.clone()) {
                next.push(to);
            }
        }
    }
    all
}

fn place(above: &[String]) -> String {
    if above.is_empty() { "the crate".to_owned() } else { above.join("::") }
}

/// The path of the module in a file: `a/b.rs` and `a/b/mod.rs` are `a::b`, and `lib.rs` is the root.
fn names_of(file: &Path) -> Names {
    let mut names: Names =
        file.with_extension("").iter().filter_map(|part| Some(part.to_str()?.to_owned())).collect();
    names.pop_if(|last| ["mod", "lib"].contains(&last.as_str()));
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn modules(files: &[(&str, &str)]) -> Modules {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        Modules::read(dir.path())
    }

    #[test]
    fn a_circle_is_found_at_any_depth_and_through_names_that_are_passed_on() {
        let tree = modules(&[
            ("lib.rs", "mod a; mod b;"),
            ("a/mod.rs", "mod c; mod d; pub use c::Thing;"),
            ("a/c.rs", "use super::d::run;"),
            ("a/d.rs", "use crate::a::Thing;"),
            ("b.rs", "use crate::a::Thing;"),
        ]);
        assert_eq!(tree.circles(), ["in a: c, d"]);
        assert_eq!(
            tree.arrows().into_iter().collect::<Vec<_>>(),
            [("b".to_owned(), ["a".to_owned()].into())]
        );
    }

    #[test]
    fn a_module_and_its_parts_and_tests_are_no_circle() {
        let tree = modules(&[
            ("a/mod.rs", "mod c; use c::Thing; pub struct Settings;"),
            ("a/c.rs", "use super::Settings;\nuse crate::b::x;"),
            ("b.rs", "// crate::a::Settings\n#[cfg(test)]\nmod tests {\nuse crate::a::Settings;\n}"),
            ("b/tests.rs", "use crate::a::Settings;"),
        ]);
        assert_eq!(tree.circles(), Vec::<String>::new());
    }
}
