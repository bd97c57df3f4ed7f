//! What cuts texts for the encoder: one of two tokenizers, and the signs that stand around a text.

use super::unigram::Unigram;

/// A tokenizer with the signs its model expects at both ends of a text.
pub(crate) struct Tokenizer {
    cutter: Cutter,
    begin: u32,
    end: u32,
}

enum Cutter {
    Unigram(Unigram),
    WordPiece(Box<tokenizers::Tokenizer>),
}

impl Tokenizer {
    /// One of SentencePiece's kind.
    pub(crate) fn unigram(unigram: Unigram, begin: u32, end: u32) -> Self {
        Self { cutter: Cutter::Unigram(unigram), begin, end }
    }

    /// The one that a `tokenizer.json` of BERT's kind describes.
    pub(crate) fn word_piece(json: &[u8]) -> Result<Self, String> {
        let mut tokenizer = tokenizers::Tokenizer::from_bytes(json).map_err(|error| error.to_string())?;
        // The file asks for padding to, and a cut at, 128 tokens. Texts are neither padded nor cut here.
        tokenizer.with_padding(None);
        tokenizer.with_truncation(None).map_err(|error| error.to_string())?;
        // `[SEP]` in a text is five characters, not the end of it.
        tokenizer.set_encode_special_tokens(true);
        let sign = |name| tokenizer.token_to_id(name).ok_or_else(|| format!("its tokenizer has no {name}"));
        let (begin, end) = (sign("[CLS]")?, sign("[SEP]")?);
        Ok(Self { cutter: Cutter::WordPiece(Box::new(tokenizer)), begin, end })
    }

    /// The tokens of `text` alone, without signs.
    pub(crate) fn tokens(&self, text: &str) -> Result<Vec<u32>, String> {
        match &self.cutter {
            Cutter::Unigram(unigram) => Ok(unigram.pieces(text)),
            Cutter::WordPiece(tokenizer) => match tokenizer.encode_fast(text, false) {
                Ok(encoding) => Ok(encoding.get_ids().to_vec()),
                Err(error) => Err(format!("its tokenizer failed: {error}")),
            },
        }
    }

    /// `tokens` between the signs.
    pub(crate) fn framed(&self, tokens: &[u32]) -> Vec<u32> {
        [&[self.begin], tokens, &[self.end]].concat()
    }
}

/// How many signs [`Tokenizer::framed`] adds.
pub(crate) const SIGNS: usize = 2;
