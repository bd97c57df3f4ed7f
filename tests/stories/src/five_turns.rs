//! The promise it began with: what was said a while ago is there when it is needed, though the window has moved on.

use serde_json::json;
use skymem_harness::{TestServer, story};

/// A conversation of five turns; what matters is said in the second.
struct Conversation {
    turns: [(&'static str, &'static str); 5],
    question: &'static str,
    said: &'static str,
}

const ENGLISH: Conversation = Conversation {
    turns: [
        ("Hello, I am planning a dinner.", "Lovely, for how many?"),
        ("My sister Marta is allergic to walnuts.", "Noted: no walnuts for Marta."),
        ("What wine goes with fish?", "A dry white wine."),
        ("And which dessert is quick?", "A fruit salad."),
        ("How long does rice take?", "About fifteen minutes."),
    ],
    question: "What is my sister Marta allergic to?",
    said: "allergic to walnuts",
};

const GERMAN: Conversation = Conversation {
    turns: [
        ("Hallo, ich plane ein Abendessen.", "Schön, für wie viele Gäste?"),
        ("Meine Schwester Marta ist allergisch gegen Walnüsse.", "Notiert: keine Walnüsse für Marta."),
        ("Welcher Wein passt zu Fisch?", "Ein trockener Weißwein."),
        ("Und welcher Nachtisch geht schnell?", "Ein Obstsalat."),
        ("Wie lange kocht Reis?", "Etwa fünfzehn Minuten."),
    ],
    question: "Wogegen ist meine Schwester Marta allergisch?",
    said: "allergisch gegen Walnüsse",
};

const CHINESE: Conversation = Conversation {
    turns: [
        ("你好，我在准备一顿晚餐。", "太好了，多少人？"),
        ("我妹妹玛尔塔对核桃过敏。", "记住了：不给玛尔塔放核桃。"),
        ("鱼配什么酒好？", "干白葡萄酒。"),
        ("什么甜点做得快？", "水果沙拉。"),
        ("米饭要煮多久？", "大约十五分钟。"),
    ],
    question: "我妹妹玛尔塔对什么过敏？",
    said: "对核桃过敏",
};

async fn holds(server: &TestServer, conversation: &Conversation) {
    let request = json!({ "session": "dinner", "question": conversation.question, "window": 3 });
    let context = server.context_as(request).await;

    let messages: Vec<&str> = context["messages"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|message| message["content"].as_str())
        .collect();
    let verbatim = &conversation.turns[2..];
    assert!(verbatim.iter().all(|(question, answer)| messages.contains(question) && messages.contains(answer)));
    assert!(!messages.contains(&conversation.turns[1].0), "it has left the window");
    let block = messages.iter().find(|message| message.starts_with("<<<CONTEXT>>>")).copied().unwrap_or_default();
    assert!(block.contains(conversation.said), "{context:#}");
    assert_eq!(messages.last(), Some(&conversation.question));
}

fn check(conversation: &'static Conversation) {
    story(async |server| {
        for (question, answer) in conversation.turns {
            server.says("dinner", question, answer).await;
        }
        holds(server, conversation).await;

        server.restarts().await;
        holds(server, conversation).await;

        for number in 0..50 {
            let (question, answer) = OTHERS[number % OTHERS.len()];
            server.says(&format!("other {number}"), &format!("{question} ({number})"), answer).await;
        }
        holds(server, conversation).await;
    });
}

/// What other sessions are about.
const OTHERS: [(&str, &str); 5] = [
    ("Which port does the metrics endpoint listen on?", "Port nine thousand and ninety."),
    ("My brother Tom bought a red bicycle.", "Enjoy the rides with him!"),
    ("Wie wird das Wetter in Hamburg?", "Es regnet den ganzen Tag."),
    ("北京今天天气怎么样？", "晴天，二十度。"),
    ("Summarise the meeting about the budget.", "Costs rise, the plan stays."),
];

#[test]
fn what_was_said_at_turn_two_is_there_at_turn_six_in_english() {
    check(&ENGLISH);
}

#[test]
fn what_was_said_at_turn_two_is_there_at_turn_six_in_german() {
    check(&GERMAN);
}

#[test]
fn what_was_said_at_turn_two_is_there_at_turn_six_in_chinese() {
    check(&CHINESE);
}
