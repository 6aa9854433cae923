//! Sources, mistakes and what is in force.

use super::*;

fn load(file: Option<&str>, env: &[(&str, &str)], args: &[&str]) -> Result<Config, Vec<Mistake>> {
    use clap::Parser as _;
    let dir = tempfile::tempdir().unwrap();
    let mut line = vec!["plimsoll-server".to_owned()];
    if let Some(text) = file {
        let path = dir.path().join("p.toml");
        std::fs::write(&path, text).unwrap();
        line.extend(["--config".to_owned(), path.display().to_string()]);
    }
    line.extend(args.iter().map(ToString::to_string));
    let env = |name: &str| env.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned());
    Config::load(&Args::parse_from(line), env)
}

#[test]
fn the_stronger_source_wins() {
    let file = "grpc_listen = \"127.0.0.1:1\"\nhttp_listen = \"127.0.0.1:2\"\nlog = \"warn\"\n";
    let env = [("PLIMSOLL_HTTP_LISTEN", "127.0.0.1:3"), ("PLIMSOLL_LOG", "debug")];
    let config = load(Some(file), &env, &["--log", "error"]).unwrap();
    assert_eq!((config.grpc_listen.port(), config.http_listen.port(), config.log.as_str()), (1, 3, "error"));
}

#[test]
fn all_mistakes_are_reported_together_with_places() {
    let file = "grpc_listen = \"nowhere\"\n\nunknown_thing = 1\nstore_cache = \"-5\"\n";
    let mistakes =
        load(Some(file), &[("PLIMSOLL_ABANDON_AFTER", "soon")], &["--http-listen", "7411"]).unwrap_err();
    let places: Vec<&str> = mistakes.iter().map(|m| m.place.rsplit('/').next().unwrap()).collect();
    for place in ["p.toml:1", "p.toml:3", "p.toml:4", "PLIMSOLL_ABANDON_AFTER", "--http-listen"] {
        assert!(places.contains(&place), "{place} is missing in {mistakes:?}");
    }
    assert_eq!(mistakes.len(), 5, "{mistakes:?}");
}

#[test]
fn misspelled_settings_get_a_suggestion() {
    let texts = |file: &str| {
        let mistakes = load(Some(file), &[], &[]).unwrap_err();
        mistakes.into_iter().map(|mistake| mistake.text).collect::<Vec<_>>()
    };
    for (file, name) in [
        ("gitlab_ulr = 1\n", "gitlab_ulr"),
        ("gitlab.ulr = 1\n", "gitlab.ulr"),
        ("[gitlab]\nurl = 1\n", "gitlab.url"),
    ] {
        let meant = format!("{name} is not a setting (did you mean gitlab_url?); --print-config lists them");
        assert_eq!(texts(file), [meant]);
    }
    assert_eq!(texts("zzz = 1\n"), ["zzz is not a setting; --print-config lists them"]);
}

#[test]
fn an_unusable_store_cache_size_is_refused() {
    for size in ["1B", "1023KiB", "2TiB", "18446744073709551615"] {
        let mistakes = load(None, &[], &["--store-cache", size]).unwrap_err();
        let text = format!("{mistakes:?}");
        assert!(text.contains("--store-cache") && text.contains("from 1MiB to 1TiB"), "{text}");
    }
}

#[test]
fn what_is_printed_can_be_read_back() {
    let loaded = load(None, &[], &["--store-cache", "128MiB", "--memory-cap", "64GiB"]).unwrap();
    let again = load(Some(&PrintedConfig(&loaded).to_string()), &[], &[]).unwrap();
    let value = |row: InForce| (row.name, row.value);
    let values = |config: &Config| config.in_force().into_iter().map(value).collect::<Vec<_>>();
    assert_eq!(values(&loaded), values(&again));
    assert_eq!(again.store_cache, Bytes(128 << 20));
}

#[test]
fn every_effective_setting_has_place_and_meaning() {
    let config = load(Some("log = \"warn\"\n"), &[], &["--memory-cap", "64GiB"]).unwrap();
    let rows = config.in_force();
    let row = |name| rows.iter().find(|row| row.name == name).unwrap();
    assert_eq!([&*row("log").value, &*row("memory_cap").place], ["warn", "--memory-cap"]);
    assert!(row("log").place.ends_with("p.toml:1") && row("store_cache").place == "default");
    let mute: Vec<_> = rows.iter().filter(|row| row.meaning.is_empty()).map(|row| row.name).collect();
    assert_eq!((rows.len(), mute), (groups::all().count(), Vec::<&str>::new()));
}

#[test]
fn invalid_toml_is_reported_with_its_line() {
    let mistakes = load(Some("log = \"info\"\nwhat is this\n"), &[], &[]).unwrap_err();
    assert!(mistakes[0].place.ends_with("p.toml:2"), "{mistakes:?}");
}

#[test]
fn settings_that_contradict_each_other_are_mistakes() {
    let args = ["--grpc-listen", "127.0.0.1:9", "--http-listen", "127.0.0.1:9", "--memory-cap", "1GiB"];
    assert_eq!(load(None, &[], &args).unwrap_err().len(), 2);
}

#[test]
fn http_hosts_accepts_only_host_names() {
    let hosts = |text: &str| load(None, &[("PLIMSOLL_HTTP_HOSTS", text)], &[]);
    let read = hosts("Plimsoll.Example., plimsoll,ci_1.svc,").unwrap().http_hosts;
    assert_eq!(read, ["plimsoll.example", "plimsoll", "ci_1.svc"]);
    for wrong in
        ["http://plimsoll.example", "plimsoll.example:7411", "a b", "*.example", ".example", "a..b", "."]
    {
        let mistakes = hosts(wrong).unwrap_err();
        assert_eq!(mistakes.len(), 1, "{wrong}: {mistakes:?}");
        assert!(mistakes[0].to_string().contains("is not the name of a host"), "{mistakes:?}");
    }
}

#[test]
fn admission_beside_an_access_file_requires_caller_proof() {
    let files = ["--admit-listen", "127.0.0.1:0", "--admit-cert-file", "c", "--admit-key-file", "k"];
    let mistakes = |more: &[&str]| load(None, &[], &[&files[..], more].concat()).err().unwrap_or_default();
    assert!(mistakes(&[]).is_empty());
    let wrong = mistakes(&["--access-file", "a"]);
    assert_eq!(wrong.len(), 1);
    assert!(wrong[0].to_string().contains("needs admit_secret_file or admit_client_ca_file"));
    for proof in ["--admit-secret-file", "--admit-client-ca-file"] {
        assert!(mistakes(&["--access-file", "a", proof, "f"]).is_empty(), "{proof}");
    }
}

#[test]
fn settings_in_conflict_are_reported_with_both_values() {
    let notes = |args: &[&str]| {
        load(None, &[], args).unwrap_err().iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let limit = Config::default().predict.memory_limit;
    let notes_on_cap = notes(&["--memory-cap", "1MiB"]);
    assert!(limit > Bytes(1 << 20));
    let expected = "memory_cap: 1MiB (--memory-cap) is below default_memory_limit, which is";
    assert!(notes_on_cap[0].starts_with(expected), "{notes_on_cap:?}");
    assert!(notes_on_cap[0].ends_with("(the default)"), "{notes_on_cap:?}");
    let request = notes(&["--default-memory-request", "9GiB", "--default-memory-limit", "8GiB"]);
    assert_eq!(
        request,
        [
            "default_memory_request: 9GiB (--default-memory-request) is above default_memory_limit, which is 8GiB \
          (--default-memory-limit)"
        ]
    );
    let kept = notes(&["--series-keep-for", "2days"]);
    assert!(kept[0].contains("30days (the default)"), "{kept:?}");
    assert!(kept[0].contains("2days (--series-keep-for)"), "{kept:?}");
}
