//! The store in a PostgreSQL database, and everything known about it: no other module names its client library.
//!
//! | module | what it does |
//! |---|---|
//! | `settings`, `credentials`, `tls`, `primary` | from the settings to what a connection needs; which host is the primary |
//! | `connection`, `checks` | one connection to the primary, with the settings of our sessions; whether the server can keep a store |
//! | `schema`, `opening` | creates the tables; waits while another server has the store, and takes it |
//! | `kept_position` | what was last seen of the database, in a file, so that an older one is refused |
//! | `lease` | the holder's beat, and when a server that waits may take the lease |
//! | `store`, `shared` | the store's handle: sends commits to the writer, and reads |
//! | `pool`, `reader`, `reading` | connections that read, and their statements |
//! | `writer`, `transaction` | writes a group of commits in one transaction, and finds out what became of one without an answer |
//! | `reopening` | whether a database that came back has all that was acknowledged |
//! | `view`, `filling`, `report` | a store at one moment, for backups and commands; a new store made of a backup; facts about a database |
//! | `errors` | errors of the server in words that say what to do |

mod checks;
mod connection;
mod credentials;
mod errors;
mod filling;
mod kept_position;
mod lease;
mod opening;
mod pool;
mod primary;
mod reader;
mod reading;
mod reopening;
mod report;
mod schema;
mod settings;
mod shared;
mod store;
mod tls;
mod transaction;
mod view;
mod writer;

pub use errors::PostgresError;
pub(crate) use filling::{DatabaseFiller, FillError};
pub use report::DatabaseReport;
pub use settings::PostgresSettings;
pub use store::PostgresStore;
pub(crate) use view::DatabaseSnapshot;
pub use view::DatabaseView;
