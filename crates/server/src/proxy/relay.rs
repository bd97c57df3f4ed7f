//! An answer on its way from an upstream to a client: every byte as it comes, with a tee that reads along.
//!
//! Each runs in a task of its own, which outlives the client's connection: what was said is remembered also when nobody
//! waited for its end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use actix_web::HttpResponse;
use actix_web::body::{BodyStream, SizedStream};
use actix_web::http::StatusCode;
use actix_web::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use actix_web::web::Bytes;
use futures_util::stream;
use reqwest::Response;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::timeout;

use super::answer::{Answer, Tee};
use super::openai::{AsItIs, Refusal};
use super::upstream::{self, Outgoing, Upstream};

/// The tasks of all relays, so that a server that stops can wait for them.
#[derive(Debug)]
pub(crate) struct Tasks {
    runtime: tokio::runtime::Handle,
    running: watch::Sender<usize>,
    stop: watch::Sender<bool>,
}

impl Tasks {
    /// Tasks in the runtime of the caller, which outlives the threads that answer requests.
    pub(crate) fn here() -> Self {
        let (running, stop) = (watch::Sender::new(0), watch::Sender::new(false));
        Self { runtime: tokio::runtime::Handle::current(), running, stop }
    }

    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        struct Done(watch::Sender<usize>);
        impl Drop for Done {
            fn drop(&mut self) {
                self.0.send_modify(|running| *running -= 1);
            }
        }
        self.running.send_modify(|running| *running += 1);
        let done = Done(self.running.clone());
        self.runtime.spawn(async move {
            work.await;
            drop(done);
        });
    }

    /// Waits until no task is under way.
    pub(crate) async fn idle(&self) {
        // Fails only when nobody counts any more.
        let _ = self.running.subscribe().wait_for(|running| *running == 0).await;
    }

    /// Asks every relay to end where it is.
    pub(crate) fn stop(&self) {
        self.stop.send_replace(true);
    }

    fn stopped(&self) -> watch::Receiver<bool> {
        self.stop.subscribe()
    }
}

/// How a relay ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The upstream said all.
    Whole,
    /// The upstream broke off, or paused too long.
    Half,
    /// The client went away.
    Hangup,
    /// This server is stopping.
    Stopped,
}

impl End {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Whole => "whole",
            Self::Half => "half",
            Self::Hangup => "hangup",
            Self::Stopped => "stopped",
        }
    }
}

/// Status and headers of an answer, and its bytes as they come.
struct Head {
    status: StatusCode,
    headers: HeaderMap,
    length: Option<u64>,
    bytes: mpsc::Receiver<Result<Bytes, BrokenOff>>,
}

/// The upstream broke off: the client's connection breaks off too.
#[derive(Debug, thiserror::Error)]
#[error("the upstream broke off")]
pub(crate) struct BrokenOff;

/// How long what was passed on may take to be written before the client's connection breaks too.
const UNTIL_WRITTEN: Duration = Duration::from_millis(100);

/// So many pieces wait for a slow client before the upstream has to.
const PIECES_WAITING: usize = 32;

/// Sends `outgoing` and passes the answer on, with `extra` headers. `afterwards` gets what was answered, as far as it
/// got, when it was a success; it runs in the same task.
pub(crate) async fn relay<F: Future<Output = ()> + Send>(
    tasks: &Tasks,
    upstream: &Arc<Upstream>,
    outgoing: Outgoing,
    extra: HeaderMap,
    afterwards: Option<impl FnOnce(Answer, End) -> F + Send + 'static>,
) -> HttpResponse {
    let (begin, begun) = oneshot::channel();
    let upstream = Arc::clone(upstream);
    let name = upstream.name.clone();
    let stopped = tasks.stopped();
    tasks.spawn(async move {
        let Some((answer, end)) = pass_on(&upstream, outgoing, begin, stopped).await else { return };
        metrics::counter!(super::metrics::ANSWERS, "upstream" => upstream.name.clone(), "end" => end.as_str())
            .increment(1);
        if let (Some(answer), Some(afterwards)) = (answer, afterwards) {
            afterwards(answer, end).await;
        }
    });
    let asked = Instant::now();
    match begun.await {
        Ok(Ok(head)) => {
            metrics::histogram!(super::metrics::FIRST_BYTE, "upstream" => name).record(asked.elapsed());
            respond(head, extra)
        }
        Ok(Err(refusal)) => with_headers(refusal.respond(), extra),
        Err(_) => with_headers(Refusal::unreachable("this server is stopping".into()).respond(), extra),
    }
}

/// What was answered, if it was a success, and how it ended; `None` when there was nothing to pass on.
async fn pass_on(
    upstream: &Upstream,
    outgoing: Outgoing,
    mut begin: oneshot::Sender<Result<Head, Refusal>>,
    mut stopped: watch::Receiver<bool>,
) -> Option<(Option<Answer>, End)> {
    let response = tokio::select! {
        response = upstream.send(outgoing) => response,
        () = begin.closed() => return Some((None, End::Hangup)),
        _ = stopped.wait_for(|stop| *stop) => return Some((None, End::Stopped)),
    };
    let response = match response {
        Ok(response) => response,
        Err(refusal) => {
            // A client that is gone by now needs no answer.
            let _ = begin.send(Err(refusal));
            return None;
        }
    };
    let (status, headers) = upstream::to_return(&response);
    let header = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let tee = status
        .is_success()
        .then(|| Tee::of(header(header::CONTENT_TYPE).unwrap_or_default(), header(header::CONTENT_ENCODING)));
    let length = response.content_length();
    let (pieces, bytes) = mpsc::channel(PIECES_WAITING);
    if begin.send(Ok(Head { status, headers, length, bytes })).is_err() {
        return Some((None, End::Hangup));
    }
    let (tee, end) = pump(upstream, response, tee, pieces, stopped).await;
    Some((tee.map(Tee::end), end))
}

async fn pump(
    upstream: &Upstream,
    mut response: Response,
    mut tee: Option<Tee>,
    pieces: mpsc::Sender<Result<Bytes, BrokenOff>>,
    mut stopped: watch::Receiver<bool>,
) -> (Option<Tee>, End) {
    let end = loop {
        let piece = tokio::select! {
            piece = timeout(upstream.idle, response.chunk()) => piece,
            () = pieces.closed() => break End::Hangup,
            _ = stopped.wait_for(|stop| *stop) => break End::Stopped,
        };
        let piece = match piece {
            Ok(Ok(Some(piece))) => piece,
            Ok(Ok(None)) => break End::Whole,
            Ok(Err(error)) => {
                let cause = upstream::innermost(&error);
                tracing::warn!(upstream = %upstream.name, %cause, "An upstream broke off in the middle of an answer");
                break End::Half;
            }
            Err(_) => {
                tracing::warn!(upstream = %upstream.name, "An upstream paused too long in the middle of an answer");
                break End::Half;
            }
        };
        if let Some(tee) = &mut tee {
            tee.read(&piece);
        }
        let sent = tokio::select! {
            sent = pieces.send(Ok(piece)) => sent.is_ok(),
            _ = stopped.wait_for(|stop| *stop) => break End::Stopped,
        };
        if !sent {
            break End::Hangup;
        }
    };
    if matches!(end, End::Half | End::Stopped) {
        // Whoever still listens must not take a half for the whole. There may be no room to say so; then the end of the
        // stream does it for answers whose length is known.
        let _ = timeout(upstream.idle, pieces.send(Err(BrokenOff))).await;
    }
    (tee, end)
}

fn respond(head: Head, extra: HeaderMap) -> HttpResponse {
    let Head { status, headers, length, bytes } = head;
    let is_stream = headers
        .get(header::CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().to_ascii_lowercase().starts_with(b"text/event-stream"));
    let mut response = HttpResponse::build(status);
    for (name, value) in headers {
        response.append_header((name, value));
    }
    // So that nothing on the way compresses it; taken away again when it leaves.
    let response = match response.body(()) {
        plain if plain.headers().contains_key(header::CONTENT_ENCODING) => plain,
        mut plain => {
            plain.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("identity"));
            plain
        }
    };
    let bytes = Box::pin(stream::unfold(bytes, |mut bytes| async move {
        let piece = bytes.recv().await?;
        if piece.is_err() {
            // A connection that breaks takes along what was not written to it yet.
            tokio::time::sleep(UNTIL_WRITTEN).await;
        }
        Some((piece, bytes))
    }));
    let mut response = match length {
        Some(length) => response.set_body(SizedStream::new(length, bytes)).map_into_boxed_body(),
        None => response.set_body(BodyStream::new(bytes)).map_into_boxed_body(),
    };
    if is_stream {
        let no = HeaderValue::from_static("no");
        response.headers_mut().insert(HeaderName::from_static("x-accel-buffering"), no);
    }
    response.extensions_mut().insert(AsItIs);
    with_headers(response, extra)
}

fn with_headers(mut response: HttpResponse, extra: HeaderMap) -> HttpResponse {
    for (name, value) in extra {
        response.headers_mut().insert(name, value);
    }
    response
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn tasks_are_waited_for_also_when_one_of_them_fails() {
        let tasks = Tasks::here();
        let done = Arc::new(AtomicUsize::new(0));
        tasks.idle().await;
        for n in 0..3 {
            let done = Arc::clone(&done);
            tasks.spawn(async move {
                tokio::task::yield_now().await;
                assert!(n != 1, "one of them fails");
                done.fetch_add(1, Ordering::SeqCst);
            });
        }

        tasks.idle().await;

        assert_eq!(done.load(Ordering::SeqCst), 2);
    }
}
