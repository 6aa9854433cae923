//! Checks of the server: from its address to what the caller may do.

use plimsoll_base::{certificate::last_second, checks::CheckLine};
use plimsoll_client::{
    channel::is_read_by_others,
    connection_check::{ServerAddress, ServerState, SurveyedServer, survey},
    questions::{Client, ServerUnknown},
    trust::Trust,
};
use plimsoll_measure::clock::unix_ms;
use plimsoll_proto::{times, v1::GetServerResponse};

/// A certificate that expires within this time should be renewed now.
const RENEW_WITHIN_MS: u64 = 14 * 86_400_000;
/// Largest accepted difference between the clocks, milliseconds; the server accepts signed tokens for a minute
/// more or less.
const CLOCK_TOLERANCE_MS: u64 = 60_000;
/// Roles that an agent needs for its samples and requests.
const WANTED_ROLES: [(&str, &str); 2] =
    [("agent", "samples are refused"), ("caller", "predict and should-retry are refused")];

/// All results about the server; of several, what each address is, and then all about the one that serves.
pub(super) async fn check_server(servers: &str, trust: &Trust) -> Vec<CheckLine> {
    let surveyed = match survey(servers, trust).await {
        Ok(surveyed) => surveyed,
        Err(why) => return vec![CheckLine::fail("address", why)],
    };
    let (mut lines, address, peer) = match &surveyed[..] {
        [only, ..] if !only.is_one_of_several => match only.address.connect().await {
            Ok(peer) => {
                let text = format!("{} takes connections at {peer}", only.address.url);
                (vec![CheckLine::ok("address", text)], &only.address, peer)
            }
            Err(why) => return vec![CheckLine::fail("address", why)],
        },
        several => {
            let lines = check_addresses(several);
            let serving = several.iter().find(|server| server.state == ServerState::Serves);
            match serving.and_then(|server| Some((&server.address, server.peer?))) {
                Some((address, peer)) => (lines, address, peer),
                None => return lines,
            }
        }
    };
    let shown = if address.is_tls { address.certificate(peer).await } else { None };
    lines.extend(check_encryption(address, shown.as_deref(), unix_ms()));
    let before = unix_ms();
    let answer = match Client::connect(servers, trust).await {
        Ok(client) => client.server().await,
        Err(failure) => Err(ServerUnknown::NoAnswer(failure.to_string())),
    };
    lines.extend(check_answer(address, answer, (before, unix_ms()), trust.token.is_some()));
    lines
}

/// What each of several addresses is. An address without an answer is a warning while another one serves: a takeover would miss it.
fn check_addresses(several: &[SurveyedServer]) -> Vec<CheckLine> {
    let one_serves = several.iter().any(|server| server.state == ServerState::Serves);
    let line = |server: &SurveyedServer| match (&server.state, one_serves) {
        (ServerState::Serves, _) => CheckLine::ok("address", format!("{} serves", server.label)),
        (ServerState::Standby(why), true) => {
            CheckLine::ok("address", format!("{} is a standby: {why}", server.label))
        }
        (ServerState::Standby(why), false) => {
            let text = format!("{} is a standby, and no address serves: {why}", server.label);
            CheckLine::fail("address", text)
        }
        (ServerState::NoAnswer(why), true) => {
            CheckLine::warn("address", format!("{} does not answer: {why}", server.label))
        }
        (ServerState::NoAnswer(why), false) => {
            CheckLine::fail("address", format!("{} does not answer: {why}", server.label))
        }
    };
    several.iter().map(line).collect()
}

/// Whether the connection is encrypted, and when the server's certificate expires. No result if an encrypted
/// connection failed before a certificate arrived: then the next result has the reason.
fn check_encryption(address: &ServerAddress, shown: Option<&[u8]>, now_unix_ms: u64) -> Option<CheckLine> {
    if !address.is_tls {
        return Some(if is_read_by_others(&address.url) {
            let text = "none: others on the network can read samples and the token; use https:// and a server with TLS";
            CheckLine::warn("TLS", text)
        } else {
            CheckLine::ok("TLS", "none: the server is on this machine")
        });
    }
    Some(check_certificate(last_second(shown?)?.saturating_mul(1000), now_unix_ms))
}

fn check_certificate(last_unix_ms: u64, now_unix_ms: u64) -> CheckLine {
    let end = times::date_time(last_unix_ms);
    match last_unix_ms.checked_sub(now_unix_ms) {
        None => CheckLine::fail("TLS", format!("the server's certificate ended at {end} UTC: renew it")),
        Some(left) if left < RENEW_WITHIN_MS => {
            CheckLine::warn("TLS", format!("the server's certificate ends at {end} UTC: renew it before"))
        }
        Some(_) => CheckLine::ok("TLS", format!("the server's certificate is good until {end} UTC")),
    }
}

/// Results from the server's answer. The two times are those of the local clock before and after it.
fn check_answer(
    address: &ServerAddress,
    answer: Result<GetServerResponse, ServerUnknown>,
    (before, after): (u64, u64),
    has_token: bool,
) -> Vec<CheckLine> {
    match answer {
        Ok(server) => {
            let halfway = before.midpoint(after);
            vec![
                version(&server.version),
                check_token(&server, has_token),
                check_clock(server.unix_ms, halfway),
            ]
        }
        Err(ServerUnknown::Denied(why)) => {
            let why = why.strip_prefix("token: ").unwrap_or(&why);
            let mend =
                if why.starts_with("cannot read") { "; name the right file with --token-file" } else { "" };
            vec![CheckLine::fail("token", format!("{why}{mend}"))]
        }
        Err(ServerUnknown::Foreign(_)) => {
            let text = format!("{} answers, and is no plimsoll-server: check address and port", address.url);
            vec![CheckLine::warn("server", text)]
        }
        Err(ServerUnknown::NoAnswer(why)) => vec![CheckLine::fail("server", why)],
    }
}

/// Compares the server's version with this program's. The same first two numbers mean the same wire protocol.
fn version(server: &str) -> CheckLine {
    let own = env!("CARGO_PKG_VERSION");
    let release = |version: &str| {
        let mut parts = version.split('.').map(|part| part.parse::<u32>().unwrap_or_default());
        (parts.next().unwrap_or_default(), parts.next().unwrap_or_default())
    };
    let shown = plimsoll_proto::shown::escaped_line(server);
    if release(server) == release(own) {
        return CheckLine::ok("server", format!("plimsoll-server {shown}; this agent is {own}"));
    }
    let older = if release(server) < release(own) { "the server" } else { "this agent" };
    CheckLine::warn("server", format!("plimsoll-server {shown}, but this agent is {own}: update {older}"))
}

fn check_token(server: &GetServerResponse, has_token: bool) -> CheckLine {
    if !server.access_required {
        let text = "not needed: the server has no access file, so every caller may do everything";
        return CheckLine::ok("token", text);
    }
    let projects =
        if server.projects.is_empty() { "every project".to_owned() } else { server.projects.join(", ") };
    let who = if has_token { "the token is that of" } else { "without a token you are" };
    let trust = if server.trusted { "" } else { "; its builds do not lower predictions for others" };
    let text = format!("{who} {}: {} for {projects}{trust}", server.caller, server.roles.join(", "));
    let text = plimsoll_proto::shown::escaped_line(&text).into_owned();
    let missing = WANTED_ROLES.into_iter().find(|(role, _)| !server.roles.iter().any(|own| own == role));
    match missing {
        Some((role, so)) => CheckLine::warn(
            "token",
            format!("{text}; without the role {role}, {so}: add it in the access file"),
        ),
        None => CheckLine::ok("token", text),
    }
}

fn check_clock(server_unix_ms: u64, own_unix_ms: u64) -> CheckLine {
    let off = server_unix_ms.abs_diff(own_unix_ms);
    if off <= CLOCK_TOLERANCE_MS {
        return CheckLine::ok("clock", "less than a minute from the server's");
    }
    let way = if own_unix_ms > server_unix_ms { "ahead of" } else { "behind" };
    let off = humantime::format_duration(std::time::Duration::from_secs(off / 1000));
    let text = format!(
        "{off} {way} the server's: set both by NTP; certificates and signed tokens may be refused, and times of builds are estimated"
    );
    CheckLine::warn("clock", text)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use plimsoll_support::collector::{CollectorFaults, FakeCollector};

    use super::*;

    #[tokio::test]
    async fn each_server_address_is_checked_and_named() {
        let other = FakeCollector::start(CollectorFaults::default()).await;
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let refusing = format!("http://{free}");
        let lines = check_server(&format!("{refusing},{}", other.url), &Trust::default()).await;
        let [first, second] = &lines[..] else { panic!("{lines:?}") };
        let refused = format!("{refusing} does not answer: connection refused");
        assert_eq!(*first, CheckLine::fail("address", refused));
        assert!(second.is_failed() && second.finding.contains("does not say that it serves"), "{second:?}");
        let alone = check_server(&other.url, &Trust::default()).await;
        assert!(alone[0].finding.contains("takes connections at"), "{alone:?}");
    }

    #[test]
    fn an_hour_of_clock_skew_is_a_warning() {
        assert!(check_clock(7_200_000, 7_259_000).is_ok());
        let ahead = check_clock(3_600_000, 7_200_000);
        assert!(!ahead.is_ok(), "{ahead:?}");
        assert!(!ahead.is_failed(), "{ahead:?}");
        assert!(ahead.finding.starts_with("1h ahead of the server's: set"), "{ahead:?}");
        assert!(check_clock(7_200_000, 3_600_000).finding.starts_with("1h behind"));
    }

    #[test]
    fn certificate_expiry_is_checked() {
        let day = 86_400_000;
        assert!(check_certificate(100 * day, 10 * day).finding.contains("is good until 1970-04-11"));
        let soon = check_certificate(100 * day, 90 * day);
        assert!(!soon.is_ok() && !soon.is_failed() && soon.finding.contains("renew it before"), "{soon:?}");
        assert!(check_certificate(100 * day, 101 * day).is_failed());
    }

    #[test]
    fn a_version_mismatch_names_the_older_side() {
        assert!(version(env!("CARGO_PKG_VERSION")).is_ok());
        assert!(version("0.1.9").finding.ends_with("update the server"));
        assert!(version("99.0.0").finding.ends_with("update this agent"));
        assert!(version("\u{1b}[31m").finding.contains("update the server"));
        assert!(!version("\u{1b}[31m").finding.contains('\u{1b}'));
    }
}
