//! JSON of one row, as programs write it that are not strict.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{Error as _, MapAccess, Visitor},
};
use serde_json::{Map, Value};

/// The fields of an object. An object with two fields of one name is an error: which of them counts is unknown.
pub(super) struct UniqueFields(pub(super) Map<String, Value>);

impl<'de> Deserialize<'de> for UniqueFields {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = UniqueFields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<UniqueFields, A::Error> {
                let mut fields = Map::new();
                while let Some((name, value)) = object.next_entry::<String, Value>()? {
                    if fields.contains_key(&name) {
                        return Err(A::Error::custom(format_args!("it has the field {name:?} twice")));
                    }
                    fields.insert(name, value);
                }
                Ok(UniqueFields(fields))
            }
        }
        from.deserialize_map(Fields)
    }
}

/// The text with `null` in place of `NaN`, which is no JSON: Python's `json` writes it for a value that is not known.
pub(super) fn without_nan(text: &[u8]) -> Vec<u8> {
    let (mut out, mut rest) = (Vec::with_capacity(text.len() + 8), text);
    let (mut in_string, mut is_escaped) = (false, false);
    while let Some((byte, behind)) = rest.split_first() {
        if !in_string && let Some(behind) = rest.strip_prefix(b"NaN") {
            out.extend_from_slice(b"null");
            rest = behind;
            continue;
        }
        in_string ^= *byte == b'"' && !is_escaped;
        is_escaped = in_string && *byte == b'\\' && !is_escaped;
        out.push(*byte);
        rest = behind;
    }
    out
}
