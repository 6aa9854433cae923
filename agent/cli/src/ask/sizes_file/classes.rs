//! The classes of machines: the pools of the server's file of pools.

use std::collections::BTreeSet;

use plimsoll_base::quantity;
use plimsoll_proto::{
    figures, limits,
    recommendations::{cpu_text, memory_text},
};
use serde::Deserialize;

const MIB: u64 = 1 << 20;

/// A file of pools. What only the server reads is skipped.
#[derive(Deserialize)]
struct ClassesFile {
    #[serde(default)]
    pool: Vec<ClassTable>,
}

#[derive(Deserialize)]
struct ClassTable {
    name: String,
    #[serde(default)]
    tags: Vec<String>,
    cores: Option<toml::Value>,
    memory: Option<String>,
    #[serde(default)]
    price_gib_hour: f64,
    #[serde(default)]
    price_core_hour: f64,
    build_jobs: Option<u32>,
    #[serde(default)]
    by_rule: bool,
    #[serde(default)]
    overwrite_max: OverwriteMax,
}

#[derive(Default, Deserialize)]
struct OverwriteMax {
    memory_request: Option<String>,
}

/// A class of machines.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Class {
    pub(super) name: String,
    pub(super) tags: Vec<String>,
    /// Thousandths of a core.
    pub(super) millicores: u64,
    /// Largest memory request, bytes: whole MiB.
    pub(super) memory: u64,
    /// Prices of a GiB and of a core for an hour.
    pub(super) prices: (f64, f64),
    pub(super) build_jobs: u32,
}

/// The classes of a file, and the one of all other packages.
#[derive(Debug, Clone, PartialEq)]
pub struct Classes {
    pub(super) all: Vec<Class>,
    pub(super) default: Option<Class>,
}

impl Classes {
    /// Reads the pools of a file as classes. Pools that only a rule gives builds to are none. `default`: name of the class of all packages
    /// without a size of their own; none if it is empty.
    /// Errors: the file is no TOML, has no pools, or a class lacks memory or cores, or has a wrong value.
    pub fn parse(text: &str, default: &str) -> Result<Self, String> {
        let file: ClassesFile =
            toml::from_str(text).map_err(|error| error.to_string().trim_end().to_owned())?;
        let tables = file.pool.into_iter().filter(|table| !table.by_rule);
        let all: Vec<Class> = tables.map(Class::read).collect::<Result<_, _>>()?;
        let mut names = BTreeSet::new();
        if let Some(class) = all.iter().find(|class| !names.insert(&class.name)) {
            return Err(format!("pool {} is there twice", class.name));
        }
        if all.is_empty() {
            return Err("has no [[pool]]: a class needs name, memory and cores".into());
        }
        let known = || all.iter().map(|class| class.name.as_str()).collect::<Vec<_>>().join(", ");
        let default = match default {
            "" => None,
            name => Some(
                all.iter()
                    .find(|class| class.name == name)
                    .cloned()
                    .ok_or_else(|| format!("has no class {name:?} for --default-class: {}", known()))?,
            ),
        };
        let classes = Self { all, default };
        match classes.build_jobs().len() {
            0..=limits::RECOMMEND_BUILD_JOBS => Ok(classes),
            more => Err(format!("has {more} different build_jobs, at most {}", limits::RECOMMEND_BUILD_JOBS)),
        }
    }

    /// The numbers of build jobs of all classes, each once.
    pub fn build_jobs(&self) -> Vec<u32> {
        self.all.iter().map(|class| class.build_jobs).collect::<BTreeSet<_>>().into_iter().collect()
    }

    pub(super) fn named(&self, name: &str) -> Option<&Class> {
        self.all.iter().find(|class| class.name == name)
    }

    /// Memory of the largest class, bytes.
    pub(super) fn most_memory(&self) -> u64 {
        self.all.iter().map(|class| class.memory).max().unwrap_or_default()
    }

    pub(super) fn has_prices(&self) -> bool {
        self.all.iter().any(|class| class.prices.0 > 0.0 || class.prices.1 > 0.0)
    }

    /// Tags of the classes that are none of `own`: Spack joins the tags of all sections that match, so a section removes them.
    pub(super) fn other_tags(&self, own: &[String]) -> Vec<&str> {
        let tags = self.all.iter().flat_map(|class| &class.tags).filter(|tag| !own.contains(tag));
        tags.map(String::as_str).collect::<BTreeSet<_>>().into_iter().collect()
    }
}

impl Class {
    fn read(table: ClassTable) -> Result<Self, String> {
        let name = table.name;
        let at = |why: String| format!("pool {name}: {why}");
        let letter = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if !(1..=63).contains(&name.len()) || !name.bytes().all(letter) {
            return Err(format!("pool {name:?}: a name is 1 to 63 of A-Z a-z 0-9 . _ -"));
        }
        let lacks = |field: &str| at(format!("{field} is missing: a class needs memory and cores"));
        let memory = quantity::memory(&table.memory.ok_or_else(|| lacks("memory"))?);
        let mut memory = memory.map_err(|why| at(format!("memory: {why}")))?;
        if let Some(most) = table.overwrite_max.memory_request {
            let most =
                quantity::memory(&most).map_err(|why| at(format!("overwrite_max.memory_request: {why}")))?;
            memory = memory.min(most);
        }
        // a request is written in whole MiB, and the runner refuses more than it has
        memory -= memory % MIB;
        let cores = match table.cores.ok_or_else(|| lacks("cores"))? {
            toml::Value::String(text) => quantity::parse_cores(&text),
            number => quantity::parse_cores(&number.to_string()),
        };
        let cores = cores.map_err(|why| at(format!("cores: {why}")))?;
        let jobs = figures::to_whole(cores.ceil()).clamp(1, u64::from(limits::BUILD_JOBS));
        let build_jobs = table.build_jobs.unwrap_or_else(|| u32::try_from(jobs).unwrap_or(1));
        if cores <= 0.0 || !(1..=limits::BUILD_JOBS).contains(&build_jobs) {
            return Err(at(format!("cores must be more than 0, build_jobs 1 to {}", limits::BUILD_JOBS)));
        }
        let prices = (table.price_gib_hour, table.price_core_hour);
        if ![prices.0, prices.1].iter().all(|price| (0.0..=1e9).contains(price)) {
            return Err(at("a price must be 0 to 1000000000".into()));
        }
        if table.tags.iter().any(|tag| tag.is_empty() || tag.chars().any(|of| of.is_control() || of == ',')) {
            return Err(at("tags: a tag is a text without commas and control characters".into()));
        }
        let millicores = quantity::rounded_millicores(cores);
        Ok(Self { name, tags: table.tags, millicores, memory, prices, build_jobs })
    }

    /// The variables of a job of this class with this memory request: the size's name, build jobs, CPU and memory.
    pub(super) fn variables(&self, request: u64) -> [(&'static str, String); 4] {
        [
            ("CI_JOB_SIZE", self.name.clone()),
            ("SPACK_BUILD_JOBS", self.build_jobs.to_string()),
            ("KUBERNETES_CPU_REQUEST", cpu_text(self.millicores)),
            ("KUBERNETES_MEMORY_REQUEST", memory_text(request)),
        ]
    }
}
