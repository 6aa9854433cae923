//! Whole programs on real sockets and real files: a module for each promise.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "a failed step should fail the test where it stands"
)]

mod access;
mod act;
mod admission;
mod any_client;
mod attach;

mod bad_input;
mod bounds;
mod build;
mod build_hard;
mod ci_systems;
mod copr_guide;
mod corrected;
mod crowded;
mod damaged_store;
mod database;
mod demand;
mod deploy;
mod directory;
mod doctor;
mod endurance;
mod evidence;
mod expired_token;
mod floods;
mod foreign_facts;
mod forged;
mod gantry;
mod github_action;
mod gitlab;
mod gitlab_include;
mod golden;
mod guide_blocks;
mod guide_dir;
mod guide_tables;
mod guides;
mod hooks;
mod hostile_build;
mod init;
mod kept;
mod lineage;
mod monitoring;
mod moving;
mod one_number;
mod output;
mod planted;
mod pools;
mod prometheus_import;
mod raised;
mod recommend;
mod reference;
mod release;
mod remote_backup;
mod resalloc;
mod rescue;
mod retention;
mod roles;
mod rpm;
mod saved;
mod see;
mod settings;
mod shadow;
mod sizes_jobs;
mod stop;
mod store_ops;
mod stranger;
mod tenants;
mod tickets;
mod tools;
mod verdict;
mod web;
mod webhook_secret;
