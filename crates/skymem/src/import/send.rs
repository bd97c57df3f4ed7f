//! Sends turns to a server in batches, patiently.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::{ImportedTurn, Problem};
use crate::client::{CallError, Client};
use crate::output::text_at;

/// Sends to one server what comes from one file.
pub(crate) struct Sender {
    client: Client,
    source: String,
    patience: Duration,
}

/// What became of turns that were sent.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct SentSoFar {
    /// Written down now.
    pub(crate) recorded: u64,
    /// Written down by an earlier run.
    pub(crate) already: u64,
    /// Other words than those that are kept under the same id; the first ones stay.
    pub(crate) differing: u64,
    /// Purged for good earlier, or of a session that memory leaves alone.
    pub(crate) not_kept: u64,
    /// Secrets in what was recorded, by kind.
    pub(crate) secrets: BTreeMap<String, u64>,
    /// What became of them: `redact`, `seal` or `allow`; empty when there was none.
    pub(crate) secret_policy: String,
    /// Refused by the server.
    pub(crate) refused: Vec<Problem>,
}

impl SentSoFar {
    /// Adds what became of further turns.
    pub(crate) fn add(&mut self, other: SentSoFar) {
        self.recorded += other.recorded;
        self.already += other.already;
        self.differing += other.differing;
        self.not_kept += other.not_kept;
        for (kind, count) in other.secrets {
            *self.secrets.entry(kind).or_default() += count;
        }
        if !other.secret_policy.is_empty() {
            self.secret_policy = other.secret_policy;
        }
        self.refused.extend(other.refused);
    }
}

impl Sender {
    /// Sends as `source`; gives up when nothing gets through for `patience`.
    pub(crate) fn new(client: Client, source: String, patience: Duration) -> Self {
        Self { client, source, patience }
    }

    /// Has `turns` written down. After an error the same turns can be sent again: none is written twice.
    pub(crate) async fn send(&self, turns: &[ImportedTurn]) -> Result<SentSoFar> {
        let mut sent = SentSoFar::default();
        // Halves of what was too much or refused as a whole, the earlier half on top.
        let mut waiting = vec![turns];
        while let Some(batch) = waiting.pop() {
            match self.send_patiently(batch).await? {
                Ok(part) => sent.add(part),
                Err(reason) => match batch {
                    [] => {}
                    [only] => sent.refused.push(Problem { place: only.place, reason }),
                    _ => {
                        let (first, second) = batch.split_at(batch.len() / 2);
                        waiting.push(second);
                        waiting.push(first);
                    }
                },
            }
        }
        Ok(sent)
    }

    /// The inner error is the server's no to the batch as it is.
    async fn send_patiently(&self, batch: &[ImportedTurn]) -> Result<Result<SentSoFar, String>> {
        let turns: Vec<WireTurn<'_>> = batch.iter().map(|turn| WireTurn::of(turn, &self.source)).collect();
        let body = json!({ "turns": turns });
        let answer = patiently(self.patience, async || self.client.post(&["v1", "turns"], &body).await).await?;
        answer.map_or_else(|refusal| Ok(Err(refusal)), |answer| read_answer(&answer, batch).map(Ok))
    }
}

/// What `call` brings, however often it has to be tried, until nothing gets through for `patience`. The inner error is
/// the server's no to what is sent as it is.
pub(crate) async fn patiently(
    patience: Duration,
    call: impl AsyncFn() -> Result<Value, CallError>,
) -> Result<Result<Value, String>> {
    let began = Instant::now();
    let mut pause = FIRST_PAUSE;
    loop {
        let error = match call().await {
            Ok(answer) => return Ok(Ok(answer)),
            Err(error) => error,
        };
        if let CallError::Refused(refusal) = &error
            && matches!(refusal.status.as_u16(), 400 | 413 | 422)
        {
            return Ok(Err(refusal.to_string()));
        }
        if !error.may_pass() {
            return Err(error.into());
        }
        if began.elapsed() >= patience {
            let waited = patience.as_secs();
            return Err(error).with_context(|| format!("nothing got through for {waited} seconds"));
        }
        let asked = match &error {
            CallError::Refused(refusal) => refusal.retry_after,
            CallError::NoServer { .. } | CallError::Lost { .. } => None,
        };
        sleep(asked.unwrap_or(pause).min(LONGEST_PAUSE)).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

fn read_answer(answer: &Value, batch: &[ImportedTurn]) -> Result<SentSoFar> {
    let count = |key: &str| answer.get(key).and_then(Value::as_u64);
    let (Some(recorded), Some(already)) = (count("recorded"), count("already")) else {
        bail!("the server's answer is not one to POST /v1/turns: is it a skymem server of this version?");
    };
    let refused = answer.get("refused").and_then(Value::as_array).into_iter().flatten();
    let refused = refused.filter_map(|one| {
        let index = usize::try_from(one.get("index")?.as_u64()?).ok()?;
        let reason = one.get("reason").and_then(Value::as_str).unwrap_or("refused");
        let reason = match one.get("field").and_then(Value::as_str) {
            Some(field) if !field.is_empty() => format!("{field} {reason}"),
            _ => reason.to_owned(),
        };
        Some(Problem { place: batch.get(index)?.place, reason })
    });
    let (differing, not_kept) = (count("differing").unwrap_or(0), count("not_kept").unwrap_or(0));
    let secrets = answer.pointer("/secrets/found").and_then(Value::as_object).into_iter().flatten();
    let secrets = secrets.filter_map(|(kind, count)| Some((kind.clone(), count.as_u64()?))).collect();
    let secret_policy = text_at(answer, "/secrets/policy").to_owned();
    Ok(SentSoFar { recorded, already, differing, not_kept, secrets, secret_policy, refused: refused.collect() })
}

#[derive(Serialize)]
struct WireTurn<'a> {
    session: &'a str,
    role: &'a str,
    content: &'a Value,
    client_id: &'a str,
    source: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    speaker: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    occurred_at: Option<DateTime<Utc>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    collection: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'a str>,
}

impl<'a> WireTurn<'a> {
    fn of(turn: &'a ImportedTurn, source: &'a str) -> Self {
        Self {
            session: &turn.session,
            role: turn.role.as_str(),
            content: &turn.content,
            client_id: &turn.client_id,
            source,
            speaker: turn.speaker.as_deref(),
            occurred_at: turn.occurred_at,
            collection: turn.collection.as_deref(),
            title: turn.title.as_deref(),
        }
    }
}

/// Gathers turns until there are enough for one request.
#[derive(Default)]
pub(crate) struct Batcher {
    turns: Vec<ImportedTurn>,
    bytes: usize,
}

impl Batcher {
    /// Adds a turn; answers whether the batch is full.
    pub(crate) fn add(&mut self, turn: ImportedTurn) -> bool {
        // JSON writes quotes and line ends with one character more; this is near enough.
        self.bytes += match &turn.content {
            Value::String(text) => text.len(),
            parts => parts.to_string().len(),
        };
        self.turns.push(turn);
        self.turns.len() >= MOST_TURNS || self.bytes >= MOST_BYTES
    }

    /// What was gathered; the next batch begins.
    pub(crate) fn take(&mut self) -> Vec<ImportedTurn> {
        self.bytes = 0;
        std::mem::take(&mut self.turns)
    }
}

const MOST_TURNS: usize = 200;
const MOST_BYTES: usize = 2 << 20;

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::TcpListener;

    use skymem_core::Role;

    use super::*;
    use crate::import::Place;

    fn turn(line: u64) -> ImportedTurn {
        ImportedTurn {
            session: "s".into(),
            title: None,
            collection: None,
            role: Role::User,
            speaker: None,
            content: format!("turn {line}").into(),
            occurred_at: None,
            client_id: line.to_string(),
            place: Place::Line(line),
        }
    }

    /// A server that gives `answers` in order, each to one request, and then goes away.
    fn scripted(answers: Vec<(&'static str, Value)>) -> (String, std::thread::JoinHandle<Vec<Value>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            let mut seen = Vec::new();
            for (status, answer) in answers {
                let (mut stream, _) = listener.accept().unwrap();
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                let mut length = 0;
                loop {
                    let mut line = String::new();
                    reader.read_line(&mut line).unwrap();
                    if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                        length = value.trim().parse().unwrap();
                    }
                    if line.trim().is_empty() {
                        break;
                    }
                }
                let mut body = vec![0; length];
                reader.read_exact(&mut body).unwrap();
                seen.push(serde_json::from_slice(&body).unwrap());
                let text = answer.to_string();
                write!(
                    stream,
                    "HTTP/1.1 {status}\r\ncontent-type: application/json\r\nretry-after: 0\r\nconnection: close\r\n\
                     content-length: {}\r\n\r\n{text}",
                    text.len()
                )
                .unwrap();
            }
            seen
        });
        (url, server)
    }

    fn sender(url: &str) -> Sender {
        crate::use_ring();
        Sender::new(Client::new(url, Some("k".into())).unwrap(), "import:x".into(), Duration::from_secs(60))
    }

    #[tokio::test]
    async fn what_passes_is_tried_again_and_nothing_is_lost() {
        let (url, server) = scripted(vec![
            ("503 Service Unavailable", json!({})),
            ("429 Too Many Requests", json!({})),
            (
                "200 OK",
                json!({"recorded": 1, "already": 1, "not_kept": 0, "refused": [],
                              "secrets": {"policy": "redact", "found": {"card": 2}}}),
            ),
        ]);

        let sent = sender(&url).send(&[turn(1), turn(2)]).await.unwrap();

        assert_eq!((sent.recorded, sent.already), (1, 1));
        assert_eq!((sent.secrets.get("card"), sent.secret_policy.as_str()), (Some(&2), "redact"));
        let seen = server.join().unwrap();
        assert_eq!(seen[0], seen[2]);
        assert_eq!(seen[0]["turns"][1]["client_id"], "2");
    }

    #[tokio::test]
    async fn a_batch_refused_as_a_whole_is_halved_until_the_bad_turn_is_alone() {
        let bad = ("413 Payload Too Large", json!({"detail": "too large"}));
        let good = ("200 OK", json!({"recorded": 1, "already": 0}));
        let (url, server) = scripted(vec![bad.clone(), good, bad]);

        let sent = sender(&url).send(&[turn(1), turn(2)]).await.unwrap();

        assert_eq!(sent.recorded, 1);
        assert_eq!(sent.refused, [Problem { place: Place::Line(2), reason: "too large".into() }]);
        server.join().unwrap();
    }

    #[tokio::test]
    async fn a_turn_refused_among_good_ones_is_named_by_its_line() {
        let refused = json!([{"index": 1, "field": "content", "reason": "must not be blank"}]);
        let (url, server) =
            scripted(vec![("207 Multi-Status", json!({"recorded": 1, "already": 0, "refused": refused}))]);

        let sent = sender(&url).send(&[turn(7), turn(9)]).await.unwrap();

        assert_eq!(sent.refused, [Problem { place: Place::Line(9), reason: "content must not be blank".into() }]);
        server.join().unwrap();
    }

    #[tokio::test]
    async fn a_wrong_key_is_not_tried_again() {
        let (url, server) = scripted(vec![("401 Unauthorized", json!({}))]);

        let error = sender(&url).send(&[turn(1)]).await.unwrap_err();

        assert!(error.to_string().contains("does not know this key"), "{error}");
        server.join().unwrap();
    }

    #[test]
    fn a_batch_is_full_by_number_or_by_size() {
        let mut batcher = Batcher::default();
        assert!((1..MOST_TURNS as u64).all(|line| !batcher.add(turn(line))));
        assert!(batcher.add(turn(0)));
        assert_eq!(batcher.take().len(), MOST_TURNS);

        let mut large = turn(1);
        large.content = "x".repeat(MOST_BYTES).into();
        assert!(batcher.add(large));
    }
}
