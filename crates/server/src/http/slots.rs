//! Release, renew, reset: what is asked of a request's counters by naming the request again.

use bytes::Bytes;
use tidegate_engine::engine::Done;
use tidegate_store::store::StoreError;

use super::check::{Kind, read};
use super::problem::Problem;
use super::write::Writer;
use crate::app::App;

/// Answers a question by yes or no.
pub(super) async fn ask(app: &App, kind: Kind, body: &[u8]) -> Result<Bytes, Problem> {
    let (counters, lease) = {
        let question = read(kind, body)?;
        (app.engine.counters_of(&question)?, question.options().lease)
    };
    let (name, done) = match (kind, lease) {
        (Kind::Release, Some(lease)) => ("released", app.engine.release_counters(&counters, lease).await),
        (Kind::Renew, Some(lease)) => ("renewed", app.engine.renew_counters(&counters, lease).await),
        _ => ("reset", app.engine.reset_counters(&counters).await),
    };
    Ok(written(name, &done))
}

fn written(name: &str, Done { is_done, degraded }: &Done) -> Bytes {
    let mut writer = Writer::with_capacity(64);
    writer.open('{');
    writer.member(name).flag(*is_done);
    writer.member("degraded").flag(degraded.is_some());
    writer.member("reason").optional_text(degraded.as_ref().map(StoreError::kind));
    writer.close('}');
    writer.into_bytes()
}
