//! Secrets that an operator puts into the wrong place.

use std::{fs, process::Command};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use plimsoll_tests::{Programs, eventually};

use super::{
    FoundTexts,
    place::{PlantedServer, WRONG},
};

/// The operator writes secrets where none belong into the file of access, and says that it is to be read again.
pub(super) async fn mistakes(place: &PlantedServer) {
    let file = place.dir.path().join("access.toml");
    let right = fs::read_to_string(&file).unwrap();
    let issuer = "kind = \"gitlab\"\naudience = \"x\"\ngrant = []";
    let wrong = [
        format!("[[token]]\nname = \"x\"\nsecret = \"{WRONG}\"\n"),
        format!("certificate = \"{WRONG}\"\n"),
        format!("[[token]]\nname = \"x\"\nroles = []\nsha256 = \"{WRONG}\"\n"),
        format!("[[issuer]]\nissuer = \"https://bot:{WRONG}@x\"\n{issuer}\n"),
    ];
    let log = async || place.webhook.server.log().unwrap();
    for (number, wrong) in wrong.iter().enumerate() {
        fs::write(&file, format!("{wrong}{right}")).unwrap();
        let pid = i32::try_from(place.webhook.server.pid()).unwrap();
        kill(Pid::from_raw(pid), Signal::SIGHUP).unwrap();
        let named = |log: &String| log.matches("files are refused").count() > number;
        eventually("the mistake is named", log, named).await;
    }
}

/// What is printed of the settings in force, and of wrong ones.
pub(super) fn printed(place: &PlantedServer, outputs: &mut FoundTexts) {
    let address = format!("http://bot:{WRONG}@x.example");
    for wrong in ["", "--gitlab-url", "--otlp-endpoint", "--admit-agent-server"] {
        let mut command = Command::new(&Programs::for_tests().server);
        command.env_clear().args(&place.options).arg("--print-config");
        if !wrong.is_empty() {
            command.args([wrong, &address]);
        }
        let output = command.output().unwrap();
        assert_eq!(output.status.success(), wrong.is_empty(), "{wrong}: {output:?}");
        outputs.push((format!("--print-config {wrong}"), format!("{output:?}")));
    }
}
