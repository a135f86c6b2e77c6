//! Which services there are, and of which messages: for clients that have no `.proto` files.

mod catalogue;

use bytes::Bytes;
use prost::Message;
use tokio::sync::mpsc::{self, Sender};
use tokio::sync::watch;

use self::catalogue::{CATALOGUE, File};
use super::failure::{Code, Failure};
use super::proto::reflection::server_reflection_request::MessageRequest;
use super::proto::reflection::server_reflection_response::MessageResponse;
use super::proto::reflection::{
    ErrorResponse, FileDescriptorResponse, ListServiceResponse, ServerReflectionRequest, ServerReflectionResponse,
    ServiceResponse,
};
use super::wire::{self, Messages};
use crate::app::{App, Phase};
use crate::body::Body;

/// The same messages under two names: many tools still ask for the older.
pub(super) const PATHS: [&str; 2] = [
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
];

/// The most bytes of a question: they are names.
const QUESTION_BYTES_MAX: usize = 4_096;

/// Answers each question of a stream, until it ends or the service does.
pub(super) fn converse<B>(app: &App, body: B) -> Body
where
    B: http_body::Body<Data = Bytes> + Unpin + Send + 'static,
{
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(answer_all(Messages::new(body, QUESTION_BYTES_MAX), app.phase(), sender));
    Body::stream(receiver).with_trailers(wire::ok_trailers())
}

/// A question that cannot be read ends the stream.
async fn answer_all<B>(mut questions: Messages<B>, mut phase: watch::Receiver<Phase>, sender: Sender<Bytes>)
where
    B: http_body::Body<Data = Bytes> + Unpin,
{
    loop {
        let question = tokio::select! {
            question = questions.next() => question,
            _ = phase.wait_for(|&phase| phase == Phase::Closing) => return,
            () = sender.closed() => return,
        };
        let Ok(Some(question)) = question else { return };
        let answer = wire::framed(&answer(&question));
        if sender.send(answer).await.is_err() {
            return;
        }
    }
}

fn answer(question: &[u8]) -> ServerReflectionResponse {
    let Ok(question) = ServerReflectionRequest::decode(question) else {
        let failure = Failure::invalid("the message is no ServerReflectionRequest");
        return ServerReflectionResponse { message_response: Some(error(failure)), ..Default::default() };
    };
    let said = match &question.message_request {
        Some(MessageRequest::ListServices(_)) => Ok(services()),
        Some(MessageRequest::FileByFilename(name)) => files(CATALOGUE.file(name)),
        Some(MessageRequest::FileContainingSymbol(name)) => files(CATALOGUE.file_of(name)),
        Some(MessageRequest::FileContainingExtension(_) | MessageRequest::AllExtensionNumbersOfType(_)) => {
            Err(Failure::new(Code::NotFound, "there are no extensions"))
        }
        None => Err(Failure::invalid("the request asks for nothing that is known here")),
    };
    ServerReflectionResponse {
        valid_host: question.host.clone(),
        message_response: Some(said.unwrap_or_else(error)),
        original_request: Some(question),
    }
}

fn services() -> MessageResponse {
    let service = CATALOGUE.services().iter().map(|name| ServiceResponse { name: name.clone() }).collect();
    MessageResponse::ListServicesResponse(ListServiceResponse { service })
}

/// A file, with all that it imports.
fn files(file: Option<&File>) -> Result<MessageResponse, Failure> {
    let file = file.ok_or_else(|| Failure::new(Code::NotFound, "there is no such file or symbol"))?;
    let file_descriptor_proto = CATALOGUE.with_imports(file).into_iter().map(|file| file.bytes.clone()).collect();
    Ok(MessageResponse::FileDescriptorResponse(FileDescriptorResponse { file_descriptor_proto }))
}

fn error(failure: Failure) -> MessageResponse {
    MessageResponse::ErrorResponse(ErrorResponse { error_code: failure.code as i32, error_message: failure.message.into_owned() })
}
