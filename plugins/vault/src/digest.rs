//! What was made of a turn when it was read the first time: the turn, and the words of its passages. Kept sealed, so that the
//! next unlocking is quick: to agree on a key for every turn, to tell its language and to stem it is most of the work.

use std::collections::HashMap;

use chrono_tz::Tz;
use serde::{Deserialize, Serialize};
use skymem_seal::{LearnedKey, Place, SealError, SealedTurn};
use skymem_search::draft::Words;
use skymem_search::words::{Count, Language};
use zeroize::{Zeroize, Zeroizing};

use crate::learned::Entry;

/// The column that digests are sealed for.
const COLUMN: &str = "digest";

/// The way words are made: raised with every change of how a text is cut into words or how they are stemmed, so that what was
/// kept before is made anew.
const FORM: u16 = 1;

/// The words of a turn's passages, in order. Overwritten when they are let go.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct TurnWords {
    /// The [`FORM`] they were made in.
    #[serde(default)]
    form: u16,
    /// Where its day begins and ends: the day is searched by its words too.
    zone: String,
    passages: Vec<PassageWords>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct PassageWords {
    /// The length of its text: a turn that is split in another way has other passages.
    bytes: usize,
    language: String,
    /// Each term, how often it stands in all of it, and how often at its beginning.
    terms: Vec<(String, i16, i16)>,
}

impl TurnWords {
    /// Those of the passages of a turn.
    pub(crate) fn of<'a>(entries: impl Iterator<Item = &'a Entry>, zone: Tz) -> Self {
        let passages = entries.map(|entry| PassageWords {
            bytes: entry.passage.text.len(),
            language: entry.language.code().to_owned(),
            terms: entry.postings.iter().map(|(term, count)| (term.clone(), count.all, count.head)).collect(),
        });
        Self { form: FORM, zone: zone.name().to_owned(), passages: passages.collect() }
    }

    /// Those of the passage at `part`, if that is the same as then.
    pub(crate) fn part(&self, part: usize, text: &str, zone: Tz) -> Option<Words> {
        let known = self.passages.get(part)?;
        let same = self.form == FORM && known.bytes == text.len() && self.zone == zone.name();
        let language = Language::of(&known.language).filter(|_| same)?;
        let count = |(term, all, head): &(String, i16, i16)| (term.clone(), Count { all: *all, head: *head });
        let postings: HashMap<String, Count> = known.terms.iter().map(count).collect();
        Some(Words { language, postings })
    }
}

impl Drop for TurnWords {
    fn drop(&mut self) {
        self.passages.iter_mut().flat_map(|passage| &mut passage.terms).for_each(|(term, ..)| term.zeroize());
    }
}

#[derive(Serialize)]
struct Written<'a> {
    turn: &'a SealedTurn,
    words: &'a TurnWords,
}

#[derive(Deserialize)]
struct Read {
    turn: SealedTurn,
    words: TurnWords,
}

/// A digest, sealed for the row of its turn.
pub(crate) fn seal(
    key: &LearnedKey,
    place: Place<'_>,
    turn: &SealedTurn,
    words: &TurnWords,
) -> Result<Vec<u8>, SealError> {
    let text = Zeroizing::new(serde_json::to_vec(&Written { turn, words }).map_err(|_| SealError::Failed)?);
    key.seal_text(&Place { column: COLUMN, ..place }, &text)
}

/// What was sealed by [`seal`].
pub(crate) fn open(key: &LearnedKey, place: Place<'_>, sealed: &[u8]) -> Result<(SealedTurn, TurnWords), SealError> {
    let text = key.open_text(&Place { column: COLUMN, ..place }, sealed)?;
    let Read { turn, words } = serde_json::from_slice(&text).map_err(|_| SealError::UnknownForm)?;
    Ok((turn, words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_believed_only_of_the_same_text_in_the_same_zone_and_made_in_the_same_form() {
        let text = "tea in Bonn";
        let passage = || PassageWords { bytes: text.len(), language: "en".into(), terms: vec![("tea".into(), 1, 1)] };
        let words = |form| TurnWords { form, zone: "UTC".into(), passages: vec![passage()] };

        assert!(words(FORM).part(0, text, Tz::UTC).is_some());
        assert!(words(FORM - 1).part(0, text, Tz::UTC).is_none(), "stemmed in another way");
        assert!(words(FORM).part(1, text, Tz::UTC).is_none());
        assert!(words(FORM).part(0, "cocoa in Bonn", Tz::UTC).is_none());
        assert!(words(FORM).part(0, text, Tz::Europe__Berlin).is_none());
        // What was kept before there were forms.
        let old: TurnWords =
            serde_json::from_value(serde_json::json!({ "zone": "UTC", "passages": [passage()] })).unwrap();
        assert!(old.part(0, text, Tz::UTC).is_none());
    }
}
