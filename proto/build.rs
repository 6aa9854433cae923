//! Compiles the `.proto` files without `protoc` and keeps their descriptors for gRPC reflection.

use std::{env, error::Error, fs, path::PathBuf};

use prost::Message as _;

const FILES: [&str; 6] = [
    "externalscaler.proto",
    "plimsoll/v1/types.proto",
    "plimsoll/v1/collector.proto",
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
    tonic_prost_build::configure().compile_fds(descriptors)?;
    Ok(())
}
