//! Search by words: BM25 over each passage and the first words of the one it follows.

use rustc_hash::FxHashSet;

use crate::places::{ByPlace, PassageId, Place};
use crate::words::Count;

/// How fast more of the same word stops counting.
const K1: f32 = 1.5;

/// How much long passages are held back.
const B: f32 = 0.75;

/// As many rare words are enough to cover a question: one with a page pasted before it is not covered by its own words
/// either.
const ENOUGH_WORDS: f32 = 5.0;

/// The score of every passage that shares a word with the question; `hits` holds, for each of its terms, where it stands.
///
/// A passage is searched by its own words and by the first ones of the passage it follows, so that "Yes, on Monday" is
/// found by the question it answers. Lucene's formula: `idf = ln(1 + (N - n + 0.5) / (n + 0.5))`, k1 = 1.5, b = 0.75.
pub fn scores(hits: &[&[Hit]], sheet: &Sheet) -> ByPlace<Words> {
    let mut scores: ByPlace<Words> = ByPlace::none(sheet.passages());
    let mut counts = vec![0.0_f32; sheet.passages()];
    let mut holders: Vec<Place> = Vec::new();
    let mut asked_for = 0.0;
    for hits in hits {
        let mut count = |place: Place, times: i16| {
            if let Some(count) = counts.get_mut(place as usize).filter(|_| times > 0) {
                if *count == 0.0 {
                    holders.push(place);
                }
                *count += f32::from(times);
            }
        };
        for hit in *hits {
            count(hit.place, hit.count.all);
            if hit.count.head > 0 {
                sheet.followers(hit.place).for_each(|follower| count(follower, hit.count.head));
            }
        }
        let rarity = rarity(holders.len(), sheet.passages());
        asked_for += rarity;
        for place in holders.drain(..) {
            let Some(count) = counts.get_mut(place as usize).map(std::mem::take) else { continue };
            let (Some(measure), Some(words)) = (sheet.measure(place), scores.at(place)) else { continue };
            let length = 1.0 - B + B * measure.words / sheet.mean_words;
            let words = words.get_or_insert_default();
            words.score += measure.weight * rarity * count * (K1 + 1.0) / (count + K1 * length);
            words.covered += rarity;
        }
    }
    let enough = asked_for.min(ENOUGH_WORDS * rarity(1, sheet.passages()));
    if enough > 0.0 {
        scores.values_mut().for_each(|words| words.covered = (words.covered / enough).min(1.0));
    }
    scores
}

/// How much a word counts that so many of all passages hold.
fn rarity(holders: usize, passages: usize) -> f32 {
    let (holders, passages) = (holders as f32, passages as f32);
    (1.0 + (passages - holders + 0.5).max(0.0) / (holders + 0.5)).ln()
}

/// What the question's words say of a passage.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Words {
    /// BM25.
    pub score: f32,
    /// How much of the question's words it shares, rare ones counting more, 0 to 1.
    pub covered: f32,
}

/// A term in a passage.
#[derive(Debug, Clone, Copy)]
pub struct Hit {
    /// Where the passage stands.
    pub place: Place,
    /// How often the term stands in it.
    pub count: Count,
}

/// What bears on a passage's score besides its words.
#[derive(Debug, Clone, Copy)]
pub struct Measure {
    /// How many words it is searched by.
    pub words: f32,
    /// What its score is multiplied with.
    pub weight: f32,
}

/// All passages of a user in the order of their ids: how long they are, and which follows which.
#[derive(Debug, Clone)]
pub struct Sheet {
    ids: Vec<PassageId>,
    measures: Vec<Measure>,
    /// The passage that each follows, which may not be there.
    follows: Vec<Option<PassageId>>,
    mean_words: f32,
    /// Those that follow another one, by that one.
    followers: Vec<Place>,
    /// Where among them those of each passage begin, and where the last one's end.
    first_follower: Vec<u32>,
}

/// A passage as it stands on a sheet: its id, that of the passage it follows, and its measure.
pub type Entry = (PassageId, Option<PassageId>, Measure);

impl Sheet {
    /// Of passages in any order.
    pub fn new(mut passages: Vec<Entry>) -> Self {
        passages.sort_unstable_by_key(|(id, ..)| *id);
        let ids: Vec<PassageId> = passages.iter().map(|(id, ..)| *id).collect();
        let measures = passages.iter().map(|(.., measure)| *measure).collect();
        let mut sheet = Self {
            ids,
            measures,
            follows: passages.iter().map(|(_, followed, _)| *followed).collect(),
            mean_words: 1.0,
            followers: Vec::new(),
            first_follower: vec![0; passages.len() + 1],
        };
        let follows =
            (0..).zip(&passages).filter_map(|(place, (_, followed, _))| Some((sheet.place((*followed)?)?, place)));
        let mut follows: Vec<(Place, Place)> = follows.collect();
        follows.sort_unstable();
        let mut before = 0;
        for (place, first) in (0..).zip(&mut sheet.first_follower) {
            before += follows[before as usize..].iter().take_while(|(followed, _)| *followed < place).count() as u32;
            *first = before;
        }
        sheet.followers = follows.into_iter().map(|(_, follower)| follower).collect();
        let all: f32 = sheet.measures.iter().map(|measure| measure.words).sum();
        sheet.mean_words = (all / sheet.measures.len().max(1) as f32).max(1.0);
        sheet
    }

    /// The same without those of `gone`, and with those of `new`.
    #[must_use]
    pub fn changed(&self, gone: &[PassageId], new: &[Entry]) -> Self {
        let left: FxHashSet<PassageId> = gone.iter().copied().chain(new.iter().map(|(id, ..)| *id)).collect();
        let all = self.ids.iter().zip(&self.follows).zip(&self.measures);
        let kept =
            all.map(|((&id, &followed), &measure)| (id, followed, measure)).filter(|(id, ..)| !left.contains(id));
        Self::new(kept.chain(new.iter().copied()).collect())
    }

    /// Whether all that is on `other` is here at the same places, as far as their lengths tell.
    pub fn begins_with(&self, other: &Self) -> bool {
        let as_long = |(here, there): (&Measure, &Measure)| here.words == there.words;
        self.ids.starts_with(&other.ids) && self.measures.iter().zip(&other.measures).all(as_long)
    }

    /// How many passages there are.
    pub fn passages(&self) -> usize {
        self.ids.len()
    }

    /// All of them, in order.
    pub fn ids(&self) -> &[PassageId] {
        &self.ids
    }

    /// Where a passage stands; `None` for one that is not there.
    pub fn place(&self, id: PassageId) -> Option<Place> {
        self.ids.binary_search(&id).ok().and_then(|place| Place::try_from(place).ok())
    }

    /// What stands at a place that was given out here.
    pub fn id(&self, place: Place) -> PassageId {
        self.ids.get(place as usize).copied().unwrap_or_default()
    }

    /// What stands at places that were given out here.
    pub fn ids_at(&self, places: &[Place]) -> Vec<PassageId> {
        places.iter().map(|&place| self.id(place)).collect()
    }

    /// What is found of passages, at their places; of one that is not on the sheet, nothing.
    pub fn by_place<T: Copy>(&self, found: Vec<(PassageId, T)>) -> ByPlace<T> {
        let mut row = ByPlace::none(self.passages());
        for (id, value) in found {
            if let Some(place) = self.place(id) {
                row.put(place, value);
            }
        }
        row
    }

    /// What bears on the score of the passage at a place.
    pub fn measure(&self, place: Place) -> Option<Measure> {
        self.measures.get(place as usize).copied()
    }

    /// The passages that follow one: the answer to a question, in all its parts.
    pub fn followers(&self, place: Place) -> impl Iterator<Item = Place> + '_ {
        let border =
            |place: usize| self.first_follower.get(place).map_or(self.followers.len(), |&first| first as usize);
        let place = place as usize;
        self.followers[border(place)..border(place.saturating_add(1))].iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Passages of so many words, at the places from 0; pairs of a place and one that follows it.
    fn sheet(words: &[f32], follows: &[(PassageId, PassageId)]) -> Sheet {
        let followed = |id| follows.iter().find(|(_, follower)| *follower == id).map(|(followed, _)| *followed);
        let passages = words.iter().zip(0..).map(|(&words, id)| (id, followed(id), Measure { words, weight: 1.0 }));
        Sheet::new(passages.collect())
    }

    fn hit(place: Place, all: i16, head: i16) -> Hit {
        Hit { place, count: Count { all, head } }
    }

    fn scores(hits: &[Vec<Hit>], sheet: &Sheet) -> Vec<Option<Words>> {
        let hits: Vec<&[Hit]> = hits.iter().map(Vec::as_slice).collect();
        let scores = super::scores(&hits, sheet);
        (0..sheet.passages()).map(|place| scores.get(place as Place)).collect()
    }

    #[test]
    fn the_score_is_lucenes() {
        let sheet = sheet(&[10.0, 20.0, 30.0], &[]);

        let scores = scores(&[vec![hit(0, 2, 2)]], &sheet);

        let idf = (1.0_f32 + 2.5 / 1.5).ln();
        let expected = idf * 2.0 * 2.5 / (2.0 + 1.5 * (0.25 + 0.75 * 0.5));
        assert!((scores[0].unwrap().score - expected).abs() < 1e-5);
        assert_eq!(scores[1..], [None, None]);
    }

    #[test]
    fn a_rare_word_counts_more_than_a_common_one_and_a_short_passage_more_than_a_long_one() {
        let sheet = sheet(&[10.0, 10.0, 40.0, 10.0], &[]);

        let scores = scores(&[vec![hit(0, 1, 0)], vec![hit(1, 1, 0), hit(2, 1, 0), hit(3, 1, 0)]], &sheet);
        let score = |place: usize| scores[place].unwrap().score;

        assert!(score(0) > score(1));
        assert!(score(1) > score(2));
    }

    #[test]
    fn an_answer_is_found_by_the_first_words_of_its_question() {
        let sheet = sheet(&[10.0, 10.0], &[(0, 1)]);

        let by_head = scores(&[vec![hit(0, 1, 1)]], &sheet);
        let by_tail = scores(&[vec![hit(0, 1, 0)]], &sheet);

        assert!(by_head[1].is_some());
        assert!(by_tail[1].is_none());
    }

    #[test]
    fn a_question_is_covered_by_the_words_it_shares_and_rare_ones_cover_more() {
        let sheet = sheet(&[10.0; 20], &[]);
        let common = (2..=11).map(|id| hit(id, 1, 0)).collect::<Vec<_>>();

        let both = scores(&[vec![hit(1, 3, 0)], vec![hit(1, 1, 0)]], &sheet);
        let rare = scores(&[vec![hit(1, 1, 0)], common.clone()], &sheet);
        let unheard = scores(&[vec![hit(1, 1, 0)], Vec::new(), Vec::new()], &sheet);

        assert!((both[1].unwrap().covered - 1.0).abs() < 1e-6, "a word is shared or not, however often");
        assert!(rare[1].unwrap().covered > rare[2].unwrap().covered && rare[1].unwrap().covered < 1.0);
        assert!(unheard[1].unwrap().covered < 0.4, "words that nobody ever said were asked for too");
    }

    #[test]
    fn some_rare_words_cover_a_question_however_long_it_is() {
        let sheet = sheet(&[10.0; 20], &[]);
        let mut hits = vec![Vec::new(); 500];
        hits.extend((0..3).map(|_| vec![hit(1, 1, 0)]));

        assert!(scores(&hits, &sheet)[1].unwrap().covered > 0.5);
    }

    #[test]
    fn those_that_follow_a_passage_are_found_at_its_place() {
        let sheet = sheet(&[10.0; 6], &[(0, 2), (0, 1), (3, 5), (9, 4)]);

        let followers = |place| sheet.followers(place).collect::<Vec<Place>>();

        assert_eq!((0..6).map(followers).collect::<Vec<_>>(), [vec![1, 2], vec![], vec![], vec![5], vec![], vec![]]);
        assert_eq!((followers(6), followers(Place::MAX)), (vec![], vec![]), "where nothing stands");
    }

    #[test]
    fn a_sheet_that_changed_is_as_one_of_all_that_is_there_now() {
        let entry = |id: PassageId, followed, words: f32| (id, followed, Measure { words, weight: 1.0 });
        let before = vec![entry(1, None, 3.0), entry(2, Some(1), 4.0), entry(5, Some(2), 5.0), entry(6, Some(5), 6.0)];
        // One is gone and comes back, one is other than it was, one stands between the others.
        let without = Sheet::new(before).changed(&[2], &[]);
        let new = [entry(4, Some(5), 1.0), entry(6, Some(4), 9.0), entry(2, Some(1), 4.0)];

        let changed = without.changed(&[6], &new);

        let all = vec![new[0], new[1], new[2], entry(1, None, 3.0), entry(5, Some(2), 5.0)];
        assert_eq!(without.ids(), [1, 5, 6]);
        assert_eq!(format!("{changed:?}"), format!("{:?}", Sheet::new(all)));
    }

    #[test]
    fn a_passage_that_is_gone_has_no_score() {
        assert_eq!(scores(&[vec![hit(9, 1, 1)]], &sheet(&[10.0], &[])), [None]);
    }
}
