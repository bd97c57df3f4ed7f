//! Requests and answers as bytes on a connection.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{Heard, PATIENCE};

/// No request of a test is larger.
const LARGEST: usize = 256 << 20;

/// An answer, ready to be sent.
#[derive(Debug)]
pub(super) struct Rendered {
    /// Where the answer waits before it begins.
    pub(super) before: Option<super::Gate>,
    /// The status line and the headers, with the empty line after them; nothing when the answer is no HTTP.
    pub(super) head: Vec<u8>,
    /// Whether every piece is a chunk of HTTP.
    pub(super) chunked: bool,
    pub(super) steps: Vec<Step>,
}

/// What is done next in an answer.
#[derive(Debug, Clone)]
pub(super) enum Step {
    /// Bytes of the body, sent at once.
    Send(Vec<u8>),
    /// Nothing is sent until the gate opens.
    Wait(super::Gate),
    /// The connection ends, in order.
    Close,
    /// The connection breaks; what the other side has not read yet may be lost.
    Reset,
}

/// What comes after an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum After {
    /// Another request on the same connection.
    Another,
    /// Nothing: the answer ended the connection.
    End,
    /// Nothing: the caller did not wait.
    Abandoned,
}

pub(super) async fn send(stream: &mut TcpStream, answer: Rendered) -> After {
    if let Some(gate) = &answer.before
        && !waits(stream, gate).await
    {
        return After::Abandoned;
    }
    if stream.write_all(&answer.head).await.is_err() {
        return After::Abandoned;
    }
    for step in answer.steps {
        let sent = match step {
            Step::Send(bytes) if bytes.is_empty() => true,
            Step::Send(bytes) if answer.chunked => stream.write_all(&as_chunk(&bytes)).await.is_ok(),
            Step::Send(bytes) => stream.write_all(&bytes).await.is_ok(),
            Step::Wait(gate) => waits(stream, &gate).await,
            Step::Close => return After::End,
            Step::Reset => {
                let _ = stream.set_zero_linger();
                return After::End;
            }
        };
        if !sent {
            return After::Abandoned;
        }
    }
    if answer.chunked && stream.write_all(b"0\r\n\r\n").await.is_err() {
        return After::Abandoned;
    }
    After::Another
}

fn as_chunk(bytes: &[u8]) -> Vec<u8> {
    [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}

/// Whether the caller is still there when the gate opens.
async fn waits(stream: &TcpStream, gate: &super::Gate) -> bool {
    tokio::select! {
        () = gate.pass() => true,
        () = goes_away(stream) => false,
    }
}

/// Ends when the other side has closed the connection; never when it has sent more before.
async fn goes_away(stream: &TcpStream) {
    if let Ok(1..) = stream.peek(&mut [0]).await {
        std::future::pending().await
    }
}

/// The next request; `None` when there is none any more. `unread` is what came after the one before.
///
/// # Errors
///
/// When it is no request.
pub(super) async fn read(stream: &mut TcpStream, unread: &mut Vec<u8>) -> Result<Option<Heard>, String> {
    let (mut heard, length) = loop {
        if let Some(head) = read_head(unread)? {
            break head;
        }
        if !read_more(stream, unread).await? {
            return if unread.is_empty() { Ok(None) } else { Err("the request stops in its headers".to_owned()) };
        }
    };
    if heard.header("expect").is_some_and(|expected| expected.eq_ignore_ascii_case("100-continue")) {
        let _ = stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await;
    }
    match length {
        Length::Known(length) => {
            while unread.len() < length {
                must_read_more(stream, unread).await?;
            }
            heard.body = unread.drain(..length).collect();
        }
        Length::Chunked => heard.body = read_chunks(stream, unread).await?,
    }
    Ok(Some(heard))
}

/// How long a body is.
enum Length {
    Known(usize),
    Chunked,
}

/// Takes a whole head off `unread`; `None` when it is not all there.
fn read_head(unread: &mut Vec<u8>) -> Result<Option<(Heard, Length)>, String> {
    let mut headers = [httparse::EMPTY_HEADER; 128];
    let mut request = httparse::Request::new(&mut headers);
    let size = match request.parse(unread).map_err(|error| format!("no HTTP request: {error}"))? {
        httparse::Status::Complete(size) => size,
        httparse::Status::Partial => return Ok(None),
    };
    let header = |header: &httparse::Header<'_>| {
        (header.name.to_ascii_lowercase(), String::from_utf8_lossy(header.value).into_owned())
    };
    let heard = Heard {
        method: request.method.unwrap_or_default().to_owned(),
        path: request.path.unwrap_or_default().to_owned(),
        headers: request.headers.iter().map(header).collect(),
        body: Vec::new(),
    };
    unread.drain(..size);
    let length = match (heard.header("transfer-encoding"), heard.header("content-length")) {
        (Some(_), _) => Length::Chunked,
        (None, Some(length)) => Length::Known(length.parse().map_err(|_| format!("no length: {length:?}"))?),
        (None, None) => Length::Known(0),
    };
    Ok(Some((heard, length)))
}

/// Takes the chunks of a body off the connection.
async fn read_chunks(stream: &mut TcpStream, unread: &mut Vec<u8>) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    loop {
        let parsed = httparse::parse_chunk_size(unread).map_err(|_| "no size of a chunk".to_owned())?;
        let httparse::Status::Complete((start, size)) = parsed else {
            must_read_more(stream, unread).await?;
            continue;
        };
        let size = usize::try_from(size).map_err(|_| "the chunk is too large".to_owned())?;
        let end = start.saturating_add(size);
        // A chunk ends with an empty line, and so does a body without trailers.
        while unread.len() < end.saturating_add(2) {
            must_read_more(stream, unread).await?;
        }
        body.extend_from_slice(&unread[start..end]);
        unread.drain(..end + 2);
        if size == 0 {
            return Ok(body);
        }
    }
}

async fn must_read_more(stream: &mut TcpStream, unread: &mut Vec<u8>) -> Result<(), String> {
    if read_more(stream, unread).await? { Ok(()) } else { Err("the request stops in its body".to_owned()) }
}

/// Whether there was more.
async fn read_more(stream: &mut TcpStream, unread: &mut Vec<u8>) -> Result<bool, String> {
    if unread.len() > LARGEST {
        return Err("the request is too large".to_owned());
    }
    let mut bytes = vec![0; 64 << 10];
    let count = stream.read(&mut bytes).await.map_err(|error| error.to_string())?;
    unread.extend_from_slice(&bytes[..count]);
    Ok(count > 0)
}

/// A client of HTTP that goes straight to where it is told.
///
/// # Panics
///
/// When this machine has none.
#[must_use]
pub fn plain_client() -> reqwest::Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().build().expect("a client can be made")
}

/// What a client got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivered {
    /// The status code.
    pub status: u16,
    /// In the order they came, names in lower case; a value that is no text is lossy.
    pub headers: Vec<(String, String)>,
    /// Every byte of the body that came.
    pub body: Vec<u8>,
    /// Whether the body came to its end.
    pub whole: bool,
}

impl Delivered {
    /// What comes back for a request.
    ///
    /// # Panics
    ///
    /// When nothing does.
    pub async fn from(request: reqwest::RequestBuilder) -> Self {
        match Self::try_from(request, PATIENCE).await {
            Ok(delivered) => delivered,
            Err(error) => panic!("no answer: {error}"),
        }
    }

    /// What comes back for a request.
    ///
    /// # Errors
    ///
    /// When there is no connection, or no answer before `patience` ends.
    pub async fn try_from(request: reqwest::RequestBuilder, patience: Duration) -> reqwest::Result<Self> {
        let mut response = request.timeout(patience).send().await?;
        let status = response.status().as_u16();
        let header = |(name, value): (&reqwest::header::HeaderName, &reqwest::header::HeaderValue)| {
            (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
        };
        let headers = response.headers().iter().map(header).collect();
        let mut body = Vec::new();
        let whole = loop {
            match response.chunk().await {
                Ok(Some(chunk)) => body.extend_from_slice(&chunk),
                Ok(None) => break true,
                Err(_) => break false,
            }
        };
        Ok(Self { status, headers, body, whole })
    }

    /// The first header of that name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// The body as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON; null when it is none.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}
