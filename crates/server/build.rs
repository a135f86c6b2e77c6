//! Compiles the `.proto` files: into types, and into the descriptors that clients ask for by reflection. No `protoc` is needed.

use std::error::Error;
use std::path::PathBuf;

use prost::Message;

const ROOT: &str = "proto";
const FILES: [&str; 4] = [
    "envoy/service/ratelimit/v3/rls.proto",
    "grpc/health/v1/health.proto",
    "grpc/reflection/v1/reflection.proto",
    "grpc/reflection/v1alpha/reflection.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={ROOT}");
    let mut compiler = protox::Compiler::new([ROOT])?;
    compiler.include_imports(true).open_files(FILES)?;
    let files = compiler.file_descriptor_set();
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    std::fs::write(out.join("descriptors.bin"), files.encode_to_vec())?;
    prost_build::Config::new().bytes(["."]).include_file("proto.rs").compile_fds(files)?;
    Ok(())
}
