//! Embeddings that were asked for lately: a question is embedded once, and so is every "thanks".

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use lru::LruCache;
use sha2::{Digest, Sha256};
use skymem_core::{Embedder, EmbedderId, Embedding, ModelError, Purpose};

/// An embedder that remembers its last answers, by what a text is embedded for and by its hash; never the text itself.
pub(crate) struct Cached {
    inner: Arc<dyn Embedder>,
    answers: Mutex<LruCache<Key, Embedding>>,
}

type Key = [u8; 32];

impl Cached {
    /// Remembers the last `entries` answers of `inner`.
    pub(crate) fn new(inner: Arc<dyn Embedder>, entries: NonZeroUsize) -> Self {
        Self { inner, answers: Mutex::new(LruCache::new(entries)) }
    }

    fn known(&self, keys: &[Key]) -> HashMap<Key, Embedding> {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        keys.iter().filter_map(|key| Some((*key, answers.get(key)?.clone()))).collect()
    }

    fn remember(&self, key: Key, embedding: Embedding) {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).put(key, embedding);
    }
}

#[async_trait]
impl Embedder for Cached {
    fn id(&self) -> &EmbedderId {
        self.inner.id()
    }

    fn dimensions(&self) -> usize {
        self.inner.dimensions()
    }

    fn longest_text(&self) -> usize {
        self.inner.longest_text()
    }

    fn count_tokens(&self, text: &str) -> usize {
        self.inner.count_tokens(text)
    }

    async fn embed(&self, texts: &[&str], purpose: Purpose) -> Result<Vec<Embedding>, ModelError> {
        let keys: Vec<Key> = texts.iter().map(|text| key(text, purpose)).collect();
        let mut found = self.known(&keys);
        let mut asked = HashMap::new();
        let mut new_texts = Vec::new();
        for (text, key) in texts.iter().zip(&keys) {
            if !found.contains_key(key) && asked.insert(*key, ()).is_none() {
                new_texts.push((*key, *text));
            }
        }
        if !new_texts.is_empty() {
            let only_texts: Vec<&str> = new_texts.iter().map(|(_, text)| *text).collect();
            for ((key, _), embedding) in new_texts.iter().zip(self.inner.embed(&only_texts, purpose).await?) {
                self.remember(*key, embedding.clone());
                found.insert(*key, embedding);
            }
        }
        let embeddings: Option<Vec<Embedding>> = keys.iter().map(|key| found.get(key).cloned()).collect();
        embeddings.ok_or_else(|| ModelError::Unusable("fewer embeddings than texts".into()))
    }

    async fn embed_once(&self, texts: &[&str], purpose: Purpose) -> Result<Vec<Embedding>, ModelError> {
        self.inner.embed_once(texts, purpose).await
    }
}

fn key(text: &str, purpose: Purpose) -> Key {
    let purpose: &[u8] = match purpose {
        Purpose::Query => b"query\0",
        Purpose::Passage => b"passage\0",
    };
    Sha256::new().chain_update(purpose).chain_update(text).finalize().into()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::Offline;

    #[derive(Default)]
    struct Counting(Offline, AtomicUsize);

    #[async_trait]
    impl Embedder for Counting {
        fn id(&self) -> &EmbedderId {
            self.0.id()
        }
        fn dimensions(&self) -> usize {
            self.0.dimensions()
        }
        fn longest_text(&self) -> usize {
            self.0.longest_text()
        }
        fn count_tokens(&self, text: &str) -> usize {
            self.0.count_tokens(text)
        }
        async fn embed(&self, texts: &[&str], purpose: Purpose) -> Result<Vec<Embedding>, ModelError> {
            self.1.fetch_add(texts.len(), Ordering::SeqCst);
            self.0.embed(texts, purpose).await
        }
    }

    #[tokio::test]
    async fn a_text_is_embedded_once_for_each_purpose_and_answers_stay_in_order() {
        let counting = Arc::new(Counting::default());
        let cached = Cached::new(counting.clone(), NonZeroUsize::new(3).unwrap());
        let plain =
            |texts: &'static [&'static str]| async move { Offline::new().embed(texts, Purpose::Query).await.unwrap() };

        let first = cached.embed(&["a", "b", "a"], Purpose::Query).await.unwrap();
        assert_eq!(first, plain(&["a", "b", "a"]).await);
        assert_eq!(counting.1.load(Ordering::SeqCst), 2);

        let second = cached.embed(&["c", "a"], Purpose::Query).await.unwrap();
        assert_eq!(second, plain(&["c", "a"]).await);
        assert_eq!(counting.1.load(Ordering::SeqCst), 3);

        cached.embed(&["a"], Purpose::Passage).await.unwrap();
        assert_eq!(counting.1.load(Ordering::SeqCst), 4);

        // The oldest made room.
        cached.embed(&["b"], Purpose::Query).await.unwrap();
        assert_eq!(counting.1.load(Ordering::SeqCst), 5);
        assert!(cached.embed(&[], Purpose::Query).await.unwrap().is_empty());

        cached.embed_once(&["d"], Purpose::Query).await.unwrap();
        let asked = counting.1.load(Ordering::SeqCst);
        cached.embed(&["d"], Purpose::Query).await.unwrap();
        assert_eq!(counting.1.load(Ordering::SeqCst), asked + 1, "what was asked for once is not remembered");
    }

    #[tokio::test]
    async fn an_error_is_not_remembered() {
        let cached = Cached::new(Arc::new(Offline::new()), NonZeroUsize::new(3).unwrap());
        let long = "word ".repeat(2_000);

        assert!(cached.embed(&[&long], Purpose::Query).await.is_err());
        assert!(cached.embed(&["short"], Purpose::Query).await.is_ok());
    }
}
