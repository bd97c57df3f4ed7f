//! Whether a message leans on what was said before it: a pure function of its words.
//!
//! It may call a question leaning that is not, at the price of a second search; one that stands alone for certain costs
//! nothing.

mod tables;

use super::words::{Tongue, count, spaced_words};

/// A message of more words stands alone.
const MOST_WORDS: usize = 40;

/// A question of no more words with a meaning is short enough to have left something out.
const FEW_WORDS: usize = 4;

/// A question of more words with a meaning than this, and none that points back, names its topic.
const TOO_FEW_FOR_A_TOPIC: usize = 2;

/// Whether `message` can only be understood by what was said before it. Commands, which are no questions, and thanks are
/// left alone.
pub(super) fn leans(message: &str) -> bool {
    let tongue = Tongue::of(message);
    let words: Vec<&str> = spaced_words(message).collect();
    if words.len() > MOST_WORDS || is_command(tongue, message, &words) || is_courtesy(&words) {
        return false;
    }
    points_back(tongue, message, &words)
        || opens_as_a_sequel(tongue, message, &words)
        || count(&tongue.keywords(message)) <= FEW_WORDS
}

/// Whether a question tells what it is about, so that another may lean on it.
pub(super) fn names_a_topic(question: &str) -> bool {
    let tongue = Tongue::of(question);
    let words: Vec<&str> = spaced_words(question).collect();
    !points_back(tongue, question, &words) && count(&tongue.keywords(question)) > TOO_FEW_FOR_A_TOPIC
}

fn points_back(tongue: Tongue, message: &str, words: &[&str]) -> bool {
    let pointers = tables::pointers(tongue);
    if matches!(tongue, Tongue::Chinese | Tongue::Japanese) {
        return pointers.iter().any(|pointer| message.contains(pointer));
    }
    words.iter().enumerate().any(|(at, word)| {
        let next = words.get(at + 1).map(|next| next.to_lowercase());
        match (tongue, word.to_lowercase().as_str()) {
            (Tongue::Spaced("en"), "that") => points_with_that(words, at),
            // An article anywhere else: "das Auto". "Gibt es" points at nothing.
            (Tongue::Spaced("de"), "das") => next.is_none(),
            (Tongue::Spaced("de"), "es") => at == 0 || !words[at - 1].eq_ignore_ascii_case("gibt"),
            // "Sie" and "Ihr" are a polite "you".
            (Tongue::Spaced("de"), "sie" | "ihr" | "ihre" | "ihren" | "ihrem" | "ihrer" | "ihnen") if at > 0 => {
                word.starts_with(char::is_lowercase)
            }
            (Tongue::Spaced("fr"), "il" | "ils") => next.as_deref() != Some("y"),
            (_, word) => pointers.contains(&word),
        }
    })
}

/// Whether the "that" at this place points back, as in "Is that so?", or joins a clause, as in "people that I know".
fn points_with_that(words: &[&str], at: usize) -> bool {
    let is_in = |list: &[&str], word: &str| list.contains(&word.to_lowercase().as_str());
    let Some(before) = at.checked_sub(1).and_then(|before| words.get(before)) else { return true };
    let next = words.get(at + 1);
    is_in(&tables::BEFORE_THAT, before) || next.is_none_or(|next| !is_in(&tables::AFTER_THAT, next))
}

/// Whether it begins like the continuation of something.
fn opens_as_a_sequel(tongue: Tongue, message: &str, words: &[&str]) -> bool {
    let openings = tables::openings(tongue);
    if matches!(tongue, Tongue::Chinese | Tongue::Japanese) {
        let message = message.trim_start();
        return openings.iter().any(|opening| message.starts_with(opening))
            || message.trim_end_matches('？').ends_with('呢');
    }
    openings.iter().any(|opening| begins_with(words, opening))
}

/// Whether it tells the assistant to do something with what is there: a command and no question.
fn is_command(tongue: Tongue, message: &str, words: &[&str]) -> bool {
    let tables::Commands { polite, verbs } = tables::commands(tongue);
    if tongue == Tongue::Chinese {
        let mut rest = message.trim_start();
        while let Some(after) = polite.iter().find_map(|word| rest.strip_prefix(word)) {
            rest = after.trim_start_matches(['，', ',', ' ']);
        }
        return verbs.iter().any(|verb| rest.starts_with(verb));
    }
    let mut rest = words;
    while let Some(word) = polite.iter().find(|word| begins_with(rest, word)) {
        rest = rest.get(word.split(' ').count()..).unwrap_or_default();
    }
    verbs.iter().any(|verb| begins_with(rest, verb))
}

/// Whether it only thanks or agrees.
fn is_courtesy(words: &[&str]) -> bool {
    !words.is_empty() && words.iter().all(|word| tables::COURTESIES.contains(&word.to_lowercase().as_str()))
}

/// Whether `words` begin with those of `opening`.
fn begins_with(words: &[&str], opening: &str) -> bool {
    let mut words = words.iter();
    opening.split(' ').all(|expected| words.next().is_some_and(|word| word.to_lowercase() == expected))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(message: &str, expected: bool) {
        assert_eq!(leans(message), expected, "{message}");
    }

    #[test]
    fn what_points_back_leans() {
        check("How deadly is it when it has spread to other parts of the body?", true);
        check("My cat has similar symptoms, would the home remedy for dogs work for her as well?", true);
        check("Which of those alternatives is the healthiest for a lactose intolerant child?", true);
        check("Isn't that a problem for people with a heart condition and high blood pressure?", true);
        check("Welche Farbe hat seine neue Jacke eigentlich und woher stammt der Stoff dafür?", true);
        check("Wo wohnt sie eigentlich seit dem letzten Sommer mit ihrem kleinen Hund?", true);
        check("Warum haben so viele Kunden aus Bremen in diesem Jahr davon abgeraten?", true);
        check("它的主要出口产品和贸易伙伴国家分别是哪些国家和地区？", true);
        check("这个城市的夏季平均气温和冬季平均降水量分别是多少？", true);
        check("その建物の設計者と完成年度と総工費を教えてください", true);
        check("Combien coûte cette grande maison bleue au bord de la mer en été ?", true);
        check("¿Cuánto cuesta ese apartamento grande cerca de la playa durante agosto?", true);
        check("Сколько стоит этот большой синий дом возле моря летом?", true);
    }

    #[test]
    fn what_goes_on_or_is_short_leans() {
        check("And the most expensive restaurant near the northern railway station?", true);
        check("What about the chancellor of the northern federal republic during winter?", true);
        check("Why?", true);
        check("Is sealing worth it?", true);
        check("What are common treatments?", true);
        check("Und im Winter?", true);
        check("Was ist mit den Lieferanten aus dem Norden und den Preisen im Herbst?", true);
        check("Wie teuer?", true);
        check("为什么？", true);
        check("那上海呢？", true);
        check("价格呢？", true);
        check("No, I meant the northern railway station restaurant near Paul's office.", true);
    }

    #[test]
    fn what_stands_alone_does_not_lean() {
        check("What did we say on baking sourdough bread with rye flour number seven?", false);
        check("Which database did Anna choose for the ledger of the Bremen office?", false);
        check("Who are the people that I met at the conference in Lisbon last March?", false);
        check("Welche Datenbank hat Anna für das Kassenbuch der Filiale in Bremen ausgesucht?", false);
        check("Können Sie mir sagen, welche Züge zwischen Hannover und Bremen am Sonntag fahren?", false);
        check("Gibt es zwischen Hannover und Bremen am Sonntag Züge mit Speisewagen?", false);
        check("请问北京首都国际机场到天安门广场乘坐地铁需要多长时间？", false);
        check("東京タワーの展望台の入場料金と営業時間を教えてください", false);
        check("Quelle base de données Anna a-t-on choisie pour le bureau de Brême hier soir ?", false);
    }

    #[test]
    fn commands_and_thanks_are_left_alone() {
        check("make it one hour later", false);
        check("Please translate this into German", false);
        check("Can you rename it?", false);
        check("ok, now delete the second one", false);
        check("Mach es eine Stunde später", false);
        check("Bitte übersetze das", false);
        check("请把它翻译成英文", false);
        check("帮我改一下", false);
        check("Thank you very much!", false);
        check("Danke dir", false);
        check("谢谢", false);
        check("Tell me more about them", true);
        check("Give me some examples.", true);
        check("Erzähl mir mehr davon", true);
    }

    #[test]
    fn a_long_message_stands_alone() {
        check(&format!("it {}", "alpha beta ".repeat(30)), false);
    }

    #[test]
    fn a_topic_has_some_words_and_points_nowhere() {
        assert!(names_a_topic("How do I build a cheap driveway?"));
        assert!(!names_a_topic("Is sealing a cheap driveway worth it?"));
        assert!(!names_a_topic("Which is cheaper?"));
        assert!(names_a_topic("北京首都国际机场在哪里？"));
    }

    proptest! {
        #[test]
        fn any_message_can_be_looked_at(message in ".*") {
            let _ = (leans(&message), names_a_topic(&message));
        }
    }
}
