//! What a chat waits longer because it goes through skymem: a model that answers at once, asked directly and through the
//! proxy, in a memory of many exchanges.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::json;
use skymem_models::EmbedderSettings;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::invent;
use crate::latency::fill;
use crate::server::Server;
use crate::times::{Times, table};

/// Questions asked before any is timed.
const WARM_UP: usize = 20;

/// A way to ask.
struct Way {
    name: &'static str,
    /// `X-Memory`; `None` for the model itself.
    mode: Option<&'static str>,
    before: Before,
    words: usize,
}

/// Invented words in a question: as many as make it as long as people's questions, and a long one.
const FEW: usize = 2;
const MANY: usize = 8;

/// What went before a chat that is timed. All that was said earlier has been learned: people take their time.
#[derive(PartialEq)]
enum Before {
    Nothing,
    /// The same words were asked, so that their embedding is known.
    Asked,
    /// That, and then another chat was remembered, which is being learned meanwhile.
    Written,
}

const WAYS: [Way; 8] = [
    Way { name: "the model itself", mode: None, before: Before::Nothing, words: FEW },
    Way { name: "through skymem, memory off", mode: Some("off"), before: Before::Nothing, words: FEW },
    Way { name: "memory written only", mode: Some("write"), before: Before::Nothing, words: FEW },
    Way { name: "memory read, the question's embedding known", mode: Some("read"), before: Before::Asked, words: FEW },
    Way {
        name: "the same, while the last chat is being learned",
        mode: Some("read"),
        before: Before::Written,
        words: FEW,
    },
    Way { name: "memory read", mode: Some("read"), before: Before::Nothing, words: FEW },
    Way { name: "memory read, a long question", mode: Some("read"), before: Before::Nothing, words: MANY },
    Way { name: "memory read and written", mode: Some("readwrite"), before: Before::Nothing, words: FEW },
];

/// Fills a memory with `exchanges`, asks `questions` each way, prints a table.
pub(crate) async fn run(program: &Path, exchanges: usize, questions: usize) -> Result<()> {
    let embedder = skymem_models::open(&EmbedderSettings::default()).await?;
    let folder = tempfile::tempdir()?;
    crate::server::make_passable(folder.path())?;
    let data = folder.path().join("data");
    Server::start(program, &data).await?.stop().await?;
    let user = fill(&data, embedder.as_ref(), exchanges).await?;

    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let model = format!("http://{}/v1", listener.local_addr()?);
    let answering = tokio::spawn(answer_all(listener));
    let server = Server::start_with(program, &data, &[("SKYMEM_PROXY__UPSTREAMS__INSTANT__URL", &model)]).await?;
    server.has_learned(user.name.as_str()).await?;
    sqlx::query("vacuum analyze").execute(&server.database().await?).await?;

    let client = reqwest::Client::builder().no_proxy().build()?;
    let mut waited = vec![Times::default(); WAYS.len()];
    let mut memory = vec![Times::default(); WAYS.len()];
    let mut used = 0;
    for n in 0..WARM_UP + questions {
        // In turn, so that whatever else the machine does touches all alike.
        for (at, (way, (waited, memory))) in WAYS.iter().zip(waited.iter_mut().zip(&mut memory)).enumerate() {
            let question = invent::question_of(n * WAYS.len() + at, exchanges, way.words);
            let ask = async |words: &str, mode: Option<&str>| {
                let url = mode.map_or_else(|| model.clone(), |_| server.url("/v1"));
                let body = json!({ "model": "instant", "messages": [{ "role": "user", "content": words }] });
                let request = client.post(url + "/chat/completions").json(&body);
                let request = match mode {
                    Some(mode) => server.signed(request, user.name.as_str()).header("x-memory", mode),
                    None => request,
                };
                let began = Instant::now();
                let response = request.send().await?;
                let (status, headers) = (response.status(), response.headers().clone());
                response.bytes().await?;
                ensure!(status.is_success(), "{}: {status}", way.name);
                anyhow::Ok((began.elapsed(), headers))
            };
            if way.before != Before::Nothing {
                ask(&question, way.mode).await?;
            }
            server.has_learned(user.name.as_str()).await?;
            if way.before == Before::Written {
                ask(&format!("Note {n}: {question}"), Some("write")).await?;
            }
            let (took, headers) = ask(&question, way.mode).await?;
            let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
            ensure!(header("x-memory-status") != Some("skipped"), "{}: memory was skipped", way.name);
            used += usize::from(header("x-memory-status") == Some("used"));
            if n >= WARM_UP {
                waited.note(took);
                let ms: Option<f64> = header("x-memory-ms").and_then(|ms| ms.parse().ok());
                memory.note(Duration::from_secs_f64(ms.unwrap_or(0.0) / 1_000.0));
            }
        }
    }
    server.stop().await?;
    answering.abort();

    let mut table = table();
    for (way, waited) in WAYS.iter().zip(&waited) {
        table.add_row(waited.row(way.name));
    }
    println!("{exchanges} exchanges of one user; memory added something to {used} chats");
    let tokens = |words| {
        let all = (0..questions).map(|n| embedder.count_tokens(&invent::question_of(n, exchanges, words)));
        all.sum::<usize>() / questions.max(1)
    };
    println!("a question is {} tokens long on average, a long one {}", tokens(FEW), tokens(MANY));
    println!("{table}");
    let direct = waited.first().context("no way")?.quantile_ms(0.5);
    for (way, (waited, memory)) in WAYS.iter().zip(waited.iter().zip(&memory)).skip(1) {
        let added = waited.quantile_ms(0.5) - direct;
        println!("{}: {added:.1} ms added at p50, of which memory says {:.1} ms", way.name, memory.quantile_ms(0.5));
    }
    Ok(())
}

/// Answers every chat at once with the same words.
async fn answer_all(listener: TcpListener) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(async move {
            // A caller that goes away ends its connection alone.
            let _ = answer(stream).await;
        });
    }
}

async fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    const ANSWER: &str =
        r#"{"choices":[{"index":0,"message":{"role":"assistant","content":"Yes."},"finish_reason":"stop"}]}"#;
    stream.set_nodelay(true)?;
    let mut request = Vec::new();
    let mut piece = [0; 16_384];
    loop {
        let read = stream.read(&mut piece).await?;
        if read == 0 {
            return Ok(());
        }
        request.extend_from_slice(piece.get(..read).unwrap_or_default());
        let Some(head) = request.windows(4).position(|end| end == b"\r\n\r\n") else { continue };
        let text = String::from_utf8_lossy(request.get(..head).unwrap_or_default()).to_lowercase();
        let length = text.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok());
        let whole = head + 4 + length.unwrap_or(0);
        if request.len() >= whole {
            request.drain(..whole);
            let length = ANSWER.len();
            let head = format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n");
            stream.write_all((head + ANSWER).as_bytes()).await?;
        }
    }
}
