//! Addresses of git repositories.

/// Host and path of a repository's address, without scheme, user, password, port and `.git`; `None` for a path on this machine.
pub fn git_remote(address: &str) -> Option<(String, String)> {
    let address = address.trim();
    let (place, path) = match address.split_once("://") {
        Some(("file", _)) => return None,
        Some((_scheme, rest)) => rest.split_once('/')?,
        // as scp writes it
        None => address.split_once(':').filter(|(place, _)| !place.contains('/'))?,
    };
    let host = place.rsplit_once('@').map_or(place, |(_user, host)| host);
    let host = host.split(':').next().unwrap_or_default();
    let path = path.split(['?', '#']).next().unwrap_or_default().trim_matches('/');
    let path = path.strip_suffix(".git").unwrap_or(path);
    // a password with a slash, or a user before the address of scp
    (!host.is_empty() && !path.is_empty() && !path.contains('@'))
        .then(|| (host.to_ascii_lowercase(), path.to_owned()))
}
