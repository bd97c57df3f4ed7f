//! The encoder: BERT's layers over several texts at once.
//!
//! The tokens of all texts of a pass stand in one matrix, a row each, without padding: the layers see only that, and
//! weights are fetched once per pass. Only attention looks at each text by itself, and at more than one row at a time: so a
//! text can be parted as well.

use std::ops::Range;

use super::blocks::{Packed, Rounded};
use super::manners::Manners;
use super::math::{Norm, Shape, add_bias, add_bias_and_gelu, multiply, softmax, unit_mean};

/// A loaded model.
pub(crate) struct Encoder {
    sizes: Sizes,
    words: Box<dyn Words>,
    /// What each position adds to a word, the token type (always the first) included.
    positions: Vec<f32>,
    norm: Norm,
    layers: Vec<Layer>,
}

/// The measures of a model.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    /// Numbers that stand for a token, and in an embedding.
    pub(crate) width: usize,
    pub(crate) layers: usize,
    pub(crate) heads: usize,
    /// Numbers that stand for a token in the middle of a layer.
    pub(crate) inner_width: usize,
    /// Words it knows.
    pub(crate) words: usize,
    /// Tokens it can read at once.
    pub(crate) positions: usize,
    pub(crate) epsilon: f32,
}

/// A file of weights. Names are `emb.` or `l<layer>.`, the part, then `w` for weights or `b` for biases.
pub(crate) trait Tensors {
    fn sizes(&self) -> Sizes;
    /// Numbers that are never packed.
    fn vector(&self, name: &str, length: usize) -> Result<Vec<f32>, String>;
    /// The weights of a layer: those of these names below each other, each of `rows` rows.
    fn weights(&self, names: &[String], rows: usize, columns: usize) -> Result<Weights, String>;
    fn words(&self) -> Result<Box<dyn Words>, String>;
}

/// The vectors of words; too many to unpack.
pub(crate) trait Words: Send + Sync {
    /// Adds the vector of `word` to `row`.
    fn add(&self, word: u32, row: &mut [f32]);
}

struct Layer {
    /// Query, key and value beside each other.
    attend: Linear,
    join: Linear,
    attention_norm: Norm,
    widen: Linear,
    narrow: Linear,
    output_norm: Norm,
}

/// Weights, and a bias for each output.
struct Linear {
    weights: Weights,
    bias: Vec<f32>,
}

/// Weights as they are multiplied.
pub(crate) enum Weights {
    /// By input, so that the outputs of one input stand together.
    Plain(Vec<f32>),
    /// As a file packs them.
    Packed(Packed),
}

/// Room for the numbers of a pass; kept between passes.
#[derive(Default)]
pub(crate) struct Scratch {
    rows: Vec<f32>,
    attend: Vec<f32>,
    shares: Vec<f32>,
    context: Vec<f32>,
    inner: Vec<f32>,
    output: Vec<f32>,
    rounded: Rounded,
    manners: Manners,
}

impl Encoder {
    /// Unpacks the weights of `tensors`.
    pub(crate) fn load(tensors: &dyn Tensors) -> Result<Self, String> {
        let sizes = tensors.sizes();
        let Sizes { width, heads, inner_width, positions, epsilon, .. } = sizes;
        if width == 0 || inner_width == 0 || heads == 0 || width % heads != 0 || width > 1 << 16 || positions > 1 << 20
        {
            return Err("its sizes make no sense".into());
        }
        let norm = |part: &str| {
            Ok::<_, String>(Norm {
                gain: tensors.vector(&format!("{part}.w"), width)?,
                shift: tensors.vector(&format!("{part}.b"), width)?,
                epsilon,
            })
        };

        let mut position_rows = tensors.vector("emb.pos", positions * width)?;
        let kind = tensors.vector("emb.type", 2 * width)?;
        position_rows.chunks_exact_mut(width).for_each(|row| add_bias(row, &kind[..width]));

        let layer = |layer: usize| {
            let name = |part: &str| format!("l{layer}.{part}");
            let linear = |parts: &[&str], inputs, outputs| {
                let parts: Vec<String> = parts.iter().map(|part| name(part)).collect();
                Linear::load(tensors, &parts, inputs, outputs)
            };
            Ok::<_, String>(Layer {
                attend: linear(&["q", "k", "v"], width, width)?,
                join: linear(&["ao"], width, width)?,
                attention_norm: norm(&name("aln"))?,
                widen: linear(&["fi"], width, inner_width)?,
                narrow: linear(&["fo"], inner_width, width)?,
                output_norm: norm(&name("oln"))?,
            })
        };
        let mut layers: Vec<Layer> = (0..sizes.layers).map(layer).collect::<Result<_, _>>()?;
        Packed::lay_beside(layers.iter_mut().flat_map(Layer::packed));
        Ok(Self { sizes, words: tensors.words()?, positions: position_rows, norm: norm("emb.ln")?, layers })
    }

    /// Tokens it can read at once.
    pub(crate) fn positions(&self) -> usize {
        self.sizes.positions
    }

    /// Numbers in an embedding.
    pub(crate) fn width(&self) -> usize {
        self.sizes.width
    }

    /// The unit-length mean over the tokens of each text.
    ///
    /// # Panics
    ///
    /// When a text is empty, longer than [`Encoder::positions`], or has a token the model does not know.
    pub(crate) fn encode(&self, texts: &[&[u32]], scratch: &mut Scratch) -> Vec<Vec<f32>> {
        let width = self.sizes.width;
        let tokens = texts.iter().map(|text| text.len()).sum();
        scratch.make_room(tokens, &self.sizes);
        let mut rows = scratch.rows.as_mut_slice();
        for text in texts {
            let (own, others) = rows.split_at_mut(text.len() * width);
            self.place_words(text, 0..text.len(), own);
            rows = others;
        }
        self.through_layers(scratch, |Scratch { attend, context, shares, .. }| {
            let mut start = 0;
            for text in texts {
                let (all, own) = (&attend[start * 3 * width..], &mut context[start * width..]);
                self.attend(&all[..text.len() * 3 * width], 0..text.len(), own, shares);
                start += text.len();
            }
            Some(())
        });
        let mut rest = scratch.rows.as_slice();
        texts
            .iter()
            .map(|text| {
                let (own, others) = rest.split_at(text.len() * width);
                rest = others;
                unit_mean(own, width)
            })
            .collect()
    }

    /// As [`Encoder::encode`], of the tokens `own` of one text, while others encode the rest of it. `exchange` takes the rows
    /// made of these tokens and fills in those of all; it is called as often by each. `None` once it answers `None`.
    ///
    /// # Panics
    ///
    /// As [`Encoder::encode`].
    pub(crate) fn encode_part(
        &self,
        text: &[u32],
        own: Range<usize>,
        scratch: &mut Scratch,
        mut exchange: impl FnMut(&[f32], &mut [f32], &mut Manners) -> Option<()>,
    ) -> Option<Vec<f32>> {
        let width = self.sizes.width;
        scratch.make_room(own.len(), &self.sizes);
        self.place_words(text, own.clone(), &mut scratch.rows);
        let mut all = vec![0.0; text.len() * 3 * width];
        let mut shares = vec![0.0; own.len() * text.len()];
        self.through_layers(scratch, |Scratch { attend, context, manners, .. }| {
            exchange(attend, &mut all, manners)?;
            self.attend(&all, own.clone(), context, &mut shares);
            Some(())
        })?;
        all.truncate(text.len() * width);
        exchange(&scratch.rows, &mut all, &mut scratch.manners)?;
        Some(unit_mean(&all, width))
    }

    /// Takes the rows through all layers. `attend` makes what each of them takes from the others; `None` when it does.
    fn through_layers(&self, scratch: &mut Scratch, mut attend: impl FnMut(&mut Scratch) -> Option<()>) -> Option<()> {
        scratch.manners = Manners::default();
        self.norm.apply(&mut scratch.rows);
        for layer in &self.layers {
            scratch.manners.let_others_through();
            layer.attend.apply(&scratch.rows, &mut scratch.attend, &mut scratch.rounded);
            add_bias(&mut scratch.attend, &layer.attend.bias);
            attend(scratch)?;
            let (rows, rounded, manners) = (&mut scratch.rows, &mut scratch.rounded, &mut scratch.manners);
            layer.join.apply(&scratch.context, &mut scratch.output, rounded);
            layer.attention_norm.add_and_apply(rows, &scratch.output, &layer.join.bias);

            manners.let_others_through();
            layer.widen.apply(rows, &mut scratch.inner, rounded);
            add_bias_and_gelu(&mut scratch.inner, &layer.widen.bias);
            manners.let_others_through();
            layer.narrow.apply(&scratch.inner, &mut scratch.output, rounded);
            layer.output_norm.add_and_apply(rows, &scratch.output, &layer.narrow.bias);
        }
        Some(())
    }

    /// The rows that the tokens `own` of `text` begin as.
    fn place_words(&self, text: &[u32], own: Range<usize>, rows: &mut [f32]) {
        let width = self.sizes.width;
        assert!(text.len() <= self.sizes.positions, "the length of a text is checked before");
        let positions = self.positions[own.start * width..].chunks_exact(width);
        for ((word, position), row) in text[own].iter().zip(positions).zip(rows.chunks_exact_mut(width)) {
            row.copy_from_slice(position);
            self.words.add(*word, row);
        }
    }

    /// What the tokens `own` of a text take from `all` of it, head by head.
    fn attend(&self, all: &[f32], own: Range<usize>, context: &mut [f32], shares: &mut [f32]) {
        let Sizes { width, heads, .. } = self.sizes;
        let (head_width, length) = (width / heads, all.len() / (3 * width));
        let scale = 1.0 / (head_width as f32).sqrt();
        let inside = |rows, stride| Shape { rows, columns: head_width, stride };
        let (taken, offered) = (inside(own.len(), 3 * width), inside(length, 3 * width));
        let shares = &mut shares[..own.len() * length];
        let square = Shape::dense(own.len(), length);
        for head in 0..heads {
            let part = |row: usize, which: usize| &all[row * 3 * width + which * width + head * head_width..];
            let (query, key, value) = (part(own.start, 0), part(0, 1), part(0, 2));
            multiply((shares, square), (query, taken), (key, offered), true, scale);
            softmax(shares, length);
            let context = (&mut context[head * head_width..], inside(own.len(), width));
            multiply(context, (shares, square), (value, offered), false, 1.0);
        }
    }
}

impl Layer {
    /// Its packed weights, in the order in which they are multiplied.
    fn packed(&mut self) -> impl Iterator<Item = &mut Packed> {
        let all = [&mut self.attend, &mut self.join, &mut self.widen, &mut self.narrow];
        all.into_iter().filter_map(|linear| match &mut linear.weights {
            Weights::Packed(packed) => Some(packed),
            Weights::Plain(_) => None,
        })
    }
}

impl Linear {
    /// Puts the parts of that name, each of `outputs` rows, beside each other.
    fn load(tensors: &dyn Tensors, parts: &[String], inputs: usize, outputs: usize) -> Result<Self, String> {
        let names = |kind: &str| parts.iter().map(|part| format!("{part}.{kind}")).collect::<Vec<String>>();
        let mut bias = Vec::with_capacity(parts.len() * outputs);
        for name in names("b") {
            bias.extend(tensors.vector(&name, outputs)?);
        }
        Ok(Self { weights: tensors.weights(&names("w"), outputs, inputs)?, bias })
    }

    /// The product alone; the bias is added in one go with what comes next.
    fn apply(&self, rows: &[f32], out: &mut [f32], rounded: &mut Rounded) {
        match &self.weights {
            Weights::Packed(weights) => weights.apply(rows, out, rounded),
            Weights::Plain(weights) => {
                let outputs = self.bias.len();
                let (inputs, tokens) = (weights.len() / outputs, out.len() / outputs);
                multiply(
                    (out, Shape::dense(tokens, outputs)),
                    (rows, Shape::dense(tokens, inputs)),
                    (weights, Shape::dense(inputs, outputs)),
                    false,
                    1.0,
                );
            }
        }
    }
}

impl Weights {
    /// Of the weights of each output, one after the other.
    pub(crate) fn plain(outputs: &[f32], inputs: usize) -> Self {
        let count = outputs.len() / inputs;
        let mut weights = vec![0.0; outputs.len()];
        for (output, row) in outputs.chunks_exact(inputs).enumerate() {
            for (input, weight) in row.iter().enumerate() {
                weights[input * count + output] = *weight;
            }
        }
        Self::Plain(weights)
    }
}

impl Scratch {
    fn make_room(&mut self, tokens: usize, sizes: &Sizes) {
        let longest = tokens.min(sizes.positions);
        self.rows.resize(tokens * sizes.width, 0.0);
        self.attend.resize(tokens * sizes.width * 3, 0.0);
        self.shares.resize(longest * longest, 0.0);
        self.context.resize(tokens * sizes.width, 0.0);
        self.inner.resize(tokens * sizes.inner_width, 0.0);
        self.output.resize(tokens * sizes.width, 0.0);
    }
}
