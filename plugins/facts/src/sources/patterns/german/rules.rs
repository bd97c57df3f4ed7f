//! The patterns of German: what follows a subject, and what it tells.

use super::super::people::{age, birthday, born, called, died, divorced, has, is_called, took_in, turned};
use super::super::reach::{address, email, phone};
use super::super::rules::Tells::{self, By, Ends, Event, Never, State};
use super::super::rules::{Of, Rule, Takes};
use super::super::tastes::{allergic, attribute, favourite, plays, prefers};
use super::super::things::{decided, depends, part_of, switched};
use super::life::*;
use super::work::*;

/// What somebody or something does, behind the subject.
pub(in super::super) const DOES: &[Rule] = &[
    // Where somebody lives.
    rule(
        Of::Person,
        r"(?:wohn(?:e|en|t)?|leb(?:e|en|t)?) (?:mit \w+ \w+(?: \w+)? |zusammen )?(?:in einer (?:WG|Wohnung) |in einem Haus )?in (?P<o>.+?)",
        State("lives_in", Takes::Place),
    ),
    rule(
        Of::Person,
        r"(?:bin|sind|ist) (?:(?:von|aus) .+ )?nach (?P<o>.+?) (?:um)?gezogen|zog(?:en)? nach (?P<p>.+)",
        By(moved),
    ),
    rule(
        Of::Person,
        r"(?:habe|haben|hat) in (?P<o>.+?) (?:gewohnt|gelebt)|(?:wohnten?|lebten?) in (?P<p>.+)",
        By(lived),
    ),
    rule(Of::Person, r"(?:wohn(?:e|en|t)?|leb(?:e|en|t)) nicht mehr in (?P<o>.+)", Ends("lives_in", Takes::Place)),
    rule(
        Of::Person,
        r"(?:habe|haben|hat) nie(?:mals)? in (?P<o>.+?) (?:gewohnt|gelebt)",
        Never("lives_in", Takes::Place),
    ),
    rule(Of::Person, r"(?:komm(?:e|en|t)|stamm(?:e|en|t)) aus (?P<o>.+)", By(comes_from)),
    // Work and learning.
    rule(Of::Person, r"arbeite(?:n|t)? als (?P<o>.+)", By(works_as)),
    rule(Of::Person, r"(?:habe|haben|hat) eine(?:n)? (?:Stelle|Job|Anstellung) als (?P<o>.+)", By(works_as)),
    rule(Of::Person, r"arbeite(?:n|t)? nicht mehr (?:bei|für|beim) (?P<o>.+)", Ends("works_at", Takes::Organisation)),
    rule(Of::Person, r"arbeite(?:n|t)? (?:bei|für|beim) (?P<o>.+?) nicht mehr", Ends("works_at", Takes::Organisation)),
    rule(
        Of::Person,
        r"(?:arbeite(?:n|t)?|(?:bin|sind|ist) (?:angestellt|beschäftigt)) (?:bei|für|beim) (?P<o>.+)",
        By(works_at),
    ),
    rule(
        Of::Person,
        r"(?:bin|sind|ist) (?:bei|beim) (?P<o>.+?) (?:angestellt|beschäftigt)",
        State("works_at", Takes::Organisation),
    ),
    rule(
        Of::Person,
        r"(?:habe|haben|hat) nie(?:mals)? (?:bei|für|beim) (?P<o>.+?) gearbeitet|(?:habe|haben|hat) (?:bei|für|beim) (?P<p>.+?) nie(?:mals)? gearbeitet",
        By(never_worked),
    ),
    rule(
        Of::Person,
        r"(?:habe|haben|hat) (?:bei|beim) (?P<o>.+?) (?:(?:einen|eine|meinen) (?:neuen? )?(?:Job|Stelle) )?(?:angefangen|begonnen|bekommen)",
        Event("works_at", Takes::Organisation),
    ),
    rule(
        Of::Person,
        r"(?:habe|haben|hat) (?:(?:meinen|seinen|ihren|den) Job )?(?:bei|beim) (?P<o>.+?) (?:gekündigt|aufgehört|hingeschmissen)",
        Ends("works_at", Takes::Organisation),
    ),
    rule(
        Of::Person,
        r"(?:wurde|bin|ist) (?:bei|beim|von) (?P<o>.+?) (?:entlassen|gekündigt|gefeuert)(?: worden)?",
        Ends("works_at", Takes::Organisation),
    ),
    rule(Of::Me, r"(?:habe|haben) (?P<o>.+?) verlassen", Ends("works_at", Takes::Organisation)),
    rule(Of::Person, r"(?:bin|sind|ist) zu (?P<o>.+?) gewechselt", Event("works_at", Takes::Organisation)),
    rule(
        Of::Person,
        r"(?:habe|haben|hat) (?:bei|für|beim) (?P<o>.+?) gearbeitet|arbeitete(?:n)? (?:bei|für|beim) (?P<p>.+)",
        By(worked),
    ),
    rule(Of::Person, r"studier(?:e|en|t) (?P<o>.+)", By(studies)),
    rule(Of::Person, r"(?:habe|haben|hat) (?P<o>.+) studiert", By(studied)),
    // Family.
    rule(Of::Person, r"(?:bin|sind|ist) mit (?P<o>.+?) verheiratet|(?:bin|ist) verheiratet mit (?P<p>.+)", By(married)),
    rule(Of::Person, r"(?:habe|haben|hat) (?P<o>.+?) geheiratet", Event("married_to", Takes::Person)),
    rule(Of::Person, r"(?:bin|sind|ist) mit (?P<o>.+?) (?:verlobt|zusammen|liiert)", State("partner", Takes::Person)),
    rule(Of::Person, r"(?:bin|sind|ist) geschieden|(?:habe|haben) uns scheiden lassen", By(divorced)),
    rule(Of::Me, r"(?:habe|haben) (?P<o>(?:ein|eine|einen|zwei|drei|vier|fünf|\d) .+)", By(has)),
    rule(
        Of::Me,
        r"(?:habe|haben)(?: mir| uns)? (?P<o>(?:ein|eine|einen) .+?) (?:adoptiert|angeschafft|aus dem Tierheim geholt|gekauft)",
        By(took_in),
    ),
    rule(Of::Named, r"(?:ist|wurde) (?:gestorben|eingeschläfert|verstorben)\b.*|starb\b.*", By(died)),
    // Body and mind.
    rule(Of::Person, r"(?:bin|ist|sind) (?P<n>\d{1,3})(?: Jahre alt)?(?:,? (?:und|aber|aus) .*|[,.].*)?", By(age)),
    rule(Of::Person, r"(?:bin|ist|sind|wurde) (?P<n>\d{1,3})(?: Jahre alt)?(?: geworden)?", By(turned)),
    rule(Of::Person, r"(?:bin|wurde|ist|sind|wurden) (?:(?P<o>.*) )?geboren(?: (?P<p>.*))?", By(born)),
    rule(Of::Person, r"(?:spreche|sprechen|spricht|kann) (?P<o>.+)", State("speaks", Takes::Languages)),
    rule(
        Of::Person,
        r"(?:bin|ist|sind|reagiere|reagiert) (?:stark )?allergisch (?:gegen|auf) (?P<o>.+)|(?:bin|ist|sind) (?:gegen|auf) (?P<p>.+?) (?:stark )?allergisch",
        By(allergic),
    ),
    rule(
        Of::Person,
        r"(?:habe|haben|hat) eine (?P<o>\w+?)allergie|(?:habe|hat) eine Allergie gegen (?P<p>.+)",
        By(allergic),
    ),
    rule(
        Of::Person,
        r"(?:bin|ist) (?P<o>laktose|gluten|fructose|fruktose|histamin)intolerant|(?:habe|hat) eine (?P<p>laktose|gluten|fructose|fruktose|histamin)(?:intoleranz|unverträglichkeit)",
        By(allergic),
    ),
    rule(
        Of::Person,
        r"(?:bin|ist|sind|leben?|ernähre mich) (?P<o>vegetarier(?:in)?|veganer(?:in)?|vegan|vegetarisch)\b.*",
        State("diet", Takes::Phrase),
    ),
    rule(
        Of::Person,
        r"(?:esse|essen|isst|trinke|trinken|trinkt|vertrage|verträgt) keine?n? (?P<o>.+)",
        State("avoids", Takes::Phrases),
    ),
    rule(Of::Person, r"lern(?:e|en|t) (?P<o>.+)", State("learns", Takes::Languages)),
    rule(Of::Person, r"(?:mag|mögen) keine[nm]? (?P<o>.+)", State("dislikes", Takes::Phrases)),
    rule(
        Of::Person,
        r"(?:mag|mögen|kann|können) (?P<o>.+?) (?:überhaupt |gar )?nicht(?: (?:leiden|ausstehen|ab))?",
        State("dislikes", Takes::Phrases),
    ),
    rule(Of::Person, r"(?:hasse|hassen|hasst|verabscheue|verabscheut) (?P<o>.+)", State("dislikes", Takes::Phrases)),
    rule(
        Of::Person,
        r"(?:mag|mögen|liebe|lieben|liebt) (?:gerne? |besonders |total )?(?P<o>.+)",
        State("likes", Takes::Phrases),
    ),
    rule(
        Of::Person,
        r"(?:esse|essen|isst|trinke|trinken|trinkt|höre|hört|lese|liest) (?:am liebsten |gerne? |besonders gerne? )(?P<o>.+)",
        State("likes", Takes::Phrases),
    ),
    rule(Of::Person, r"(?:bevorzuge|bevorzugen|bevorzugt) (?P<o>.+)", By(prefers)),
    rule(Of::Person, r"spiel(?:e|en|t) (?:gerne? )?(?P<o>.+)", By(plays)),
    // What is somebody's.
    rule(
        Of::Person,
        r"(?:fahre?|fahren|fährt) (?:einen |eine |ein |meinen |den )?(?:alten |neuen |roten |blauen )?(?P<o>.+)",
        By(drives),
    ),
    rule(Of::Person, r"(?:besitze|besitzen|besitzt) (?P<o>.+)", State("owns", Takes::Phrases)),
    rule(Of::Me, r"(?:habe|haben)(?: mir| uns)? (?P<o>.+?) (?:gekauft|angeschafft|zugelegt|geleistet)", By(bought)),
    rule(
        Of::Me,
        r"(?:habe|haben) (?:mein|meine|meinen|unser|unsere|unseren|den|die|das) (?:alten? |altes )?(?P<o>.+?) (?:verkauft|verschenkt|abgegeben)",
        By(sold),
    ),
    rule(
        Of::Me,
        r"(?:bin|sind) (?:unter|per Mail unter|per E-Mail unter) (?P<o>\S+@\S+)(?: erreichbar| zu erreichen)?",
        By(email),
    ),
    // Tools and things.
    rule(Of::Anybody, r"(?:nutz|benutz|verwend)(?:e|en|t|et) (?P<o>.+?) nicht mehr", Ends("uses", Takes::Tools)),
    rule(
        Of::Anybody,
        r"(?:nutz|benutz|verwend)(?:e|en|t|et) kein(?:e|en)? (?P<o>.+?) mehr",
        Ends("uses", Takes::Tools),
    ),
    rule(Of::Anybody, r"setz(?:e|en|t) nicht mehr auf (?P<o>.+)", Ends("uses", Takes::Tools)),
    rule(
        Of::Anybody,
        r"(?:habe|haben|hat) nie(?:mals)? (?P<o>.+?) (?:benutzt|genutzt|verwendet)",
        Never("uses", Takes::Tools),
    ),
    rule(
        Of::Anybody,
        r"(?:bin|sind|ist|wurde) von (?P<a>.+?) (?:auf|zu) (?P<b>.+?) (?:umgestiegen|gewechselt|migriert|umgestellt)",
        By(switched),
    ),
    rule(
        Of::Anybody,
        r"(?:bin|sind|ist|wurde) (?:auf|zu) (?P<b>.+?) (?:umgestiegen|gewechselt|migriert|umgestellt)",
        By(switched),
    ),
    rule(Of::Anybody, r"setz(?:e|en|t) (?:bei uns |dafür |hier )?(?P<o>.+?) ein", State("uses", Takes::Tools)),
    rule(Of::Anybody, r"(?:habe|haben|hat) (?P<a>.+?) durch (?P<b>.+?) (?:ersetzt|abgelöst)", By(switched)),
    rule(
        Of::Anybody,
        r"(?:(?:nutz|benutz|verwend)(?:e|en|t|et)|setz(?:e|en|t) auf|läuft (?:mit|auf)|basiert auf) (?P<o>.+)",
        State("uses", Takes::Tools),
    ),
    rule(
        Of::Thing,
        r"(?:ist|sind|wurde|wurden) in (?P<o>.+?) (?:neu )?(?:geschrieben|programmiert|implementiert|entwickelt)",
        State("written_in", Takes::Tools),
    ),
    rule(Of::Thing, r"häng(?:t|en) von (?P<o>.+?) ab", By(depends)),
    rule(
        Of::Thing,
        r"(?:(?:ist|sind) (?:ein )?(?:Teil|Bestandteil|Modul) (?:von|der|des|vom)|gehör(?:t|en) zu(?:m|r)?) (?P<o>.+)",
        By(part_of),
    ),
    rule(Of::Thing, r"(?:hat (?:seinen|ihren) (?:Haupt)?sitz in|sitzt in) (?P<o>.+)", State("based_in", Takes::Place)),
    rule(Of::Me, r"(?:habe|haben) (?:mich|uns) für (?P<o>.+?) entschieden", By(decided)),
    rule(
        Of::Me,
        r"(?:habe|haben) (?:(?:mich|uns) )?(?:beschlossen|entschieden|dazu entschieden), (?P<o>.+)",
        By(decided),
    ),
    // Names and trades last: they take what no other rule does.
    rule(Of::Me, r"(?:heiße|heißen) (?P<o>.+)", By(called)),
    rule(Of::Person, r"(?:bin|ist|sind) (?:ein |eine |der |die )?(?P<o>.+)", By(is_by_trade)),
    rule(Of::Me, r"bin (?:der |die )?(?P<o>.+)", By(introduces)),
    rule(Of::Named, r"ist meine? (?P<o>.+)", By(is_my)),
];

/// What something of mine is: "meine Lieblingsfarbe ist Grün".
pub(in super::super) const MINE: &[Rule] = &[
    rule(Of::Me, r"(?:Vor)?name (?:ist|lautet) (?P<o>.+)", By(called)),
    rule(Of::Me, r"(?:\w+ )?(?:e-?mail|mail)(?:-?adresse)? (?:ist|lautet) (?P<o>\S+@\S+).*", By(email)),
    rule(
        Of::Me,
        r"(?:neue )?(?:handy|telefon|mobil|festnetz)?-?nummer (?:ist|lautet) (?P<o>\+?[\d(][\d ()/.-]{4,}\d).*",
        By(phone),
    ),
    rule(Of::Me, r"(?:neue )?(?:adresse|anschrift) (?:ist|lautet) (?P<o>.+)", By(address)),
    rule(Of::Me, r"(?:geburtstag|geburtsdatum) (?:ist|fällt|lautet).*", By(birthday)),
    rule(Of::Me, r"lieblings(?P<what>\w+) (?:ist|sind|heißt) (?P<o>.+)", By(favourite)),
    rule(Of::Me, r"muttersprache ist (?P<o>.+)", State("speaks", Takes::Languages)),
    rule(Of::Me, r"hobbys? (?:ist|sind) (?P<o>.+)", State("hobby", Takes::Phrases)),
    rule(Of::Me, r"(?:beruf|job) ist (?P<o>.+)", By(works_as)),
    rule(Of::Me, r"(?:arbeitgeber|firma) (?:ist|heißt) (?P<o>.+)", State("works_at", Takes::Organisation)),
    rule(Of::Me, r"(?:auto|wagen|motorrad) ist (?:ein |eine )?(?:alter |neuer |roter |blauer )?(?P<o>.+)", By(drives)),
    rule(
        Of::Me,
        r"(?P<what>blutgruppe|schuhgröße|körpergröße|staatsangehörigkeit|zeitzone|spitzname|kennzeichen) (?:ist|lautet) (?P<o>.+)",
        By(attribute),
    ),
    rule(Of::Me, r"(?P<who>(?:[\w]+ ){0,2}[\w-]+) (?:heißt|heißen|nennt sich) (?P<o>.+)", By(is_called)),
    rule(Of::Me, r"(?P<who>(?:[\w]+ ){0,2}[\w-]+) ist (?P<o>(?:Herr|Frau|Dr\.|Prof\.) .+)", By(is_called)),
];

const fn rule(of: Of, says: &'static str, tells: Tells) -> Rule {
    Rule { of, says, tells }
}
