//! A server that answers as scripted, over plain sockets: it can also break off, hang and talk nonsense.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;

/// Answers each request with the next answer of its script, the last one for ever; keeps what it was asked.
pub(crate) struct Server {
    pub(crate) url: String,
    pub(crate) heard: Arc<Mutex<Vec<Heard>>>,
}

/// A request.
pub(crate) struct Heard {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) authorization: Option<String>,
    pub(crate) body: Value,
    /// Which connection it came over, counted from 0.
    pub(crate) connection: usize,
}

/// What is answered to a request.
#[derive(Clone)]
pub(crate) enum Answer {
    Json(u16, Value),
    Text(u16, String),
    /// Made from the body of the request.
    Made(fn(&Value) -> Value),
    /// The connection stays open for the next request.
    KeepsAlive(Value),
    /// 429 that asks to come back at once.
    Busy,
    /// The beginning of an answer; then it hangs up.
    Half(Value),
    /// Hangs up without a word.
    Nothing,
    /// Takes longer than anyone waits.
    Slow,
}

impl Answer {
    pub(crate) fn text(status: u16, text: &str) -> Self {
        Self::Text(status, text.to_owned())
    }
}

impl Server {
    pub(crate) fn start(script: Vec<Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let heard = Arc::new(Mutex::new(Vec::new()));
        let script = Arc::new(Mutex::new(VecDeque::from(script)));
        let ears = heard.clone();
        // It ends with the test's process.
        std::thread::spawn(move || {
            for (connection, stream) in listener.incoming().enumerate() {
                let (script, ears) = (script.clone(), ears.clone());
                std::thread::spawn(move || serve(stream.unwrap(), connection, &script, &ears));
            }
        });
        Self { url, heard }
    }

    pub(crate) fn times_asked(&self) -> usize {
        self.heard.lock().unwrap().len()
    }
}

/// An address where nobody listens.
pub(crate) fn nobody() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

fn serve(mut stream: TcpStream, connection: usize, script: &Mutex<VecDeque<Answer>>, heard: &Mutex<Vec<Heard>>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    while let Some(request) = read(&mut reader, connection) {
        let answer = {
            let mut script = script.lock().unwrap();
            if script.len() > 1 { script.pop_front().unwrap() } else { script[0].clone() }
        };
        let body = request.body.clone();
        heard.lock().unwrap().push(request);
        if !say(&mut stream, &answer, &body) {
            return;
        }
    }
}

fn read(reader: &mut impl BufRead, connection: usize) -> Option<Heard> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return None;
        }
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let header = |name: &str| {
        lines
            .iter()
            .find_map(|line| line.split_once(": ").filter(|(key, _)| key.eq_ignore_ascii_case(name)))
            .map(|it| it.1)
    };
    let mut body = vec![0; header("content-length").map_or(0, |length| length.parse().unwrap())];
    reader.read_exact(&mut body).unwrap();
    let mut first = lines[0].split(' ').map(str::to_owned);
    Some(Heard {
        method: first.next().unwrap(),
        path: first.next().unwrap(),
        authorization: header("authorization").map(str::to_owned),
        body: serde_json::from_slice(&body).unwrap_or_default(),
        connection,
    })
}

/// Answers; whether the connection stays open.
fn say(stream: &mut TcpStream, answer: &Answer, body: &Value) -> bool {
    let (status, extra, text) = match answer {
        Answer::Json(status, json) => (*status, "connection: close\r\n", json.to_string()),
        Answer::Text(status, text) => (*status, "connection: close\r\n", text.clone()),
        Answer::Made(make) => (200, "connection: close\r\n", make(body).to_string()),
        Answer::KeepsAlive(json) => (200, "", json.to_string()),
        Answer::Busy => (429, "connection: close\r\nretry-after: 0\r\n", String::new()),
        Answer::Half(json) => {
            let text = json.to_string();
            let half = &text[..text.len() / 2];
            let _ = write!(stream, "HTTP/1.1 200 X\r\ncontent-length: {}\r\n\r\n{half}", text.len());
            return false;
        }
        Answer::Nothing => return false,
        Answer::Slow => {
            std::thread::sleep(Duration::from_secs(60));
            return false;
        }
    };
    let length = text.len();
    let _ = write!(stream, "HTTP/1.1 {status} X\r\ncontent-length: {length}\r\n{extra}\r\n{text}");
    matches!(answer, Answer::KeepsAlive(_))
}
