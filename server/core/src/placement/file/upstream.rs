//! The server upstream that a pool of the operator's file names.

use plimsoll_proto::limits;

use super::{PlacementReader, shortened, tables::PoolTable};
use crate::placement::{
    Placement,
    hosts::PoolHosts,
    pool::Pool,
    upstream::{PoolUpstream, UpstreamAddress},
};

impl PlacementReader<'_> {
    /// The upstream of a pool; removes its fields from the pool's table. A wrong address is not printed, because it may contain a password.
    pub(super) fn read_upstream(
        &mut self,
        at: &str,
        table: &mut PoolTable,
        hosts: &PoolHosts,
    ) -> Option<PoolUpstream> {
        let tags = std::mem::take(&mut table.upstream_tags);
        let ca_file = table.upstream_ca_file.take();
        let Some(address) = table.upstream.take() else {
            let line = tags.first().map_or_else(|| self.line_of(&table.name), |tag| self.line_of(tag));
            if !tags.is_empty() || table.upstream_shared {
                self.add_mistake(line, format!("{at}: upstream_tags and upstream_shared need upstream"));
            }
            if let Some(file) = ca_file {
                self.add_mistake(self.line_of(&file), format!("{at}: upstream_ca_file needs upstream"));
            }
            return None;
        };
        let ca_certificates = ca_file.and_then(|file| self.read_ca_file(at, &file));
        let line = self.line_of(&address);
        if !hosts.names.is_empty() {
            self.add_mistake(line, format!("{at}: has hosts and an upstream; make two pools of it"));
        }
        if tags.len() > limits::TICKET_TAGS {
            let text = format!(
                "{at}: upstream_tags has {} tags, at most {} are allowed",
                tags.len(),
                limits::TICKET_TAGS
            );
            self.add_mistake(line, text);
        }
        for tag in &tags {
            let fits = (1..=limits::LABEL_BYTES).contains(&tag.get_ref().len());
            if !fits || tag.get_ref().chars().any(char::is_control) {
                let (line, tag) = (self.line_of(tag), shortened(tag.get_ref()));
                let text = format!("{at}: upstream_tags: {tag:?} is not 1 to {} bytes", limits::LABEL_BYTES);
                self.add_mistake(line, text);
            }
        }
        match UpstreamAddress::parse(address.get_ref()) {
            Ok(address) => {
                let tags = tags.into_iter().map(toml::Spanned::into_inner).collect();
                Some(PoolUpstream { address, ca_certificates, shared: table.upstream_shared, tags })
            }
            Err(why) => {
                self.add_mistake(line, format!("{at}: upstream {why}"));
                None
            }
        }
    }

    /// Reads the certificates of the CAs that sign an upstream's certificate.
    fn read_ca_file(&mut self, at: &str, file: &toml::Spanned<String>) -> Option<String> {
        let why = match (self.files)(file.get_ref()) {
            Ok(text) if text.contains("-----BEGIN CERTIFICATE-----") => return Some(text),
            Ok(_no_certificate) => format!("{:?} holds no certificate", shortened(file.get_ref())),
            Err(why) => why,
        };
        self.add_mistake(self.line_of(file), format!("{at}: upstream_ca_file: {why}"));
        None
    }

    /// Checks that all pools with the same upstream have the same settings for it.
    pub(super) fn check_upstream_contradictions(&mut self, line: usize, pool: &Pool, before: &Placement) {
        let Some(upstream) = &pool.upstream else { return };
        let others = before.pools.iter().filter_map(|other| Some((other, other.upstream.as_ref()?)));
        let mut others = others.filter(|(_, other)| other.address.shown() == upstream.address.shown());
        let other = others.find(|(_, other)| {
            let is_same_access = other.address.credentials() == upstream.address.credentials()
                && other.ca_certificates == upstream.ca_certificates;
            other.shared != upstream.shared || !is_same_access
        });
        if let Some((other, _)) = other {
            let text = format!(
                "pool {}: its upstream has another upstream_shared, upstream_ca_file, user or password than in pool {}",
                pool.name, other.name
            );
            self.add_mistake(line, text);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::placement::Placement;

    #[test]
    fn an_upstream_parses_and_errors_hide_its_password() {
        let pools = "[[pool]]\nname = \"a\"\ntags = [\"x\"]\ntags_on_demand = [\"y\"]\nupstream = \"http://u:secret@resalloc:49100\"\n\
                     [[pool]]\nname = \"b\"\nupstream = \"https://other\"\nupstream_shared = true\nupstream_tags = [\"z\"]\n";
        let pools = Placement::parse(pools).unwrap();
        let [a, b] = ["a", "b"].map(|name| pools.pool(name).unwrap());
        let upstream = a.upstream.as_ref().unwrap();
        assert_eq!((upstream.address.shown(), upstream.shared), ("http://resalloc:49100/RPC2", false));
        assert!(!format!("{pools:?}").contains("secret"));
        assert!(b.upstream.as_ref().unwrap().shared);
        let asked = ["y".to_owned()];
        assert_eq!((a.upstream_tags(&[]), a.upstream_tags(&asked)), (vec!["x".into()], vec!["y".into()]));
        assert_eq!(b.upstream_tags(&asked), ["z"]);
        let twice = ["y", "x", "y"].map(str::to_owned);
        assert_eq!(a.upstream_tags(&twice), ["y", "x"], "Resalloc refuses a tag that is there twice");
        let with_ca = "[[pool]]\nname = \"a\"\nupstream = \"https://r\"\nupstream_ca_file = \"ca\"\n";
        let ca_in = |text: &str| {
            let placement = Placement::parse_with(with_ca, &mut |_file| Ok(text.to_owned()))?;
            Ok::<_, String>(placement.pools()[0].upstream.as_ref().unwrap().ca_certificates.clone())
        };
        assert_eq!(ca_in("-----BEGIN CERTIFICATE-----\n"), Ok(Some("-----BEGIN CERTIFICATE-----\n".into())));
        let no_certificate = "line 4: pool a: upstream_ca_file: \"ca\" holds no certificate".to_owned();
        assert_eq!(ca_in("-----BEGIN PRIVATE KEY-----\n"), Err(no_certificate));
        let wrong = |text: &str| Placement::parse(&format!("[[pool]]\nname = \"a\"\n{text}\n")).unwrap_err();
        for (text, line, why) in [
            ("upstream = \"secret\"", 3, "upstream is no address; write it as http://HOST:PORT"),
            ("upstream = \"ftp://u:secret@h\"", 3, "upstream begins with neither http:// nor https://"),
            (
                "hosts = [\"h\"]\nupstream = \"http://r\"",
                4,
                "has hosts and an upstream; make two pools of it",
            ),
            ("upstream_tags = [\"x\"]", 3, "upstream_tags and upstream_shared need upstream"),
            ("upstream_ca_file = \"ca\"", 3, "upstream_ca_file needs upstream"),
            (
                "upstream = \"https://r\"\nupstream_ca_file = \"ca\"",
                4,
                "upstream_ca_file: \"ca\" is not read here",
            ),
            ("upstream_shared = true", 2, "upstream_tags and upstream_shared need upstream"),
            (
                "upstream = \"http://r\"\nupstream_tags = [\"\"]",
                4,
                "upstream_tags: \"\" is not 1 to 128 bytes",
            ),
        ] {
            assert_eq!(wrong(text), format!("line {line}: pool a: {why}"));
        }
        let two = "upstream = \"http://r\"\n[[pool]]\nname = \"b\"\nupstream = \"http://u:secret@R/\"";
        let another =
            "its upstream has another upstream_shared, upstream_ca_file, user or password than in pool a";
        assert_eq!(wrong(two), format!("line 5: pool b: {another}"));
        let unclosed = wrong("upstream = \"http://u:s3cr3tsecret@h");
        assert!(!unclosed.contains("s3cr3t"), "{unclosed}");
    }
}
