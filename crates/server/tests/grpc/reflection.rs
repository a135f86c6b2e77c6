//! Which services there are.

use bytes::Bytes;
use prost::Message;
use prost_types::FileDescriptorProto;
use serde_json::json;
use tidegate_server::body::Body;
use tidegate_server::grpc::proto::reflection::server_reflection_request::MessageRequest;
use tidegate_server::grpc::proto::reflection::server_reflection_response::MessageResponse;
use tidegate_server::grpc::proto::reflection::{ServerReflectionRequest, ServerReflectionResponse};

use crate::service::{Setup, framed, request};

const PATHS: [&str; 2] = [
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
];

/// The answers to some questions, in one conversation.
async fn converse(path: &str, questions: Vec<MessageRequest>) -> Vec<MessageResponse> {
    let service = Setup::default().start();
    let message = |question| framed(&ServerReflectionRequest { host: String::new(), message_request: Some(question) });
    let bytes: Vec<u8> = questions.into_iter().flat_map(message).collect();
    let answer = service.send(request(path, Body::full(bytes))).await;
    assert_eq!(answer.code(), "0");
    let mut rest: Bytes = answer.body;
    let mut answers = Vec::new();
    while !rest.is_empty() {
        let length = u32::from_be_bytes(rest[1..5].try_into().expect("four bytes")) as usize;
        let message = rest.split_to(5 + length).split_off(5);
        answers.push(ServerReflectionResponse::decode(message).expect("an answer").message_response.expect("something"));
    }
    answers
}

#[tokio::test]
async fn services_and_their_files_are_told_under_both_names() {
    for path in PATHS {
        let symbol = "envoy.service.ratelimit.v3.RateLimitService".to_owned();
        let questions = vec![MessageRequest::ListServices(String::new()), MessageRequest::FileContainingSymbol(symbol)];

        let answers = converse(path, questions).await;

        let MessageResponse::ListServicesResponse(list) = &answers[0] else { panic!("{answers:?}") };
        let names: Vec<&str> = list.service.iter().map(|service| &*service.name).collect();
        assert!(names.contains(&"envoy.service.ratelimit.v3.RateLimitService"), "{names:?}");
        assert!(names.contains(&"grpc.health.v1.Health"), "{names:?}");
        let MessageResponse::FileDescriptorResponse(files) = &answers[1] else { panic!("{answers:?}") };
        let first = FileDescriptorProto::decode(files.file_descriptor_proto[0].clone()).expect("a file");
        assert_eq!((first.name(), files.file_descriptor_proto.len()), ("envoy/service/ratelimit/v3/rls.proto", 8));
    }
}

#[tokio::test]
async fn what_does_not_exist_is_an_answer_and_the_conversation_goes_on() {
    let questions = vec![
        MessageRequest::FileByFilename("nowhere.proto".to_owned()),
        MessageRequest::AllExtensionNumbersOfType("grpc.health.v1.HealthCheckRequest".to_owned()),
        MessageRequest::FileByFilename("grpc/health/v1/health.proto".to_owned()),
    ];

    let answers = converse(PATHS[0], questions).await;

    assert!(matches!(&answers[0], MessageResponse::ErrorResponse(error) if error.error_code == 5), "{answers:?}");
    assert!(matches!(&answers[1], MessageResponse::ErrorResponse(error) if error.error_code == 5), "{answers:?}");
    assert!(matches!(&answers[2], MessageResponse::FileDescriptorResponse(files) if files.file_descriptor_proto.len() == 1));
}

#[tokio::test]
async fn a_service_can_keep_it_to_itself() {
    let listen = json!({"listen": {"tcp": {"host": "127.0.0.1", "port": 0}}, "tls": null, "token": null, "reflection": false});
    let service = Setup { settings: json!({"grpc": listen}), ..Setup::default() }.start();
    for path in PATHS {
        assert_eq!(service.send(request(path, Body::empty())).await.code(), "12", "{path}");
    }
}

#[tokio::test]
async fn a_conversation_ends_with_the_service() {
    let service = Setup::default().start();
    let (_sender, receiver) = tokio::sync::mpsc::channel(1);
    service.app.begin_close();

    assert_eq!(service.send(request(PATHS[0], Body::stream(receiver))).await.code(), "0");
}
