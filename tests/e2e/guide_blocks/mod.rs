//! Every fenced block of every Markdown file: files are read by what reads them in earnest, commands are run ([`console`]), and a language
//! that is not known is refused.

mod console;
mod console_tables;

use std::{fs, path::Path};

use plimsoll_core::{
    placement::Placement,
    retry::{LogRules, RetryPolicy},
};
use plimsoll_lab::import::prometheus::PrometheusLabels;
use plimsoll_support::files_below;
use plimsoll_tests::{Programs, Server};
use yaml_rust2::{Yaml, YamlLoader};

use crate::tools::repository;

/// Languages of blocks; each has a reader in this test.
const LANGUAGES: [&str; 7] = ["console", "csv", "ini", "json", "text", "toml", "yaml"];

/// A fenced block.
pub(crate) struct Block {
    /// The file that it stands in, from the root of the repository.
    pub(crate) guide: String,
    /// Line of its first fence, from 1.
    line: usize,
    pub(crate) language: String,
    pub(crate) text: String,
}

impl Block {
    fn at(&self) -> String {
        format!("{}:{}", self.guide, self.line)
    }
}

/// The blocks of all Markdown files, in the order of the files' names.
pub(crate) fn all_blocks() -> Vec<Block> {
    let root = repository();
    let mut files = vec![root.join("README.md")];
    for dir in ["agent", "deploy", "proto", "server", "tests"] {
        let below = files_below(&root.join(dir)).into_iter();
        files.extend(below.filter(|path| path.extension().is_some_and(|extension| extension == "md")));
    }
    files.sort();
    assert!(files.len() > 20, "{files:?}");
    files.iter().flat_map(|file| blocks_of(file.strip_prefix(root).unwrap())).collect()
}

fn blocks_of(guide: &Path) -> Vec<Block> {
    let (mut blocks, mut open) = (Vec::new(), None::<Block>);
    for (at, line) in fs::read_to_string(repository().join(guide)).unwrap().lines().enumerate() {
        match (&mut open, line.trim_start().strip_prefix("```")) {
            (None, Some(language)) => {
                let (guide, language) = (guide.display().to_string(), language.trim().to_owned());
                open = Some(Block { guide, line: at + 1, language, text: String::new() });
            }
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some(block), None) => {
                block.text.push_str(line);
                block.text.push('\n');
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "{}: a block does not end", guide.display());
    blocks
}

fn blocks_in(language: &str) -> Vec<Block> {
    all_blocks().into_iter().filter(|block| block.language == language).collect()
}

#[test]
fn every_block_names_a_language_that_is_checked() {
    let unknown: Vec<String> = all_blocks()
        .iter()
        .filter(|block| !LANGUAGES.contains(&block.language.as_str()))
        .map(|block| format!("{}: {:?}", block.at(), block.language))
        .collect();
    assert!(unknown.is_empty(), "{unknown:#?}");
}

/// Starts a server with an access file, beside which the files of keys lie that it names.
fn read_access(text: &str, table: &toml::Table) -> Result<(), String> {
    let dir = tempfile::tempdir().unwrap();
    let issuers = table.get("issuer").and_then(|issuers| issuers.as_array()).into_iter().flatten();
    for file in issuers.filter_map(|issuer| issuer.get("keys_file")?.as_str()) {
        let keys = r#"{"keys": [{"kty": "RSA", "kid": "one", "n": "AQAB", "e": "AQAB"}]}"#;
        fs::write(dir.path().join(file), keys).unwrap();
    }
    let file = dir.path().join("access.toml");
    fs::write(&file, text).unwrap();
    let options = ["--access-file", file.to_str().unwrap()];
    let started = Server::start_with(Programs::for_tests(), &dir.path().join("data"), &options);
    started.map(drop).map_err(|error| format!("{error:#}"))
}

/// Has the server read a file of settings.
fn read_settings(text: &str) -> Result<(), String> {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), text).unwrap();
    let answer = Server::call(&["--config", file.path().to_str().unwrap(), "--print-config"]);
    if answer.code == Some(0) { Ok(()) } else { Err(answer.stderr) }
}

/// Reads a block of TOML as the file that its tables belong to.
fn read_toml(text: &str) -> Result<(), String> {
    let table: toml::Table = toml::from_str(text).map_err(|error| error.to_string())?;
    let has = |names: &[&str]| names.iter().any(|name| table.contains_key(*name));
    let is_log_rule = |rule: &toml::Value| rule.get("id").is_some();
    let rules = table.get("rule").and_then(|rules| rules.as_array()).into_iter().flatten();
    if has(&["anonymous", "token", "issuer", "certificate"]) {
        read_access(text, &table)
    } else if rules.clone().any(is_log_rule) {
        let read = LogRules::extended(&[("own.toml".to_owned(), text.to_owned())]);
        read.map(drop).map_err(|wrong| wrong.join("\n"))
    } else if has(&["currency", "pool", "kind", "rule", "tickets"]) {
        let mut file = |name: &str| {
            let is_certificate = name.ends_with("-ca.crt");
            Ok(if is_certificate { "-----BEGIN CERTIFICATE-----" } else { "builder-3.example" }.to_owned())
        };
        Placement::parse_with(text, &mut file).map(drop)
    } else if has(&["kube_pod", "variables"]) {
        let labels: PrometheusLabels = toml::from_str(text).map_err(|error| error.to_string())?;
        labels.check()
    } else if has(&["terms"]) {
        RetryPolicy::parse_terms(text).map(drop)
    } else {
        read_settings(text)
    }
}

#[test]
fn every_toml_block_is_accepted_by_its_reader() {
    let blocks = blocks_in("toml");
    let wrong: Vec<String> = blocks
        .iter()
        .filter_map(|block| Some(format!("{}: {}", block.at(), read_toml(&block.text).err()?)))
        .collect();
    assert!(wrong.is_empty() && blocks.len() > 4, "{} looked at: {wrong:#?}", blocks.len());
    for refused in
        ["[[token]]\nname = \"x\"\n", "[[pool]]\nnam = 1\n", "[[terms]]\nretrys = 1\n", "grpc_liste = 1\n"]
    {
        assert!(read_toml(refused).is_err(), "{refused}");
    }
}

/// An object of Kubernetes that a block shows; a part of a pod is put into one.
fn kubernetes_object(block: &Yaml, text: &str) -> Option<String> {
    // what kustomize reads is no object of a cluster: deploy.rs renders every combination of components; Tekton's kinds have no schema here
    let is_of_tekton = block["apiVersion"].as_str().is_some_and(|version| version.starts_with("tekton.dev/"));
    if block["kind"].as_str() == Some("Kustomization") || is_of_tekton {
        return None;
    }
    if !block["apiVersion"].is_badvalue() {
        return Some(text.to_owned());
    }
    let is_pod = !block["spec"]["containers"].is_badvalue();
    is_pod.then(|| format!("apiVersion: v1\nkind: Pod\nmetadata:\n  name: example\n{text}"))
}

#[test]
fn every_yaml_block_parses_and_fits_its_schema() {
    let (blocks, dir) = (blocks_in("yaml"), tempfile::tempdir().unwrap());
    let mut objects = 0;
    for block in &blocks {
        let documents = YamlLoader::load_from_str(&block.text);
        let documents = documents.unwrap_or_else(|error| panic!("{}: {error}", block.at()));
        assert!(documents.iter().all(|document| document.as_hash().is_some()), "{}", block.at());
        for object in documents.iter().filter_map(|document| kubernetes_object(document, &block.text)) {
            objects += 1;
            let file = dir.path().join("object.yaml");
            fs::write(&file, object).unwrap();
            let complaints = crate::deploy::complaints(std::slice::from_ref(&file)).unwrap_or_default();
            assert!(complaints.is_empty(), "{}: {complaints:?}", block.at());
        }
    }
    assert!(objects > 0 && blocks.len() > 4, "{objects} objects in {} blocks", blocks.len());
}

#[test]
fn every_json_and_systemd_block_parses() {
    for block in blocks_in("json") {
        let read: Result<serde_json::Value, _> = serde_json::from_str(&block.text);
        assert!(read.is_ok(), "{}: {read:?}", block.at());
    }
    for block in blocks_in("ini") {
        let is_known = |line: &str| {
            let is_section = line.starts_with('[') && line.ends_with(']');
            line.is_empty() || line.starts_with('#') || is_section || line.split_once('=').is_some()
        };
        assert!(block.text.starts_with('[') && block.text.lines().all(is_known), "{}", block.at());
    }
}
