//! Every statement of this layer: what a search reads, what learning writes, what keeps it in order.

mod learn;
mod search;
mod upkeep;

use pgvector::HalfVector;
use skymem_core::Embedding;

pub(crate) use self::learn::{Change, Row, insert_vectors, last_before, part_tokens, place_before, replace};
pub(crate) use self::search::{
    Told, allowed, around, cosines, ground, hits, is_remembered, known_by, nearest, passages, passages_of_exchange,
    passages_of_segment, postings, questions, sample, sheet, timezone, told, tongues, vectors,
};
pub(crate) use self::upkeep::{
    KnownEmbedder, any_user_above, build_near_index, embedder, has_near_index, has_tables, meet_embedder, note_use,
    other_embedder, stats, unembedded,
};

fn embedding(vector: &HalfVector) -> Embedding {
    Embedding(vector.as_slice().iter().map(|value| value.to_f32()).collect())
}
