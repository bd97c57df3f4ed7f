//! What "far apart" means to an embedder: cosines of questions and passages that have nothing to do with each other.
//!
//! Some models squeeze all cosines together (multilingual-e5: related 0.88, unrelated 0.83), so that no fixed threshold
//! fits two of them.

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

/// Everyday remarks on other matters.
const PASSAGES: [&str; 8] = [
    "The mountain hut was closed because of the avalanche warning.",
    "I added two cloves of garlic and let the soup simmer for an hour.",
    "Our train to Prague leaves at seven from platform nine.",
    "Der neue Roman spielt in einem Dorf an der Ostsee.",
    "The goalkeeper saved a penalty in the last minute.",
    "My guitar strings broke during the second song.",
    "The seminar covers the history of the Ottoman Empire.",
    "这家餐厅的烤鸭非常有名。",
];

/// Mean and deviation of the cosines of unrelated questions and passages in the space of `embedder`.
///
/// # Errors
///
/// When the embedder gives no answer.
pub(crate) async fn unrelated(embedder: &dyn Embedder) -> Result<Spread, ModelError> {
    let questions = embedder.embed(&QUESTIONS, Purpose::Query).await?;
    let passages = embedder.embed(&PASSAGES, Purpose::Passage).await?;
    Ok(spread(&questions, &passages))
}

fn spread(questions: &[Embedding], passages: &[Embedding]) -> Spread {
    let cosines: Vec<f32> = questions.iter().flat_map(|q| passages.iter().map(|p| q.cosine(p))).collect();
    let count = cosines.len().max(1) as f32;
    let mean = cosines.iter().sum::<f32>() / count;
    let variance = cosines.iter().map(|c| (c - mean) * (c - mean)).sum::<f32>() / count;
    Spread { mean, deviation: variance.sqrt() }
}

/// The cosine in the space of an embedder that is as near as `nearness` is where unrelated texts have a cosine of 0:
/// so that a threshold means about the same to every embedder.
pub(crate) fn cosine_as_near_as(nearness: f32, unrelated: Spread) -> f32 {
    unrelated.mean + nearness * (1.0 - unrelated.mean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_threshold_is_squeezed_as_the_embedder_squeezes() {
        let squeezed = Spread { mean: 0.8, deviation: 0.02 };
        for (nearness, cosine) in [(0.0, 0.8), (0.5, 0.9), (1.0, 1.0)] {
            assert!((cosine_as_near_as(nearness, squeezed) - cosine).abs() < 1e-5);
        }
        assert!((cosine_as_near_as(0.7, Spread::default()) - 0.7).abs() < 1e-5);
    }
}
