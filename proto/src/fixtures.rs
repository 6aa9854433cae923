//! Messages for tests, built from the compiled `.proto` files, so that a field that is added there is set in them too.

use prost::{
    Message,
    encoding::{WireType, encode_key, encode_varint},
};
use prost_types::{
    DescriptorProto, FieldDescriptorProto, FileDescriptorSet,
    field_descriptor_proto::{Label, Type},
};

use crate::DESCRIPTORS;

/// How the fields of a test message are filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fill {
    /// Every number and text is different, every word of an enumeration occurs, repeated fields have two items.
    Rich,
    /// Zeros and empty texts, but present; words of a newer version; repeated fields have one item.
    Zero,
    /// No field is set.
    Empty,
}

/// A test message of type `plimsoll.v1.NAME`.
#[must_use]
#[allow(clippy::expect_used, reason = "for tests")]
pub fn message<M: Message + Default>(name: &str, fill: Fill) -> M {
    let files = FileDescriptorSet::decode(DESCRIPTORS).expect("the descriptors are compiled");
    let bytes = MessageMaker { files, fill }.message(&format!(".plimsoll.v1.{name}"), 7);
    M::decode(bytes.as_slice()).expect("the message has the name of its type")
}

struct MessageMaker {
    files: FileDescriptorSet,
    fill: Fill,
}

impl MessageMaker {
    /// Encodes a message. `seed` depends on the position of the message, so the content of a field does not depend on the fields beside it.
    fn message(&self, name: &str, seed: u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        if self.fill != Fill::Empty {
            for field in &self.message_descriptor(name).field {
                let times = match (field.label(), self.fill) {
                    (Label::Repeated, Fill::Rich) => 2,
                    _ => 1,
                };
                let mix = |seed: u32, letter: u8| (seed ^ u32::from(letter)).wrapping_mul(16_777_619);
                let places = (0..times).map(|time| field.name().bytes().fold(seed + time, mix));
                places.for_each(|place| self.put_field(field, place, &mut bytes));
            }
        }
        bytes
    }

    fn put_field(&self, field: &FieldDescriptorProto, place: u32, bytes: &mut Vec<u8>) {
        let number = u32::try_from(field.number()).unwrap_or_default();
        // four digits, which are easy to read
        let seed = 1000 + place % 9000;
        match field.r#type() {
            Type::Double => {
                let value = if self.fill == Fill::Rich { f64::from(seed) / 7.0 } else { 0.0 };
                encode_key(number, WireType::SixtyFourBit, bytes);
                bytes.extend(value.to_le_bytes());
            }
            Type::String | Type::Bytes | Type::Message => {
                let part = match (field.r#type(), self.fill) {
                    (Type::Message, _) => self.message(field.type_name(), place),
                    // the text has characters that have to be escaped
                    (_, Fill::Rich) => format!("{seed} \"{}\" \u{202e}\n", field.name()).into_bytes(),
                    _ => Vec::new(),
                };
                encode_key(number, WireType::LengthDelimited, bytes);
                encode_varint(part.len() as u64, bytes);
                bytes.extend(part);
            }
            kind => {
                encode_key(number, WireType::Varint, bytes);
                encode_varint(self.varint_value(kind, field, seed.into()), bytes);
            }
        }
    }

    fn varint_value(&self, kind: Type, field: &FieldDescriptorProto, seed: u64) -> u64 {
        match (kind, self.fill) {
            (Type::Enum, Fill::Rich) => seed % self.enum_values(field.type_name()),
            (Type::Enum, _) => 99,
            (_, Fill::Zero | Fill::Empty) => 0,
            (Type::Bool, _) => seed % 2,
            // the number of attempts is larger than the other counts, which count some of the attempts
            (Type::Uint64, _) if field.name() == "attempts" => seed * 1_000_000_007,
            // this number is larger than a float can hold exactly
            (Type::Uint64, _) if seed.is_multiple_of(5) => (1 << 60) + seed,
            _ => seed,
        }
    }

    fn enum_values(&self, name: &str) -> u64 {
        let mut all = self.files.file.iter().flat_map(|file| &file.enum_type);
        let found = all.find(|of| name.strip_prefix(".plimsoll.v1.") == Some(of.name()));
        found.map_or(1, |of| of.value.len() as u64)
    }

    fn message_descriptor(&self, name: &str) -> DescriptorProto {
        let all = self.files.file.iter().flat_map(|file| file.message_type.clone()).collect();
        let path = name.trim_start_matches(".plimsoll.v1.").split('.');
        let within = |level: Vec<DescriptorProto>, name: &str| {
            level.into_iter().find(|of| of.name() == name).unwrap_or_default()
        };
        // maps are messages that are nested in other messages
        path.fold(DescriptorProto { nested_type: all, ..DescriptorProto::default() }, |outer, name| {
            within(outer.nested_type, name)
        })
    }
}

/// Decodes a message that was recorded as hexadecimal digits.
#[must_use]
#[allow(clippy::unwrap_used, reason = "for tests")]
pub fn recorded<M: Message + Default>(hex: &str) -> M {
    let pairs = hex.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
    let bytes: Vec<u8> = pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect();
    M::decode(bytes.as_slice()).unwrap()
}

/// Compares a text with the expected one. If they differ, the actual text is left in the temporary directory as `NAME.txt`.
#[allow(clippy::panic, reason = "for tests")]
pub fn assert_pinned(now: &str, pinned: &str, name: &str) {
    if now != pinned {
        let path = std::env::temp_dir().join(format!("{name}.txt"));
        let line = now.lines().zip(pinned.lines()).position(|(now, pinned)| now != pinned);
        let written = std::fs::write(&path, now);
        panic!("differs from line {line:?} on: see {} ({written:?})", path.display());
    }
}

/// Compares what people read with a recorded file, which has each text below the sentence that it keeps true. A line that changes there
/// changed for people, so read it.
pub fn assert_recorded(texts: &[(&str, String)], recorded: &str, name: &str) {
    let now: Vec<String> = texts.iter().map(|(promise, text)| format!("## {promise}\n{text}\n")).collect();
    assert_pinned(&now.join("\n"), recorded, name);
}
