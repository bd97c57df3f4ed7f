//! Conversation about other things, to put distance between what was said and the question about it.

/// The exchange of that number: a question and its answer, the same on every machine. No two of the first 300 are alike.
pub(crate) fn exchange(number: usize) -> (String, String) {
    let subject = SUBJECTS.get(number % SUBJECTS.len()).copied().unwrap_or_default();
    let round = number / SUBJECTS.len();
    let (question, answer) = FORMS.get(round % FORMS.len()).copied().unwrap_or_default();
    let again = match round / FORMS.len() {
        0 => String::new(),
        times => format!(" (asked {times} times before)"),
    };
    (question.replace("{}", subject) + &again, answer.replace("{}", subject))
}

const SUBJECTS: [&str; 30] = [
    "sourdough bread",
    "tomato seedlings",
    "folding bicycles",
    "chess openings",
    "watercolour painting",
    "beekeeping",
    "marathon training",
    "vintage radios",
    "bonsai trees",
    "sailing knots",
    "astronomy with binoculars",
    "pottery glazes",
    "jazz piano",
    "bird watching",
    "mountain huts",
    "fermented vegetables",
    "origami",
    "wood carving",
    "ice skating",
    "film photography",
    "calligraphy",
    "rock climbing",
    "aquariums",
    "espresso",
    "juggling",
    "compost heaps",
    "crossword puzzles",
    "kite building",
    "yoga",
    "model railways",
];

const FORMS: [(&str, &str); 10] = [
    ("How does one begin with {}?", "Begin small with {}: an hour a week is plenty in the first month."),
    ("Which book about {} is worth reading?", "For {} take any illustrated introduction; the library will have one."),
    ("What do people get wrong about {}?", "Most hurry. With {} patience counts for more than equipment."),
    ("Is {} expensive?", "{} can be cheap when you borrow what you need at first."),
    ("Can children join in {}?", "Children enjoy {} when it stays a game and somebody watches."),
    (
        "What is the history of {} in one sentence?",
        "The story of {} is long; it became popular with ordinary people late.",
    ),
    ("How much room does {} need?", "A table by the window is enough for {} to begin with."),
    ("Who could teach me {}?", "Ask in the neighbourhood: clubs for {} like newcomers."),
    ("What is the best season for {}?", "Spring suits {} well, though it can be done all year."),
    ("How do I stay motivated with {}?", "Keep a diary of your {} and look back at it now and then."),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_two_exchanges_are_alike() {
        let all: BTreeSet<_> = (0..600).map(exchange).map(|(question, _)| question).collect();

        assert_eq!(all.len(), 600);
    }
}
