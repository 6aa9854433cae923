//! Converts the variants of a Gantry database to Spack's spelling.

use std::fmt::Write as _;

use plimsoll_proto::spack;
use serde_json::{Map, Value};

/// The variants and the build system, spelled as agents and Spack's job generator do: first the switches
/// (`+shared~static`), then each `name=value`, both in alphabetical order.
pub(super) fn variants(json: &str) -> Result<(String, String), String> {
    if json.trim().is_empty() {
        return Ok((String::new(), String::new()));
    }
    let variants: Map<String, Value> =
        serde_json::from_str(json).map_err(|error| format!("is not a JSON object: {error}"))?;
    let (mut switches, mut values) = (String::new(), String::new());
    for (name, value) in &variants {
        // older versions of Gantry stored `name:=value` with the colon as part of the name
        let name = name.trim_end_matches(':');
        let _written = match value {
            Value::Bool(on) => write!(switches, "{}{name}", if *on { '+' } else { '~' }),
            Value::Array(parts) => {
                let parts: Vec<String> = parts.iter().map(plain_text).collect();
                write!(values, " {name}={}", parts.join(","))
            }
            one => write!(values, " {name}={}", plain_text(one)),
        };
    }
    Ok(spack::variants(&(switches + &values)))
}

fn plain_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variants_are_spelled_as_spack_spells_them() {
        let json = r#"{"shared": true, "mpi": false, "build_system": "cmake", "generator": "make", "cuda_arch": ["80", "90"]}"#;
        let (text, system) = variants(json).unwrap();
        assert_eq!((text.as_str(), system.as_str()), ("~mpi+shared cuda_arch=80,90 generator=make", "cmake"));
        assert_eq!(variants("{}").unwrap(), (String::new(), String::new()));
        assert_eq!(variants(r#"{"libs:": "shared"}"#).unwrap().0, "libs=shared");
        assert!(variants("[1]").unwrap_err().contains("JSON object"));
    }

    #[test]
    fn the_same_build_has_the_same_key_from_gantry_and_from_spack() {
        let spec = "curl@8.15.0 ~gssapi+nghttp2 build_system=autotools libs:=shared,static tls:=openssl arch=a-b-c%gcc@12";
        let key = plimsoll_core::gantry::parse_spec(spec).unwrap();
        let json = r#"{"nghttp2": true, "gssapi": false, "build_system": "autotools", "libs": ["shared", "static"], "tls": "openssl"}"#;
        assert_eq!(variants(json).unwrap(), (key.variants, key.build_system));
    }
}
