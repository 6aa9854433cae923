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
mod attacker;
mod bad_input;
mod bounds;
mod build;
mod build_hard;
mod crash;
mod demand;
mod deploy;
mod directory;
mod endurance;
mod evidence;
mod floods;
mod forged;
mod gantry;
mod gitlab;
mod hooks;
mod init;
mod judging;
mod kept;
mod lineage;
mod monitoring;
mod one_number;
mod output;
mod planted;
mod pools;
mod readme_tables;
mod retention;
mod roles;
mod see;
mod settings;
mod shadow;
mod squatter;
mod stop;
mod store_ops;
mod stranger;
mod tenants;
mod ticket_access;
mod tickets;
mod too_much;
mod verdict;
mod web;
