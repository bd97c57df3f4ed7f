//! The predicates that are known from the start.

use skymem_core::facts::EntityKind::{self, Animal, Event, Organisation, Other, Person, Place, Project, Technology};

/// What is known of a predicate. `{s}` in a sentence is the subject, `{o}` the value. A word that ends in `*` stands for
/// all words that begin so; one that ends in `?` may ask for anything, and only asks for this when there is nothing else.
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) single: bool,
    /// It says who somebody is to somebody: "my sister" is asked for by its words.
    pub(super) relation: bool,
    pub(super) sentence: &'static str,
    pub(super) inverse: &'static str,
    /// English and German words of questions that ask for it.
    pub(super) words: &'static str,
    /// What the subject of such a fact is.
    pub(super) subject: EntityKind,
    /// What its value is, when that is an entity.
    pub(super) object: EntityKind,
}

/// One value at a time.
const ONE: bool = true;
/// Many values at a time.
const MANY: bool = false;

const fn of_a_thing(
    name: &'static str,
    single: bool,
    sentences: (&'static str, &'static str),
    words: &'static str,
    (subject, object): (EntityKind, EntityKind),
) -> Row {
    Row { name, single, relation: false, sentence: sentences.0, inverse: sentences.1, words, subject, object }
}

const fn related(name: &'static str, single: bool, of: (&'static str, &'static str), words: &'static str) -> Row {
    Row { name, single, relation: true, sentence: of.0, inverse: of.1, words, subject: Person, object: Person }
}

pub(super) const TABLE: &[Row] = &[
    // Who somebody is.
    of_a_thing(
        "name",
        ONE,
        ("{s} is called {o}", "{o} is the name of {s}"),
        "name* called call? heiß* heiss* nenn*",
        (Other, Other),
    ),
    of_a_thing(
        "age",
        ONE,
        ("{s} is {o} years old", "{o} is the age of {s}"),
        "age old alter alt älter years? jahre?",
        (Other, Other),
    ),
    of_a_thing(
        "born_on",
        ONE,
        ("{s} was born on {o}", "{o} is the day {s} was born"),
        "born birth* geboren geburt* old alt",
        (Person, Other),
    ),
    of_a_thing(
        "birthday",
        ONE,
        ("{s} has birthday on {o}", "{o} is the birthday of {s}"),
        "birthday* born birth* geburtstag* geboren",
        (Person, Other),
    ),
    of_a_thing(
        "born_in",
        ONE,
        ("{s} was born in {o}", "{s} was born in {o}"),
        "born birthplace geboren geburtsort",
        (Person, Place),
    ),
    of_a_thing(
        "comes_from",
        ONE,
        ("{s} comes from {o}", "{s} comes from {o}"),
        "from? come? comes? origin* hometown herkunft stamm* komm*? woher heimat*",
        (Person, Place),
    ),
    of_a_thing("gender", ONE, ("{s} is {o}", "{s} is {o}"), "gender geschlecht", (Person, Other)),
    of_a_thing(
        "nationality",
        ONE,
        ("{s} has the nationality {o}", "{s} has the nationality {o}"),
        "nationality citizen* staatsangehörig* staatsbürger* nationalität",
        (Person, Other),
    ),
    of_a_thing(
        "is_a",
        MANY,
        ("{s} is a {o}", "{s} is a {o}"),
        "kind? sort? breed species art? rasse sorte",
        (Other, Other),
    ),
    // Where somebody is.
    of_a_thing(
        "lives_in",
        ONE,
        ("{s} lives in {o}", "{s} lives in {o}"),
        "live lives lived living home house move* moving city town reside* residence wohn* leb* zuhause zu-hause gezogen umgezogen umzug umzieh* stadt wohnort heim",
        (Person, Place),
    ),
    of_a_thing(
        "address",
        ONE,
        ("{s} has the address {o}", "{o} is the address of {s}"),
        "address* street? live lives adresse* anschrift straße wohn*",
        (Other, Place),
    ),
    of_a_thing(
        "based_in",
        ONE,
        ("{s} is based in {o}", "{s} is based in {o}"),
        "based headquarter* seat? office? offices located sitz*? ansässig standort* hauptsitz",
        (Organisation, Place),
    ),
    of_a_thing(
        "located_in",
        ONE,
        ("{s} is located in {o}", "{s} is located in {o}"),
        "located location liegt befindet standort* lage?",
        (Other, Place),
    ),
    of_a_thing(
        "email",
        ONE,
        ("{s} has the e-mail address {o}", "{o} is the e-mail address of {s}"),
        "email* mail? e-mail* mailadresse write? reach? contact* erreich* kontakt*",
        (Other, Other),
    ),
    of_a_thing(
        "phone",
        ONE,
        ("{s} has the phone number {o}", "{o} is the phone number of {s}"),
        "phone* telephone* mobile call? number? reach? contact* telefon* handy* nummer* anruf* erreich* kontakt*",
        (Other, Other),
    ),
    of_a_thing(
        "timezone",
        ONE,
        ("{s} is in the time zone {o}", "{s} is in the time zone {o}"),
        "timezone zone zeitzone",
        (Other, Other),
    ),
    // Work and learning.
    of_a_thing(
        "works_at",
        ONE,
        ("{s} works at {o}", "{s} works at {o}"),
        "work works worked working job employ* company arbeit* firma beschäftigt angestellt unternehmen",
        (Person, Organisation),
    ),
    of_a_thing(
        "employer",
        ONE,
        ("{s} is employed by {o}", "{o} employs {s}"),
        "employ* work works worked working job company arbeit* firma unternehmen",
        (Person, Organisation),
    ),
    of_a_thing(
        "job_title",
        ONE,
        ("{s} works as {o}", "{s} works as {o}"),
        "job title? profession occupation work works role? do? beruf* arbeit* tätig* stelle? jobtitel",
        (Person, Other),
    ),
    of_a_thing(
        "works_on",
        MANY,
        ("{s} works on {o}", "{o} is worked on by {s}"),
        "work works worked working project* arbeit* projekt*",
        (Person, Project),
    ),
    of_a_thing(
        "member_of",
        MANY,
        ("{s} is a member of {o}", "{s} is a member of {o}"),
        "member* belong* club team? mitglied* verein",
        (Person, Organisation),
    ),
    of_a_thing(
        "studies",
        MANY,
        ("{s} studies {o}", "{s} studies {o}"),
        "stud* subject major university fach studienfach uni",
        (Person, Other),
    ),
    of_a_thing(
        "studied",
        MANY,
        ("{s} studied {o}", "{s} studied {o}"),
        "stud* degree subject major university fach studienfach uni abschluss",
        (Person, Other),
    ),
    of_a_thing(
        "studies_at",
        ONE,
        ("{s} studies at {o}", "{s} studies at {o}"),
        "stud* university college school uni universität hochschule schule",
        (Person, Organisation),
    ),
    of_a_thing(
        "studied_at",
        MANY,
        ("{s} studied at {o}", "{s} studied at {o}"),
        "stud* university college school degree uni universität hochschule schule",
        (Person, Organisation),
    ),
    of_a_thing(
        "goes_to_school",
        ONE,
        ("{s} goes to school at {o}", "{s} goes to school at {o}"),
        "school class? schule klasse",
        (Person, Organisation),
    ),
    of_a_thing(
        "speaks",
        MANY,
        ("{s} speaks {o}", "{s} speaks {o}"),
        "speak* spoke* language* tongue sprech* sprich* sprach*",
        (Person, Other),
    ),
    // Who belongs to whom.
    related(
        "married_to",
        ONE,
        ("{s} is married to {o}", "{s} is married to {o}"),
        "married marry wife husband spouse verheiratet heirat* frau ehefrau mann ehemann",
    ),
    related(
        "partner",
        ONE,
        ("{s} has {o} as partner", "{o} is the partner of {s}"),
        "partner* girlfriend boyfriend freundin freund lebensgefährt*",
    ),
    related("engaged_to", ONE, ("{s} is engaged to {o}", "{s} is engaged to {o}"), "engaged fiancé* verlobt*"),
    related(
        "mother",
        ONE,
        ("{s} has {o} as mother", "{o} is the mother of {s}"),
        "mother* mom mum mama mutter* mutti parent* eltern*",
    ),
    related(
        "father",
        ONE,
        ("{s} has {o} as father", "{o} is the father of {s}"),
        "father* dad papa vater* vati parent* eltern*",
    ),
    related(
        "parent",
        MANY,
        ("{s} has {o} as parent", "{o} is a parent of {s}"),
        "parent* mother* father* eltern* mutter vater",
    ),
    related(
        "has_child",
        MANY,
        ("{s} has the child {o}", "{o} is a child of {s}"),
        "child children kid kids son sons daughter* kind? kinder* sohn söhne tochter töchter",
    ),
    related(
        "child",
        MANY,
        ("{s} has the child {o}", "{o} is a child of {s}"),
        "child children kid kids son sons daughter* kind? kinder* sohn söhne tochter töchter",
    ),
    related(
        "son",
        MANY,
        ("{s} has the son {o}", "{o} is a son of {s}"),
        "son sons child children kid kids sohn söhne kind? kinder",
    ),
    related(
        "daughter",
        MANY,
        ("{s} has the daughter {o}", "{o} is a daughter of {s}"),
        "daughter* child children kid kids tochter töchter kind? kinder",
    ),
    related(
        "has_sibling",
        MANY,
        ("{s} has the sibling {o}", "{o} is a sibling of {s}"),
        "sibling* brother* sister* geschwister bruder brüder schwester*",
    ),
    related(
        "sibling",
        MANY,
        ("{s} has the sibling {o}", "{o} is a sibling of {s}"),
        "sibling* brother* sister* geschwister bruder brüder schwester*",
    ),
    related(
        "brother",
        MANY,
        ("{s} has the brother {o}", "{o} is a brother of {s}"),
        "brother* sibling* bruder brüder geschwister",
    ),
    related(
        "sister",
        MANY,
        ("{s} has the sister {o}", "{o} is a sister of {s}"),
        "sister* sibling* schwester* geschwister",
    ),
    related("friend", MANY, ("{s} has the friend {o}", "{o} is a friend of {s}"), "friend* freund* kumpel*"),
    related(
        "colleague",
        MANY,
        ("{s} has the colleague {o}", "{o} is a colleague of {s}"),
        "colleague* coworker* kolleg* arbeitskolleg*",
    ),
    related(
        "neighbour",
        MANY,
        ("{s} has the neighbour {o}", "{o} is a neighbour of {s}"),
        "neighbour* neighbor* nachbar*",
    ),
    related(
        "manager",
        ONE,
        ("{s} has {o} as manager", "{o} is the manager of {s}"),
        "manager* boss* chef* vorgesetzte* lead?",
    ),
    related("boss", ONE, ("{s} has {o} as boss", "{o} is the boss of {s}"), "boss* manager* chef* vorgesetzte*"),
    related(
        "doctor",
        MANY,
        ("{s} has {o} as doctor", "{o} is the doctor of {s}"),
        "doctor* physician* arzt ärzt* hausarzt",
    ),
    related("dentist", ONE, ("{s} has {o} as dentist", "{o} is the dentist of {s}"), "dentist* zahnarzt zahnärzt*"),
    of_a_thing(
        "knows",
        MANY,
        ("{s} knows {o}", "{s} knows {o}"),
        "know? knows? knew? met kenn*? kennt?",
        (Person, Person),
    ),
    Row {
        name: "has_pet",
        single: false,
        relation: true,
        sentence: "{s} has the pet {o}",
        inverse: "{o} is a pet of {s}",
        words: "pet pets dog dogs cat cats animal* rabbit* hamster* puppy kitten haustier* hund* katze* kater tier tiere kaninchen",
        subject: Person,
        object: Animal,
    },
    // What somebody has, likes and can.
    of_a_thing(
        "likes",
        MANY,
        ("{s} likes {o}", "{s} likes {o}"),
        "like? likes liked love loves enjoy* favourite* favorite* mag? magst mögen gern gerne lieb* liebling*",
        (Person, Other),
    ),
    of_a_thing(
        "dislikes",
        MANY,
        ("{s} dislikes {o}", "{s} dislikes {o}"),
        "dislike* hate* avoid* like? mag? magst hass* ungern",
        (Person, Other),
    ),
    of_a_thing(
        "prefers",
        MANY,
        ("{s} prefers {o}", "{s} prefers {o}"),
        "prefer* rather like? bevorzug* lieber",
        (Person, Other),
    ),
    of_a_thing(
        "wants",
        MANY,
        ("{s} wants {o}", "{s} wants {o}"),
        "want? wants? wish* goal* will? möcht* wünsch* ziel*",
        (Person, Other),
    ),
    of_a_thing(
        "allergic_to",
        MANY,
        ("{s} is allergic to {o}", "{s} is allergic to {o}"),
        "allerg* intoleran* eat eats food unverträglich* essen isst",
        (Person, Other),
    ),
    of_a_thing(
        "diet",
        MANY,
        ("{s} keeps to the diet {o}", "{s} keeps to the diet {o}"),
        "diet* eat eats food vegetarian* vegan* ernähr* essen isst vegetari* rezept* recipe*",
        (Person, Other),
    ),
    of_a_thing(
        "plays",
        MANY,
        ("{s} plays {o}", "{s} plays {o}"),
        "play* instrument* sport* hobb* spiel*",
        (Person, Other),
    ),
    of_a_thing(
        "hobby",
        MANY,
        ("{s} has the hobby {o}", "{s} has the hobby {o}"),
        "hobb* leisure freizeit*",
        (Person, Other),
    ),
    of_a_thing(
        "owns",
        MANY,
        ("{s} owns {o}", "{o} belongs to {s}"),
        "own owns owned have? has? bought besitz* gehör*? habe? hat? gekauft",
        (Other, Other),
    ),
    of_a_thing(
        "drives",
        MANY,
        ("{s} drives {o}", "{s} drives {o}"),
        "drive* car cars vehicle* fahr* fährt auto autos wagen",
        (Person, Other),
    ),
    of_a_thing(
        "visited",
        MANY,
        ("{s} visited {o}", "{s} visited {o}"),
        "visit* travel* trip been? besuch* reise* gereist",
        (Person, Place),
    ),
    of_a_thing(
        "takes",
        MANY,
        ("{s} takes {o}", "{s} takes {o}"),
        "take? takes? medicine* medication* pill* nehm*? nimm*? medikament* tablette*",
        (Person, Other),
    ),
    // Projects and what they are made of.
    of_a_thing(
        "uses",
        MANY,
        ("{s} uses {o}", "{o} is used by {s}"),
        "use uses used using run? runs? database* technolog* tool* stack* language* framework* nutz* benutz* verwend* setzt datenbank* werkzeug* technik",
        (Other, Technology),
    ),
    of_a_thing(
        "written_in",
        MANY,
        ("{s} is written in {o}", "{s} is written in {o}"),
        "written write? language* programming programmed geschrieben sprache* programmier*",
        (Project, Technology),
    ),
    of_a_thing(
        "depends_on",
        MANY,
        ("{s} depends on {o}", "{o} is needed by {s}"),
        "depend* need? needs? require* abhäng* hängt braucht benötigt",
        (Other, Other),
    ),
    of_a_thing(
        "part_of",
        MANY,
        ("{s} is part of {o}", "{o} has the part {s}"),
        "part? parts? belong* component* module* teil* gehör*? bestandteil* modul*",
        (Other, Other),
    ),
    of_a_thing(
        "caused_by",
        MANY,
        ("{s} was caused by {o}", "{o} caused {s}"),
        "cause* why reason*? lead? led? because? due? verursach* warum wieso grund ursache* ausgelöst wegen",
        (Event, Event),
    ),
    of_a_thing(
        "decided",
        MANY,
        ("{s} decided {o}", "{s} decided {o}"),
        "decid* decision* chose choose entschied* entscheid* entschloss* beschl*",
        (Other, Other),
    ),
    of_a_thing(
        "decided_in",
        MANY,
        ("{s} was decided in {o}", "{s} was decided in {o}"),
        "decid* decision* chose* entschied* entscheid* beschl*",
        (Other, Event),
    ),
    of_a_thing(
        "chosen_in",
        MANY,
        ("{s} was chosen in {o}", "{s} was chosen in {o}"),
        "chose* choos* decid* decision* gewählt wahl entschied* entscheid*",
        (Other, Event),
    ),
    of_a_thing(
        "version",
        ONE,
        ("{s} is at version {o}", "{s} is at version {o}"),
        "version* release*",
        (Technology, Other),
    ),
    of_a_thing(
        "status",
        ONE,
        ("{s} has the status {o}", "{s} has the status {o}"),
        "status state? progress stand? fortschritt",
        (Other, Other),
    ),
    of_a_thing(
        "deadline",
        ONE,
        ("{s} is due on {o}", "{s} is due on {o}"),
        "deadline* due? when? termin* frist* fällig wann?",
        (Project, Other),
    ),
    of_a_thing("mentions", MANY, ("{s} mentions {o}", "{o} is mentioned by {s}"), "mention* erwähn*", (Other, Other)),
    of_a_thing("note", MANY, ("{s}: {o}", "{s}: {o}"), "note* notiz*", (Other, Other)),
];
