//! What "far apart" means to an embedder, and to one question.
//!
//! Some models squeeze all cosines together (multilingual-e5: related 0.87, unrelated 0.72), and in any model some
//! questions are near everything ("hello", "when is my flight?"). So no fixed threshold tells what is related: a question
//! is compared with a few passages that have nothing to do with it, and what is clearly nearer than those is near.

use skymem_core::{Embedder, Embedding, ModelError, Purpose};

use crate::fuse::Spread;

/// Everyday questions, none of which is about any of [`PASSAGES`].
const QUESTIONS: [&str; 8] = [
    "When does the dentist open on Saturdays?",
    "Which paint did we choose for the kitchen?",
    "How do I restart the print queue?",
    "Wie heißt die Katze der Nachbarn?",
    "What did the accountant say about the tax refund?",
    "Where did I put the spare bicycle pump?",
    "Who is coming to the choir rehearsal?",
    "我妹妹什么时候出生的？",
];

/// Everyday remarks on other matters, none about another.
const PASSAGES: [&str; 16] = [
    "The mountain hut was closed because of the avalanche warning.",
    "I added two cloves of garlic and let the soup simmer for an hour.",
    "Our train to Prague leaves at seven from platform nine.",
    "Der neue Roman spielt in einem Dorf an der Ostsee.",
    "The goalkeeper saved a penalty in the last minute.",
    "My guitar strings broke during the second song.",
    "The seminar covers the history of the Ottoman Empire.",
    "这家餐厅的烤鸭非常有名。",
    "She planted tulips along the garden fence.",
    "The new phone has a better camera than the old one.",
    "Das Gericht hat die Klage abgewiesen.",
    "Thanks, that sounds great!",
    "He is learning to sail on the lake this summer.",
    "La réunion a été reportée à jeudi.",
    "The function returns an error when the list is empty.",
    "昨天股市下跌了百分之二。",
];

/// Passages that have nothing to do with what a person asks, and how their cosines to a question are spread.
#[derive(Debug, Clone, PartialEq)]
pub struct Background {
    /// Vectors of the passages.
    pub references: Vec<Embedding>,
    /// Standard deviation of a question's cosines to them, around that question's own mean.
    pub spread: f32,
}

impl Background {
    /// Asks `embedder` what far apart means to it.
    ///
    /// # Errors
    ///
    /// When the embedder gives no answer.
    pub async fn of(embedder: &dyn Embedder) -> Result<Self, ModelError> {
        let questions = embedder.embed(&QUESTIONS, Purpose::Query).await?;
        let references = embedder.embed(&PASSAGES, Purpose::Passage).await?;
        let unspread = Self { references, spread: 0.0 };
        let variances = questions.iter().map(|question| {
            let around = unspread.around(question).mean;
            mean(unspread.references.iter().map(|reference| (question.cosine(reference) - around).powi(2)))
        });
        let spread = mean(variances).sqrt();
        Ok(Self { spread, ..unspread })
    }

    /// How the cosines to `question` of passages that have nothing to do with it are spread.
    pub fn around(&self, question: &Embedding) -> Spread {
        let cosines = self.references.iter().map(|reference| question.cosine(reference));
        Spread { mean: mean(cosines), deviation: self.spread }
    }

    /// The cosine of two passages that is as near as `nearness` is in a space where unrelated ones have a cosine of 0: so
    /// that a threshold means about the same to every embedder.
    pub fn cosine_as_near_as(&self, nearness: f32) -> f32 {
        let references = &self.references;
        let pairs = references.iter().enumerate().flat_map(|(at, a)| references[..at].iter().map(|b| a.cosine(b)));
        let unrelated = mean(pairs);
        unrelated + nearness * (1.0 - unrelated)
    }
}

/// 0 for nothing.
fn mean(values: impl Iterator<Item = f32>) -> f32 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    if count > 0.0 { sum / count } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vector(x: f32) -> Embedding {
        Embedding(vec![x, (1.0 - x * x).sqrt()])
    }

    #[test]
    fn a_question_that_is_near_everything_has_a_mean_of_its_own() {
        let background = Background { references: vec![vector(0.8), vector(0.9)], spread: 0.05 };

        let around = background.around(&vector(1.0));

        assert!((around.mean - 0.85).abs() < 1e-5);
        assert_eq!(around.deviation, 0.05);
    }

    #[test]
    fn a_threshold_is_squeezed_as_the_embedder_squeezes() {
        let apart = Background { references: vec![vector(1.0), vector(0.0)], spread: 0.1 };
        let squeezed = Background { references: vec![vector(1.0), vector(0.8)], spread: 0.1 };

        assert!((apart.cosine_as_near_as(0.7) - 0.7).abs() < 1e-5);
        assert!((squeezed.cosine_as_near_as(0.5) - 0.9).abs() < 1e-5);
    }
}
