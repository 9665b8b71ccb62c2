//! Where the log goes: to standard error, without secrets.
//!
//! *Invariant:* a message is written at once and whole, so no secret is cut by the way it is written.

use std::io::{self, Stderr, Write, stderr};

use toolgate_model::redact::Redactor;
use tracing_subscriber::fmt::MakeWriter;

/// Takes secrets out of what is logged.
#[derive(Clone, Debug, Default)]
pub(crate) struct LogWriter(Redactor);

impl LogWriter {
    pub(super) fn new(redactor: Redactor) -> Self {
        Self(redactor)
    }
}

/// One message on its way.
#[derive(Debug)]
pub(crate) struct Message<'a> {
    redactor: &'a Redactor,
    to: Stderr,
}

impl<'a> MakeWriter<'a> for LogWriter {
    type Writer = Message<'a>;

    fn make_writer(&'a self) -> Self::Writer {
        Message {
            redactor: &self.0,
            to: stderr(),
        }
    }
}

impl Write for Message<'_> {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.to.write_all(&self.redactor.bytes(text))?;
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}
