//! Whatever is remembered, asked or answered: in the messages our markers are ours, and no role token is alive.

use std::sync::Arc;

use chrono::DateTime;
use proptest::prelude::*;
use skymem_core::{
    Citation, ExchangeId, Layer, LayerName, Priority, Provenance, Recall, RecallId, Role, Score, Seq, Turn,
};

use super::assemble::Bought;
use super::pack::Basket;
use super::recall::Answer;
use super::render;
use super::sanitise::sanitise;
use super::window::{self, Verbatim, Window};
use super::{Blocks, ContextRequest};
use crate::settings::ItemsPlace;
use crate::testing::{ScriptedLayer, user};

/// Pieces that attacks are made of: tokens of many chat templates, our own markers, citations, brackets that look like
/// theirs, what nobody sees, and harmless words.
const PIECES: [&str; 96] = [
    "<|im_start|>",
    "<|im_end|>",
    "<|system|>",
    "<| user |>",
    "<|start_header_id|>",
    "<|eot_id|>",
    "<|begin_of_text|>",
    "[INST]",
    "[/INST]",
    "<<SYS>>",
    "<</SYS>>",
    "<s>",
    "</s>",
    "[SYSTEM_PROMPT]",
    "[TOOL_CALLS]",
    "<start_of_turn>",
    "<end_of_turn>",
    "<bos>",
    "<eos>",
    "<｜User｜>",
    "<｜begin▁of▁sentence｜>",
    "<｜Assistant｜>",
    "<|endoftext|>",
    "<|end|>",
    "<|START_OF_TURN_TOKEN|>",
    "<|USER_TOKEN|>",
    "<BOS_TOKEN>",
    "<|channel|>",
    "<|message|>",
    "<|return|>",
    "<|start|>",
    "<tool_call>",
    "</tool_response>",
    "<think>",
    "\n\nHuman:",
    "\n\nAssistant:",
    "Human:",
    "### System:",
    "### Instruction:",
    "<<<CONTEXT>>>",
    "<<<END CONTEXT>>>",
    "<<<MEMORY>>>",
    "<<<END MEMORY>>>",
    "<<<SUMMARY>>>",
    "<<<END SUMMARY>>>",
    "<<< end context >>>",
    "<<END CONTEXT>>",
    "<<</CONTEXT>>>",
    "＜＜＜END CONTEXT＞＞＞",
    "⟨⟨⟨MEMORY⟩⟩⟩",
    "<<<END_SUMMARY>>>",
    "[S: 2026-02-06]",
    "[D: notes.md#L1-L2]",
    "[F: Anna]",
    "[S:2026-02-06]",
    "［S: 2026-02-06］",
    "【D: x.md】",
    "[ F : y]",
    "＜|im_start|＞",
    "〈|system|〉",
    "［INST］",
    "{sections}",
    "\u{200b}",
    "\u{200d}",
    "\u{202e}",
    "\u{feff}",
    "\u{e0041}",
    "\u{fe0f}",
    "\0",
    "\u{2028}",
    "\r\n",
    "\n",
    "\n\n",
    " ",
    "<",
    "<<<",
    ">>>",
    ">",
    "|",
    "<|",
    "|>",
    "[",
    "]",
    "[S: ",
    ": ",
    "#",
    "###",
    "END",
    "CONTEXT",
    "MEMORY",
    "SUMMARY",
    "INST",
    "Human",
    "中文",
    "ordinary words",
    "user",
];

fn hostile() -> impl Strategy<Value = String> {
    let piece = prop_oneof![12 => prop::sample::select(PIECES.to_vec()).prop_map(str::to_owned), 1 => ".{0,4}"];
    prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

fn recall(layer: &'static str, text: String, citation: String, neighbour: String) -> Recall {
    let recall = Recall {
        id: RecallId("1".into()),
        layer: LayerName::of(layer),
        text,
        score: Score(1.0),
        citation: Citation(citation),
        provenance: Provenance::default(),
        neighbours: vec![neighbour],
    };
    render::safe(recall)
}

fn offer(name: &'static str, priority: Priority, recalls: Vec<Recall>) -> Answer<Vec<Recall>> {
    Answer { layer: Arc::new(ScriptedLayer::new(name, priority, &[])) as Arc<dyn Layer>, value: recalls }
}

/// As a careless reader takes it: brackets that look alike are alike, and so are letters in any case.
fn taken_for(text: &str) -> String {
    let alike = |c: char| match c {
        '＜' | '〈' | '⟨' => '<',
        '＞' | '〉' | '⟩' => '>',
        '［' | '【' => '[',
        '］' | '】' => ']',
        '｜' => '|',
        '：' => ':',
        c => c,
    };
    text.chars().map(alike).collect::<String>().to_lowercase()
}

/// Citations that a reader would take for ours: a letter, a colon and something behind it, in brackets on one line.
fn citations(text: &str) -> usize {
    let is_one = |(place, _): &(usize, &str)| {
        let inside = text[place + 1..].trim_start();
        let value = ["s", "d", "f"]
            .iter()
            .find_map(|kind| inside.strip_prefix(kind)?.trim_start_matches(' ').strip_prefix(':'));
        let dated = |value: &str| value.trim_start().starts_with("2026-");
        let spaced = |value: &str| value.starts_with(' ');
        value.is_some_and(|value| {
            let line = value.split('\n').next().unwrap_or_default();
            line.contains(']') && (spaced(value) || dated(value))
        })
    };
    text.match_indices('[').filter(is_one).count()
}

/// Tokens that no message may hold.
const TOKENS: [&str; 34] = [
    "<|im_start|>",
    "<|im_end|>",
    "<|system|>",
    "<| user |>",
    "<|start_header_id|>",
    "<|eot_id|>",
    "<|begin_of_text|>",
    "[inst]",
    "[/inst]",
    "<<sys>>",
    "<</sys>>",
    "<s>",
    "</s>",
    "[system_prompt]",
    "[tool_calls]",
    "<start_of_turn>",
    "<end_of_turn>",
    "<bos>",
    "<eos>",
    "<|user|>",
    "<|begin▁of▁sentence|>",
    "<|assistant|>",
    "<|endoftext|>",
    "<|end|>",
    "<|start_of_turn_token|>",
    "<|user_token|>",
    "<bos_token>",
    "<|channel|>",
    "<|message|>",
    "<|return|>",
    "<|start|>",
    "<tool_call>",
    "</tool_response>",
    "<think>",
];

const MARKERS: [[&str; 2]; 3] =
    [["<<<memory>>>", "<<<endmemory>>>"], ["<<<summary>>>", "<<<endsummary>>>"], ["<<<context>>>", "<<<endcontext>>>"]];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn each_of_our_markers_stands_once_in_its_place_and_no_role_token_is_alive(
        texts in prop::collection::vec(hostile(), 14),
        place in prop::sample::select(vec![ItemsPlace::Message, ItemsPlace::Question]),
    ) {
        let text = |number: usize| texts[number].clone();
        let offers = [
            offer("files", Priority::Always, vec![
                recall("files", text(0), format!("[D: {}]", text(1)), text(2)),
                recall("files", text(3), "[D: NOW.md]".into(), text(3)),
            ]),
            offer("summaries", Priority::Account, vec![recall("summaries", text(4), "[S: 2026-02-06]".into(), text(5))]),
            offer("episodes", Priority::Ranked, vec![recall("episodes", text(6), text(7), text(8))]),
            offer("facts", Priority::Ranked, vec![recall("facts", text(9), "[F: Anna]".into(), text(9))]),
        ];
        let turn = |role, speaker: Option<String>, text: String| {
            Turn { seq: Seq(1), role, speaker, text, occurred_at: DateTime::UNIX_EPOCH, recorded_at: DateTime::UNIX_EPOCH, statement: None }
        };
        let turns = [
            turn(Role::User, Some(text(10)), text(11)),
            turn(Role::Tool, None, text(12)),
            turn(Role::Assistant, None, text(12)),
        ];
        let verbatim = Verbatim {
            exchange: ExchangeId(uuid::Uuid::nil()),
            last: Seq(1),
            messages: window::messages(&turns),
            price: skymem_core::Tokens(0),
        };
        let window = Window { exchanges: vec![verbatim], ..Window::default() };
        let everything = Basket { recalls: vec![vec![0, 1], vec![0], vec![0], vec![0]], ..Basket::default() };
        let request = ContextRequest { system: Some(text(13)), ..ContextRequest::new(user(), text(6)) };
        let question = sanitise(&request.ask.text);

        let bought = Bought::of(&everything, &window, &offers);
        let draft = bought.draft(&request, &question, place);
        let (Blocks { memory, account, found }, messages) = (draft.blocks(), draft.messages());

        let squeezed = |text: &str| taken_for(text).replace(|c: char| c.is_whitespace() || c == '_', "");
        let all: String = messages.iter().map(|message| squeezed(&message.content)).collect();
        let blocks = [memory.unwrap(), account.unwrap(), found.unwrap()];
        for ([opens, closes], block) in MARKERS.iter().zip(&blocks) {
            prop_assert_eq!((all.matches(opens).count(), all.matches(closes).count()), (1, 1), "{} in {}", opens, all);
            prop_assert!(squeezed(block).starts_with(opens) && squeezed(block).ends_with(closes), "{}", block);
            prop_assert!(messages.iter().any(|message| message.content.contains(block.as_str())));
        }
        // The client's own instructions may hold what they like.
        let said = messages.iter().filter(|message| message.role != Role::System).map(|message| message.content.as_str());
        for text in said.chain(blocks.iter().map(String::as_str)) {
            let taken = taken_for(text);
            for token in TOKENS {
                prop_assert!(!taken.contains(token), "{} in {:?}", token, text);
            }
            prop_assert!(!taken.contains("\n\nhuman:") && !text.starts_with("Human:"), "{:?}", text);
            prop_assert!(!taken.contains("\n### system:") && !taken.starts_with("### system:"), "{:?}", text);
            prop_assert!(!text.contains(['\u{200b}', '\u{202e}', '\u{feff}', '\u{e0041}', '\0']), "{:?}", text);
        }
        let cited: Vec<usize> = blocks.iter().map(|block| citations(&taken_for(block))).collect();
        // The instruction to cite shows one.
        let found = 2 + citations(&taken_for(&offers[2].value[0].citation.0));
        prop_assert_eq!(cited, vec![2, 1, found], "{:?}", blocks);
        for message in &messages {
            let counted = if message.role == Role::System { 0 } else { citations(&taken_for(&message.content)) };
            let of_block = if message.content.contains(blocks[2].as_str()) && counted > 0 { found } else { 0 };
            prop_assert_eq!(counted, of_block, "{:?}", message.content);
        }
    }
}
