//! From exchanges to passages: what is merged, what is split, what follows what.

use std::collections::HashMap;

use chrono::{DateTime, TimeDelta, Utc};
use chrono_tz::Tz;
use skymem_core::{Collection, Embedder, Exchange, ExchangeKind, Role, Source, Turn, estimate_tokens};

use crate::bm25::Measure;
use crate::choose::PARTS_PER_TURN;
use crate::places::PassageId;
use crate::split;
use crate::words::{self, Count, Language};

/// How exchanges become episodes.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Exchanges that cost less than this together are merged, in tokens.
    pub merge_below_tokens: usize,
    /// At most this many exchanges are merged.
    pub merge_most: usize,
    /// An exchange that costs more is split, in tokens.
    pub split_above_tokens: usize,
    /// How much the words of a person count who talks with an assistant; an assistant's count 1.
    pub user_words: f32,
}

/// A passage as it will be written down, but for its vector.
#[derive(Debug, Clone)]
pub struct Draft {
    /// Its name.
    pub id: PassageId,
    /// The part its speaker plays.
    pub role: Role,
    /// The speaker's name, between named people.
    pub speaker: Option<String>,
    /// What was said.
    pub text: String,
    /// When.
    pub occurred_at: DateTime<Utc>,
    /// The passage that it follows.
    pub follows: Option<PassageId>,
    /// The passage that opens its episode.
    pub episode: PassageId,
    /// Whether its exchange was too long to stay whole.
    pub split: bool,
    /// What it costs, about.
    pub tokens: usize,
    /// How many words it is searched by, those of the passage it follows included.
    pub words: usize,
    /// What its score by words is multiplied with.
    pub word_weight: f32,
    /// Its terms, and how often each stands in it.
    pub postings: HashMap<String, Count>,
    /// The language its words are stemmed in.
    pub language: Language,
}

impl Draft {
    /// As it is measured where it is searched by words.
    #[must_use]
    pub fn measure(&self) -> Measure {
        Measure { words: self.words as f32, weight: self.word_weight }
    }

    /// What is embedded: `speaker: text`. The speaker's name is worth half of all hits (`measured.md`); a bare role is
    /// not a name.
    pub fn embedded_text(&self) -> String {
        embedded_text(self.speaker.as_deref(), &self.text)
    }
}

/// What is embedded of a passage.
pub fn embedded_text(speaker: Option<&str>, text: &str) -> String {
    speaker.map_or_else(|| text.to_owned(), |name| format!("{name}: {text}"))
}

/// What came before an exchange in its session.
#[derive(Debug, Clone, Default)]
pub struct Place {
    /// The first passage of the turn before, and how many of its words count for what follows.
    pub follows: Option<(PassageId, usize)>,
    /// The episode before, if another exchange may still be merged into it.
    pub open: Option<OpenEpisode>,
}

/// An episode that short exchanges may still join.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenEpisode {
    /// The passage that opens it.
    pub id: PassageId,
    /// How many exchanges it holds.
    pub exchanges: usize,
    /// What they cost together, about.
    pub tokens: usize,
    /// When its last turn was said.
    pub last_at: DateTime<Utc>,
    /// The collection they stand in.
    pub collection: Collection,
    /// Where they came from.
    pub source: Source,
}

/// What is said later than this after an episode is another episode, however short both are.
const MERGE_WITHIN: TimeDelta = TimeDelta::hours(1);

/// What the passages of a user have in common.
pub struct Setting<'a> {
    /// Splits what it could not read whole.
    pub embedder: &'a dyn Embedder,
    /// How exchanges become episodes.
    pub shape: Shape,
    /// Where days begin and end for this user.
    pub zone: Tz,
    /// The languages the user is known to write in.
    pub tongues: &'a [Language],
    /// The size of a part in this collection, in tokens.
    pub part_tokens: usize,
}

/// The words of a passage, as they are searched.
#[derive(Debug, Clone, PartialEq)]
pub struct Words {
    /// The language they are stemmed in.
    pub language: Language,
    /// Its terms, those of its day included, and how often each stands in it.
    pub postings: HashMap<String, Count>,
}

/// The passages of `exchange`, and the place after it. Only what people and assistants say is searched: instructions and
/// tool results stay in the journal.
pub fn draft(exchange: &Exchange, place: &Place, setting: &Setting<'_>) -> (Vec<Draft>, Place) {
    draft_known(exchange, place, setting, &|_, _| None)
}

/// As [`draft`], where `known` may tell the words of a passage by its name and text: to tell a language and to stem is most
/// of the work.
pub fn draft_known(
    exchange: &Exchange,
    place: &Place,
    setting: &Setting<'_>,
    known: &dyn Fn(PassageId, &str) -> Option<Words>,
) -> (Vec<Draft>, Place) {
    let said: Vec<&Turn> = exchange
        .turns
        .iter()
        .filter(|turn| matches!(turn.role, Role::User | Role::Assistant) && !turn.text.trim().is_empty())
        .collect();
    let tokens: usize = said.iter().map(|turn| estimate_tokens(&turn.text).0).sum();
    let shape = &setting.shape;
    // A collection with larger parts splits later.
    let split = tokens > shape.split_above_tokens.max(setting.part_tokens);
    let most = if split { setting.part_tokens } else { usize::MAX };

    let (Some(first), Some(last)) = (said.first(), said.last()) else { return (Vec::new(), place.clone()) };
    // What was told to memory directly stands for itself.
    let told = exchange.kind == ExchangeKind::Asserted;
    let place = if told { &Place::default() } else { place };
    let own = OpenEpisode {
        id: id(first, 0),
        exchanges: 1,
        tokens,
        last_at: last.occurred_at,
        collection: exchange.collection.clone(),
        source: exchange.source.clone(),
    };
    let open = place.open.as_ref().filter(|open| first.occurred_at - open.last_at <= MERGE_WITHIN);
    let episode = open.and_then(|open| open.joined_by(&own, shape)).unwrap_or(own);

    let mut drafts = Vec::new();
    let mut follows = place.follows;
    for turn in said {
        let counted = parts(turn, most, setting.embedder);
        let before = follows;
        for (part, text) in counted.into_iter().enumerate() {
            let words = known(id(turn, part), &text).unwrap_or_else(|| words_of(turn, &text, setting));
            let draft = passage(turn, part, text, words, before, setting);
            let head: usize = draft.postings.values().map(|count| usize::try_from(count.head).unwrap_or(0)).sum();
            if part == 0 {
                follows = Some((draft.id, head));
            }
            drafts.push(Draft { split, episode: if split { draft.id } else { episode.id }, ..draft });
        }
    }
    let after = Place { follows, open: (!split).then_some(episode) };
    (drafts, if told { Place::default() } else { after })
}

impl OpenEpisode {
    /// This episode and the next one as one, if that is short enough and no filter tells them apart.
    fn joined_by(&self, next: &OpenEpisode, shape: &Shape) -> Option<OpenEpisode> {
        let (exchanges, tokens) = (self.exchanges + next.exchanges, self.tokens + next.tokens);
        let short = tokens < shape.merge_below_tokens && exchanges <= shape.merge_most;
        let alike = (&self.collection, &self.source) == (&next.collection, &next.source);
        (short && alike).then(|| OpenEpisode { id: self.id, exchanges, tokens, ..next.clone() })
    }
}

fn words_of(turn: &Turn, text: &str, setting: &Setting<'_>) -> Words {
    let language = words::language_of(text, setting.tongues);
    let day = turn.occurred_at.with_timezone(&setting.zone).format("%A %-d %B %Y").to_string();
    Words { language, postings: words::count(text, &day, language) }
}

fn passage(
    turn: &Turn,
    part: usize,
    text: String,
    words: Words,
    before: Option<(PassageId, usize)>,
    setting: &Setting<'_>,
) -> Draft {
    let Words { language, postings } = words;
    let own_words: usize = postings.values().map(|count| usize::try_from(count.all).unwrap_or(0)).sum();
    let talks_with_assistant = turn.role == Role::User && turn.speaker.is_none();
    Draft {
        id: id(turn, part),
        role: turn.role,
        speaker: turn.speaker.clone(),
        tokens: estimate_tokens(&text).0,
        text,
        occurred_at: turn.occurred_at,
        follows: before.map(|(id, _)| id),
        episode: id(turn, 0),
        split: false,
        words: own_words + before.map_or(0, |(_, head)| head),
        word_weight: if talks_with_assistant { setting.shape.user_words } else { 1.0 },
        postings,
        language,
    }
}

fn id(turn: &Turn, part: usize) -> PassageId {
    turn.seq.0 * PARTS_PER_TURN + i64::try_from(part).unwrap_or(0)
}

/// The texts of a turn's passages: of `most` tokens at most, and none longer than the embedder reads.
fn parts(turn: &Turn, most: usize, embedder: &dyn Embedder) -> Vec<String> {
    let longest = embedder.longest_text();
    let fits = |text: &str| embedder.count_tokens(&embedded_text(turn.speaker.as_deref(), text)) <= longest;
    let mut texts = Vec::new();
    for range in split::parts(&turn.text, most, &|text| estimate_tokens(text).0) {
        let part = &turn.text[range];
        // A token is at least a byte, so that short texts need no counting.
        if part.len() + turn.speaker.as_ref().map_or(0, |name| name.len() + 2) <= longest || fits(part) {
            texts.push(part.to_owned());
        } else {
            let cost = |text: &str| if fits(text) { 0 } else { 1 };
            texts.extend(split::parts(part, 0, &cost).into_iter().map(|range| part[range].to_owned()));
        }
    }
    let room = usize::try_from(PARTS_PER_TURN).unwrap_or(usize::MAX);
    if texts.len() > room {
        tracing::warn!(seq = turn.seq.0, parts = texts.len(), "A turn is too long to be searched to its end");
        texts.truncate(room);
    }
    texts
}

/// The topic of an exchange: that of the one before it while their meanings are near, or not both known; a new one
/// otherwise.
pub fn topic(before: Option<&(i32, Option<Vec<f32>>)>, meaning: Option<&[f32]>, same_above: f32) -> i32 {
    match (before, meaning) {
        (None, _) => 0,
        (Some((topic, Some(before))), Some(meaning)) => {
            let near: f32 = before.iter().zip(meaning).map(|(a, b)| a * b).sum();
            if near < same_above { topic + 1 } else { *topic }
        }
        (Some((topic, _)), _) => *topic,
    }
}

/// The mean direction of `vectors`, of length one; `None` when there is none.
pub fn mean<'a>(vectors: impl IntoIterator<Item = &'a [f32]>) -> Option<Vec<f32>> {
    let mut sum: Vec<f32> = Vec::new();
    for vector in vectors {
        sum.resize(vector.len(), 0.0);
        sum.iter_mut().zip(vector).for_each(|(sum, value)| *sum += value);
    }
    let length = sum.iter().map(|value| value * value).sum::<f32>().sqrt();
    (length > 0.0).then(|| sum.into_iter().map(|value| value / length).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use async_trait::async_trait;
    use skymem_core::{EmbedderId, Embedding, ExchangeId, ModelError, Purpose, Seq, SessionId, UserId};

    struct TenWords(EmbedderId);

    #[async_trait]
    impl Embedder for TenWords {
        fn id(&self) -> &EmbedderId {
            &self.0
        }
        fn dimensions(&self) -> usize {
            2
        }
        fn longest_text(&self) -> usize {
            10
        }
        fn count_tokens(&self, text: &str) -> usize {
            text.split_whitespace().count()
        }
        async fn embed(&self, _: &[&str], _: Purpose) -> Result<Vec<Embedding>, ModelError> {
            Ok(Vec::new())
        }
    }

    fn exchange(seq: i64, question: &str, answer: &str) -> Exchange {
        let turn = |seq, role, text: &str| Turn {
            seq: Seq(seq),
            role,
            speaker: None,
            text: text.into(),
            occurred_at: DateTime::UNIX_EPOCH,
            recorded_at: DateTime::UNIX_EPOCH,
            statement: None,
        };
        Exchange {
            user: UserId(uuid::Uuid::nil()),
            id: ExchangeId(uuid::Uuid::nil()),
            session: "s".parse::<SessionId>().unwrap(),
            collection: Collection::default(),
            kind: ExchangeKind::Said,
            source: Source::default(),
            pinned: false,
            turns: vec![turn(seq, Role::User, question), turn(seq + 1, Role::Assistant, answer)],
        }
    }

    fn setting(embedder: &TenWords) -> Setting<'_> {
        let shape = Shape { merge_below_tokens: 12, merge_most: 3, split_above_tokens: 20, user_words: 2.0 };
        Setting { embedder, shape, zone: Tz::UTC, tongues: &[Language::ENGLISH], part_tokens: 8 }
    }

    fn drafts(exchanges: &[Exchange]) -> Vec<Draft> {
        let embedder = TenWords(EmbedderId("ten".into()));
        let setting = setting(&embedder);
        let mut place = Place::default();
        let mut all = Vec::new();
        for exchange in exchanges {
            let (drafts, after) = draft(exchange, &place, &setting);
            all.extend(drafts);
            place = after;
        }
        all
    }

    #[test]
    fn short_exchanges_are_merged_until_they_are_no_longer_short() {
        let all = drafts(&[
            exchange(1, "Hi there", "Hello"),
            exchange(3, "How are", "Well"),
            exchange(5, "Tea or coffee", "Tea or milk please, no sugar"),
        ]);

        let episodes: Vec<i64> = all.iter().map(|draft| draft.episode / PARTS_PER_TURN).collect();

        assert_eq!(episodes, [1, 1, 1, 1, 5, 5]);
    }

    #[test]
    fn what_was_told_directly_or_much_later_is_an_episode_of_its_own() {
        let told = Exchange { kind: ExchangeKind::Asserted, ..exchange(3, "Note this", "") };
        let mut later = exchange(7, "Hi again", "Hello");
        later.turns.iter_mut().for_each(|turn| turn.occurred_at += TimeDelta::hours(2));
        let all = drafts(&[exchange(1, "Hi", "Hello"), told, exchange(5, "Hi", "Hello"), later]);

        let episodes: Vec<i64> = all.iter().map(|draft| draft.episode / PARTS_PER_TURN).collect();

        assert_eq!(episodes, [1, 1, 3, 5, 5, 7, 7]);
        assert_eq!(all[2].follows, None);
    }

    #[test]
    fn what_a_filter_tells_apart_is_not_merged() {
        let plain = || exchange(3, "How are", "Well");
        let others = [
            Exchange { collection: "work".parse().unwrap(), ..plain() },
            Exchange { source: "import:x".parse().unwrap(), ..plain() },
        ];
        for other in others {
            let all = drafts(&[exchange(1, "Hi there", "Hello"), other, exchange(5, "Tea or", "Tea")]);

            let episodes: Vec<i64> = all.iter().map(|draft| draft.episode / PARTS_PER_TURN).collect();

            assert_eq!(episodes, [1, 1, 3, 3, 5, 5]);
        }
    }

    #[test]
    fn a_collection_with_larger_parts_splits_later() {
        let answer = "one two three four five six seven eight. ".repeat(3);
        let split = |part_tokens| {
            let embedder = TenWords(EmbedderId("ten".into()));
            let setting = Setting { part_tokens, ..setting(&embedder) };
            draft(&exchange(1, "How", &answer), &Place::default(), &setting).0.iter().all(|draft| draft.split)
        };

        assert!(split(8));
        assert!(!split(200));
    }

    #[test]
    fn a_long_answer_is_split_and_each_part_follows_the_question() {
        let answer = "First do this thing now.\n\nThen do that thing there.\n\nLast of all rest a while here.";
        let all = drafts(&[exchange(1, "How is it done", answer)]);

        assert!(all.len() > 2);
        for part in &all[1..] {
            assert_eq!(part.follows, Some(all[0].id));
            assert!(part.split);
            assert_eq!(part.episode, part.id);
        }
    }

    #[test]
    fn no_passage_is_longer_than_the_embedder_reads() {
        let all = drafts(&[exchange(1, &"a ".repeat(18), "fine")]);

        assert!(all.iter().all(|draft| draft.text.split_whitespace().count() <= 10), "{all:?}");
        assert_eq!(all.iter().map(|draft| draft.text.split_whitespace().count()).sum::<usize>(), 19);
    }

    #[test]
    fn a_new_topic_begins_where_meanings_part() {
        let before = |meaning: Option<[f32; 2]>| (3, meaning.map(Vec::from));
        assert_eq!(topic(None, Some(&[1.0, 0.0]), 0.7), 0);
        assert_eq!(topic(Some(&before(Some([1.0, 0.0]))), Some(&[1.0, 0.0]), 0.7), 3);
        assert_eq!(topic(Some(&before(Some([1.0, 0.0]))), Some(&[0.0, 1.0]), 0.7), 4);
        assert_eq!(topic(Some(&before(Some([1.0, 0.0]))), None, 0.7), 3);
        assert_eq!(topic(Some(&before(None)), Some(&[0.0, 1.0]), 0.7), 3);
    }
}
