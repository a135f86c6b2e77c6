//! Who shares the store: every instance says from time to time that it lives.

use std::sync::LazyLock;
use std::time::Duration;

use super::resp::{Command, Value};
use super::store::Inner;
use super::topology::Calls;
use crate::store::StoreError;

/// After so much silence an instance is taken for dead. It should be heard several times in between.
const SILENCE: Duration = Duration::from_secs(5);

const TEXT: &str = include_str!("../../lua/heartbeat.lua");
static HASH: LazyLock<String> = LazyLock::new(|| sha1_smol::Sha1::from(TEXT).hexdigest());

/// One heartbeat.
struct Beat {
    key: Vec<u8>,
    instance: u128,
}

impl Calls for Beat {
    fn by_hash(&self) -> Command {
        self.command(b"EVALSHA", HASH.as_bytes())
    }

    fn by_text(&self) -> Command {
        self.command(b"EVAL", TEXT.as_bytes())
    }
}

impl Beat {
    fn command(&self, name: &[u8], script: &[u8]) -> Command {
        let silence = SILENCE.as_millis().to_string();
        Command::new(&[name, script, b"1", &self.key, &self.instance.to_be_bytes(), silence.as_bytes()])
    }
}

/// Says that an instance lives; answers with the ids of all that do.
pub(super) async fn beat(inner: &Inner, instance: u128) -> Result<Vec<u128>, StoreError> {
    const TAG: &[u8] = b"instances";
    let key = [inner.prefix(), b"{", TAG, b"}"].concat();
    let value = inner.topology().call(inner.topology().slot_of(TAG), &Beat { key, instance }).await?;
    if let Some(error) = value.store_error() {
        return Err(error);
    }
    read(&value).map(|(now_us, alive)| {
        inner.observe(now_us.saturating_mul(1_000));
        alive
    })
}

fn read(value: &Value) -> Result<(u64, Vec<u128>), StoreError> {
    let nonsense = || StoreError::protocol("a heartbeat was not answered by a list of instances");
    let (now, alive) = value.items().and_then(<[Value]>::split_first).ok_or_else(nonsense)?;
    let now =
        now.text().and_then(|text| std::str::from_utf8(text).ok()).and_then(|text| text.parse().ok()).ok_or_else(nonsense)?;
    let id = |value: &Value| value.text()?.try_into().ok().map(u128::from_be_bytes);
    // Whoever else writes there does not count.
    Ok((now, alive.iter().filter_map(id).collect()))
}
