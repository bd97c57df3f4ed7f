//! The words that tell how a sentence is meant: greetings, corrections, doubts, questions, other people's words, conditions,
//! plans, and where its clauses begin. English and German.

use std::sync::LazyLock;

use regex::Regex;

use super::text::words;

/// What tells clauses, doubts, corrections and the like apart, compiled once.
pub(super) struct Cues {
    pub(super) greeting: Regex,
    pub(super) filler_lead: Regex,
    pub(super) remember: Regex,
    pub(super) wrong: Regex,
    pub(super) unsure: Regex,
    pub(super) reported: Regex,
    pub(super) tag: Regex,
    pub(super) question: Regex,
    pub(super) border: Regex,
    pub(super) starts: Regex,
    pub(super) condition: Regex,
    pub(super) hypothetical: Regex,
    pub(super) once: Regex,
    pub(super) fillers: Regex,
    pub(super) instead: Vec<Regex>,
    pub(super) instead_alone: Regex,
    pub(super) preposed: Regex,
    pub(super) short: Vec<(Regex, &'static str)>,
}

pub(super) static CUES: LazyLock<Option<Cues>> = LazyLock::new(cues);

/// Where what `form` leads with ends in `text`; `None` when it does not begin so. A lead without a sign behind it ends
/// before the word that it needs after it.
pub(super) fn lead_end(form: &Regex, text: &str) -> Option<usize> {
    let found = form.captures(text)?;
    let end = match (found.name("lead"), found.name("sep")) {
        (Some(_), Some(sign)) => sign.end(),
        (Some(lead), None) => lead.end(),
        (None, _) => found.get(0)?.end(),
    };
    (end > 0).then_some(end)
}

fn cues() -> Option<Cues> {
    let compile = |pattern: &str| words(&format!("(?ix) {pattern}"));
    let short = [
        (
            r"^(?P<verb>just\ got|got\ an?|started\ (?:working\ )?at|moved\ to|adopted\ an?|bought\ an?|switched\ (?:from|to))\b",
            "I ${verb}",
        ),
        (r"\bi'm\b", "I am"),
        (
            r"^im\ (?P<next>an?|from|allergic|based|vegan|vegetarian|\d+|originally|not|also|currently)\b",
            "I am ${next}",
        ),
        (r"\bi've\b", "I have"),
        (r"\b(?:i'd|we'd)\b", "I would"),
        (r"\b(?:i'll|we'll)\b", "I will"),
        (r"\bwe're\b", "we are"),
        (r"\bwe've\b", "we have"),
        (r"\b(?:don't|dont)\b", "do not"),
        (r"\bdoesn't\b", "does not"),
        (r"\bdidn't\b", "did not"),
        (r"\b(?:can't|cant|cannot)\b", "can not"),
        (r"\b(?:isn't|aren't)\b", "is not"),
        (r"\bwasn't\b", "was not"),
        (r"\bhaven't\b", "have not"),
        (r"\bhasn't\b", "has not"),
        (r"\bname's\b", "name is"),
        (r"\b(?P<who>he|she|it)'s\b", "${who} is"),
        (r"\bhab\b", "habe"),
        (r"\b(?:'ne|'nen|nen|ne)\ ", "eine "),
        (r"\bgot\ (?P<what>an?|two|three)\b", "have ${what}"),
        (r"\bhave\ have\b", "have"),
    ];
    let short = short.into_iter().filter_map(|(form, whole)| compile(form).map(|form| (form, whole))).collect();
    Some(Cues {
        greeting: compile(
            r"^(?:hi|hey|hello|hallo|moin|servus|grüezi|greetings|good\ (?:morning|evening|afternoon)|guten\ (?:tag|morgen|abend))
               (?:\ (?:there|all|everyone|everybody|folks|zusammen|leute|team|again))?(?:[,!.\s–-]+|$)",
        )?,
        filler_lead: compile(
            r"^(?P<lead>yes|yeah|yep|ja|jep|genau|ok(?:ay)?|well|so|oh|ah|hmm?|and|but|und|aber|anyway|btw|by\ the\ way|fyi|übrigens|also
               |just\ so\ you\ know|for\ (?:the\ record|context|reference|what\ it's\ worth)|to\ be\ clear|as\ (?:i|you)\ (?:said|mentioned|know)(?:\ before)?
               |like\ i\ said|wie\ (?:ich\ )?(?:schon\ )?(?:sagte|gesagt|erwähnt)|wie\ du\ weißt|(?:nur\ )?zur\ (?:info|erinnerung)|sorry|oops|wait|moment
               |entschuldigung|sorry\ about\ that|actually|eigentlich|because|since|thanks|danke|please|bitte|in\ fact|tatsächlich|fun\ fact)
               (?:(?P<sep>\s*[,!–-]+\s*)|\s+(?:i\b|i'|we\b|my\b|our\b|ich\b|wir\b|mein|unser))",
        )?,
        remember: compile(
            r"^(?:please\ |pls\ |bitte\ )?(?:(?:remember|note|keep\ in\ mind|be\ aware|you\ should\ (?:also\ )?know|i\ should\ mention
               |don't\ forget|do\ not\ forget|i(?:\ have|'ve)?\ (?:already\ )?(?:told|mentioned|said)(?:\ (?:to\ )?you)?(?:\ (?:before|earlier|already))?
               |let\ me\ tell\ you|just\ so\ you\ know|important)(?:\ please)?[\s,:]+(?:that\ )?
               |(?:merke?\ dir|notiere?(?:\ dir)?|vergiss\ nicht|denke?\ (?:bitte\ )?(?:daran|dran)|du\ solltest\ wissen|wichtig(?:\ ist)?
               |ich\ (?:habe|hab)\ (?:dir\ )?(?:schon\ |bereits\ )?(?:gesagt|erzählt|erwähnt))(?:\ (?:bitte|mal|doch))*[\s,:]+)",
        )?,
        wrong: compile(
            r"^(?:(?P<lead>no|nope|nah|nein|nee|nö|quatsch|falsch|wrong|incorrect|not\ quite|correction|korrektur|stimmt\ nicht|doch\ nicht)
               (?:(?P<sep>\s*[,:;.!–-]+\s*|$)|\ (?:i\b|my\b|ich\b|mein))
               |(?:actually[, ]+)?(?:that\ is|that's|that\ was|thats|das\ ist|das\ war)\ (?:wrong|not\ right|not\ true|not\ correct|incorrect|falsch|nicht\ richtig|nicht\ wahr)(?:[,:;.!–\s-]+|$)
               |das\ stimmt\ (?:so\ )?nicht(?:[,:;.!–\s-]+|$)|i\ mean[t]?[,:\s]+|ich\ mein(?:t)?e[,:\s]+)",
        )?,
        unsure: compile(
            r"\b(?:i\ (?:think|guess|believe|suppose|assume|wonder)|i\ am\ not\ sure|i'm\ not\ sure|not\ sure|maybe|perhaps|probably|possibly
               |allegedly|supposedly|apparently|presumably|might|ich\ (?:glaube|denke|vermute|schätze|meine)|nicht\ sicher|vielleicht|eventuell|vermutlich
               |wahrscheinlich|womöglich|möglicherweise|angeblich|anscheinend|scheinbar|wohl)\b",
        )?,
        reported: compile(
            r"\b(?:says|said|thinks|thought|claims|claimed|believes|asks|asked|wonders|wrote|writes|tells|told|texted|replied|according\ to|quote
               |sagt|sagte|sagten|meint|meinte|behauptet|behauptete|glaubt|glauben|denkt|denken|dachte|dachten|glaubte|hoffte|fragt|fragte|schrieb|schreibt|erzählt|erzählte|laut
               |gehört,\ dass|geträumt|träume|dreamed|dreamt|heard\ that|stand\ in|steht\ in)\b",
        )?,
        tag: compile(r",?\ (?:right|correct|isn't\ it|don't\ i|oder|ne|gell|nicht\ wahr|stimmt's|remember|or\ not)\ ?\?+\s*$")?,
        question: compile(
            r"^(?:and\ |but\ |so\ |und\ |aber\ )?(?:what|which|who|whom|whose|where|when\ (?:is|are|was|did|do|does|can)|why|how|can|could|would|should|shall|do|does|did
               |is|are|was\ (?:it|he|she)|were|will|am\ i|have\ you|has|any\ (?:idea|tips|suggestions|recommendations)|is\ there|are\ there
               |wer|was|wo|wie|wann|warum|wieso|weshalb|welche\w*|wem|wen|woher|wohin|womit|kannst|könntest|könnte|könnten|kann|können|gibt|hast|hat|haben|habe\ ich|weißt|weisst
               |soll|sollte|sollen|ist|sind|bin\ ich|war|wird|würde|würdest|darf|muss|magst|möchtest|brauche\ ich|erinnerst)\b",
        )?,
        border: compile(
            r"(?:\s*[,;(]\s*|\s+[-–—]\s+|\)\s*)(?:(?:and|but|because|since|so|while|although|though|plus|und|aber|weil|da|denn|doch|sondern|damit)\s+)?
               |\s+(?:and|but|because|since|so|while|although|though|plus|und|aber|weil|denn|doch|if|unless|whether|wenn|falls|ob)\s+",
        )?,
        starts: compile(
            r"^(?:(?:i|we|my|our|he|she|it|they|his|her|its|their|you|there|this|that|these|those|what|which|who|where|how|why|when|if|unless|whether|could|can|would|should|do|does|is|are
               |did|will|let|please|not|the\ \w+(?:\ \w+){0,2}\ (?:is|was|uses|depends|runs|has)
               |ich|wir|mein\w*|unser\w*|er|sie|es|du|man|wer|was|wo|wie|wann|warum|welche\w*|ob|wenn|falls|dass|weil|kannst|könntest|hast|gibt|bitte|nicht|sondern
               |(?:der|die|das)\ \w+\ (?:ist|wurde|nutzt|hängt|läuft|gehört|verwendet|hat)
               |live|lives|work|works|worked|use|uses|used\ to|moved|drive|speak|love|loves|hate|hates|like|likes|dislike|enjoy|prefer|play|plays|study|studied|own|am|have|has
               |got|left|allergic\ to|joined|started|was|is|come\ from|bought|sold|switched|depends|no\ longer|never
               |wohne|wohn|wohnt|lebe|lebt|arbeite|arbeitet|nutze|nutzt|nutzen|verwende|verwendet|spreche|spricht|liebe|liebt|hasse|hasst|mag|fahre|fährt|spiele|spielt
               |studiere|studiert|heiße|heißt|komme|kommt|bin|ist|habe|hat|bevorzuge|besitze|hängt)\b
               |(?-i:\p{Lu})[\w.-]+\ (?:(?-i:\p{Lu})[\w.-]+\ )?(?:is|was|has|lives|works|uses|depends|died|ist|hat|wohnt|lebt|arbeitet|nutzt|wurde|hängt|kommt|mag|spricht)\b)",
        )?,
        condition: compile(
            r"^(?:if|unless|whether|once|as\ soon\ as|in\ case|when\ i|whenever|wenn|falls|ob|sobald|sofern|als\ ob|bevor|before|until)\b",
        )?,
        hypothetical: compile(
            r"\b(?:would|could|should|might|will|shall|going\ to|gonna|plan|plans|planning|want|wants|wanted|wish|hope|hoping|consider|considering|thinking\ (?:of|about)
               |considered|about\ to|tomorrow|soon|next\ (?:year|month|week|spring|summer|fall|autumn|winter|monday|tuesday|wednesday|thursday|friday|saturday|sunday)|someday|one\ day|as\ though
               |almost|nearly|would've|looking\ (?:for|to)|trying\ to|supposed\ to
               |würde|würden|könnte|könnten|sollte|sollten|möchte|möchten|hätte|hätten|wäre|wären|werde|werden|wird|will|wollen|wollte|hoffe|hoffen|plane|planen|überlege|überlegen
               |nächste[nrsm]?|demnächst|bald|irgendwann|künftig|zukünftig|fast|beinahe|als\ ob|vorhabe|vor,)\b",
        )?,
        once: compile(r"\bused\ to\b|\b(?:früher|damals|einst|ehemals)\b|\bformerly\b|\bin\ the\ past\b")?,
        fillers: compile(
            r"\s(?-i:currently|presently|lately|now|right\ now|at\ the\ moment|these\ days|nowadays|also|actually|just|recently|still|already|originally|personally|basically
               |really|absolutely|totally|truly|definitely|happily|mainly|mostly|primarily|usually|permanently|remotely|full[\ -]time|part[\ -]time|for\ a\ living
               |professionally|here|as\ of\ now|at\ present|by\ the\ way|btw|too|as\ well|finally|officially|unfortunately|luckily|sadly|proudly|today|self-employed|im\ Homeoffice|von\ zu\ Hause(?:\ aus)?|in\ Teilzeit|in\ Vollzeit|remote|from\ home
               |aktuell|derzeit|zurzeit|zur\ zeit|zur\ Zeit|momentan|im\ Moment|gerade|jetzt|nun|auch|übrigens|nämlich|eigentlich|schon|noch|bereits|inzwischen|mittlerweile
               |weiterhin|hauptsächlich|hauptberuflich|vor\ allem|persönlich|privat|beruflich|von\ Beruf|von\ beruf|leider|zum\ Glück|wirklich|echt|total|bitte|halt|eben|ja
               |doch|mal|hier|dort|heute|ursprünglich|immer|sehr|gebürtig|Übrigens|Aktuell|Derzeit|Zurzeit|Momentan|Inzwischen|Mittlerweile|Beruflich|Privat|Von\ Beruf|Leider
               |Currently|Nowadays|Recently|Originally|Personally|Actually|Professionally|Eigentlich|Jetzt|Ursprünglich)[,]?\s",
        )?,
        instead: [
            r"^(?P<subject>ich|wir|i|we)\ (?P<verb>am|are|bin|sind|\w+en?|\w+)\ (?:nicht|not)\ (?P<wrong>(?:in|bei|at|for|aus|mit|from|with)\ [\w.\ -]+?),?\ (?:sondern|but(?:\ rather)?)\ (?P<right>(?:in|bei|at|for|aus|mit|from|with)\ .+)$",
            r"^(?P<subject>i|we)\ do\ not\ (?P<verb>\w+)\ (?P<wrong>(?:in|at|for|from|with)\ [\w.\ -]+?),?\ but(?:\ rather)?\ (?P<right>(?:in|at|for|from|with)\ .+)$",
        ]
        .into_iter()
        .filter_map(compile)
        .collect(),
        instead_alone: compile(r"^(?:sondern\ )?(?:not|nicht)\ (?P<wrong>.+)$")?,
        preposed: compile(
            r"^(?:in|on|at|for|during)\ (?:my|the|our)?\ ?(?:free\ time|spare\ time|day\ job|evenings?|weekends?|job|mornings?|work|home|summer|side)\ ?,?\ (?P<rest>(?:i|we)\ .+)$",
        )?,
        short,
    })
}
