//! Many checks in one request.

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use tidegate_engine::decision::{Decision, Origin};
use tidegate_engine::engine::Begun;
use tidegate_engine::together::{Coming, all};

use super::answer::{self, ANSWER_BYTES};
use super::problem::Problem;
use super::question::Question;
use super::write::Writer;
use crate::app::App;
use crate::watch::Watch;

/// How many questions of a batch are put to the store at a time.
const TOGETHER: usize = 64;

/// Answers many questions, each on its own.
pub(super) async fn ask(app: &Arc<App>, watch: &mut Watch, body: &[u8]) -> Result<Bytes, Problem> {
    // They are counted before any is read: a batch of many small ones would take sixty times its size.
    let count = serde_json::from_slice::<Vec<IgnoredAny>>(body).map_err(|error| Problem::bad_json(&error))?.len();
    let count_max = app.settings.limits.batch;
    if count > count_max {
        let detail = format!("{count} checks are in one batch, at most {count_max} are possible");
        return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, detail));
    }
    let values: Vec<Value>;
    let questions: Vec<Result<Question<'_>, Problem>> = if let Ok(questions) = serde_json::from_slice::<Vec<_>>(body) {
        questions.into_iter().map(Ok).collect()
    } else {
        // One of them is wrong: the others are answered all the same.
        values = serde_json::from_slice(body).map_err(|error| Problem::bad_json(&error))?;
        values.iter().map(|value| Question::deserialize(value).map_err(|error| Problem::bad_json(&error))).collect()
    };
    let mut writer = Writer::with_capacity(ANSWER_BYTES * questions.len() + 2);
    writer.open('[');
    for questions in questions.chunks(TOGETHER) {
        let begun = questions.iter().map(|question| match question {
            Ok(question) => Ok(app.engine.begin_request(Origin::Check, question, question.cost(), question.options())?),
            Err(problem) => Err(problem.clone()),
        });
        // Their questions are put in their order, and waited for at once.
        let coming: Vec<Coming<Result<Decision, Problem>>> = begun.map(coming).collect();
        for (question, decided) in questions.iter().zip(all(coming).await) {
            match (question, decided) {
                (Ok(question), Ok(decision)) => {
                    watch.decided(app, question, &decision);
                    answer::write(&mut writer, &decision, app.engine.now_ns(), question.profile(app));
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

fn coming(begun: Result<Begun, Problem>) -> Coming<Result<Decision, Problem>> {
    Box::pin(async move { Ok(begun?.decide().await) })
}
