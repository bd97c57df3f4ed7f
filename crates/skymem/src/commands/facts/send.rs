//! Sends statements to a server in batches, patiently.

use std::time::Duration;

use anyhow::{Result, bail};
use serde_json::Value;
use skymem_engine::facts::import::{Stated, write_stated};

use crate::client::Client;
use crate::import::patiently;

/// Sends to one server what comes from one file.
pub(super) struct Sender {
    client: Client,
    /// Session, collection and source, as the server takes them.
    query: Vec<(&'static str, String)>,
    patience: Duration,
}

/// A statement, and the line it comes from.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Line {
    pub(super) number: u64,
    pub(super) stated: Stated,
}

/// What became of statements that were sent.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Sent {
    /// Written down now.
    pub(super) recorded: u64,
    /// Written down by an earlier run.
    pub(super) already: u64,
    /// Purged for good earlier, or of a session that memory leaves alone.
    pub(super) not_kept: u64,
    /// Refused by the server: the line, and why.
    pub(super) refused: Vec<(u64, String)>,
}

impl Sent {
    /// Adds what became of further statements.
    pub(super) fn add(&mut self, other: Sent) {
        self.recorded += other.recorded;
        self.already += other.already;
        self.not_kept += other.not_kept;
        self.refused.extend(other.refused);
    }
}

impl Sender {
    /// Sends with `query`; gives up when nothing gets through for `patience`.
    pub(super) fn new(client: Client, mut query: Vec<(&'static str, String)>, patience: Duration) -> Self {
        query.push(("format", "statements".into()));
        Self { client, query, patience }
    }

    /// Has `lines` written down. After an error the same lines can be sent again: none is written twice.
    pub(super) async fn send(&self, lines: &[Line]) -> Result<Sent> {
        let mut body = Vec::new();
        for line in lines {
            write_stated(&line.stated, &mut body)?;
        }
        let call = async || {
            self.client.upload(&["v1", "facts", "import"], &self.query, "application/x-ndjson", body.clone()).await
        };
        match patiently(self.patience, call).await? {
            Ok(answer) => read_answer(&answer, lines),
            // Every single one was refused; told by the first, which names a line of the batch.
            Err(reason) => Ok(Sent {
                refused: lines.iter().map(|line| (line.number, reason.clone())).collect(),
                ..Sent::default()
            }),
        }
    }
}

fn read_answer(answer: &Value, lines: &[Line]) -> Result<Sent> {
    let count = |key: &str| answer.get(key).and_then(Value::as_u64);
    let (Some(recorded), Some(already)) = (count("recorded"), count("already")) else {
        bail!("the server's answer is not one to POST /v1/facts/import: is it a skymem server of this version?");
    };
    let refused = answer.get("refused").and_then(Value::as_array).into_iter().flatten();
    let refused = refused.filter_map(|one| {
        let place = usize::try_from(one.get("line")?.as_u64()?).ok()?.checked_sub(1)?;
        let reason = one.get("reason").and_then(Value::as_str).unwrap_or("refused");
        Some((lines.get(place)?.number, reason.to_owned()))
    });
    Ok(Sent { recorded, already, not_kept: count("not_kept").unwrap_or(0), refused: refused.collect() })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn line(number: u64) -> Line {
        let kind = json!({ "says": "kind", "name": "Ann", "kind": "person" });
        let statement: skymem_core::facts::Statement = serde_json::from_value(kind).unwrap();
        Line { number, stated: statement.into() }
    }

    #[test]
    fn a_statement_that_is_refused_is_named_by_the_line_of_the_file() {
        let answer = json!({ "recorded": 1, "already": 0, "not_kept": 0,
                             "refused": [{ "line": 2, "reason": "until must be later than `from`" }] });

        let sent = read_answer(&answer, &[line(7), line(9)]).unwrap();

        assert_eq!((sent.recorded, sent.refused), (1, vec![(9, "until must be later than `from`".to_owned())]));
    }

    #[test]
    fn an_answer_of_something_else_is_no_success() {
        assert!(read_answer(&json!({ "ok": true }), &[line(1)]).unwrap_err().to_string().contains("this version"));
    }
}
