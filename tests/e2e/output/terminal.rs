//! Where there was a terminal, the build has one.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    process::Child,
};

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
fn the_build_sees_a_terminal_of_the_same_size_and_its_bytes_are_unchanged() {
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
fn a_key_reaches_the_build_once_and_typing_goes_to_it() {
    let dir = tempfile::tempdir().unwrap();
    let script = r#"$P run --phases gitlab --quiet -- sh -c '
        trap "n=\$((n+1)); echo key" INT; echo ready
        until [ "$n" ]; do sleep 0.05; done; until read line; do :; done; echo "read $line after $n"'"#;
    let Some(mut command) = on_a_terminal(dir.path(), script) else { return };
    let mut child = command.current_dir(dir.path()).spawn().unwrap();
    let mut typed = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.trim_end().ends_with("ready")));
    typed.write_all(b"\x03").unwrap();
    assert!(lines.any(|line| line.trim_end().ends_with("key")));
    let mut rest = String::new();
    typed.write_all(b"words\n").unwrap();
    for line in lines {
        rest.push_str(&line);
    }
    child.wait().unwrap();
    assert!(rest.contains("after 1"), "{rest:?}");
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

#[test]
fn a_signal_to_the_agent_is_passed_on_once_and_the_terminal_is_restored() {
    let dir = tempfile::tempdir().unwrap();
    let script = r#"
        stty -g > before
        $P run --phases gitlab --quiet -- sh -c '
            trap "n=\$((n+1)); kill -USR1 $PPID" TERM; trap "echo count \$n; exit 3" USR1
            kill -TERM $PPID; while :; do sleep 0.02; done'
        echo "code $?"; stty -g > after; cmp before after && echo restored"#;
    let Some(mut command) = on_a_terminal(dir.path(), script) else { return };
    let seen = shown(command.current_dir(dir.path()).spawn().unwrap());
    assert_has(&seen, ["count 1\r\n", "code 3\r\n", "restored\r\n"]);
}
