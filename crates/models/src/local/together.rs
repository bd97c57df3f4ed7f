//! Two threads embed a question together, since somebody waits for it: each takes half of its tokens through the layers. In
//! each layer they tell each other what their tokens have to offer; nothing else passes between them.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant};

use super::encoder::{Encoder, Scratch};
use super::manners::Manners;

/// From so many tokens on, those of the frame included, sharing them is worth its while.
const FEWEST_TOKENS: usize = 8;

/// So long others are let through while the other one is late, before it is slept: being woken takes longer than what the
/// other one mostly still has to do.
const PATIENCE: Duration = Duration::from_micros(200);

/// An encoder, and the thread that helps with questions. It ends when this is dropped.
pub(crate) struct Together {
    encoder: Arc<Encoder>,
    /// `None` where there are too few processors, or no thread to be had.
    helper: Option<Sender<Half>>,
}

/// What the helper does.
struct Half {
    text: Vec<u32>,
    own: Range<usize>,
    other: Other,
}

/// The one who has the other tokens.
struct Other {
    tell: Sender<Vec<f32>>,
    heard: Receiver<Vec<f32>>,
}

impl Together {
    /// Starts the helper where there are processors for both and for whoever looks up meanwhile what else a question needs.
    /// With two processors the halves wait for each other instead, and a chat waits a little longer than without help.
    pub(crate) fn start(encoder: Arc<Encoder>) -> Self {
        let (helper, halves) = channel();
        let work = {
            let encoder = Arc::clone(&encoder);
            move || help(&encoder, &halves)
        };
        let processors = thread::available_parallelism().map_or(1, usize::from);
        let started = processors > 2 && thread::Builder::new().name("embed-half".into()).spawn(work).is_ok();
        Self { encoder, helper: started.then_some(helper) }
    }

    /// As [`Encoder::encode`]; together, when there is one text that is long enough.
    pub(crate) fn encode(&self, texts: &[&[u32]], scratch: &mut Scratch) -> Vec<Vec<f32>> {
        let shared = match texts {
            [text] if text.len() >= FEWEST_TOKENS => self.shared(text, scratch),
            _ => None,
        };
        shared.map_or_else(|| self.encoder.encode(texts, scratch), |embedding| vec![embedding])
    }

    /// `None` without a helper, and when it broke down.
    fn shared(&self, text: &[u32], scratch: &mut Scratch) -> Option<Vec<f32>> {
        let helper = self.helper.as_ref()?;
        let middle = text.len() / 2;
        let (mut other, me) = Other::pair();
        helper.send(Half { text: text.to_vec(), own: middle..text.len(), other: me }).ok()?;
        self.encoder.encode_part(text, 0..middle, scratch, |own, all, manners| other.exchange(own, all, 0, manners))
    }
}

/// Helps until nobody asks any more. What breaks down here does so for who asked as well, who tells of it.
fn help(encoder: &Encoder, halves: &Receiver<Half>) {
    let mut scratch = Scratch::default();
    while let Ok(Half { text, own, mut other }) = halves.recv() {
        let before = own.start;
        let exchange = |own: &[f32], all: &mut [f32], manners: &mut Manners| other.exchange(own, all, before, manners);
        let helped = || encoder.encode_part(&text, own, &mut scratch, exchange);
        if catch_unwind(AssertUnwindSafe(helped)).is_err() {
            scratch = Scratch::default();
        }
    }
}

impl Other {
    fn pair() -> (Self, Self) {
        let ((tell_one, one_hears), (tell_other, other_hears)) = (channel(), channel());
        (Self { tell: tell_other, heard: one_hears }, Self { tell: tell_one, heard: other_hears })
    }

    /// Tells the rows of the tokens `own`, of which `before` come before, and lays them and what is heard beside each other.
    /// `None` when the other one is gone.
    fn exchange(&mut self, own: &[f32], all: &mut [f32], before: usize, manners: &mut Manners) -> Option<()> {
        self.tell.send(own.to_vec()).ok()?;
        let heard = self.hear(manners)?;
        let parts = if before == 0 { [own, &heard] } else { [&heard, own] };
        let (first, last) = all.split_at_mut_checked(parts[0].len())?;
        first.copy_from_slice(parts[0]);
        (last.len() == parts[1].len()).then(|| last.copy_from_slice(parts[1]))
    }

    fn hear(&self, manners: &mut Manners) -> Option<Vec<f32>> {
        let began = Instant::now();
        loop {
            match self.heard.try_recv() {
                Ok(heard) => return Some(heard),
                Err(TryRecvError::Disconnected) => return None,
                Err(TryRecvError::Empty) if began.elapsed() < PATIENCE && manners.let_others_through() => {}
                Err(TryRecvError::Empty) => return self.heard.recv().ok(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::local::encoder::{Sizes, Tensors, Weights, Words};

    const WORDS: usize = 100;

    /// A small model of numbers that follow no pattern; it breaks down over words that it does not know.
    struct Small;

    fn number(seed: usize) -> f32 {
        (seed.wrapping_mul(2_654_435_761) % 1_000) as f32 / 1_000.0 - 0.5
    }

    impl Words for Small {
        fn add(&self, word: u32, row: &mut [f32]) {
            let word = word as usize;
            assert!(word < WORDS, "an unknown word");
            row.iter_mut().enumerate().for_each(|(at, x)| *x += number(word * 31 + at));
        }
    }

    impl Tensors for Small {
        fn sizes(&self) -> Sizes {
            Sizes { width: 8, layers: 3, heads: 2, inner_width: 16, words: WORDS, positions: 50, epsilon: 1e-5 }
        }

        fn vector(&self, name: &str, length: usize) -> Result<Vec<f32>, String> {
            let by_one = if name.ends_with("ln.w") { 1.0 } else { 0.0 };
            Ok((0..length).map(|at| by_one + 0.1 * number(name.len() + at)).collect())
        }

        fn weights(&self, names: &[String], rows: usize, columns: usize) -> Result<Weights, String> {
            let seed = names.concat().bytes().map(usize::from).sum::<usize>();
            let outputs: Vec<f32> = (0..names.len() * rows * columns).map(|at| number(seed + at)).collect();
            Ok(Weights::plain(&outputs, columns))
        }

        fn words(&self) -> Result<Box<dyn Words>, String> {
            Ok(Box::new(Small))
        }
    }

    fn encoder() -> Arc<Encoder> {
        Arc::new(Encoder::load(&Small).unwrap())
    }

    fn text(length: usize) -> Vec<u32> {
        (0..length).map(|at| (at * 7 % WORDS) as u32).collect()
    }

    fn are_the_same(one: &[Vec<f32>], other: &[Vec<f32>]) -> bool {
        let near = |(a, b): (&f32, &f32)| (a - b).abs() < 1e-5;
        one.len() == other.len() && one.iter().flatten().zip(other.iter().flatten()).all(near)
    }

    /// With a helper that does `help`, however many processors there are.
    fn helped_by(help: impl FnOnce(&Encoder, &Receiver<Half>) + Send + 'static) -> Together {
        let (helper, halves) = channel();
        let encoder = encoder();
        thread::spawn({
            let encoder = Arc::clone(&encoder);
            move || help(&encoder, &halves)
        });
        Together { encoder, helper: Some(helper) }
    }

    #[test]
    fn a_question_means_the_same_however_many_embed_it() {
        let (alone, together) = (encoder(), helped_by(help));
        let mut scratch = Scratch::default();

        for length in (1..=50).rev() {
            let text = text(length);
            let expected = alone.encode(&[&text], &mut Scratch::default());
            if length >= FEWEST_TOKENS {
                assert!(are_the_same(&[together.shared(&text, &mut scratch).unwrap()], &expected), "{length}");
            }
            assert!(are_the_same(&together.encode(&[&text], &mut scratch), &expected), "{length}");
        }
    }

    #[test]
    fn a_question_is_embedded_also_when_the_helper_breaks_down() {
        let text = text(20);
        let expected = encoder().encode(&[&text], &mut Scratch::default());
        let leaves_in_the_middle = |_: &Encoder, halves: &Receiver<Half>| {
            let mut half = halves.recv().unwrap();
            let _ = half.other.exchange(&[0.0; 240], &mut [0.0; 480], 10, &mut Manners::default());
        };

        for together in
            [helped_by(|_, _| ()), helped_by(|_, halves| drop(halves.recv())), helped_by(leaves_in_the_middle)]
        {
            for _ in 0..2 {
                assert!(are_the_same(&together.encode(&[&text], &mut Scratch::default()), &expected));
            }
        }
    }

    #[test]
    fn a_text_that_nobody_can_embed_harms_none_after_it() {
        let together = helped_by(help);
        let expected = encoder().encode(&[&text(20)], &mut Scratch::default());
        for unknown in [0, 19] {
            let mut bad = text(20);
            bad[unknown] = WORDS as u32;

            let broken = catch_unwind(AssertUnwindSafe(|| together.encode(&[&bad], &mut Scratch::default())));

            assert!(broken.is_err());
            assert!(are_the_same(&together.encode(&[&text(20)], &mut Scratch::default()), &expected));
            assert!(together.shared(&text(20), &mut Scratch::default()).is_some(), "the helper is still there");
        }
    }
}
