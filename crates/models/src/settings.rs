//! Which embedder to open, as it stands under `[embedder]` in the configuration.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize, Serializer};
use skymem_core::ModelError;

/// Which embedder to open, and how. The default is the local multilingual one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EmbedderSettings {
    /// Where vectors come from.
    pub kind: EmbedderKind,
    /// Which model. Local: `e5-small-q4` (the default) or `all-minilm-l6-v2` (English only). Remote: the name that the
    /// server knows it by. Offline has only one.
    pub model: Option<String>,
    /// Local: the folder of model files.
    pub folder: PathBuf,
    /// Local: the file of weights, where it is not the usual one of `folder`.
    pub file: Option<PathBuf>,
    /// Local: threads that embed passages; `0` means one less than there are cores. One more is there for queries, and a
    /// second one to share a query with it where there are two cores or more.
    pub threads: usize,
    /// Remote: the address without the last step, for instance `http://127.0.0.1:8080/v1` or `http://127.0.0.1:11434`.
    pub url: Option<String>,
    /// Remote: the key it asks for.
    pub key: Option<Secret>,
    /// Remote: a file that holds the key.
    pub key_file: Option<PathBuf>,
    /// Remote: how many numbers a vector has. When it is not given, the server is asked once at the start.
    pub dimensions: Option<usize>,
    /// Remote: ask the server to shorten its vectors to `dimensions`; only some models can.
    pub shorten: bool,
    /// Remote: what is put before a question; known models have their own when it is not given.
    pub query_prefix: Option<String>,
    /// Remote: what is put before a text to be found; changing it calls for embedding everything again.
    pub passage_prefix: Option<String>,
    /// Remote: the longest text the model reads to its end.
    pub longest_text_tokens: usize,
    /// Remote: how long one request may take.
    pub timeout_ms: u64,
    /// Remote: requests under way at the same time, for queries and for passages each.
    pub concurrency: usize,
    /// Remote: texts in one request.
    pub batch_size: usize,
    /// Embeddings kept in memory by text; `0` switches the cache off. Each takes about 2 kB.
    pub cache_entries: usize,
}

impl Default for EmbedderSettings {
    fn default() -> Self {
        Self {
            kind: EmbedderKind::Local,
            model: None,
            folder: PathBuf::from("models"),
            file: None,
            threads: 0,
            url: None,
            key: None,
            key_file: None,
            dimensions: None,
            shorten: false,
            query_prefix: None,
            passage_prefix: None,
            longest_text_tokens: 500,
            timeout_ms: 30_000,
            concurrency: 2,
            batch_size: 32,
            cache_entries: 10_000,
        }
    }
}

impl EmbedderSettings {
    /// The key to send, from `key` or `key_file`; none when neither is given.
    ///
    /// # Errors
    ///
    /// When both are given, or the file cannot be read or is empty.
    pub(crate) fn read_key(&self) -> Result<Option<Secret>, ModelError> {
        read_key("the embedder", self.key.as_ref(), self.key_file.as_deref())
    }
}

/// The key that the settings of `of` give, in themselves or in a file; none when neither is given.
///
/// # Errors
///
/// When both are given, or the file cannot be read or is empty.
pub(crate) fn read_key(of: &str, key: Option<&Secret>, file: Option<&Path>) -> Result<Option<Secret>, ModelError> {
    match (key, file) {
        (Some(_), Some(_)) => Err(ModelError::Refused(format!("give {of} `key` or `key_file`, not both"))),
        (Some(key), None) => Ok(Some(key.clone()).filter(|key| !key.0.is_empty())),
        (None, None) => Ok(None),
        (None, Some(file)) => {
            let shown = file.display();
            let text = std::fs::read_to_string(file)
                .map_err(|error| ModelError::Refused(format!("cannot read {of}'s key_file {shown}: {error}")))?;
            match text.trim() {
                "" => Err(ModelError::Refused(format!("{of}'s key_file {shown} is empty"))),
                key => Ok(Some(Secret(key.to_owned()))),
            }
        }
    }
}

/// Where vectors come from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EmbedderKind {
    /// A model in this process.
    #[default]
    Local,
    /// A server that speaks OpenAI's `/embeddings`.
    OpenAi,
    /// An Ollama server.
    Ollama,
    /// No model: hashed words. For tests and demonstrations.
    Offline,
}

/// Something that must not be shown: it prints as `***`, also when it is serialised.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_never_shown() {
        let settings = EmbedderSettings { key: Some(Secret("sk-very-secret".into())), ..Default::default() };

        assert!(!format!("{settings:?}").contains("very-secret"));
        assert!(!serde_json::to_string(&settings).unwrap().contains("very-secret"));
    }

    #[test]
    fn a_misspelt_setting_is_named() {
        let error = serde_json::from_str::<EmbedderSettings>(r#"{"modell": "x"}"#).unwrap_err();

        assert!(error.to_string().contains("modell"), "{error}");
    }

    #[test]
    fn nothing_said_means_the_local_model() {
        let settings: EmbedderSettings = serde_json::from_str("{}").unwrap();

        assert_eq!(settings, EmbedderSettings::default());
        assert_eq!(settings.kind, EmbedderKind::Local);
    }

    #[test]
    fn a_key_comes_from_one_place() {
        let file = std::env::temp_dir().join(format!("skymem-key-{}", std::process::id()));
        std::fs::write(&file, "from-file\n").unwrap();
        let from_file = EmbedderSettings { key_file: Some(file.clone()), ..Default::default() };
        let both = EmbedderSettings { key: Some(Secret("k".into())), ..from_file.clone() };

        assert_eq!(from_file.read_key().unwrap(), Some(Secret("from-file".into())));
        assert!(matches!(both.read_key(), Err(ModelError::Refused(_))));

        std::fs::write(&file, " \n").unwrap();
        assert!(from_file.read_key().is_err());
        std::fs::remove_file(&file).unwrap();
        assert!(from_file.read_key().unwrap_err().to_string().contains("cannot read"));
    }
}
