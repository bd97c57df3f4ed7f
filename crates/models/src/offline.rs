//! An embedder without a model: hashed words and pieces of words. For tests and demonstrations.

use async_trait::async_trait;
use skymem_core::{Embedder, EmbedderId, Embedding, ModelError, Purpose, estimate_tokens};

const DIMENSIONS: usize = 64;

/// Texts that share words, stems of words or CJK characters are near each other; it knows nothing else of meaning.
///
/// The same text has the same vector on every machine, for every purpose.
#[derive(Debug)]
pub struct Offline {
    id: EmbedderId,
}

impl Offline {
    /// Opens it; there is nothing to load.
    #[must_use]
    pub fn new() -> Self {
        Self { id: EmbedderId(format!("offline/{DIMENSIONS}")) }
    }
}

impl Default for Offline {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Embedder for Offline {
    fn id(&self) -> &EmbedderId {
        &self.id
    }

    fn dimensions(&self) -> usize {
        DIMENSIONS
    }

    fn longest_text(&self) -> usize {
        500
    }

    fn count_tokens(&self, text: &str) -> usize {
        estimate_tokens(text).0
    }

    async fn embed(&self, texts: &[&str], _purpose: Purpose) -> Result<Vec<Embedding>, ModelError> {
        texts
            .iter()
            .map(|text| {
                crate::length::check(self, text)?;
                Ok(embedding(text))
            })
            .collect()
    }
}

fn embedding(text: &str) -> Embedding {
    let mut vector = [0.0_f32; DIMENSIONS];
    let mut word = Vec::new();
    let mut ideograph = None;
    for c in text.chars().flat_map(char::to_lowercase).chain([' ']) {
        if is_cjk(c) {
            add_word(&mut vector, &mut word);
            add(&mut vector, &[c], 0.5);
            if let Some(before) = ideograph.replace(c) {
                add(&mut vector, &[before, c], 1.0);
            }
            continue;
        }
        ideograph = None;
        if c.is_alphanumeric() {
            word.push(c);
        } else {
            add_word(&mut vector, &mut word);
        }
    }
    let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
    if length > 0.0 {
        vector.iter_mut().for_each(|x| *x /= length);
    } else {
        // A text without words is as near to nothing as to anything.
        vector[0] = 1.0;
    }
    Embedding(vector.to_vec())
}

/// Adds the word whole, its beginning (a poor man's stem), and its runs of three letters; empties `word`.
fn add_word(vector: &mut [f32; DIMENSIONS], word: &mut Vec<char>) {
    // Short words are mostly grammar: they should not make two texts alike.
    let weight = if word.len() <= 3 { 0.3 } else { 1.0 };
    if !word.is_empty() {
        add(vector, word, weight);
    }
    if let Some(stem) = word.get(..4).filter(|_| word.len() > 4) {
        add(vector, stem, 0.7);
    }
    for run in word.windows(3).filter(|run| run.len() < word.len()) {
        add(vector, run, 0.2);
    }
    word.clear();
}

/// Adds one feature at the places its hash says.
fn add(vector: &mut [f32; DIMENSIONS], feature: &[char], weight: f32) {
    let mut hash = hash(feature);
    // Four places of random sign each: two different features are hardly ever the same four.
    for _ in 0..4 {
        let sign = if hash & 1 == 0 { weight } else { -weight };
        let place = (hash >> 1) as usize % DIMENSIONS;
        if let Some(x) = vector.get_mut(place) {
            *x += sign;
        }
        hash >>= 16;
    }
}

/// FNV-1a, finished so that all bits are worth using. The standard hasher may change between versions of Rust.
fn hash(feature: &[char]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in feature.iter().flat_map(|&c| u32::from(c).to_le_bytes()) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    hash = (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash ^ (hash >> 29)
}

fn is_cjk(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30FF}' | '\u{3400}'..='\u{4DBF}' | '\u{4E00}'..='\u{9FFF}' | '\u{AC00}'..='\u{D7AF}'
        | '\u{F900}'..='\u{FAFF}' | '\u{20000}'..='\u{3FFFF}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nearer(question: &str, near: &str, far: &str) {
        let [question_vector, near_vector, far_vector] = [question, near, far].map(embedding);
        let (to_near, to_far) = (question_vector.cosine(&near_vector), question_vector.cosine(&far_vector));
        assert!(to_near > to_far + 0.1, "{question:?}: {near:?} at {to_near}, {far:?} at {to_far}");
    }

    #[test]
    fn texts_that_share_words_are_nearer_than_texts_that_do_not() {
        nearer("which database do we use", "we decided to use the Postgres database", "my cat sleeps all day");
        nearer("Welche Datenbank nutzen wir?", "Als Datenbank nutzen wir Postgres.", "Die Katze schläft gern.");
        nearer("数据库用哪个", "我们用的数据库是 Postgres", "我的猫喜欢睡觉");
        nearer("データベースは何ですか", "データベースは Postgres です", "猫はよく眠る");
        nearer("데이터베이스는 무엇", "우리 데이터베이스는 Postgres", "고양이가 잔다");
    }

    #[test]
    fn other_forms_of_a_word_count_too() {
        nearer("hiking", "we hiked", "we cooked");
    }

    #[test]
    fn every_text_has_a_vector_of_length_one() {
        for text in ["", " ", "?!", "a", "word", "我", "\u{0}\u{FFFF}", "🎉🎉"] {
            let vector = embedding(text);
            assert!((vector.cosine(&vector) - 1.0).abs() < 1e-5, "{text:?}");
        }
    }

    #[test]
    fn the_same_text_has_the_same_vector_on_every_machine() {
        let vector = embedding("the same for ever");
        let mut hash = 0_u64;
        for x in &vector.0 {
            hash = hash.rotate_left(7) ^ u64::from((x * 1e4).round() as i32 as u32);
        }

        assert_eq!(hash, 8_610_969_359_778_085_503, "the space changed: give the embedder another id");
    }

    #[tokio::test]
    async fn a_text_that_is_too_long_is_refused() {
        let answer = Offline::new().embed(&["fine", &"word ".repeat(2_000)], Purpose::Passage).await;

        assert!(matches!(answer, Err(ModelError::Refused(_))), "{answer:?}");
    }
}
