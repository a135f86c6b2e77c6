//! Check, batch, peek, usage.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use http::request::Parts;
use http::{Response, StatusCode};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use tidegate_engine::decision::{Decision, Origin};
use tidegate_engine::engine::{Begun, CheckOptions};

use super::answer::{self, ANSWER_BYTES};
use super::problem::Problem;
use super::question::Question;
use super::write::Writer;
use super::{json, read};
use crate::app::App;
use crate::body::Body;
use crate::metrics::{AnswerCode, Protocol};
use crate::watch::Watch;

/// How many questions of a batch are put to the store at a time.
const TOGETHER: usize = 64;

/// What is asked about a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// To take what it costs.
    Check,
    /// Whether it would be admitted.
    Peek,
    /// What was used.
    Usage,
}

/// Answers one question.
pub(super) async fn one<B>(app: &Arc<App>, kind: Kind, head: &Parts, body: B) -> Response<Body>
where
    B: http_body::Body<Data = Bytes> + Unpin,
{
    let mut watch = app.watch(Protocol::Http, &head.headers);
    let response = match ask(app, kind, &mut watch, head, body).await {
        Ok(answer) => json(StatusCode::OK, answer),
        Err(problem) => problem.into_response(),
    };
    watch.answered(app, AnswerCode::Http(response.status().as_u16()));
    response
}

/// Answers many questions, each on its own.
pub(super) async fn batch<B>(app: &Arc<App>, head: &Parts, body: B) -> Response<Body>
where
    B: http_body::Body<Data = Bytes> + Unpin,
{
    let mut watch = app.watch(Protocol::Http, &head.headers);
    let response = match ask_all(app, &mut watch, head, body).await {
        Ok(answer) => json(StatusCode::OK, answer),
        Err(problem) => problem.into_response(),
    };
    watch.answered(app, AnswerCode::Http(response.status().as_u16()));
    response
}

async fn ask<B>(app: &Arc<App>, kind: Kind, watch: &mut Watch, head: &Parts, body: B) -> Result<Bytes, Problem>
where
    B: http_body::Body<Data = Bytes> + Unpin,
{
    read::require_json(&head.headers)?;
    let body = read::whole(body, &app.settings.limits).await?;
    let question = Question::read(&body)?;
    if kind == Kind::Usage && question.cost().is_some() {
        return Err(Problem::bad_request("a question for usage has no cost"));
    }
    let decision = decide(app, kind, watch, &question).await?;
    let mut writer = Writer::with_capacity(ANSWER_BYTES);
    match kind {
        Kind::Usage => answer::write_usage(&mut writer, &decision, app.engine.now_ns()),
        Kind::Check | Kind::Peek => answer::write(&mut writer, &decision, app.engine.now_ns()),
    }
    Ok(writer.into_bytes())
}

async fn ask_all<B>(app: &Arc<App>, watch: &mut Watch, head: &Parts, body: B) -> Result<Bytes, Problem>
where
    B: http_body::Body<Data = Bytes> + Unpin,
{
    read::require_json(&head.headers)?;
    let body = read::whole(body, &app.settings.limits).await?;
    // They are counted before any is read: a batch of many small ones would take sixty times its size.
    let count = serde_json::from_slice::<Vec<IgnoredAny>>(&body).map_err(|error| Problem::bad_json(&error))?.len();
    let count_max = app.settings.limits.batch;
    if count > count_max {
        let detail = format!("{count} checks are in one batch, at most {count_max} are possible");
        return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, detail));
    }
    let values: Vec<Value>;
    let questions: Vec<Result<Question<'_>, Problem>> = if let Ok(questions) = serde_json::from_slice::<Vec<_>>(&body) {
        questions.into_iter().map(Ok).collect()
    } else {
        // One of them is wrong: the others are answered all the same.
        values = serde_json::from_slice(&body).map_err(|error| Problem::bad_json(&error))?;
        values.iter().map(|value| Question::deserialize(value).map_err(|error| Problem::bad_json(&error))).collect()
    };
    let mut writer = Writer::with_capacity(ANSWER_BYTES * questions.len() + 2);
    writer.open('[');
    for questions in questions.chunks(TOGETHER) {
        let begun = questions.iter().map(|question| match question {
            Ok(question) => Ok(app.engine.begin_request(Origin::Check, question, question.cost(), CheckOptions::default())?),
            Err(problem) => Err(problem.clone()),
        });
        for (question, decided) in questions.iter().zip(decide_all(begun.collect()).await) {
            match (question, decided) {
                (Ok(question), Ok(decision)) => {
                    watch.decided(app, question, &decision);
                    answer::write(&mut writer, &decision, app.engine.now_ns());
                }
                (_, Err(problem)) => {
                    writer.open('{');
                    problem.write(&mut writer);
                    writer.close('}');
                }
                (Err(_), Ok(_)) => unreachable!("what is wrong is not decided"),
            }
        }
    }
    writer.close(']');
    Ok(writer.into_bytes())
}

/// Waits for all decisions at once. Their questions are put in their order.
async fn decide_all(begun: Vec<Result<Begun, Problem>>) -> Vec<Result<Decision, Problem>> {
    let mut waiting: Vec<Result<Waiting, Problem>> =
        begun.into_iter().map(|begun| Ok(Waiting::Asked(Box::pin(begun?.decide())))).collect();
    poll_fn(|context| {
        let mut is_ready = true;
        for one in waiting.iter_mut().flatten() {
            if let Waiting::Asked(asked) = one {
                match asked.as_mut().poll(context) {
                    Poll::Ready(decision) => *one = Waiting::Decided(Box::new(decision)),
                    Poll::Pending => is_ready = false,
                }
            }
        }
        if is_ready { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    let decision = |one: Waiting| match one {
        Waiting::Decided(decision) => *decision,
        Waiting::Asked(_) => unreachable!("all were waited for"),
    };
    waiting.into_iter().map(|one| one.map(decision)).collect()
}

/// A decision that may not be there yet.
enum Waiting {
    Asked(Pin<Box<dyn Future<Output = Decision> + Send>>),
    Decided(Box<Decision>),
}

async fn decide(app: &Arc<App>, kind: Kind, watch: &mut Watch, question: &Question<'_>) -> Result<Decision, Problem> {
    let (origin, cost) = match kind {
        Kind::Check => (Origin::Check, question.cost()),
        Kind::Peek => (Origin::Peek, question.cost()),
        Kind::Usage => (Origin::Peek, Some(0)),
    };
    let decision = app.engine.begin_request(origin, question, cost, CheckOptions::default())?.decide().await;
    watch.decided(app, question, &decision);
    Ok(decision)
}
