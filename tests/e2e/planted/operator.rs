//! Secrets that an operator puts into the wrong place.

use std::fs;

use nix::sys::signal::Signal;
use plimsoll_tests::{Server, eventually};

use super::{
    FoundTexts,
    place::{PlantedServer, WRONG},
};

/// The operator writes secrets where none belong into the file of access, and says that it is to be read again.
pub(super) async fn mistakes(place: &PlantedServer) {
    let file = place.webhook.dir.path().join("access-file");
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
        place.webhook.server.signal(Signal::SIGHUP).unwrap();
        let named = |log: &String| log.matches("files are refused").count() > number;
        eventually("the mistake is named", log, named).await;
    }
}

/// What is printed of the settings in force, and of wrong ones.
pub(super) fn printed(place: &PlantedServer, outputs: &mut FoundTexts) {
    let address = format!("http://bot:{WRONG}@x.example");
    for wrong in ["", "--gitlab-url", "--otlp-endpoint", "--admit-agent-server"] {
        let mut command = Server::program();
        command.args(&place.options).arg("--print-config");
        if !wrong.is_empty() {
            command.args([wrong, &address]);
        }
        let output = command.output().unwrap();
        assert_eq!(output.status.success(), wrong.is_empty(), "{wrong}: {output:?}");
        outputs.push((format!("--print-config {wrong}"), format!("{output:?}")));
    }
}
