//! The files that were compiled into the service, by their names and by what they define.

use std::collections::HashMap;
use std::sync::LazyLock;

use bytes::Bytes;
use prost::Message;
use prost_types::{DescriptorProto, FileDescriptorProto, FileDescriptorSet};

use super::super::proto::DESCRIPTORS;

/// All files.
pub(super) static CATALOGUE: LazyLock<Catalogue> = LazyLock::new(|| {
    let files = FileDescriptorSet::decode(DESCRIPTORS).expect("the build wrote it");
    Catalogue::new(files.file)
});

/// Files, by their names and by what they define.
#[derive(Debug, Default)]
pub(super) struct Catalogue {
    files: Vec<File>,
    by_name: HashMap<String, usize>,
    by_symbol: HashMap<String, usize>,
    services: Vec<String>,
}

/// One file.
#[derive(Debug)]
pub(super) struct File {
    /// As a `FileDescriptorProto`.
    pub(super) bytes: Bytes,
    imports: Vec<String>,
}

impl Catalogue {
    fn new(files: Vec<FileDescriptorProto>) -> Self {
        let mut catalogue = Self::default();
        for (number, file) in files.into_iter().enumerate() {
            let package = file.package();
            for message in &file.message_type {
                catalogue.add_message(number, package, message);
            }
            for defined in &file.enum_type {
                catalogue.by_symbol.insert(join(package, defined.name()), number);
            }
            for service in &file.service {
                let name = join(package, service.name());
                for method in &service.method {
                    catalogue.by_symbol.insert(join(&name, method.name()), number);
                }
                catalogue.by_symbol.insert(name.clone(), number);
                catalogue.services.push(name);
            }
            catalogue.by_name.insert(file.name().to_owned(), number);
            catalogue.files.push(File { bytes: file.encode_to_vec().into(), imports: file.dependency });
        }
        catalogue
    }

    fn add_message(&mut self, file: usize, scope: &str, message: &DescriptorProto) {
        let name = join(scope, message.name());
        for nested in &message.nested_type {
            self.add_message(file, &name, nested);
        }
        for nested in &message.enum_type {
            self.by_symbol.insert(join(&name, nested.name()), file);
        }
        self.by_symbol.insert(name, file);
    }

    /// Full names of all services.
    pub(super) fn services(&self) -> &[String] {
        &self.services
    }

    /// The file of this name.
    pub(super) fn file(&self, name: &str) -> Option<&File> {
        self.by_name.get(name).map(|&number| &self.files[number])
    }

    /// The file that defines this.
    pub(super) fn file_of(&self, symbol: &str) -> Option<&File> {
        self.by_symbol.get(symbol).map(|&number| &self.files[number])
    }

    /// A file and all that it imports, each once.
    pub(super) fn with_imports<'a>(&'a self, file: &'a File) -> Vec<&'a File> {
        let mut found = vec![file];
        let mut next = 0;
        while let Some(file) = found.get(next) {
            let imports: Vec<&File> = file.imports.iter().filter_map(|name| self.file(name)).collect();
            for import in imports {
                if !found.iter().any(|known| std::ptr::eq(*known, import)) {
                    found.push(import);
                }
            }
            next += 1;
        }
        found
    }
}

fn join(scope: &str, name: &str) -> String {
    if scope.is_empty() { name.to_owned() } else { format!("{scope}.{name}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_methods_messages_and_enums_are_found_in_their_files() {
        let envoy = CATALOGUE.file("envoy/service/ratelimit/v3/rls.proto").expect("a file");
        for symbol in ["RateLimitService", "RateLimitService.ShouldRateLimit", "RateLimitResponse.RateLimit.Unit"] {
            let found = CATALOGUE.file_of(&format!("envoy.service.ratelimit.v3.{symbol}")).expect(symbol);
            assert!(std::ptr::eq(found, envoy), "{symbol}");
        }
        assert!(CATALOGUE.file_of("envoy.service.ratelimit.v3").is_none());
        assert_eq!(CATALOGUE.services().len(), 4);
    }

    #[test]
    fn a_file_comes_with_everything_that_it_imports() {
        let files = CATALOGUE.with_imports(CATALOGUE.file("envoy/service/ratelimit/v3/rls.proto").expect("a file"));
        let decoded = files.iter().map(|file| FileDescriptorProto::decode(file.bytes.clone()).expect("a file"));
        let mut names: Vec<String> = decoded.map(|file| file.name().to_owned()).collect();
        names.sort_unstable();

        let expected = [
            "envoy/config/core/v3/base.proto",
            "envoy/extensions/common/ratelimit/v3/ratelimit.proto",
            "envoy/service/ratelimit/v3/rls.proto",
            "envoy/type/v3/ratelimit_unit.proto",
            "google/protobuf/duration.proto",
            "google/protobuf/struct.proto",
            "google/protobuf/timestamp.proto",
            "google/protobuf/wrappers.proto",
        ];
        assert_eq!(names, expected);
    }
}
