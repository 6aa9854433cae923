//! What a start or a writer refuses in a database: each text names the setting and the way out, and no password.

use std::{
    fs,
    path::{Path, PathBuf},
};

use plimsoll_support::{patience::eventually, postgres::PostgresServer};

use super::{
    database::{open, settings, value, wait_for},
    fixture::one,
};
use crate::{PostgresSettings, Store};

fn refusal(settings: &PostgresSettings) -> String {
    match Store::open_postgres(settings) {
        Ok(_) => panic!("it opens: {settings:?}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn unusable_databases_are_refused_with_a_remedy() {
    let Some((server, database, url)) = PostgresServer::with_new_database() else { return };
    server.sql("postgres", &format!("CREATE ROLE {database}_plain LOGIN"));
    server.sql(
        "postgres",
        &format!("CREATE DATABASE {database}_latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0"),
    );
    let cases = [
        ("postgres://u@no-such-host..invalid/p".to_owned(), "check the host"),
        ("postgres://u@127.0.0.1:1/p".to_owned(), "check host and port"),
        (server.url("no_such_database"), "CREATE DATABASE"),
        (url.replace("plimsoll@", "no_such_role@"), "check user and sslmode"),
        (url.replace("plimsoll@", &format!("{database}_plain@")), "GRANT CREATE ON DATABASE"),
        (server.url(&format!("{database}_latin")), "ENCODING 'UTF8'"),
        (format!("{url}?sslmode=require"), "sslmode=disable"),
    ];
    for (url, way) in cases {
        let text = refusal(&settings(&url));
        assert!(text.contains(way), "{url}: {text}");
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    let with_file = |password: bool| PostgresSettings {
        password_file: password.then(|| file.path().to_owned()),
        ca_file: (!password).then(|| file.path().to_owned()),
        ..settings(&url)
    };
    assert!(refusal(&with_file(true)).contains("store_password_file"));
    assert!(refusal(&with_file(false)).contains("store_ca_file"));
}

#[test]
fn foreign_or_broken_schemas_are_refused_unchanged() {
    let Some(server) = PostgresServer::shared() else { return };
    let cases = [
        ("UPDATE plimsoll.identity SET schema_step = 99", "start a newer plimsoll-server"),
        ("UPDATE plimsoll.identity SET format = 1", "format 1"),
        ("DELETE FROM plimsoll.identity", "restore a backup"),
        ("UPDATE plimsoll.identity SET store_id = 'short'", "restore a backup"),
        ("DROP TABLE plimsoll.identity", "name another database"),
    ];
    for (damage, way) in cases {
        let database = server.new_database();
        drop(open(&server.url(&database)));
        server.sql(&database, damage);
        let text = refusal(&settings(&server.url(&database)));
        assert!(text.contains(way), "{damage}: {text}");
    }
    let database = server.new_database();
    server.sql(&database, "CREATE SCHEMA plimsoll; CREATE TABLE plimsoll.entry (x int)");
    assert!(refusal(&settings(&server.url(&database))).contains("name another database"));
    let tables = "SELECT string_agg(tablename, ',') FROM pg_tables WHERE schemaname = 'plimsoll'";
    assert_eq!(server.sql(&database, tables), "entry");
}

#[test]
fn a_refused_right_is_named_with_its_grant() {
    let Some((server, database, _url)) = PostgresServer::with_new_database() else { return };
    let user = format!("{database}_rights");
    server.sql("postgres", &format!("CREATE ROLE {user} LOGIN"));
    let url = server.url(&database).replace("plimsoll@", &format!("{user}@"));
    let refused = |right: &str, of: &str| {
        server.sql(&database, &format!("REVOKE {right} FROM {of}"));
        let text = refusal(&settings(&url));
        server.sql(&database, &format!("GRANT {right} TO {user}"));
        text
    };
    let function = "EXECUTE ON FUNCTION pg_control_system()";
    let create = format!("CREATE ON DATABASE {database}");
    let view = "SELECT ON pg_settings";
    for (right, of, way) in [
        (function, "PUBLIC", "GRANT EXECUTE ON FUNCTION pg_control_system TO"),
        (view, "PUBLIC", "GRANT SELECT ON pg_settings TO"),
        (create.as_str(), "PUBLIC", &format!("GRANT {create} TO")),
    ] {
        let text = refused(right, of);
        assert!(text.contains(way) && text.matches("GRANT").count() == 1, "{right}: {text}");
    }
    drop(open(&url));
    server.sql(&database, "ALTER TABLE plimsoll.lease OWNER TO plimsoll");
    let text = refusal(&settings(&url));
    assert!(text.contains("ALTER SCHEMA plimsoll OWNER TO") && !text.contains("GRANT"), "{text}");
}

/// Certificate and key of a server with this name, in PEM.
fn certificate() -> [String; 2] {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    [made.cert.pem(), made.signing_key.serialize_pem()]
}

/// A server that checks passwords of one role, and speaks TLS as `localhost`.
fn strict_server() -> Option<(PostgresServer, String, PathBuf)> {
    let ([certificate, key], mut place) = (certificate(), PathBuf::new());
    let server = PostgresServer::start(|folder: &Path| {
        folder.clone_into(&mut place);
        let hba = "host all strict 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\n";
        for (name, text) in [("hba", hba), ("certificate", &certificate), ("key", &key)] {
            fs::write(folder.join(name), text).unwrap();
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
            fs::set_permissions(folder.join(name), mode).unwrap();
        }
        let file = |setting: &str, name: &str| format!("{setting}={}", folder.join(name).display());
        vec![
            file("hba_file", "hba"),
            file("ssl_cert_file", "certificate"),
            file("ssl_key_file", "key"),
            "ssl=on".to_owned(),
        ]
    })?;
    Some((server, certificate, place))
}

#[tokio::test]
async fn credentials_are_checked_and_passwords_never_shown() {
    let Some((server, ca, _place)) = strict_server() else { return };
    server.sql("postgres", "CREATE ROLE strict LOGIN SUPERUSER PASSWORD 'right-s3cret'");
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        fs::write(dir.path().join(name), text).unwrap();
        Some(dir.path().join(name))
    };
    let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap().cert.pem();
    let (ca, other) = (file("ca", &ca), file("other", &other));
    let (right, wrong) = (file("right", "right-s3cret\n"), file("wrong", "wrong-s3cret"));
    let by_name = format!("postgres://strict@localhost:{}/postgres?sslmode=verify-full", server.port);
    let by_address = by_name.replace("localhost", "127.0.0.1");
    let cases = [
        (&by_name, &wrong, &ca, "store_password_file"),
        (&by_name, &None, &ca, "store_password_file"),
        (&by_name, &right, &other, "store_ca_file"),
        (&by_name, &right, &None, "store_ca_file"),
        (&by_address, &right, &ca, "not a name of the server's certificate"),
    ];
    for (url, password, ca, way) in cases {
        let settings =
            PostgresSettings { password_file: password.clone(), ca_file: ca.clone(), ..settings(url) };
        let text = refusal(&settings);
        assert!(text.contains(way) && !text.contains("s3cret"), "{settings:?}: {text}");
    }
    let settings = PostgresSettings { password_file: right, ca_file: ca, ..settings(&by_name) };
    let store = Store::open_postgres(&settings).unwrap();
    store.commit(one(b"k", b"v")).await.unwrap();
    assert!(!format!("{store:?}").contains("s3cret"));
    let encrypted =
        "SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE usename = 'strict'";
    assert_eq!(server.sql("postgres", encrypted), "t");
}

#[tokio::test]
async fn renewed_passwords_and_cas_are_read_again() {
    let Some((server, ca, place)) = strict_server() else { return };
    server.sql("postgres", "CREATE ROLE strict LOGIN SUPERUSER PASSWORD 'first'");
    let dir = tempfile::tempdir().unwrap();
    let [password_file, ca_file] = ["password", "ca"].map(|name| dir.path().join(name));
    let write = |password: &str, ca: &str| {
        fs::write(&password_file, password).unwrap();
        fs::write(&ca_file, ca).unwrap();
    };
    write("first", &ca);
    let url = format!("postgres://strict@localhost:{}/postgres?sslmode=verify-full", server.port);
    let settings = PostgresSettings {
        password_file: Some(password_file.clone()),
        ca_file: Some(ca_file.clone()),
        ..settings(&(url + "&channel_binding=require"))
    };
    let store = Store::open_postgres(&settings).unwrap();
    let (waiting, mut held_by) = wait_for(&settings);
    assert!(held_by.recv().await.is_some());
    let [certificate, key] = certificate();
    server.sql("postgres", "ALTER ROLE strict PASSWORD 'second'");
    fs::write(place.join("certificate"), &certificate).unwrap();
    fs::write(place.join("key"), key).unwrap();
    server.crash();
    server.start_again();
    // as an operator that takes the old files away before the new ones are there
    fs::remove_file(&password_file).unwrap();
    let refused = store.commit(one(b"k", b"v")).await.unwrap_err().to_string();
    assert!(refused.contains("certificate"), "{refused}");
    write("second\n", &certificate);
    let commit = async || store.commit(one(b"k", b"renewed")).await;
    eventually("it writes again", commit, Result::is_ok).await.unwrap();
    assert_eq!(value(&store, b"k").await.unwrap(), b"renewed");
    store.close().await.unwrap();
    assert_eq!(value(&waiting.await.unwrap(), b"k").await.unwrap(), b"renewed");
}

#[test]
fn non_durable_servers_and_standbys_are_refused() {
    let Some(server) = PostgresServer::start(|_folder| Vec::new()) else { return };
    for setting in ["fsync", "synchronous_commit"] {
        server.sql("postgres", &format!("ALTER SYSTEM SET {setting} = off"));
        server.crash();
        server.start_again();
        let text = refusal(&settings(&server.url("postgres")));
        assert!(text.contains(&format!("{setting} is off")) && text.contains("turn it on"), "{text}");
        server.sql("postgres", &format!("ALTER SYSTEM RESET {setting}"));
    }
    server.crash();
    server.make_standby();
    server.start_again();
    let text = refusal(&settings(&server.url("postgres")));
    assert!(text.contains("name the primary in store_url"), "{text}");
}

#[tokio::test]
async fn a_replaced_database_is_never_written_to() {
    let Some(server) = PostgresServer::shared() else { return };
    let cases = [
        ("UPDATE plimsoll.identity SET store_id = decode(repeat('0', 32), 'hex')", "has another store"),
        ("DELETE FROM plimsoll.feed", "without commits that were acknowledged"),
    ];
    for (change, way) in cases {
        let database = server.new_database();
        let store = open(&server.url(&database));
        store.commit(one(b"k", b"before")).await.unwrap();
        server.sql(&database, change);
        let end = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity \
                   WHERE application_name = 'plimsoll-server' AND datname = current_database()";
        server.sql(&database, end);
        for _ in 0..2 {
            let error = store.commit(one(b"k", b"after")).await.unwrap_err().to_string();
            assert!(error.contains(way) && error.contains("restart this server"), "{error}");
        }
        assert_eq!(server.sql(&database, "SELECT convert_from(v, 'UTF8') FROM plimsoll.entry"), "before");
    }
}
