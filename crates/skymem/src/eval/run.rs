//! Scripts are played: said, learned, asked, compared.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use reqwest::Method;
use serde_json::{Value, json};
use skymem_core::{ChatModel, ChatRequest, Message, Role};
use tokio::time::{Instant, sleep};

use super::place::Place;
use super::report::{Asked, Came, Expectation, Miss, Played, Report};
use super::script::{Act, Note, Question, Said, Script, Step, Target, Wanted, plain};
use crate::client::{CallError, Client};
use crate::output::{list_at, text_at};

/// How scripts are played.
pub(crate) struct Options<'a> {
    /// Names this run: its throw-away users are called by it.
    pub(crate) run: String,
    /// Layers that are not asked; `window` is one of them here.
    pub(crate) without: Vec<String>,
    /// How long layers may get on with nothing before learning counts as failed.
    pub(crate) patience: Duration,
    /// Whether what was said stays on a server that others use.
    pub(crate) keep: bool,
    /// Answers what scripts want answered; `None` skips those checks.
    pub(crate) chat: Option<&'a dyn ChatModel>,
}

/// Plays every script, each for users of its own, and says what came of it. `progress` is told how many steps are done
/// and which script is played; when `stop` comes to its end, playing does too, as an error, with all put away.
///
/// # Errors
///
/// When the server cannot be reached or refuses what a script needs of it. What a script expects and does not get is no
/// error: the report holds it.
pub(crate) async fn run(
    scripts: &[Script],
    place: &mut Place,
    options: &Options<'_>,
    progress: &mut dyn FnMut(usize, &str),
    stop: impl Future<Output = ()>,
) -> Result<Report> {
    let mut stop = pin!(stop);
    let layers = layers_to_ask(place.client(), &options.without).await?;
    let (mut report, mut done) = (Report::default(), 0);
    for (number, script) in scripts.iter().enumerate() {
        let mut stage = Stage {
            place: &mut *place,
            options,
            layers: &layers,
            prefix: format!("eval-{}-{}", options.run, number + 1),
            users: BTreeMap::new(),
            waiting: Vec::new(),
            files: BTreeSet::new(),
            played: Played::of(script),
        };
        let began = Instant::now();
        let mut step = |steps| progress(done + steps, &script.name);
        let outcome = tokio::select! {
            outcome = stage.play(script, &mut step) => outcome,
            () = &mut stop => Err(anyhow!("stopped before the end")),
        };
        // Whatever came of it, nothing of it stays.
        let cleared = stage.clear().await;
        stage.played.took = began.elapsed();
        report.scripts.push(stage.played);
        outcome.with_context(|| format!("{}: {}", script.file, script.name))?;
        cleared.with_context(|| format!("what {} said cannot be removed again", script.name))?;
        done += script.steps.len();
    }
    Ok(report)
}

/// The layers to name in each question; none names all.
async fn layers_to_ask(client: &Client, without: &[String]) -> Result<Vec<String>> {
    let answer = client.get(&["v1", "layers"], &[]).await?;
    let all: Vec<&str> = list_at(&answer, "layers").iter().map(|layer| text_at(layer, "/name")).collect();
    if let Some(unknown) = without.iter().find(|name| *name != WINDOW && !all.contains(&name.as_str())) {
        bail!("there is no layer {unknown:?} to leave out: there are {} and {WINDOW}", all.join(", "));
    }
    let left: Vec<String> =
        all.iter().filter(|name| !without.iter().any(|out| out == *name)).map(|&name| name.into()).collect();
    match left.len() == all.len() {
        true => Ok(Vec::new()),
        false if left.is_empty() => bail!("no layer is left to ask"),
        false => Ok(left),
    }
}

/// The verbatim exchanges, which are no layer but can be left out like one.
const WINDOW: &str = "window";

/// A script while it is played.
struct Stage<'a> {
    place: &'a mut Place,
    options: &'a Options<'a>,
    layers: &'a [String],
    prefix: String,
    /// The script's users and what they are called on the server.
    users: BTreeMap<String, String>,
    /// Turns that are not sent yet, all of one user.
    waiting: Vec<Said>,
    /// Memory files that were written, by user.
    files: BTreeSet<(String, String)>,
    played: Played,
}

impl Stage<'_> {
    async fn play(&mut self, script: &Script, progress: &mut dyn FnMut(usize)) -> Result<()> {
        for (index, step) in script.steps.iter().enumerate() {
            progress(index);
            if let Err(stopped) = self.step(step).await? {
                self.played.broken = Some(Miss { line: step.line, ..stopped });
                break;
            }
        }
        Ok(())
    }

    /// The inner error ends the script, the outer one the run.
    async fn step(&mut self, step: &Step) -> Result<Result<(), Miss>> {
        if let Act::Say(said) = &step.act {
            if self.waiting.first().is_some_and(|first| first.user != said.user) || self.waiting.len() >= MOST_TURNS {
                self.send().await?;
            }
            self.waiting.push(said.clone());
            return Ok(Ok(()));
        }
        self.send().await?;
        match &step.act {
            Act::Say(_) => {}
            Act::Note(note) => self.note(note).await?,
            Act::Learn => return self.learn().await,
            Act::Restart => {
                if !self.place.restart().await? {
                    self.played
                        .skipped
                        .push(format!("line {}: restart (the server is not ours to restart)", step.line));
                }
            }
            Act::Forget { user, what } => return self.forget(user, what).await,
            Act::File { user, name, text } => self.file(user, name, text).await?,
            Act::Ask(question) => {
                if let Err(miss) = self.learn().await? {
                    return Ok(Err(miss));
                }
                let asked = self.ask(step.line, question).await?;
                self.played.asked.push(asked);
            }
        }
        Ok(Ok(()))
    }

    /// A connection that acts for a user of the script, who is made when they are new.
    async fn acting_for(&mut self, user: &str) -> Result<Client> {
        if let Some(name) = self.users.get(user) {
            return Ok(self.place.client().clone().acting_for(Some(name.clone())));
        }
        let name = format!("{}-{}", self.prefix, self.users.len() + 1);
        self.place
            .client()
            .post(&["v1", "users"], &json!({ "name": name }))
            .await
            .context("scripts are played for throw-away users, whom only an admin's key can make")?;
        self.users.insert(user.to_owned(), name.clone());
        Ok(self.place.client().clone().acting_for(Some(name)))
    }

    /// Sends the turns that wait.
    async fn send(&mut self) -> Result<()> {
        let said = std::mem::take(&mut self.waiting);
        let Some(first) = said.first() else { return Ok(()) };
        let client = self.acting_for(&first.user).await?;
        let turns: Vec<Value> = said.iter().map(turn).collect();
        let answer = client.post(&["v1", "turns"], &json!({ "turns": turns })).await?;
        match list_at(&answer, "refused").first() {
            Some(refused) => {
                bail!("the server refuses a turn: {} {}", text_at(refused, "/field"), text_at(refused, "/reason"))
            }
            None => Ok(()),
        }
    }

    async fn note(&mut self, note: &Note) -> Result<()> {
        let body = json!({ "text": note.text, "occurred_at": note.at });
        self.acting_for(&note.user).await?.post(&["v1", "remember"], &body).await?;
        Ok(())
    }

    /// Waits until every layer has learned what was said.
    async fn learn(&mut self) -> Result<Result<(), Miss>> {
        for name in self.users.values() {
            let client = self.place.client().clone().acting_for(Some(name.clone()));
            let (mut least, mut moved, mut pause) = (u64::MAX, Instant::now(), Duration::from_millis(10));
            loop {
                let stats = client.get(&["v1", "stats"], &[]).await?;
                let left = behind(&stats);
                if left < least {
                    (least, moved) = (left, Instant::now());
                }
                if left == 0 {
                    break;
                }
                if moved.elapsed() > self.options.patience {
                    let text = format!("{left} exchanges after {} s", self.options.patience.as_secs());
                    return Ok(Err(Miss::of(Expectation::Learned, text)));
                }
                sleep(pause).await;
                pause = (pause * 2).min(Duration::from_millis(250));
            }
        }
        Ok(Ok(()))
    }

    async fn forget(&mut self, user: &str, what: &Target) -> Result<Result<(), Miss>> {
        // What was never learned cannot show that it is forgotten.
        if let Err(miss) = self.learn().await? {
            return Ok(Err(miss));
        }
        let client = self.acting_for(user).await?;
        let (body, shown) = match what {
            Target::Session(session) => (json!({ "session": session }), format!("session {session}")),
            Target::Saying(text) => {
                let ids = exchanges(&client, |exchange| {
                    list_at(exchange, "turns").iter().any(|turn| plain(text_at(turn, "/text")).contains(&plain(text)))
                })
                .await?;
                if ids.is_empty() {
                    return Ok(Err(Miss::of(Expectation::Forgets, text)));
                }
                (json!({ "ids": ids }), text.clone())
            }
        };
        let answer = client.post(&["v1", "forget"], &body).await?;
        match answer.get("count").and_then(Value::as_u64).unwrap_or(0) {
            0 => Ok(Err(Miss::of(Expectation::Forgets, shown))),
            _ => Ok(Ok(())),
        }
    }

    async fn file(&mut self, user: &str, name: &str, text: &str) -> Result<()> {
        let client = self.acting_for(user).await?;
        write_file(&client, name, text).await?;
        self.files.insert((user.to_owned(), name.to_owned()));
        Ok(())
    }

    async fn ask(&mut self, line: usize, question: &Question) -> Result<Asked> {
        let client = self.acting_for(&question.user).await?;
        let window = if self.options.without.iter().any(|name| name == WINDOW) { Some(0) } else { question.window };
        let mut body = json!({ "question": question.text, "asked_at": question.at, "layers": self.layers });
        if let Some(body) = body.as_object_mut() {
            body.extend(question.session.as_ref().map(|session| ("session".into(), session.clone().into())));
            body.extend(window.map(|window| ("window".into(), window.into())));
        }
        let began = Instant::now();
        let context = client.post(&["v1", "context"], &body).await?;
        let took = began.elapsed();
        let mut asked = Asked { took, ..look(line, question, &context) };
        if let Some(rank) = question.rank {
            if let Some(body) = body.as_object_mut() {
                body.remove("window");
                let question = body.remove("question").unwrap_or_default();
                body.insert("query".into(), question);
                body.insert("top_k".into(), 20.into());
            }
            let recalled = client.post(&["v1", "recall"], &body).await?;
            asked.misses.extend(late(question, rank, &recalled));
        }
        self.answers(question, &context, &mut asked).await;
        Ok(asked)
    }

    /// What a model answers from the context, when a script wants to know and there is one.
    async fn answers(&self, question: &Question, context: &Value, asked: &mut Asked) {
        let checks = question.answer.len() + question.answer_lacks.len() + usize::from(question.judge.is_some());
        if checks == 0 {
            return;
        }
        let Some(model) = self.options.chat else {
            asked.skipped.push(format!("{checks} of the answer (no chat model)"));
            return;
        };
        let messages = serde_json::from_value(context.get("messages").cloned().unwrap_or_default()).unwrap_or_default();
        let request = ChatRequest { purpose: "eval", messages, temperature: 0.0, most_tokens: 1_024, schema: None };
        let answer = match model.answer(&request).await {
            Ok(answer) => answer.text,
            Err(error) => return asked.misses.push(Miss::of(Expectation::Answers, error.to_string())),
        };
        let said = plain(&answer);
        let missing = question.answer.iter().filter(|wanted| !wanted.is_in(&said));
        let unwanted = question.answer_lacks.iter().filter(|wanted| wanted.is_in(&said));
        asked.misses.extend(missing.map(|wanted| Miss::of(Expectation::Says, wanted)));
        asked.misses.extend(unwanted.map(|wanted| Miss::of(Expectation::DoesNotSay, wanted)));
        if let Some(rule) = &question.judge {
            asked.misses.extend(judge(model, &question.text, &answer, rule).await);
        }
        asked.answer = Some(answer);
    }

    /// Removes what the script left on a server that outlives it.
    async fn clear(&mut self) -> Result<()> {
        if self.options.keep || !self.place.outlives() {
            return Ok(());
        }
        for (user, name) in std::mem::take(&mut self.users) {
            let client = self.place.client().clone().acting_for(Some(name));
            let ids = exchanges(&client, |_| true).await?;
            for ids in ids.chunks(MOST_IDS) {
                client.post(&["v1", "forget"], &json!({ "ids": ids })).await?;
            }
            client.post(&["v1", "purge"], &json!({ "all": true })).await?;
            for (_, file) in self.files.iter().filter(|(of, _)| *of == user) {
                write_file(&client, file, "").await?;
            }
        }
        Ok(())
    }
}

/// So many turns go into one request.
const MOST_TURNS: usize = 1_000;
/// So many ids go into one request.
const MOST_IDS: usize = 10_000;

fn turn(said: &Said) -> Value {
    let mut turn = json!({
        "session": said.session, "role": said.role.as_str(), "content": said.text, "occurred_at": said.at,
    });
    if let (Some(turn), Some(speaker)) = (turn.as_object_mut(), &said.speaker) {
        turn.insert("speaker".into(), speaker.clone().into());
    }
    turn
}

/// How many exchanges the layer that is furthest behind has still to learn.
fn behind(stats: &Value) -> u64 {
    list_at(stats, "layers").iter().filter_map(|layer| layer.get("behind")?.as_u64()).max().unwrap_or(0)
}

/// The ids of a user's exchanges that are `wanted`.
async fn exchanges(client: &Client, wanted: impl Fn(&Value) -> bool) -> Result<Vec<String>, CallError> {
    let (mut ids, mut after) = (Vec::new(), None::<String>);
    loop {
        let mut query = vec![("limit", "200".to_owned())];
        query.extend(after.take().map(|after| ("after", after)));
        let page = client.get(&["v1", "exchanges"], &query).await?;
        let found = list_at(&page, "exchanges").iter().filter(|exchange| wanted(exchange));
        ids.extend(found.map(|exchange| text_at(exchange, "/id").to_owned()));
        match page.get("next").and_then(Value::as_str) {
            Some(next) => after = Some(next.to_owned()),
            None => return Ok(ids),
        }
    }
}

async fn write_file(client: &Client, name: &str, text: &str) -> Result<(), CallError> {
    let path = ["v1", "files", name];
    let mut body = json!({ "text": text });
    match client.get(&path, &[]).await {
        Ok(there) => {
            if let Some(body) = body.as_object_mut() {
                body.insert("base".into(), text_at(&there, "/revision").into());
            }
        }
        Err(error) if error.is_not_found() => {}
        Err(error) => return Err(error),
    }
    client.call(Method::PUT, &path, &[], Some(&body)).await.map(|_| ())
}

/// What a context holds of what a question expects.
fn look(line: usize, question: &Question, context: &Value) -> Asked {
    let before = plain(&before_the_question(context, &question.text));
    let items = list_at(context, "items");
    let missing = question.recalls.iter().filter(|wanted| !wanted.is_in(&before));
    let unwanted = question.lacks.iter().filter(|wanted| wanted.is_in(&before));
    let mut misses: Vec<Miss> = missing.map(|wanted| Miss::of(Expectation::Recalls, wanted)).collect();
    misses.extend(unwanted.map(|wanted| Miss::of(Expectation::DoesNotRecall, wanted)));
    if question.nothing
        && let Some(item) = items.first()
    {
        misses.push(Miss::of(Expectation::Nothing, text_at(item, "/text")));
    }
    let came = |item: &Value| Came { layer: text_at(item, "/layer").into(), text: text_at(item, "/text").into() };
    let gap = |gap: &Value| {
        format!("{} ({}) {}", text_at(gap, "/of"), text_at(gap, "/reason"), text_at(gap, "/detail"))
            .trim_end()
            .to_owned()
    };
    Asked {
        line,
        question: question.text.clone(),
        misses,
        skipped: Vec::new(),
        came: items.iter().map(came).collect(),
        gaps: list_at(context, "gaps").iter().map(gap).collect(),
        answer: None,
        took: Duration::ZERO,
    }
}

/// All that stands before the assistant but the question itself, which would answer itself.
fn before_the_question(context: &Value, question: &str) -> String {
    let messages = list_at(context, "messages");
    let mut texts: Vec<&str> = messages.iter().map(|message| text_at(message, "/content")).collect();
    if let Some(last) = texts.pop() {
        // What is recalled may stand in the question's own message.
        texts.extend(last.strip_suffix(question.trim()));
    }
    texts.join("\n")
}

/// What is recalled later within its layer than it should be.
fn late(question: &Question, rank: usize, recalled: &Value) -> Vec<Miss> {
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    let mut early = Vec::new();
    for recall in list_at(recalled, "recalls") {
        let place = places.entry(text_at(recall, "/layer")).or_default();
        *place += 1;
        if *place <= rank {
            early.push(plain(text_at(recall, "/text")));
        }
    }
    let is_early = |wanted: &&Wanted| early.iter().any(|text| wanted.is_in(text));
    let late = question.recalls.iter().filter(|wanted| !is_early(wanted));
    late.map(|wanted| Miss::of(Expectation::Rank(rank), wanted)).collect()
}

/// Whether `rule` is true of `answer`, as the model itself finds when asked anew.
async fn judge(model: &dyn ChatModel, question: &str, answer: &str, rule: &str) -> Option<Miss> {
    let miss = |why: &str| Some(Miss::of(Expectation::Judged, format!("{rule}: {why}")));
    let prompt = JUDGE.replace("{question}", question).replace("{rule}", rule).replace("{answer}", answer);
    let request = ChatRequest {
        purpose: "judge",
        messages: vec![Message::new(Role::User, prompt)],
        temperature: 0.0,
        most_tokens: 256,
        schema: Some(json!({
            "type": "object",
            "properties": { "holds": { "type": "boolean" }, "why": { "type": "string" } },
            "required": ["holds", "why"],
            "additionalProperties": false,
        })),
    };
    let verdict = match model.answer(&request).await {
        Ok(verdict) => verdict.text,
        Err(error) => return miss(&error.to_string()),
    };
    let verdict: Value = serde_json::from_str(verdict.trim()).unwrap_or_default();
    match verdict.get("holds").and_then(Value::as_bool) {
        Some(true) => None,
        Some(false) => miss(text_at(&verdict, "/why")),
        None => miss("the judge gave no verdict"),
    }
}

const JUDGE: &str = include_str!("judge.md");

#[cfg(test)]
mod tests {
    use super::*;

    fn question() -> Question {
        Question {
            user: "me".into(),
            session: None,
            at: chrono::DateTime::UNIX_EPOCH,
            text: "Is Rex my dog?".into(),
            window: None,
            recalls: vec![Wanted::parse("Rex").unwrap()],
            lacks: vec![Wanted::parse("Bello").unwrap()],
            rank: None,
            nothing: false,
            answer: Vec::new(),
            answer_lacks: Vec::new(),
            judge: None,
        }
    }

    fn misses(question: &Question, context: Value) -> Vec<Expectation> {
        look(1, question, &context).misses.into_iter().map(|miss| miss.expected).collect()
    }

    #[test]
    fn a_question_does_not_answer_itself() {
        let alone = json!({"messages": [{"role": "user", "content": "Is Rex my dog?"}], "items": []});
        assert_eq!(misses(&question(), alone), [Expectation::Recalls]);

        let within =
            json!({"messages": [{"role": "user", "content": "My dog is Rex.\n\nIs Rex my dog?"}], "items": []});
        assert_eq!(misses(&question(), within), []);
    }

    #[test]
    fn what_stands_in_any_message_before_it_counts() {
        let context = |text: &str| json!({"messages": [{"role": "system", "content": text}, {"role": "user", "content": "Is Rex my dog?"}]});

        assert_eq!(misses(&question(), context("the dog is called rex")), []);
        assert_eq!(misses(&question(), context("Rex and Bello")), [Expectation::DoesNotRecall]);
    }

    #[test]
    fn nothing_is_nothing() {
        let question = Question { recalls: Vec::new(), lacks: Vec::new(), nothing: true, ..question() };

        assert_eq!(misses(&question, json!({"items": []})), []);
        assert_eq!(misses(&question, json!({"items": [{"layer": "episodes", "text": "x"}]})), [Expectation::Nothing]);
    }

    #[test]
    fn a_rank_counts_within_a_layer() {
        let recalls = json!({"recalls": [
            {"layer": "episodes", "text": "a"}, {"layer": "facts", "text": "b"}, {"layer": "episodes", "text": "Rex"},
        ]});

        assert_eq!(late(&question(), 2, &recalls), []);
        assert_eq!(late(&question(), 1, &recalls), [Miss::of(Expectation::Rank(1), "Rex")]);
    }
}
