//! Where there was a terminal, the build has one.

use std::{io::Read as _, process::Child};

use plimsoll_tests::assert_has;

use super::on_a_terminal;

/// What the terminal shows until the program on it ends. What is typed is left open meanwhile.
fn shown(mut child: Child) -> String {
    let mut bytes = Vec::new();
    child.stdout.take().unwrap().read_to_end(&mut bytes).unwrap();
    child.wait().unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn the_build_sees_a_terminal_of_equal_size() {
    let dir = tempfile::tempdir().unwrap();
    let script = r#"
        stty rows 41 cols 123; stty -g > before
        $P run --phases gitlab --quiet -- sh build; echo "code $?"
        stty -g > after; cmp before after && echo restored"#;
    let build = r#"
        test -t 0 && test -t 1 && test -t 2 && echo "a terminal"; stty size < /dev/tty
        ps -o sid= -p $$ | grep -q "^ *$$\$" && echo "own session"
        printf '\033[32mgreen\033[m\rbar 1\rbar 2\n'; exit 7"#;
    std::fs::write(dir.path().join("build"), build).unwrap();
    let Some(mut command) = on_a_terminal(dir.path(), script) else { return };
    let seen = shown(command.current_dir(dir.path()).spawn().unwrap());
    let bytes = "\x1b[32mgreen\x1b[m\rbar 1\rbar 2\r\n";
    assert_has(&seen, ["a terminal\r\n41 123\r\n", "own session\r\n", bytes, "code 7\r\n", "restored\r\n"]);
}

#[test]
fn a_new_size_is_followed() {
    let dir = tempfile::tempdir().unwrap();
    let script = r#"
        stty rows 20 cols 60
        { until test -e ready; do sleep 0.02; done; stty rows 33 cols 99 < /dev/tty; } &
        $P run --phases gitlab --quiet -- sh -c '
            trap "stty size; exit 0" WINCH; touch ready; while :; do sleep 0.02; done'"#;
    let Some(mut command) = on_a_terminal(dir.path(), script) else { return };
    let seen = shown(command.current_dir(dir.path()).spawn().unwrap());
    assert!(seen.contains("33 99"), "{seen:?}");
}
