//! gRPC server reflection: describes the services to clients without `.proto` files (grpcurl,
//! Postman). A client asks for many names on one stream, so an unknown name is answered with an
//! error and the stream stays open, as the protocol requires.
//!
//! The versions `v1` and `v1alpha` have the same messages under two names.

use std::pin::Pin;

use plimsoll_proto::DESCRIPTORS;
use prost_reflect::{DescriptorError, DescriptorPool, FileDescriptor};
use tokio_stream::{Stream, StreamExt as _};
use tonic::{Code, Request, Response, Status, Streaming};
use tonic_reflection::pb::{v1, v1alpha};

/// The error for an unknown name.
#[derive(Debug, PartialEq)]
struct UnknownName {
    code: Code,
    message: String,
}

/// Descriptors of the services and of all types they use.
#[derive(Debug, Clone)]
pub(super) struct ReflectionService {
    pool: DescriptorPool,
}

impl ReflectionService {
    /// The descriptors of all services of the gRPC listener.
    ///
    /// # Errors
    /// A descriptor is invalid.
    pub(super) fn new() -> Result<Self, DescriptorError> {
        let mut pool = DescriptorPool::decode(DESCRIPTORS)?;
        for set in
            [tonic_health::pb::FILE_DESCRIPTOR_SET, v1::FILE_DESCRIPTOR_SET, v1alpha::FILE_DESCRIPTOR_SET]
        {
            pool.decode_file_descriptor_set(set)?;
        }
        Ok(Self { pool })
    }

    fn services(&self) -> Vec<String> {
        self.pool.services().map(|service| service.full_name().to_owned()).collect()
    }

    fn file(&self, name: &str) -> Result<Vec<u8>, UnknownName> {
        let file = self.pool.get_file_by_name(name);
        file.map(|file| file.encode_to_vec()).ok_or_else(|| unknown_name("file", name))
    }

    fn file_of_symbol(&self, symbol: &str) -> Result<Vec<u8>, UnknownName> {
        let file = self.declared(symbol).or_else(|| self.declared_within(symbol));
        file.map(|file| file.encode_to_vec()).ok_or_else(|| unknown_name("symbol", symbol))
    }

    /// The `.proto` file that declares a message, an enum or a service.
    fn declared(&self, symbol: &str) -> Option<FileDescriptor> {
        let message = self.pool.get_message_by_name(symbol).map(|of| of.parent_file());
        let message = message.or_else(|| self.pool.get_enum_by_name(symbol).map(|of| of.parent_file()));
        message.or_else(|| self.pool.get_service_by_name(symbol).map(|of| of.parent_file()))
    }

    /// The `.proto` file that declares a part of a message, an enum or a service: a field, a value,
    /// an rpc.
    fn declared_within(&self, symbol: &str) -> Option<FileDescriptor> {
        let (parent, part) = symbol.rsplit_once('.')?;
        if let Some(service) = self.pool.get_service_by_name(parent) {
            return service.methods().any(|rpc| rpc.name() == part).then(|| service.parent_file());
        }
        if let Some(message) = self.pool.get_message_by_name(parent) {
            let is_part =
                message.get_field_by_name(part).is_some() || message.oneofs().any(|of| of.name() == part);
            if is_part {
                return Some(message.parent_file());
            }
        }
        // the full name of an enum value contains the enum's parent, but not the enum
        let mut all = self.pool.all_enums();
        all.find(|of| of.values().any(|value| value.full_name() == symbol)).map(|of| of.parent_file())
    }

    fn file_of_extension(&self, of: &str, number: i32) -> Result<Vec<u8>, UnknownName> {
        let (message, number) = (self.message(of)?, u32::try_from(number).unwrap_or_default());
        let extension = message.get_extension(number);
        extension
            .map(|extension| extension.parent_file().encode_to_vec())
            .ok_or_else(|| unknown_name("extension", of))
    }

    fn extensions(&self, of: &str) -> Result<Vec<i32>, UnknownName> {
        Ok(self.message(of)?.extensions().filter_map(|of| i32::try_from(of.number()).ok()).collect())
    }

    fn message(&self, name: &str) -> Result<prost_reflect::MessageDescriptor, UnknownName> {
        self.pool.get_message_by_name(name).ok_or_else(|| unknown_name("message", name))
    }
}

/// Most characters of a name that an answer repeats.
const SHOWN_CHARS: usize = 128;

fn unknown_name(what: &str, name: &str) -> UnknownName {
    let shown: String = name.chars().take(SHOWN_CHARS).collect();
    UnknownName { code: Code::NotFound, message: format!("{what} {shown:?} is not known here") }
}

/// Implements one version of gRPC's reflection protocol.
macro_rules! version {
    ($version:ident) => {
        impl ReflectionService {
            fn $version(
                &self,
                asked: $version::ServerReflectionRequest,
            ) -> $version::ServerReflectionResponse {
                use $version::{
                    ErrorResponse, ExtensionNumberResponse, FileDescriptorResponse, ListServiceResponse,
                    ServiceResponse, server_reflection_request::MessageRequest as Asked,
                    server_reflection_response::MessageResponse as Answer,
                };
                let file = |bytes| {
                    Answer::FileDescriptorResponse(FileDescriptorResponse {
                        file_descriptor_proto: vec![bytes],
                    })
                };
                let answer = match &asked.message_request {
                    Some(Asked::FileByFilename(name)) => self.file(name).map(file),
                    Some(Asked::FileContainingSymbol(symbol)) => self.file_of_symbol(symbol).map(file),
                    Some(Asked::FileContainingExtension(of)) => {
                        self.file_of_extension(&of.containing_type, of.extension_number).map(file)
                    }
                    Some(Asked::AllExtensionNumbersOfType(of)) => self.extensions(of).map(|numbers| {
                        Answer::AllExtensionNumbersResponse(ExtensionNumberResponse {
                            base_type_name: of.clone(),
                            extension_number: numbers,
                        })
                    }),
                    Some(Asked::ListServices(_)) => {
                        let service =
                            self.services().into_iter().map(|name| ServiceResponse { name }).collect();
                        Ok(Answer::ListServicesResponse(ListServiceResponse { service }))
                    }
                    None => Err(UnknownName {
                        code: Code::InvalidArgument,
                        message: "asks for nothing".to_owned(),
                    }),
                };
                let answer = answer.unwrap_or_else(|UnknownName { code, message }| {
                    Answer::ErrorResponse(ErrorResponse { error_code: code.into(), error_message: message })
                });
                $version::ServerReflectionResponse {
                    valid_host: asked.host.clone(),
                    original_request: Some(asked),
                    message_response: Some(answer),
                }
            }
        }

        #[tonic::async_trait]
        impl $version::server_reflection_server::ServerReflection for ReflectionService {
            type ServerReflectionInfoStream =
                Pin<Box<dyn Stream<Item = Result<$version::ServerReflectionResponse, Status>> + Send>>;

            async fn server_reflection_info(
                &self,
                asked: Request<Streaming<$version::ServerReflectionRequest>>,
            ) -> Result<Response<Self::ServerReflectionInfoStream>, Status> {
                let service = self.clone();
                let answers = asked.into_inner().map(move |asked| Ok(service.$version(asked?)));
                Ok(Response::new(Box::pin(answers)))
            }
        }
    };
}

version!(v1);
version!(v1alpha);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_of_the_wire_is_found_and_no_other() {
        let service = ReflectionService::new().unwrap();
        for symbol in [
            "plimsoll.v1.Predictor",
            "plimsoll.v1.Predictor.Predict",
            "plimsoll.v1.Key",
            "plimsoll.v1.Key.package",
            "plimsoll.v1.Cause",
            "plimsoll.v1.CAUSE_OOM",
            "externalscaler.ExternalScaler",
            "grpc.health.v1.Health",
            "grpc.reflection.v1.ServerReflection",
            "grpc.reflection.v1alpha.ServerReflection",
        ] {
            assert!(service.file_of_symbol(symbol).is_ok_and(|file| !file.is_empty()), "{symbol}");
            assert!(service.file_of_symbol(&format!("{symbol}x")).is_err(), "{symbol}x");
        }
        assert!(service.file("plimsoll/v1/types.proto").is_ok());
        let long = "x".repeat(10_000);
        let error = service.file(&long).unwrap_err();
        assert!(error.code == Code::NotFound && error.message.len() < 200, "{error:?}");
        assert_eq!(service.extensions("plimsoll.v1.Key"), Ok(Vec::new()));
        assert!(
            service.extensions("plimsoll.v1.Moon").is_err()
                && service.file_of_extension("plimsoll.v1.Key", 7).is_err()
        );
    }
}
