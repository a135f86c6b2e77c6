//! Check, peek, usage, debit; and the way that all questions take from their bodies to their answers.

use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use http::{Response, StatusCode};
use tidegate_engine::decision::{Decision, Origin};

use super::answer::{self, ANSWER_BYTES};
use super::problem::Problem;
use super::question::{Member, Question};
use super::write::Writer;
use super::{batch, counted, json, read, slots};
use crate::app::App;
use crate::body::Body;
use crate::metrics::{AnswerCode, Protocol};
use crate::watch::Watch;

/// What is asked about a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// To take what it costs.
    Check,
    /// The same for many requests.
    Batch,
    /// Whether it would be admitted.
    Peek,
    /// What was used.
    Usage,
    /// To take without asking.
    Debit,
    /// To give its slots back.
    Release,
    /// To keep its slots.
    Renew,
    /// To forget what is known of its keys.
    Reset,
}

impl Kind {
    /// What a question of this kind may say beside the facts, and what it has to.
    fn members(self) -> (&'static [Member], &'static [Member]) {
        match self {
            Self::Check | Self::Batch => (&[Member::Cost, Member::Lease, Member::MaxDelay, Member::Fields], &[]),
            Self::Peek => (&[Member::Cost, Member::Fields], &[]),
            Self::Debit => (&[Member::Cost, Member::Fields], &[Member::Cost]),
            Self::Release | Self::Renew => (&[Member::Lease], &[Member::Lease]),
            Self::Usage | Self::Reset => (&[], &[]),
        }
    }
}

/// Answers a question.
pub(super) async fn serve<B>(app: &Arc<App>, kind: Kind, head: &Parts, body: B) -> Response<Body>
where
    B: http_body::Body<Data = Bytes> + Unpin,
{
    let body = match receive(app, head, body).await {
        Ok(body) => body,
        Err(problem) => return counted(app, Protocol::Http, problem.into_response()),
    };
    // From here on the time is ours, and no longer the client's.
    let mut watch = app.watch(Protocol::Http, &head.headers);
    let answered = match kind {
        Kind::Check | Kind::Peek | Kind::Usage | Kind::Debit => ask(app, kind, &mut watch, &body).await,
        // What is rare lies elsewhere, so that what is not has less to move.
        Kind::Batch => Box::pin(batch::ask(app, &mut watch, &body)).await,
        Kind::Release | Kind::Renew | Kind::Reset => Box::pin(slots::ask(app, kind, &body)).await,
    };
    let response = match answered {
        Ok(answer) => json(StatusCode::OK, answer),
        Err(problem) => problem.into_response(),
    };
    watch.answered(app, AnswerCode::Http(response.status().as_u16()));
    response
}

/// Reads the body of a question.
async fn receive<B>(app: &App, head: &Parts, body: B) -> Result<Bytes, Problem>
where
    B: http_body::Body<Data = Bytes> + Unpin,
{
    read::require_json(&head.headers)?;
    read::whole(body, &app.settings.limits).await
}

/// Reads a question that says what questions of its kind say.
pub(super) fn read(kind: Kind, body: &[u8]) -> Result<Question<'_>, Problem> {
    let question = Question::read(body)?;
    let (may, must) = kind.members();
    for member in Member::ALL {
        match question.says(member) {
            true if !may.contains(&member) => return Err(Problem::bad_request(format!("`{member}` is not a part of this call"))),
            false if must.contains(&member) => return Err(Problem::bad_request(format!("`{member}` is missing"))),
            _ => {}
        }
    }
    Ok(question)
}

async fn ask(app: &Arc<App>, kind: Kind, watch: &mut Watch, body: &[u8]) -> Result<Bytes, Problem> {
    let question = read(kind, body)?;
    let decision = decide(app, kind, watch, &question).await?;
    let mut writer = Writer::with_capacity(ANSWER_BYTES);
    match kind {
        Kind::Usage => answer::write_usage(&mut writer, &decision, app.engine.now_ns()),
        _ => answer::write(&mut writer, &decision, app.engine.now_ns(), question.profile(app)),
    }
    Ok(writer.into_bytes())
}

async fn decide(app: &Arc<App>, kind: Kind, watch: &mut Watch, question: &Question<'_>) -> Result<Decision, Problem> {
    let (origin, cost) = match kind {
        Kind::Usage => (Origin::Peek, Some(0)),
        Kind::Peek => (Origin::Peek, question.cost()),
        Kind::Debit => (Origin::Debit, question.cost()),
        _ => (Origin::Check, question.cost()),
    };
    let decision = app.engine.begin_request(origin, question, cost, question.options())?.decide().await;
    watch.decided(app, question, &decision);
    Ok(decision)
}
