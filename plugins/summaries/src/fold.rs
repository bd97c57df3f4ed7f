//! How a summary grows: what left the window is folded in, a version on top of a version.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use skymem_core::{Embedding, LayerError, Purpose, Role, Tokens, UserId, estimate_tokens};

use crate::account::{EXTRACTIVE, Version};
use crate::ask::{Before, tell};
use crate::decisions::{decisions, is_decision, line};
use crate::extract::{Candidate, Nearness, choose};
use crate::names::{carry, names, newest};
use crate::said::{Said, Sentence, beginning, sentences, weight, words};
use crate::sql::Head;
use crate::{SummariesLayer, plan, sql};

/// How many folds of a session are made at a time; the rest follows with what is observed next, or in upkeep.
pub(crate) const MOST_FOLDS: usize = 32;

/// How many exchanges are folded at once where a fold is all there is.
const MOST_AT_ONCE: usize = 1_000;

/// How many lines of one fold are weighed.
const MOST_LINES: usize = 200;

/// How many texts go to the embedder at once.
const EMBED_TOGETHER: usize = 64;

/// How often a model is asked at a time: nobody else learns from this journal meanwhile.
const MOST_QUESTIONS: usize = 4;

/// The share of a full summary that the lines of one fold may compete for: one in so many.
const SOME: usize = 6;

/// How much an identifier adds to the weight of a line.
const NAMING: f32 = 1.15;

/// What is to be folded in one session.
struct Work {
    session: String,
    /// Whether a model is worth asking: not when its words go with the next turn.
    may_ask: bool,
    /// The newest version there is.
    head: Option<Head>,
    /// What is not folded yet, oldest first.
    said: Vec<Said>,
    folds: Vec<Range<usize>>,
    /// Of each fold the lines that are worth weighing.
    lines: Vec<Vec<String>>,
}

impl SummariesLayer {
    /// Folds what is due in these sessions, at most `most_folds` in each. Of several folds due at once in a session only
    /// the last asks the model: the others are on nobody's way to being read.
    pub(crate) async fn fold_due(
        &self,
        user: UserId,
        sessions: &[String],
        most_folds: usize,
        may_ask: bool,
    ) -> Result<(), LayerError> {
        let mut work = Vec::new();
        for (session, capped) in sql::with_more_than(&self.db, user, sessions, self.settings.keep_exchanges).await? {
            work.extend(self.due(user, session, capped, most_folds).await?);
        }
        let meanings = self.meanings(&work).await;
        let mut questions = if may_ask { MOST_QUESTIONS } else { 0 };
        for one in work {
            self.fold(user, one, &meanings, &mut questions).await?;
        }
        Ok(())
    }

    /// What is due in a session; `None` when nothing is.
    async fn due(
        &self,
        user: UserId,
        session: String,
        capped: bool,
        most_folds: usize,
    ) -> Result<Option<Work>, LayerError> {
        let head = sql::head(&self.db, user, &session).await?;
        let after = head.as_ref().map_or(0, |head| head.version.newest_seq.0);
        // Where the oldest turns leave memory, every version goes with them each time: all is folded at once.
        let at_once = capped && head.is_none();
        let folded = if at_once { MOST_AT_ONCE } else { most_folds * self.settings.fold_exchanges };
        let most = folded + self.settings.keep_exchanges;
        let said = sql::said_after(&self.db, user, &session, after, most).await?;
        let prices: Vec<Tokens> = said.iter().map(Said::tokens).collect();
        let mut folds = plan::due(&prices, self.settings.pace());
        folds.truncate(if at_once { MOST_AT_ONCE } else { most_folds });
        if folds.is_empty() {
            return Ok(None);
        }
        if at_once {
            let end = folds.last().map_or(0, |last| last.end);
            folds.truncate(1);
            folds.iter_mut().for_each(|all| all.end = end);
        }
        let mut before = head.as_ref().map_or(0, |head| usize::try_from(head.version.tokens).unwrap_or(usize::MAX));
        let mut lines = Vec::with_capacity(folds.len());
        for fold in &folds {
            lines.push(self.lines(said.get(fold.clone()).unwrap_or_default(), Tokens(before)));
            before += prices.get(fold.clone()).unwrap_or_default().iter().map(|price| price.0).sum::<usize>();
            // Arithmetic: others want to run, too.
            tokio::task::yield_now().await;
        }
        Ok(Some(Work { session, may_ask: !capped, head, said, folds, lines }))
    }

    /// The lines of a fold that are worth weighing, chosen by their words: as many as there is room for after `before`
    /// tokens were folded, and in any case some. Decisions stand in a list of their own.
    fn lines(&self, said: &[Said], before: Tokens) -> Vec<String> {
        let most = self.settings.summary_tokens;
        let room = most.less(before).max(Tokens(most.0 / SOME));
        let mut known = HashSet::new();
        let new = |sentence: &Sentence| (!is_decision(sentence)).then(|| sentence.line());
        let mut lines: Vec<String> =
            sentences(said).iter().filter_map(new).filter(|line| known.insert(line.clone())).collect();
        if lines.len() > MOST_LINES {
            let mut weights: Vec<f32> = lines.iter().map(|line| weigh(line)).collect();
            weights.sort_by(|one, other| other.total_cmp(one));
            let least = weights.get(MOST_LINES).copied().unwrap_or(0.0);
            lines.retain(|line| weigh(line) >= least);
            lines.truncate(MOST_LINES);
        }
        pick(lines, None, room)
    }

    /// The meanings of all lines that compete for room, embedded once. Without the embedder words must do.
    async fn meanings(&self, work: &[Work]) -> HashMap<String, Embedding> {
        let mut texts: Vec<String> = Vec::new();
        let mut known = HashSet::new();
        for one in work {
            let head = one.head.as_ref().map(|head| head_lines(&head.version)).unwrap_or_default();
            let all: Vec<String> = head.into_iter().chain(one.lines.iter().flatten().cloned()).collect();
            if all.iter().map(|line| price(line)).sum::<Tokens>() > self.settings.summary_tokens {
                texts.extend(all.into_iter().filter(|line| known.insert(line.clone())));
            }
        }
        let longest = self.embedder.longest_text();
        texts.retain(|text| self.embedder.count_tokens(text) <= longest);
        let mut meanings = HashMap::new();
        for together in texts.chunks(EMBED_TOGETHER) {
            let asked: Vec<&str> = together.iter().map(String::as_str).collect();
            match self.embedder.embed(&asked, Purpose::Passage).await {
                Ok(answer) => meanings.extend(together.iter().cloned().zip(answer)),
                Err(error) => {
                    tracing::warn!(%error, "Summaries are picked by words alone: the embedder gives no answer");
                    break;
                }
            }
        }
        meanings
    }

    async fn fold(
        &self,
        user: UserId,
        work: Work,
        meanings: &HashMap<String, Embedding>,
        questions: &mut usize,
    ) -> Result<(), LayerError> {
        let Work { session, may_ask, head, said, folds, lines } = work;
        let mut made: Vec<(Version, &[Said])> = Vec::new();
        let last = folds.len().saturating_sub(1);
        for (place, (fold, lines)) in folds.into_iter().zip(lines).enumerate() {
            let said = said.get(fold).unwrap_or_default();
            let before = made.last().map(|(version, _)| version).or(head.as_ref().map(|head| &head.version));
            let told = match &self.chat {
                Some(chat) if may_ask && place == last && *questions > 0 => {
                    *questions -= 1;
                    let known = Before {
                        summary: before.map_or("", |before| &before.text),
                        decisions: before.map_or(&[], |before| &before.decisions),
                    };
                    let told =
                        tell(chat.as_ref(), self.settings.deadline(), known, said, self.settings.summary_tokens).await;
                    if told.is_none() {
                        // It would keep the next session waiting, too.
                        *questions = 0;
                    }
                    told.map(|told| (chat.name().to_owned(), told))
                }
                _ => None,
            };
            let (made_by, text, decided) = match told {
                Some((model, told)) => {
                    let day = said.last().and_then(Said::span).map(|(_, until)| until.date_naive()).unwrap_or_default();
                    (model, told.summary, told.decisions.iter().map(|text| line(day, text)).collect())
                }
                None => {
                    let older = before.map(head_lines).unwrap_or_default();
                    let all = older.into_iter().chain(lines).collect();
                    let picked = pick(all, Some(meanings), self.settings.summary_tokens);
                    (EXTRACTIVE.to_owned(), picked.join("\n"), decisions(&sentences(said)))
                }
            };
            let Some(version) = self.version(before, said, made_by, text, decided) else { break };
            made.push((version, said));
            tokio::task::yield_now().await;
        }
        Ok(sql::write(&self.db, user, &session, head.map(|head| head.id), &made).await?)
    }

    /// The version that follows `head`; `None` when nothing was said.
    fn version(
        &self,
        head: Option<&Version>,
        said: &[Said],
        made_by: String,
        text: String,
        decided: Vec<String>,
    ) -> Option<Version> {
        let (first, newest) = (said.first()?, said.last()?);
        let spans = || said.iter().filter_map(Said::span);
        let from = spans().map(|(from, _)| from).chain(head.map(|head| head.said_from)).min()?;
        let until = spans().map(|(_, until)| until).chain(head.map(|head| head.said_until)).max()?;
        let tokens: Tokens = said.iter().map(Said::tokens).sum();
        let count = i32::try_from(said.len()).unwrap_or(i32::MAX);
        let known = |names: fn(&Version) -> &[String]| head.map(names).unwrap_or_default();
        Some(Version {
            number: head.map_or(1, |head| head.number.saturating_add(1)),
            text,
            decisions: crate::decisions::append(known(|head| &head.decisions), decided, self.settings.decision_tokens),
            names: self.names(known(|head| &head.names), said),
            made_by,
            exchanges: head.map_or(0, |head| head.exchanges).saturating_add(count),
            tokens: head.map_or(0, |head| head.tokens).saturating_add(i64::try_from(tokens.0).unwrap_or(i64::MAX)),
            first_seq: head.map_or(first.first_seq(), |head| head.first_seq),
            newest_seq: newest.first_seq(),
            last_seq: newest.last_seq(),
            said_from: from,
            said_until: until,
        })
    }

    /// The identifiers known after `said`. What tools say is full of them: it may take a quarter of the room, and counts
    /// as older than what people and assistants say.
    fn names(&self, older: &[String], said: &[Said]) -> Vec<String> {
        let of = |wanted: fn(Role) -> bool| -> Vec<&str> {
            let turns = said.iter().flat_map(|exchange| &exchange.turns).filter(|turn| wanted(turn.role));
            turns.flat_map(|turn| names(beginning(&turn.text))).collect()
        };
        let most = self.settings.name_tokens;
        let tools = newest(&of(|role| role == Role::Tool), Tokens(most.0 / 4));
        let people = of(|role| matches!(role, Role::User | Role::Assistant));
        carry(older, &tools.into_iter().chain(people).collect::<Vec<_>>(), most)
    }
}

/// The lines to keep of `lines`, in their order: by meaning where the meanings of all are known, else by words.
fn pick(lines: Vec<String>, meanings: Option<&HashMap<String, Embedding>>, most: Tokens) -> Vec<String> {
    let mut known = HashSet::new();
    let lines: Vec<String> = lines.into_iter().filter(|line| known.insert(line.clone())).collect();
    if lines.iter().map(|line| price(line)).sum::<Tokens>() <= most {
        return lines;
    }
    let candidates: Vec<Candidate> =
        lines.iter().map(|line| Candidate { price: price(line), weight: weigh(line) }).collect();
    let all: Option<Vec<&Embedding>> =
        meanings.and_then(|meanings| lines.iter().map(|line| meanings.get(line)).collect());
    let nearness = match all {
        Some(meanings) => Nearness::of_meanings(&meanings),
        None => Nearness::of_words(&lines.iter().map(|line| words(line)).collect::<Vec<_>>()),
    };
    let chosen = choose(&candidates, &nearness, most);
    chosen.into_iter().filter_map(|place| lines.get(place).cloned()).collect()
}

/// What a version says, line by line: a model's prose by its sentences.
fn head_lines(head: &Version) -> Vec<String> {
    if head.made_by == EXTRACTIVE {
        return head.text.lines().map(str::to_owned).collect();
    }
    crate::said::split(&head.text)
}

fn price(line: &str) -> Tokens {
    estimate_tokens(line) + Tokens(1)
}

fn weigh(line: &str) -> f32 {
    weight(line) * if names(line).is_empty() { 1.0 } else { NAMING }
}
