//! The promises of every layer, kept by each that the program is built with.

use std::time::Duration;

use skymem_core::{ExchangeId, LayerName, Recall, SessionId, Tokens, Unit, UserId};
use skymem_engine::{RecallRequest, Target};
use skymem_harness::{TestServer, story_with};

/// A server with one layer, asked as its first user.
struct Subject<'a> {
    server: &'a TestServer,
    layer: LayerName,
    user: UserId,
    /// Whether it gives an account of the session that asks: then everything is said and asked in one session, and more
    /// is said until what matters has left the window.
    accounts: bool,
}

/// The layers that give an account of a session.
const ACCOUNTS: [&str; 1] = ["summaries"];

/// The session that everything is said in when it is to be accounted for.
const ONE_SESSION: &str = "talk";

impl Subject<'_> {
    /// What the layer recalls for a question.
    async fn answers(&self, question: &str) -> Vec<Recall> {
        self.answers_to(self.asks(question)).await
    }

    async fn answers_to(&self, request: RecallRequest) -> Vec<Recall> {
        let reply = self.server.memory().recall(&request).await.unwrap();
        assert!(reply.gaps.iter().all(|gap| gap.of != self.layer.as_str()), "{:?}", reply.gaps);
        reply.recalls
    }

    fn asks(&self, question: &str) -> RecallRequest {
        let layers = vec![self.layer.clone()];
        let session = self.asking_session();
        RecallRequest { layers, limit: Some(20), session, ..RecallRequest::new(self.user, question) }
    }

    /// A question that the layer has an answer to after the talk.
    fn question(&self) -> &'static str {
        if self.layer.as_str() == "facts" { QUESTION_OF_FACTS } else { QUESTION }
    }

    /// The session that asks, if it matters to the layer.
    fn asking_session(&self) -> Option<SessionId> {
        self.accounts.then(|| ONE_SESSION.parse().unwrap())
    }

    /// The session that something is said in which belongs to `session`.
    fn session<'b>(&self, session: &'b str) -> &'b str {
        if self.accounts { ONE_SESSION } else { session }
    }

    /// So much is said that what was said before has left the window.
    async fn time_passes(&self) {
        for number in 0..if self.accounts { 8 } else { 0 } {
            let text = format!("Today I planted tomato {number} in the garden.");
            self.server.says(ONE_SESSION, &text, "May it grow well.").await;
        }
    }

    /// Some days of talk about different things.
    async fn talk(&self) -> Vec<ExchangeId> {
        let mut exchanges = Vec::new();
        for (number, (question, answer)) in TALK.iter().enumerate() {
            let session = format!("talk {}", number / 3);
            exchanges.push(ExchangeId(self.server.says(self.session(&session), question, answer).await));
            self.server.days_pass(1);
        }
        self.time_passes().await;
        exchanges
    }
}

const TALK: [(&str, &str); 7] = [
    ("I live in Bremen. The staging database is called heron and runs Postgres 17.", "Noted: heron, Postgres 17."),
    ("Which port does heron listen on?", "Heron listens on port 5544."),
    ("My daughter Ida starts school in August.", "How exciting for Ida!"),
    ("The rocket engine test was moved to Thursday.", "Thursday it is."),
    ("Ich trinke jeden Morgen grünen Tee.", "Grüner Tee, jeden Morgen."),
    ("我的猫叫小米。", "小米，好名字。"),
    ("Please always answer in short sentences.", "Will do."),
];

const QUESTION: &str = "Which port does the staging database heron listen on?";

/// What is asked of the layer that answers who and where, not what was talked about.
const QUESTION_OF_FACTS: &str = "Where do I live?";

fn each_layer(promise: impl AsyncFn(&Subject<'_>)) {
    for name in skymem::plugins::names() {
        let only = |config: &mut skymem::config::Config| config.layers.retain(|layer, _| *layer == name);
        story_with(only, async |server| {
            let user = server.memory().user_named(&"me".parse().unwrap()).await.unwrap().unwrap().id;
            let accounts = ACCOUNTS.contains(&name.as_str());
            promise(&Subject { server, layer: LayerName(name.clone().into()), user, accounts }).await;
        });
    }
}

/// What a recall is and says, without how well it fits.
fn essence(recalls: &[Recall]) -> Vec<(&str, &str)> {
    recalls.iter().map(|recall| (recall.id.0.as_str(), recall.text.as_str())).collect()
}

/// Whether a recall was learned from one of these exchanges.
fn stems_from(recall: &Recall, exchanges: &[ExchangeId]) -> bool {
    recall.provenance.exchange.iter().chain(&recall.provenance.exchanges).any(|exchange| exchanges.contains(exchange))
}

#[test]
fn learning_the_same_again_changes_no_answer() {
    each_layer(async |subject| {
        subject.talk().await;
        let before = subject.answers(subject.question()).await;
        let memory = subject.server.memory();
        let counts = memory.stats(subject.user).await.unwrap().layers.remove(0).stats.unwrap().counts;

        memory.reset_layer(subject.user, subject.layer.as_str()).await.unwrap();
        subject.server.catches_up().await;

        assert_eq!(essence(&subject.answers(subject.question()).await), essence(&before));
        assert_eq!(memory.stats(subject.user).await.unwrap().layers.remove(0).stats.unwrap().counts, counts);
    });
}

#[test]
fn a_layer_that_gives_an_account_gives_one() {
    each_layer(async |subject| {
        subject.talk().await;

        let answers = subject.answers(subject.question()).await;

        assert!(!subject.accounts || answers.iter().any(|recall| recall.text.contains("5544")), "{answers:#?}");
    });
}

#[test]
fn a_layer_that_finds_what_was_said_has_an_answer_to_its_question() {
    each_layer(async |subject| {
        subject.talk().await;

        let answers = subject.answers(subject.question()).await;

        let finds = ["episodes", "facts"].contains(&subject.layer.as_str());
        assert!(!finds || answers.iter().any(|recall| recall.provenance.exchange.is_some()), "{answers:#?}");
    });
}

#[test]
fn an_exchange_that_grew_is_known_as_it_is_now_and_once() {
    each_layer(async |subject| {
        subject.talk().await;
        let session = subject.session("growing");
        subject.server.tells(session, "user", "What is the launch code of the osprey project?").await.expect(201);
        subject.server.catches_up().await;
        let answer = subject.server.tells(session, "assistant", "The osprey launch code is tangerine.").await;
        let exchange: uuid::Uuid = answer.json["turns"][0]["exchange"].as_str().unwrap().parse().unwrap();
        subject.server.catches_up().await;
        subject.time_passes().await;

        let recalls = subject.answers("launch code of the osprey project").await;

        let own: Vec<&Recall> = recalls.iter().filter(|recall| stems_from(recall, &[ExchangeId(exchange)])).collect();
        assert!(own.len() <= 1, "{own:#?}");
        assert!(own.iter().all(|recall| recall.text.contains("tangerine")), "{own:#?}");
    });
}

#[test]
fn what_is_forgotten_is_gone_at_once_and_what_is_restored_is_there_as_before() {
    each_layer(async |subject| {
        let exchanges = subject.talk().await;
        let before = subject.answers(subject.question()).await;
        let some = exchanges[..3].to_vec();
        let memory = subject.server.memory();

        memory.forget(subject.user, &Target::Exchanges(some.clone())).await.unwrap();
        let without = subject.answers(subject.question()).await;
        subject.server.catches_up().await;
        let still_without = subject.answers(subject.question()).await;
        memory.restore(subject.user, &some).await.unwrap();
        subject.server.catches_up().await;

        for recall in without.iter().chain(&still_without) {
            assert!(!stems_from(recall, &some), "{recall:#?}");
            assert!(!recall.text.contains("5544") && !recall.text.contains("Bremen"), "{recall:#?}");
        }
        assert_eq!(essence(&subject.answers(subject.question()).await), essence(&before));
    });
}

#[test]
fn what_is_forgotten_before_it_was_learned_is_never_learned() {
    each_layer(async |subject| {
        let said = subject.server.says(subject.session("a"), "The vault code is nine eight seven.", "Noted.").await;
        subject.time_passes().await;
        let memory = subject.server.memory();
        memory.reset_layer(subject.user, subject.layer.as_str()).await.unwrap();
        memory.forget(subject.user, &Target::Exchanges(vec![ExchangeId(said)])).await.unwrap();
        subject.server.catches_up().await;

        let recalls = subject.answers("What is the vault code?").await;

        assert!(recalls.iter().all(|recall| !recall.text.contains("nine eight seven")), "{recalls:#?}");
    });
}

#[test]
fn nobody_is_told_what_another_said() {
    each_layer(async |subject| {
        let exchanges = subject.talk().await;
        let bob = subject.server.other_user("bob").await;
        bob.says(subject.session("b"), "Which port does heron listen on?", "I do not know.").await;
        subject.server.catches_up().await;
        let memory = subject.server.memory();
        let bob = memory.user_named(&"bob".parse().unwrap()).await.unwrap().unwrap().id;

        let recalls = subject.answers_to(RecallRequest { user: bob, ..subject.asks(subject.question()) }).await;

        for recall in recalls {
            assert!(!stems_from(&recall, &exchanges) && !recall.text.contains("5544"), "{recall:#?}");
        }
    });
}

#[test]
fn as_of_an_earlier_moment_nothing_later_is_known() {
    each_layer(async |subject| {
        let exchanges = subject.talk().await;
        let then = memory_of(subject, exchanges[1]).await;

        for unit in [Unit::Exchange, Unit::Turn, Unit::Segment] {
            let recalls =
                subject.answers_to(RecallRequest { as_of: Some(then), unit, ..subject.asks(subject.question()) }).await;

            for recall in recalls {
                assert!(!stems_from(&recall, &exchanges[2..]), "{recall:#?}");
                assert!(recall.provenance.occurred_at.is_none_or(|said| said <= then), "{recall:#?}");
            }
        }
    });
}

#[test]
fn as_known_at_an_earlier_moment_nothing_written_down_later_is_known() {
    each_layer(async |subject| {
        let exchanges = subject.talk().await;
        let then = memory_of(subject, exchanges[1]).await;
        // Told late: it was said before all else.
        let session = subject.session("an old letter");
        let said_at = skymem_harness::beginning() - chrono::TimeDelta::days(3);
        let turns = serde_json::json!([
            { "role": "user", "content": "The staging database heron listens on port 6677.", "occurred_at": said_at },
            { "role": "assistant", "content": "Heron, port 6677.", "occurred_at": said_at },
        ]);
        let path = format!("/v1/sessions/{session}/turns");
        let told = subject.server.post(&path, serde_json::json!({ "turns": turns })).await.expect(201);
        let late = ExchangeId(told["turns"][0]["exchange"].as_str().unwrap().parse().unwrap());
        subject.server.catches_up().await;
        subject.time_passes().await;

        for unit in [Unit::Exchange, Unit::Turn, Unit::Segment] {
            let asked = RecallRequest { known_at: Some(then), unit, neighbours: 2, ..subject.asks(subject.question()) };
            for recall in subject.answers_to(asked).await {
                assert!(!stems_from(&recall, &exchanges[2..]) && !stems_from(&recall, &[late]), "{recall:#?}");
                let all = format!("{} {}", recall.text, recall.neighbours.join(" "));
                assert!(!all.contains("6677") && !all.contains("Ida"), "{recall:#?}");
            }
        }
        let now = subject
            .answers_to(RecallRequest { known_at: Some(subject.server.now()), ..subject.asks(subject.question()) });
        assert_eq!(essence(&now.await), essence(&subject.answers(subject.question()).await));
    });
}

/// When an exchange was said.
async fn memory_of(subject: &Subject<'_>, exchange: ExchangeId) -> chrono::DateTime<chrono::Utc> {
    let view = subject.server.memory().exchange(subject.user, exchange).await.unwrap().unwrap();
    view.exchange.turns.last().unwrap().occurred_at
}

#[test]
fn giving_up_on_an_answer_harms_nothing() {
    each_layer(async |subject| {
        subject.talk().await;
        let before = subject.answers(subject.question()).await;

        for micros in [0, 50, 200, 1_000, 5_000] {
            let question = subject.asks(subject.question());
            let _ =
                tokio::time::timeout(Duration::from_micros(micros), subject.server.memory().recall(&question)).await;
        }

        assert_eq!(essence(&subject.answers(subject.question()).await), essence(&before));
    });
}

#[test]
fn no_more_is_recalled_than_was_asked_for_and_all_of_it_can_be_shown() {
    each_layer(async |subject| {
        subject.talk().await;
        let memory = subject.server.memory();

        let few = subject.answers_to(RecallRequest { limit: Some(2), ..subject.asks(subject.question()) }).await;
        let mut request = skymem_engine::ContextRequest::new(subject.user, subject.question());
        request.budget = Some(Tokens(10_000));
        request.ask.session = subject.asking_session();
        let shown = memory.context(&request).await.unwrap();

        assert!(few.iter().filter(|recall| recall.provenance.exchange.is_some()).count() <= 2);
        for section in &shown.sections {
            for recall in &section.recalls {
                assert!(section.text.contains(&recall.citation.0), "{section:#?}");
                assert!((0.0..=1.0).contains(&recall.score.0), "{recall:#?}");
            }
        }
    });
}

#[test]
fn an_explanation_of_something_said_always_says_what_became_of_it() {
    each_layer(async |subject| {
        let exchanges = subject.talk().await;

        let explained =
            subject.server.memory().explain(&subject.asks(subject.question()), Some(exchanges[3])).await.unwrap();

        for layer in explained.layers {
            let about = layer.considered.iter().all(|candidate| candidate.exchange == Some(exchanges[3]));
            assert!(about, "{:#?}", layer.considered);
        }
    });
}
