//! Compiles the `.proto` files without `protoc`, keeps their descriptors for gRPC reflection, and writes the JSON of their messages.

use std::{env, error::Error, fmt::Write as _, fs, path::PathBuf};

use prost::Message as _;
use prost_types::{DescriptorProto, FieldDescriptorProto, FileDescriptorSet, field_descriptor_proto::Type};

const FILES: [&str; 7] = [
    "externalscaler.proto",
    "plimsoll/v1/types.proto",
    "plimsoll/v1/collector.proto",
    "plimsoll/v1/introspection.proto",
    "plimsoll/v1/placement.proto",
    "plimsoll/v1/predictor.proto",
    "plimsoll/v1/stats.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=plimsoll/v1");
    println!("cargo:rerun-if-changed=externalscaler.proto");
    let descriptors = protox::compile(FILES, ["."])?;
    #[expect(clippy::disallowed_methods, reason = "cargo says through the environment where to write")]
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("descriptors.bin"), descriptors.encode_to_vec())?;
    fs::write(out.join("json.rs"), json(&descriptors)?)?;
    tonic_prost_build::configure()
        .codec_path("crate::codec::MessageCodec")
        // the server stores it
        .enum_attribute(".plimsoll.v1.Source", "#[derive(serde::Serialize, serde::Deserialize)]")
        .enum_attribute(".plimsoll.v1.Source", "#[serde(rename_all = \"snake_case\")]")
        .compile_fds(descriptors)?;
    Ok(())
}

/// The part of `src/words/json.rs` that follows from the messages: their fields in the order of the files.
fn json(descriptors: &FileDescriptorSet) -> Result<String, std::fmt::Error> {
    let ours = || descriptors.file.iter().filter(|file| file.package() == "plimsoll.v1");
    let mut code = String::new();
    let messages: Vec<_> =
        ours().flat_map(|file| &file.message_type).filter(|of| is_written_as_json(of)).collect();
    let names = messages.iter().map(|of| format!("{0}(&'m v1::{0}),", of.name())).collect::<String>();
    writeln!(code, "/// A message of `plimsoll.v1`.\n#[derive(Debug)]\npub enum Message<'m> {{ {names} }}")?;
    for message in messages {
        let name = message.name();
        // JSON has the text of a bound
        let fields = message.field.iter().filter(|of| of.name() != "size_bound");
        let fields = fields.map(field).collect::<String>();
        writeln!(
            code,
            "impl ToJson for v1::{name} {{ fn json(&self, shape: MessageShaper) -> Json {{
                shape(Message::{name}(self), Fields(vec![{fields}]))
            }} }}
            impl Serialize for v1::{name} {{ fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {{
                self.json(on_the_wire).serialize(to)
            }} }}"
        )?;
    }
    Ok(code)
}

/// Questions, and what carries one of several messages, are not written as JSON.
fn is_written_as_json(message: &DescriptorProto) -> bool {
    let carries = message.oneof_decl.iter().any(|of| !of.name().starts_with('_'));
    !carries && !message.name().ends_with("Request")
}

fn field(field: &FieldDescriptorProto) -> String {
    let name = field.name();
    let own = if name == "ref" { "r#ref" } else { name };
    let value = match (field.r#type(), field.type_name().rsplit('.').next()) {
        (Type::Enum, Some(of)) => format!("enum_json::<v1::{of}>(self.{own})"),
        _ => format!("self.{own}.json(shape)"),
    };
    format!("({name:?}.into(), {value}),")
}
