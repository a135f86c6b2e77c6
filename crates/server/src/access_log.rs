//! One line for each request that the proxy answered, or whose client went before.
//!
//! | module | holds |
//! | --- | --- |
//! | [`settings`] | where lines go, and how they look |
//! | `entry` | one request, from its head to the end of its response |
//! | `line` | the formats |
//! | `queue` | lines on their way to the thread that writes them |
//! | `file` | where they are written: a file that may be moved away, or standard output |
//!
//! A request never waits for its line: it leaves the line in a bounded queue, and if that is full the line is dropped and counted.
//! A line has nothing that could be a secret: no header that names a client, no body, and a query only if the settings say so.

mod entry;
mod file;
mod line;
mod queue;
pub mod settings;

pub(crate) use entry::{Entry, follow};
pub use settings::AccessLogSettings;

use std::io;
use std::sync::Arc;

use parking_lot::Mutex;

use self::file::Place;
use self::queue::{Queue, Writer};
use self::settings::Format;

/// Where the lines of all requests go.
#[derive(Debug)]
pub struct AccessLog {
    settings: AccessLogSettings,
    queue: Arc<Queue>,
    writer: Mutex<Option<Writer>>,
}

impl AccessLog {
    /// A log that nobody writes yet.
    pub fn new(settings: &AccessLogSettings) -> Self {
        Self { settings: settings.clone(), queue: Arc::default(), writer: Mutex::default() }
    }

    /// Begins to write, on a thread of its own.
    ///
    /// # Errors
    /// The file cannot be written, or there is no thread.
    pub fn open(&self) -> io::Result<()> {
        let place = Place::open(&self.settings.to)?;
        *self.writer.lock() = Some(Writer::start(Arc::clone(&self.queue), place)?);
        Ok(())
    }

    /// Writes what is left, and no more. Somebody who takes no lines is not waited for.
    pub fn close(&self) {
        if let Some(writer) = self.writer.lock().take() {
            writer.stop();
        }
    }

    /// Lines that were written, and lines that were dropped.
    pub fn counts(&self) -> (u64, u64) {
        self.queue.counts()
    }

    fn write(&self, entry: &Entry) {
        let mut line = Vec::with_capacity(512);
        match self.settings.format {
            Format::Json => line::json(&mut line, entry, self.settings.query),
            Format::Common => line::common(&mut line, entry, self.settings.query),
        }
        self.queue.push(&line);
    }
}
