//! How much of the evidence is found: recall@10 at turn budget, the share of a question's evidence turns among the first
//! ten turns returned, averaged over the questions.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use comfy_table::Table;
use pgvector::HalfVector;
use reqwest::Method;
use serde_json::json;
use skymem_core::{Embedder, Purpose};
use skymem_models::EmbedderSettings;
use sqlx::PgPool;

use crate::locomo::{Conversation, Question, read};
use crate::server::{Server, make_passable};

/// The turn budget.
const TURNS: usize = 10;

const CATEGORIES: [(u8, &str); 4] = [(1, "multi-hop"), (2, "temporal"), (3, "open-domain"), (4, "single-hop")];

/// Imports the conversations, each for a user of its own, asks all questions, prints a table.
pub(crate) async fn run(program: &Path, files: &[PathBuf], details: Option<&Path>) -> Result<()> {
    let mut details = details.map(File::create).transpose()?;
    let folder = tempfile::tempdir()?;
    make_passable(folder.path())?;
    let server = Server::start(program, &folder.path().join("data")).await?;
    let db = server.database().await?;
    let embedder = skymem_models::open(&EmbedderSettings::default()).await?;

    let mut skymem = Tally::default();
    let mut vectors = Tally::default();
    for file in files {
        for conversation in read(file)? {
            let user = &conversation.name;
            let path = folder.path().join(format!("{user}.jsonl"));
            std::fs::write(&path, conversation.to_jsonl())?;
            let path = path.to_str().context("the temporary folder's name is not UTF-8")?;
            server.call(Method::POST, "/v1/users", user_of_door(), Some(&json!({ "name": user }))).await?;
            server.command(&["--user", user, "import", path, "--wait"]).await?;
            let ids = turn_ids(&server, &conversation).await?;
            eprintln!("{user}: {} turns, {} questions", ids.len(), conversation.questions.len());
            for question in &conversation.questions {
                let found = recalled(&server, user, question, &ids).await?;
                let by_vectors = nearest(&db, embedder.as_ref(), user, question, &ids).await?;
                if let Some(details) = &mut details {
                    let line = json!({
                        "user": user, "question": question.text, "category": question.category,
                        "evidence": question.evidence, "found": found, "vectors": by_vectors,
                    });
                    writeln!(details, "{line}")?;
                }
                skymem.note(question, &found);
                vectors.note(question, &by_vectors);
            }
        }
    }
    server.stop().await?;
    println!("recall@{TURNS} at turn budget, {} questions", skymem.questions());
    println!("{}", table(&[("skymem, /v1/recall", &skymem), ("its vectors alone, exact", &vectors)]));
    Ok(())
}

/// Users are made by the user of the local door.
fn user_of_door() -> &'static str {
    "me"
}

/// What each place in the user's journal is called in the file.
async fn turn_ids(server: &Server, conversation: &Conversation) -> Result<HashMap<i64, String>> {
    let mut ids = HashMap::new();
    for session in &conversation.sessions {
        let path = format!("/v1/sessions/{}/turns?limit=200", session.id);
        let answer = server.call(Method::GET, &path, &conversation.name, None).await?;
        let turns = answer["turns"].as_array().context("no turns in the answer")?;
        anyhow::ensure!(turns.len() == session.turns.len(), "{}: not every turn was recorded", session.id);
        for (stored, turn) in turns.iter().zip(&session.turns) {
            ids.insert(stored["seq"].as_i64().context("a turn without seq")?, turn.id.clone());
        }
    }
    Ok(ids)
}

/// The turns that the server's own door recalls, best first.
async fn recalled(server: &Server, user: &str, question: &Question, ids: &HashMap<i64, String>) -> Result<Vec<String>> {
    // Of every layer so many would come back.
    let body = json!({"query": question.text, "top_k": TURNS, "unit": "turn", "layers": ["episodes"]});
    let answer = server.call(Method::POST, "/v1/recall", user, Some(&body)).await?;
    let recalls = answer["recalls"].as_array().context("no recalls in the answer")?;
    anyhow::ensure!(recalls.len() <= TURNS, "more turns than asked for");
    Ok(recalls.iter().filter_map(|recall| ids.get(&recall["first_seq"].as_i64()?).cloned()).collect())
}

/// The baseline: the turns whose vectors, the server's own, are nearest to the question's.
async fn nearest(
    db: &PgPool,
    embedder: &dyn Embedder,
    user: &str,
    question: &Question,
    ids: &HashMap<i64, String>,
) -> Result<Vec<String>> {
    let embedded = embedder.embed(&[&question.text], Purpose::Query).await?;
    let embedding = HalfVector::from_f32_slice(&embedded.first().context("no embedding")?.0);
    let passages: Vec<i64> = sqlx::query_scalar(
        "select passage_id / 4096 from episodes.vector join journal.users on users.id = vector.user_id \
         where users.name = $1 order by embedding <=> $2 limit $3",
    )
    .bind(user)
    .bind(embedding)
    .bind(i64::try_from(TURNS)?)
    .fetch_all(db)
    .await?;
    Ok(passages.iter().filter_map(|seq| ids.get(seq).cloned()).collect())
}

/// Recall of each question, by category.
#[derive(Default)]
struct Tally(BTreeMap<u8, Vec<f64>>);

impl Tally {
    fn note(&mut self, question: &Question, found: &[String]) {
        let hits = question.evidence.iter().filter(|id| found.contains(id)).count();
        let share = hits as f64 / question.evidence.len().max(1) as f64;
        self.0.entry(question.category).or_default().push(share);
    }

    fn questions(&self) -> usize {
        self.0.values().map(Vec::len).sum()
    }

    fn all(&self) -> f64 {
        mean(self.0.values().flatten())
    }

    fn of(&self, category: u8) -> f64 {
        mean(self.0.get(&category).into_iter().flatten())
    }
}

fn mean<'a>(values: impl Iterator<Item = &'a f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    if count > 0.0 { sum / count } else { 0.0 }
}

fn table(rows: &[(&str, &Tally)]) -> Table {
    let mut table = Table::new();
    let categories = CATEGORIES.map(|(_, name)| name.to_owned());
    table.set_header(["".to_owned(), "all".to_owned()].into_iter().chain(categories));
    for (name, tally) in rows {
        let of = CATEGORIES.map(|(category, _)| format!("{:.3}", tally.of(category)));
        table.add_row([(*name).to_owned(), format!("{:.3}", tally.all())].into_iter().chain(of));
    }
    table
}
