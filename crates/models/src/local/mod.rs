//! The embedder in this process: a file of weights, an encoder, and threads to run it on.

mod blocks;
mod e5_file;
mod encoder;
mod manners;
mod math;
mod minilm;
mod pool;
mod together;
mod tokenizer;
mod unigram;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::available_parallelism;

use async_trait::async_trait;
use memmap2::Mmap;
use skymem_core::{Embedder, EmbedderId, Embedding, ModelError, Purpose};

use crate::length::too_long;
use crate::settings::EmbedderSettings;
use e5_file::E5File;
use encoder::Encoder;
use minilm::MiniLm;
use pool::Pool;
use together::Together;
use tokenizer::{SIGNS, Tokenizer};

/// A model that runs in this process.
pub(crate) struct Local {
    id: EmbedderId,
    tokenizer: Tokenizer,
    query_prefix: Prefix,
    passage_prefix: Prefix,
    dimensions: usize,
    /// Tokens of a text without prefix and signs.
    longest_text: usize,
    pool: Pool,
}

/// What is put before a text: the model was trained with it.
struct Prefix {
    text: &'static str,
    tokens: usize,
}

/// The models that can be run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LocalModel {
    /// multilingual-e5-small, 4-bit.
    E5Small,
    /// all-MiniLM-L6-v2, English only.
    MiniLm,
}

impl LocalModel {
    const ALL: [LocalModel; 2] = [LocalModel::E5Small, LocalModel::MiniLm];

    /// The one that the settings name; the default when they name none.
    pub(crate) fn named(settings: &EmbedderSettings) -> Result<Self, ModelError> {
        let Some(name) = settings.model.as_deref().filter(|name| !name.is_empty()) else {
            return Ok(LocalModel::E5Small);
        };
        let known = Self::ALL.map(LocalModel::name);
        Self::ALL.into_iter().find(|model| model.name() == name).ok_or_else(|| {
            ModelError::Refused(format!("there is no local model {name:?}; known are {}", known.join(" and ")))
        })
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            LocalModel::E5Small => "e5-small-q4",
            LocalModel::MiniLm => "all-minilm-l6-v2",
        }
    }

    pub(crate) fn dimensions(self) -> usize {
        384
    }

    /// The command that fetches its file.
    pub(crate) fn fetched_by(self) -> &'static str {
        match self {
            LocalModel::E5Small => "make setup",
            LocalModel::MiniLm => "scripts/setup minilm",
        }
    }

    /// Where its file of weights is.
    pub(crate) fn file(self, settings: &EmbedderSettings) -> PathBuf {
        let usual = match self {
            LocalModel::E5Small => "e5-small-q4.bin",
            LocalModel::MiniLm => "all-minilm-l6-v2/model.safetensors",
        };
        settings.file.clone().unwrap_or_else(|| settings.folder.join(usual))
    }
}

impl Local {
    /// Loads `model` and starts its threads. Takes a moment: not for a thread that others wait for.
    pub(crate) fn open(model: LocalModel, file: &Path, passage_threads: usize) -> Result<Self, String> {
        let map = Arc::new(map(file)?);
        let (encoder, tokenizer, prefixes, longest_input) = match model {
            LocalModel::E5Small => {
                let (tensors, tokenizer) = E5File::open(map)?;
                let encoder = Encoder::load(&tensors)?;
                let longest = encoder.positions();
                (encoder, tokenizer, ["query: ", "passage: "], longest)
            }
            LocalModel::MiniLm => {
                let json = file.with_file_name("tokenizer.json");
                let json = std::fs::read(&json).map_err(|error| format!("cannot read {}: {error}", json.display()))?;
                let encoder = Encoder::load(&MiniLm::open(map)?)?;
                (encoder, Tokenizer::word_piece(&json)?, ["", ""], MiniLm::LONGEST)
            }
        };
        let prefix = |text: &'static str| {
            // Its last space belongs to the first piece of what follows.
            let tokens = if text.is_empty() { 0 } else { tokenizer.tokens(text.trim_end())?.len() };
            Ok::<_, String>(Prefix { text, tokens })
        };
        let [query_prefix, passage_prefix] = [prefix(prefixes[0])?, prefix(prefixes[1])?];
        let dimensions = encoder.width();
        if dimensions != model.dimensions() {
            return Err(format!("its vectors have {dimensions} numbers"));
        }
        let around = query_prefix.tokens.max(passage_prefix.tokens) + SIGNS;
        let longest_text = longest_input.checked_sub(around).ok_or("it reads no text at all")?;
        let encoder = Arc::new(encoder);
        let together = Together::start(Arc::clone(&encoder));
        let query = move |texts: &[&[u32]], scratch: &mut _| together.encode(texts, scratch);
        let passage = move |texts: &[&[u32]], scratch: &mut _| encoder.encode(texts, scratch);
        let pool = Pool::start(model.name(), Arc::new(query), Arc::new(passage), passage_threads);
        let pool = pool.map_err(|error| error.to_string())?;
        let id = EmbedderId(format!("{}/{dimensions}", model.name()));
        Ok(Self { id, tokenizer, query_prefix, passage_prefix, dimensions, longest_text, pool })
    }

    /// What the encoder reads of `text`.
    fn input(&self, text: &str, purpose: Purpose) -> Result<Vec<u32>, ModelError> {
        let prefix = if purpose == Purpose::Query { &self.query_prefix } else { &self.passage_prefix };
        let tokens = self.tokenizer.tokens(&[prefix.text, text].concat()).map_err(ModelError::Unusable)?;
        let own = tokens.len().saturating_sub(prefix.tokens);
        if own > self.longest_text { Err(too_long(self, own)) } else { Ok(self.tokenizer.framed(&tokens)) }
    }
}

#[async_trait]
impl Embedder for Local {
    fn id(&self) -> &EmbedderId {
        &self.id
    }

    fn dimensions(&self) -> usize {
        self.dimensions
    }

    fn longest_text(&self) -> usize {
        self.longest_text
    }

    fn count_tokens(&self, text: &str) -> usize {
        // A text that its own tokenizer cannot cut is not embedded either.
        self.tokenizer.tokens(text).map_or(usize::MAX, |tokens| tokens.len())
    }

    async fn embed(&self, texts: &[&str], purpose: Purpose) -> Result<Vec<Embedding>, ModelError> {
        let mut pending = Vec::with_capacity(texts.len());
        for text in texts {
            pending.push(self.pool.submit(self.input(text, purpose)?, purpose).await?);
        }
        let mut embeddings = Vec::with_capacity(texts.len());
        for one in pending {
            embeddings.push(one.embedding().await?);
        }
        Ok(embeddings)
    }
}

/// How many threads embed passages: as many as asked for, or one less than there are processors.
pub(crate) fn passage_threads(asked: usize) -> usize {
    match asked {
        0 => available_parallelism().map_or(1, |cores| cores.get().saturating_sub(1)).max(1),
        asked => asked.min(256),
    }
}

fn map(file: &Path) -> Result<Mmap, String> {
    let file = File::open(file).map_err(|error| error.to_string())?;
    // SAFETY: model files are replaced whole by renaming, never written in place; a file that is cut while it is mapped
    // would end the process with SIGBUS, as it would for every program that maps it.
    unsafe { Mmap::map(&file) }.map_err(|error| error.to_string())
}
