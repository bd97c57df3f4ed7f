//! Requests that are no conversation: a chat page asks the model for a title, for tags, for what to ask next. Pure.

use super::request::Chat;
use super::settings::ProxySettings;

/// Whether a request is no conversation, by its prompt or by the model that is asked.
pub(crate) fn is_utility(chat: &Chat<'_>, settings: &ProxySettings) -> bool {
    let by_model = chat.model.as_ref().is_some_and(|model| settings.utility_models.contains(&model.text));
    let prompts = [
        chat.asks_at().and_then(|place| chat.messages.get(place)),
        chat.messages.first().filter(|message| message.instructs()),
    ];
    by_model || prompts.into_iter().flatten().any(|message| is_prompt(&message.own_words(), &settings.utility_prompts))
}

/// How Open WebUI begins what it asks for itself.
const TASK: &str = "### Task:";

/// How others ask for titles, in lower case: their prompts begin with it, or with a few words of the conversation.
const TITLES: [&str; 7] = [
    // LibreChat.
    "5-word-or-less title",
    // Open WebUI before it had tasks.
    "concise, 3-5 word title",
    "create a concise, 3-5 word phrase as a header",
    // NextChat.
    "four to five word title summarizing our conversation",
    // BetterChatGPT.
    "generate a title in less than 6 words for the following message",
    // Chatbox.
    "based on the chat history, give this conversation a name",
    // LobeChat.
    "summarize the user's conversation into a title",
];

/// A person who writes about such a prompt writes more than it.
const LONGEST_OPENING: usize = 400;

fn is_prompt(text: &str, more: &[String]) -> bool {
    let text = text.trim_start();
    if text.starts_with(TASK) || more.iter().any(|prompt| text.starts_with(prompt.trim_start())) {
        return true;
    }
    let opening = text.get(..text.floor_char_boundary(LONGEST_OPENING)).unwrap_or_default().to_lowercase();
    TITLES.iter().any(|title| opening.contains(title))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: bool) {
        assert_eq!(is_prompt(text, &["Summarise:".into()]), expected, "{text}");
    }

    #[test]
    fn what_chat_pages_ask_for_themselves_is_no_conversation() {
        check("### Task:\nGenerate a concise title", true);
        check("\n### Task: Suggest 3-5 relevant follow-up questions", true);
        check("Provide a concise, 5-word-or-less title for the conversation, using its same language.", true);
        check("Please generate a four to five word title summarizing our conversation without any lead-in", true);
        check("Summarise: all of it", true);
        check("Task: buy milk", false);
        check("What does `### Task:` mean in a prompt?", false);
        check("Which title fits my novel?", false);
        check("", false);
    }

    #[test]
    fn a_model_that_is_set_apart_for_titles_is_known_by_name() {
        let settings = ProxySettings { utility_models: vec!["tiny".into()], ..ProxySettings::default() };
        let of = |model: &str| {
            let body = format!(r#"{{"model": "{model}", "messages": [{{"role": "user", "content": "hi"}}]}}"#);
            is_utility(&Chat::read(&body).unwrap(), &settings)
        };
        assert_eq!((of("tiny"), of("large")), (true, false));
    }
}
