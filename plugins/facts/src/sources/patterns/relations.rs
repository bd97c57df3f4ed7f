//! Words for people and animals that belong to somebody: "my sister", "unser Hund", and the predicates they stand for.

/// The predicate that words for somebody stand for, in English or German, in any number: "older sister".
pub(super) fn relation(words: &str) -> Option<&'static str> {
    let (described, word) = words.rsplit_once([' ']).unwrap_or(("", words));
    let word = word.to_lowercase();
    // A Freundin is whom one loves, a beste Freundin is not.
    if matches!(word.as_str(), "freund" | "freundin")
        && DESCRIBES_FRIENDS.iter().any(|word| described.to_lowercase().contains(word))
    {
        return Some("friend");
    }
    RELATIONS.iter().find(|(_, words)| words.split('|').any(|known| known == word)).map(|(predicate, _)| *predicate)
}

const DESCRIBES_FRIENDS: [&str; 4] = ["best", "gut", "alt", "lang"];

/// All these words as alternatives of a pattern.
pub(super) fn relation_words() -> String {
    let mut words: Vec<&str> = RELATIONS.iter().flat_map(|(_, words)| words.split('|')).collect();
    words.sort_by_key(|word| std::cmp::Reverse(word.len()));
    words.join("|")
}

/// How somebody is described in front of such a word.
pub(super) const ADJECTIVES: &str = "(?:(?:older|elder|younger|little|big|eldest|oldest|youngest|twin|only|best|first|second|new|current|late|dear|\
     half|step|baby|teenage|great|lovely|good|direct|line|former|\\d+-year-old|ältere[rnms]?|jüngere[rnms]?|kleine[rnms]?|große[rnms]?|älteste[rnms]?|\
     jüngste[rnms]?|beste[rnms]?|neue[rnms]?|liebe[rnms]?|alte[rnms]?|junge[rnms]?|einzige[rnms]?|erste[rnms]?|zweite[rnms]?)[ -])*";

const RELATIONS: &[(&str, &str)] = &[
    ("married_to", "wife|husband|hubby|spouse|frau|ehefrau|mann|ehemann|gatte|gattin"),
    (
        "partner",
        "partner|girlfriend|boyfriend|gf|bf|fiancé|fiancée|fiance|fiancee|freundin|freund|partnerin|lebensgefährte|lebensgefährtin|\
                 verlobter|verlobte",
    ),
    ("son", "son|sons|sohn|söhne"),
    ("daughter", "daughter|daughters|tochter|töchter"),
    ("has_child", "child|children|kid|kids|baby|twins|toddler|kind|kinder|zwillinge"),
    ("sister", "sister|sisters|sis|stepsister|half-sister|schwester|schwestern|zwillingsschwester|halbschwester"),
    ("brother", "brother|brothers|stepbrother|half-brother|bruder|brüder|zwillingsbruder|halbbruder"),
    ("has_sibling", "sibling|siblings|geschwister"),
    ("mother", "mother|mom|mum|mama|mutter|mutti"),
    ("father", "father|dad|daddy|papa|vater|vati"),
    ("grandmother", "grandmother|grandma|granny|nana|großmutter|oma"),
    ("grandfather", "grandfather|grandpa|granddad|großvater|opa"),
    ("aunt", "aunt|auntie|tante"),
    ("uncle", "uncle|onkel"),
    ("cousin", "cousin|cousins|cousine|cousinen"),
    ("niece", "niece|nichte"),
    ("nephew", "nephew|neffe"),
    ("manager", "boss|manager|supervisor|chef|chefin|vorgesetzter|vorgesetzte"),
    ("colleague", "colleague|coworker|co-worker|teammate|kollege|kollegin"),
    ("friend", "friend|bestie|buddy"),
    ("neighbour", "neighbour|neighbor|nachbar|nachbarin"),
    ("roommate", "roommate|flatmate|housemate|mitbewohner|mitbewohnerin"),
    ("doctor", "doctor|gp|physician|hausarzt|hausärztin|arzt|ärztin"),
    ("dentist", "dentist|zahnarzt|zahnärztin"),
    ("therapist", "therapist|therapeut|therapeutin"),
    ("landlord", "landlord|landlady|vermieter|vermieterin"),
    ("teacher", "teacher|lehrer|lehrerin"),
    ("lawyer", "lawyer|attorney|anwalt|anwältin"),
    ("advisor", "advisor|adviser|mentor|mentorin|doktorvater|betreuer|betreuerin"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_stands_for_one_predicate() {
        assert_eq!(relation("Wife"), Some("married_to"));
        assert_eq!(relation("Töchter"), Some("daughter"));
        assert_eq!(relation("car"), None);
        assert_eq!(relation("Freundin"), Some("partner"));
        assert_eq!(relation("beste Freundin"), Some("friend"));
        assert_eq!(relation("older sister"), Some("sister"));
        let words = relation_words();
        let mut all: Vec<&str> = words.split('|').collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count, "a word stands twice");
    }
}
