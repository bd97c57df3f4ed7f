//! Reads all-MiniLM-L6-v2 as its authors publish it: `model.safetensors`, and `tokenizer.json` beside it.

use std::sync::Arc;

use memmap2::Mmap;
use safetensors::{Dtype, SafeTensors};

use super::encoder::{Sizes, Tensors, Weights, Words};

/// The file of weights.
pub(crate) struct MiniLm {
    map: Arc<Mmap>,
}

impl MiniLm {
    /// What the model is; its file does not say all of it.
    const SIZES: Sizes =
        Sizes { width: 384, layers: 6, heads: 12, inner_width: 1536, words: 30_522, positions: 512, epsilon: 1e-12 };
    /// The longest text it was trained to read, signs included. It has positions for more, and reads more badly.
    pub(crate) const LONGEST: usize = 256;

    /// Looks whether the file is one of tensors.
    pub(crate) fn open(map: Arc<Mmap>) -> Result<Self, String> {
        SafeTensors::deserialize(&map).map_err(|error| error.to_string())?;
        Ok(Self { map })
    }

    fn section(&self, name: &str, length: usize) -> Result<&[u8], String> {
        let published = published_name(name);
        let tensors = SafeTensors::deserialize(&self.map).map_err(|error| error.to_string())?;
        let tensor = tensors.tensor(&published).map_err(|_| format!("tensor {published} is missing"))?;
        if tensor.dtype() == Dtype::F32 && tensor.data().len() == length * 4 {
            Ok(tensor.data())
        } else {
            Err(format!("tensor {published} has a wrong size"))
        }
    }
}

impl Tensors for MiniLm {
    fn sizes(&self) -> Sizes {
        Self::SIZES
    }

    fn vector(&self, name: &str, length: usize) -> Result<Vec<f32>, String> {
        Ok(numbers(self.section(name, length)?).collect())
    }

    fn weights(&self, names: &[String], rows: usize, columns: usize) -> Result<Weights, String> {
        let mut weights = Vec::with_capacity(names.len() * rows * columns);
        for name in names {
            weights.extend(numbers(self.section(name, rows * columns)?));
        }
        Ok(Weights::plain(&weights, columns))
    }

    fn words(&self) -> Result<Box<dyn Words>, String> {
        let Sizes { words, width, .. } = Self::SIZES;
        let section = self.section("emb.word", words * width)?;
        let start = section.as_ptr() as usize - self.map.as_ptr() as usize;
        Ok(Box::new(PlainWords { map: self.map.clone(), start }))
    }
}

/// The vectors of words, left in the file: most are never asked for.
struct PlainWords {
    map: Arc<Mmap>,
    start: usize,
}

impl Words for PlainWords {
    fn add(&self, word: u32, row: &mut [f32]) {
        let length = row.len() * 4;
        let start = self.start + word as usize * length;
        for (x, number) in row.iter_mut().zip(numbers(&self.map[start..start + length])) {
            *x += number;
        }
    }
}

fn numbers(bytes: &[u8]) -> impl Iterator<Item = f32> {
    bytes.as_chunks::<4>().0.iter().map(|number| f32::from_le_bytes(*number))
}

/// The publisher's name of the tensor that the encoder asks for by a short one.
fn published_name(name: &str) -> String {
    let parts: Vec<&str> = name.split('.').collect();
    let (place, part, kind) = match *parts.as_slice() {
        ["emb", part] => ("embeddings".to_owned(), part, "weight"),
        ["emb", part, kind] => ("embeddings".to_owned(), part, kind),
        [layer, part, kind] => (format!("encoder.layer.{}", layer.trim_start_matches('l')), part, kind),
        _ => return name.to_owned(),
    };
    let part = match part {
        "word" => "word_embeddings",
        "pos" => "position_embeddings",
        "type" => "token_type_embeddings",
        "ln" => "LayerNorm",
        "q" => "attention.self.query",
        "k" => "attention.self.key",
        "v" => "attention.self.value",
        "ao" => "attention.output.dense",
        "aln" => "attention.output.LayerNorm",
        "fi" => "intermediate.dense",
        "fo" => "output.dense",
        "oln" => "output.LayerNorm",
        other => other,
    };
    let kind = if kind == "b" { "bias" } else { "weight" };
    format!("{place}.{part}.{kind}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_are_found_under_their_published_names() {
        assert_eq!(published_name("emb.pos"), "embeddings.position_embeddings.weight");
        assert_eq!(published_name("emb.ln.b"), "embeddings.LayerNorm.bias");
        assert_eq!(published_name("l3.aln.w"), "encoder.layer.3.attention.output.LayerNorm.weight");
        assert_eq!(published_name("l0.q.b"), "encoder.layer.0.attention.self.query.bias");
    }
}
