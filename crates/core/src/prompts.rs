//! What everybody who asks a language model does alike: fill a prompt's holes, make material harmless, find JSON in an answer.

/// A prompt with its holes filled; holes in what they are filled with stay as they are.
#[must_use]
pub fn fill(prompt: &str, holes: &[(&str, &str)]) -> String {
    let mut filled = String::new();
    let mut rest = prompt.trim_end();
    while let Some(at) = rest.find('{') {
        let (before, hole) = rest.split_at(at);
        filled.push_str(before);
        match holes.iter().find(|(name, _)| hole.starts_with(name)) {
            Some((name, text)) => {
                filled.push_str(text);
                rest = hole.get(name.len()..).unwrap_or_default();
            }
            None => {
                filled.push('{');
                rest = hole.get(1..).unwrap_or_default();
            }
        }
    }
    filled.push_str(rest);
    filled
}

/// `text` with nothing in it that a model's template takes for the border of a turn.
#[must_use]
pub fn inert(text: &str) -> String {
    text.replace("<|", "‹|").replace("|>", "|›").replace("[INST]", "(INST)").replace("[/INST]", "(/INST)")
}

/// The JSON object in an answer: some models put it into a block of code, or say something before it.
#[must_use]
pub fn json_object(answer: &str) -> Option<&str> {
    let (start, end) = answer.find('{').zip(answer.rfind('}'))?;
    answer.get(start..=end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_are_filled_once_and_others_stay() {
        assert_eq!(fill("{a} and {b}, {c} {\n", &[("{a}", "{b}"), ("{b}", "2")]), "{b} and 2, {c} {");
    }

    #[test]
    fn borders_of_turns_keep_their_words_alone() {
        assert_eq!(inert("<|user|> [INST] a < b | c [/INST]"), "‹|user|› (INST) a < b | c (/INST)");
    }

    #[test]
    fn the_object_of_an_answer_is_found_wherever_it_stands() {
        assert_eq!(json_object("Sure:\n```json\n{\"a\": {}}\n```"), Some("{\"a\": {}}"));
        assert_eq!(json_object("} {"), None);
        assert_eq!(json_object("none"), None);
    }
}
