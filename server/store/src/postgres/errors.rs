//! Errors of the database, with texts that name the setting and say what to do.

use std::{borrow::Cow, error::Error as _, fmt::Write as _};

use tokio_postgres::{Error, error::SqlState};

/// Why a store in PostgreSQL cannot be opened or written. No text has a password in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PostgresError {
    /// Waiting may help: the server is away, is full, or refused this attempt.
    #[error("{0}")]
    Passing(String),
    /// Waiting does not help: a person has to change something, and to restart this server.
    #[error("{0}")]
    Lasting(String),
    /// Another server has taken the store, or the database lost commits: only a restart makes this server wait for its turn, and read again
    /// what is there.
    #[error("{0}")]
    Taken(String),
}

/// What the database gives, or why it does not.
pub(super) type PostgresResult<T> = Result<T, PostgresError>;

impl PostgresError {
    /// An error that waiting does not cure.
    pub(super) fn lasting(text: impl Into<String>) -> Self {
        Self::Lasting(text.into())
    }

    /// The same for a server that runs: what was right when it started may become right again.
    pub(super) fn passing(self) -> Self {
        match self {
            Self::Passing(text) | Self::Lasting(text) => Self::Passing(text),
            Self::Taken(text) => Self::Taken(text),
        }
    }

    /// The same error with another text.
    pub(super) fn map_text(self, map: impl FnOnce(String) -> String) -> Self {
        match self {
            Self::Passing(text) => Self::Passing(map(text)),
            Self::Lasting(text) => Self::Lasting(map(text)),
            Self::Taken(text) => Self::Taken(map(text)),
        }
    }
}

impl From<Error> for PostgresError {
    fn from(error: Error) -> Self {
        Self::Passing(describe(&error))
    }
}

/// Whether the other side has ended the connection, so that another one may do better.
pub(super) fn is_disconnect(error: &Error) -> bool {
    error.is_closed()
        || error.source().is_some_and(<dyn std::error::Error>::is::<std::io::Error>)
        || error.code().is_some_and(|code| code.code().starts_with("57P"))
}

/// Whether the database cannot read rows that are there: class XX of its codes, such as `data_corrupted`.
pub(super) fn is_damage(error: &Error) -> bool {
    error.code().is_some_and(|code| code.code().starts_with("XX"))
}

/// The error with its causes, and what helps.
pub(super) fn describe(error: &Error) -> String {
    let mut text = match error.as_db_error() {
        Some(refusal) => format!("{} ({})", refusal.message(), refusal.code().code()),
        None => error.to_string(),
    };
    let mut cause = error.source().filter(|_| error.as_db_error().is_none());
    while let Some(found) = cause {
        let cause_text = found.to_string();
        if !text.contains(&cause_text) {
            // writing into a String cannot fail
            let _written = write!(text, ": {cause_text}");
        }
        cause = found.source();
    }
    match hint(error, &text) {
        Some(way) => format!("{text}: {way}"),
        None => text,
    }
}

/// What helps against an error.
fn hint(error: &Error, text: &str) -> Option<Cow<'static, str>> {
    let Some(code) = error.code() else { return connection_hint(text).map(Cow::Borrowed) };
    if let Some(refusal) = error.as_db_error().filter(|_| *code == SqlState::INSUFFICIENT_PRIVILEGE) {
        return Some(right_hint(refusal.message()).into());
    }
    let by_code = [
        (SqlState::DISK_FULL, "make room on the disk of the database; writing goes on by itself"),
        (
            SqlState::OUT_OF_MEMORY,
            "give the database more memory, or lower its work_mem; writing goes on by itself",
        ),
        (
            SqlState::TOO_MANY_CONNECTIONS,
            "raise max_connections of the database, or end other clients; a server needs up to 7",
        ),
        (
            SqlState::INVALID_PASSWORD,
            "check the user in store_url, and the password in the file that store_password_file names",
        ),
        (
            SqlState::INVALID_AUTHORIZATION_SPECIFICATION,
            "check user and sslmode in store_url, and pg_hba.conf of the database",
        ),
        (
            SqlState::INVALID_CATALOG_NAME,
            "check the name of the database in store_url, or create it: CREATE DATABASE name OWNER user ENCODING 'UTF8' TEMPLATE template0",
        ),
        (
            SqlState::READ_ONLY_SQL_TRANSACTION,
            "this is a standby, or its database is read-only: name the primary in store_url",
        ),
        (SqlState::ADMIN_SHUTDOWN, "the database was shut down; writing goes on by itself once it is back"),
        (SqlState::CRASH_SHUTDOWN, "the database crashed; writing goes on by itself once it is back"),
        (SqlState::CANNOT_CONNECT_NOW, "the database is starting; writing goes on by itself once it is up"),
        (
            SqlState::UNDEFINED_OBJECT,
            "the store needs PostgreSQL 15 or later, reached without a pooler of connections",
        ),
        (
            SqlState::PROTOCOL_VIOLATION,
            "name PostgreSQL itself in store_url, not a pooler of connections (pgbouncer)",
        ),
    ];
    by_code.into_iter().find(|(known, _)| known == code).map(|(_, way)| way.into())
}

/// What gives the user a right that the server refused: the messages are those of `aclcheck_error` in its source. A server that speaks another
/// language is answered in general.
fn right_hint(message: &str) -> String {
    let refused = message.strip_prefix("permission denied for ").and_then(|rest| rest.split_once(' '));
    let right = match refused {
        Some(("schema" | "table" | "relation", "plimsoll" | "beat" | "entry" | "feed" | "identity" | "lease" | "lost")) => None,
        Some(("database", name)) => Some(format!("CREATE ON DATABASE {name}")),
        Some(("function", name)) => Some(format!("EXECUTE ON FUNCTION {name}")),
        Some(("schema", name)) => Some(format!("USAGE ON SCHEMA {name}")),
        Some(("table" | "view" | "relation", name)) => Some(format!("SELECT ON {name}")),
        Some(("language", name)) => Some(format!("USAGE ON LANGUAGE {name}")),
        _ if message.starts_with("must be owner of") => None,
        _ => return "the user of store_url lacks the right that is named here: let an administrator of the database grant it".to_owned(),
    };
    match right {
        Some(right) => {
            format!("let an administrator run, in the database of store_url, GRANT {right} TO the user of store_url")
        }
        None => "make the user of store_url the owner of the schema plimsoll (ALTER SCHEMA plimsoll OWNER TO user, and the same for its tables)"
            .to_owned(),
    }
}

/// What helps if there is no connection, by what TLS and the system say.
fn connection_hint(text: &str) -> Option<&'static str> {
    let by_words = [
        ("UnknownIssuer", "the certificate is of a CA that is not known: name its file with store_ca_file"),
        (
            "not valid for name",
            "the host in store_url is not a name of the server's certificate: use a name that is, or issue the certificate for it",
        ),
        ("server does not support TLS", "turn ssl on there, or put sslmode=disable into store_url"),
        (
            "channel binding",
            "store_url asks for channel_binding=require, which needs a role with a SCRAM password and a certificate signed with RSA or ECDSA: \
             give the database these, or remove channel_binding",
        ),
        ("certificate", "check the certificate of the database, and store_ca_file"),
        ("lookup address", "check the host in store_url"),
        ("password missing", "name the file with the password with store_password_file"),
        ("refused", "check host and port in store_url, and that the database runs"),
        ("No such file", "check the directory of the socket in store_url, and that the database runs"),
        ("connection closed", "writing goes on by itself once the database is back"),
        ("timed out", "check host and port in store_url, and the network between"),
    ];
    by_words.into_iter().find(|(known, _)| text.contains(known)).map(|(_, way)| way)
}
