//! The patterns of English: what follows a subject, and what it tells.

use super::super::people::{age, birthday, born, called, died, divorced, has, is_called, took_in, turned};
use super::super::reach::{address, email, phone};
use super::super::rules::Tells::{self, By, Ends, Event, Never, Past, State};
use super::super::rules::{Of, Rule, Takes};
use super::super::tastes::{attribute, favourite, plays, prefers};
use super::super::things::{decided, depends, part_of, switched};
use super::life::*;
use super::work::*;

/// What somebody or something does, behind the subject.
pub(in super::super) const DOES: &[Rule] = &[
    // Where somebody lives.
    rule(
        Of::Person,
        r"(?:lives?|(?:am|are|is) living|(?:have|has) been living|(?:have|has) lived|resides?) (?:(?:together )?with (?:my|our|his|her) [\w ]{2,30}? )?in (?P<o>.+)",
        State("lives_in", Takes::Place),
    ),
    rule(Of::Me, r"(?:am|are) based (?:in|out of) (?P<o>.+)", State("lives_in", Takes::Place)),
    rule(Of::Anybody, r"(?:is|are) (?:based|headquartered) in (?P<o>.+)", By(based_in)),
    rule(
        Of::Anybody,
        r"(?:(?:have|has) )?(?:switched|migrated|moved|changed) from (?P<a>.+?) to (?P<b>.+)",
        By(switched),
    ),
    rule(
        Of::Anybody,
        r"(?:(?:have|has) )?(?:replaced|ditched) (?P<a>.+?) (?:with|by|for|in favou?r of) (?P<b>.+)",
        By(switched),
    ),
    rule(Of::Anybody, r"(?:(?:have|has) )?(?:switched|migrated) (?:over )?to (?P<b>.+)", By(switched)),
    rule(
        Of::Person,
        r"(?:(?:have|has) )?(?:moved|relocated)(?: back| over)?(?: from .+?)? to (?P<o>.+)",
        Event("lives_in", Takes::Place),
    ),
    rule(Of::Person, r"(?:lived?|was living|were living) in (?P<o>.+)", Past("lives_in", Takes::Place)),
    rule(Of::Person, r"no longer lives? in (?P<o>.+)", Ends("lives_in", Takes::Place)),
    rule(Of::Person, r"do(?:es)? not live in (?P<o>.+?) (?:any ?more|any longer)", Ends("lives_in", Takes::Place)),
    rule(Of::Person, r"(?:(?:have|has) )?never lived in (?P<o>.+)", Never("lives_in", Takes::Place)),
    rule(Of::Person, r"(?:am|is|are|comes?|hails?) from (?P<o>.+)", State("comes_from", Takes::Place)),
    // Work and learning.
    rule(
        Of::Person,
        r"(?:works?|(?:am|are|is) (?:working|employed)|(?:have|has) been working|(?:have|has) worked) as (?P<o>.+)",
        By(works_as),
    ),
    rule(
        Of::Person,
        r"(?:works?|(?:am|are|is) (?:working|employed)|(?:have|has) been working|(?:have|has) worked) (?:at|for|by) (?P<o>.+)",
        By(works_at),
    ),
    rule(
        Of::Person,
        r"(?:(?:have|has) )?(?:started|have|got|accepted|took|landed) (?:a|my|the) (?:new )?(?:job|position|role|gig) as (?P<o>.+)",
        By(starts_as),
    ),
    rule(Of::Person, r"(?:have|has) been (?:at|with) (?P<o>.+)", By(has_been_at)),
    rule(
        Of::Person,
        r"(?:(?:have|has) )?(?:joined|started(?: working)? (?:at|for|with)|began(?: working)? (?:at|for|with)|(?:started|have|got|accepted|took|landed) (?:a|my|the) (?:new )?(?:job|position|role|gig) (?:at|with)) (?P<o>.+)",
        By(joined),
    ),
    rule(
        Of::Person,
        r"(?:worked?|was working|was employed) (?:at|for|by) (?P<o>.+)",
        Past("works_at", Takes::Organisation),
    ),
    rule(
        Of::Person,
        r"(?:(?:have|has) )?(?:quit|left|resigned from|gave up)(?: my| his| her)? (?:job|position|role) (?:at|with) (?P<o>.+)",
        Ends("works_at", Takes::Organisation),
    ),
    rule(Of::Me, r"(?:have )?(?:left|quit|resigned from|retired from) (?P<o>.+)", By(left)),
    rule(
        Of::Person,
        r"(?:was|got|have been|has been) (?:laid off|fired|let go|made redundant) (?:from|by|at) (?P<o>.+)",
        Ends("works_at", Takes::Organisation),
    ),
    rule(Of::Person, r"no longer works? (?:at|for) (?P<o>.+)", Ends("works_at", Takes::Organisation)),
    rule(
        Of::Person,
        r"(?:do(?:es)? not work|is not working|am not working) (?:at|for) (?P<o>.+?) (?:any ?more|any longer)",
        Ends("works_at", Takes::Organisation),
    ),
    rule(
        Of::Person,
        r"(?:am|is|are) no longer (?:at|with|working at|working for) (?P<o>.+)",
        Ends("works_at", Takes::Organisation),
    ),
    rule(Of::Person, r"stopped working (?:at|for) (?P<o>.+)", Ends("works_at", Takes::Organisation)),
    rule(
        Of::Person,
        r"(?:(?:have|has) )?never (?:worked|been employed) (?:at|for|by) (?P<o>.+)",
        Never("works_at", Takes::Organisation),
    ),
    rule(
        Of::Person,
        r"(?:became|(?:have|has) become|(?:was|got|have been|has been) (?:promoted to|hired as|appointed)) (?P<o>.+)",
        By(became),
    ),
    rule(
        Of::Person,
        r"(?:(?:am|are|is) (?:studying|majoring in|doing a (?:degree|phd|masters?) in)|stud(?:y|ies)|majors? in) (?P<o>.+)",
        By(studies),
    ),
    rule(
        Of::Person,
        r"(?:studied|majored in|(?:have|has) studied|(?:have|has) a (?:degree|phd|masters?|bachelors?)(?: degree)? in|did (?:my|a|his|her) (?:degree|phd|masters?|bachelors?) in) (?P<o>.+)",
        By(studied),
    ),
    rule(Of::Person, r"(?:(?:have|has) )?graduated from (?P<o>.+)", State("studied_at", Takes::Organisation)),
    rule(
        Of::Person,
        r"(?:am|are|is) working on (?:a project called |the |project )?(?P<o>.+)",
        State("works_on", Takes::Name),
    ),
    // Family.
    rule(Of::Person, r"(?:am|is|are|(?:have|has) been) married to (?P<o>.+)", State("married_to", Takes::Person)),
    rule(
        Of::Person,
        r"(?:(?:got|was|were) married to|(?:have |has )?married) (?P<o>.+)",
        Event("married_to", Takes::Person),
    ),
    rule(
        Of::Person,
        r"(?:am|is|are) (?:engaged to|dating|in a relationship with) (?P<o>.+)",
        State("partner", Takes::Person),
    ),
    rule(Of::Person, r"(?:got engaged to|started dating) (?P<o>.+)", Event("partner", Takes::Person)),
    rule(Of::Person, r"(?:am|is|are|got) divorced(?: from (?P<o>.+))?|(?:have |has )?divorced (?P<p>.+)", By(divorced)),
    rule(Of::Me, r"(?:have|has) (?P<o>(?:an?|one|two|three|four|five|another|\d) .+)", By(has)),
    rule(Of::Me, r"(?:(?:have|has) )?(?:adopted|rescued|bought|took in) (?P<o>an? .+)", By(took_in)),
    rule(Of::Named, r"(?:(?:has|have) )?(?:died|passed away)(?: .*)?", By(died)),
    // Body and mind.
    rule(
        Of::Person,
        r"(?:am|is|are) (?P<n>\d{1,3})(?: years?[ -]old| y/?o| years of age)?(?:,? (?:and|but|from|with) .*|[,.(;].*)?",
        By(age),
    ),
    rule(Of::Person, r"(?:turned|(?:have |has )?turned) (?P<n>\d{1,3})(?: years old)?", By(turned)),
    rule(Of::Person, r"(?:was|were|am|is) born\b(?P<o>.*)", By(born)),
    rule(
        Of::Person,
        r"(?:can )?(?:speaks?|(?:am|is|are) (?:fluent|a native speaker) (?:in|of)) (?P<o>.+)",
        State("speaks", Takes::Languages),
    ),
    rule(
        Of::Person,
        r"(?:(?:am|is|are) )?(?:severely |deathly |highly )?allergic to (?P<o>.+)",
        State("allergic_to", Takes::Phrases),
    ),
    rule(
        Of::Person,
        r"(?:have|has) an? (?:severe |bad )?(?P<o>[\w -]+?) (?:allergy|intolerance)\b.*",
        State("allergic_to", Takes::Phrases),
    ),
    rule(
        Of::Person,
        r"(?:am|is|are) (?P<o>lactose|gluten|fructose|histamine)[ -]intolerant\b.*",
        State("allergic_to", Takes::Phrases),
    ),
    rule(
        Of::Person,
        r"(?:(?:am|is|are)(?: an?| strictly)?|(?:have|has) been(?: an?)?) (?P<o>vegan|vegetarian|pescatarian|pescetarian|flexitarian)\b.*",
        State("diet", Takes::Phrase),
    ),
    rule(
        Of::Person,
        r"(?:likes?|loves?|enjoys?|adores?|(?:am|is|are) (?:into|fond of|passionate about|interested in)|(?:am|is|are) a (?:big |huge )?fan of) (?P<o>.+)",
        State("likes", Takes::Phrases),
    ),
    rule(
        Of::Person,
        r"(?:hates?|dislikes?|detests?|loathes?|can not (?:stand|bear)|do(?:es)? not like) (?P<o>.+)",
        State("dislikes", Takes::Phrases),
    ),
    rule(
        Of::Person,
        r"(?:do(?:es)? not|can not|never) (?:eat|drink|tolerate)s? (?P<o>.+)",
        State("avoids", Takes::Phrases),
    ),
    rule(Of::Person, r"(?:am|is|are) learning (?P<o>.+)", By(learning)),
    rule(Of::Person, r"prefers? (?P<o>.+)", By(prefers)),
    rule(Of::Person, r"plays? (?:the )?(?P<o>.+)", By(plays)),
    // What is somebody's.
    rule(
        Of::Person,
        r"drives? (?:an? |my |the )?(?:\d{4} |old |new |red |blue |black |white )*(?P<o>.+)",
        State("drives", Takes::Name),
    ),
    rule(Of::Person, r"owns? (?P<o>.+)", By(owns)),
    rule(
        Of::Person,
        r"(?:(?:have|has) )?(?:bought|purchased|got myself)(?: myself)? (?:an? |the |my first |my new |a new |a used )?(?P<o>.+)",
        By(bought),
    ),
    rule(
        Of::Person,
        r"(?:(?:have|has) )?(?:sold|gave away|got rid of) (?:my |our |his |her |the )(?:old )?(?P<o>.+)",
        By(sold),
    ),
    rule(Of::Me, r"can be reached (?:at|under|by e-?mail at) (?P<o>\S+@\S+)", By(email)),
    // Tools and things.
    rule(
        Of::Anybody,
        r"(?:no longer uses?|stopped using|(?:have |has )?(?:dropped|abandoned)) (?P<o>.+)",
        Ends("uses", Takes::Tools),
    ),
    rule(
        Of::Anybody,
        r"(?:do(?:es)? not use|is not using|are not using) (?P<o>.+?) (?:any ?more|any longer)",
        Ends("uses", Takes::Tools),
    ),
    rule(Of::Anybody, r"(?:(?:have|has) )?never used (?P<o>.+)", Never("uses", Takes::Tools)),
    rule(Of::Anybody, r"(?:(?:have|has) )?(?:started|began) using (?P<o>.+)", Event("uses", Takes::Tools)),
    rule(
        Of::Anybody,
        r"(?:uses?|(?:am|is|are) using|(?:have|has) been using|(?:have|has) used|(?:am|is|are) running|runs? on|(?:is|are) (?:built|powered) (?:with|on|by|on top of)) (?P<o>.+)",
        State("uses", Takes::Tools),
    ),
    rule(
        Of::Thing,
        r"(?:is|are|was|were) (?:(?:re)?written|implemented|coded|programmed) in (?P<o>.+)",
        State("written_in", Takes::Tools),
    ),
    rule(Of::Thing, r"(?:depends?|relies|rely) on (?P<o>.+)", By(depends)),
    rule(
        Of::Thing,
        r"(?:is|are) (?:a )?(?:part|component|module|subproject) of (?P<o>.+)|belongs? to (?P<p>.+)",
        By(part_of),
    ),
    rule(Of::Me, r"(?:(?:have|has) )?(?:decided|agreed|resolved) (?:to|on|that) (?P<o>.+)", By(decided)),
    rule(Of::Me, r"(?:went|are going) with (?P<o>.+)", State("decided", Takes::Name)),
    // Names and trades last: they take what no other rule does.
    rule(Of::Me, r"(?:(?:am|is) called|go by) (?P<o>.+)", By(called)),
    rule(Of::Person, r"(?:am|is|are) (?:an?|the) (?P<o>.+)", By(is_by_trade)),
    rule(Of::Me, r"am (?P<o>.+)", By(introduces)),
    rule(Of::Person, r"is my (?P<o>.+)", By(is_my)),
];

/// What something of mine is: "my favourite colour is teal". `o` follows the verb.
pub(in super::super) const MINE: &[Rule] = &[
    rule(Of::Me, r"(?:full |first )?name is (?P<o>.+)", By(called)),
    rule(Of::Me, r"(?:last name|surname|family name) is (?P<o>.+)", By(surname)),
    rule(Of::Me, r"(?:\w+ )?e-?mail(?: address)? is (?P<o>\S+@\S+).*", By(email)),
    rule(
        Of::Me,
        r"(?:new |private |work |mobile |cell )?(?:phone|telephone|mobile|cell|whatsapp)?(?: number| phone)?(?: number)? is (?P<o>\+?[\d(][\d ()/.-]{4,}\d).*",
        By(phone),
    ),
    rule(Of::Me, r"(?:new |home |postal )?address is (?P<o>.+)", By(address)),
    rule(Of::Me, r"(?:birthday|date of birth|birth date|birthdate|dob) (?:is|falls).*", By(birthday)),
    rule(Of::Me, r"(?:all-time )?favou?rite (?P<what>\w{2,20}(?: \w{2,20})?) (?:is|are) (?P<o>.+)", By(favourite)),
    rule(Of::Me, r"(?:native language|mother tongue|first language) is (?P<o>.+)", State("speaks", Takes::Languages)),
    rule(Of::Me, r"(?:hobby|hobbies) (?:is|are|include) (?P<o>.+)", State("hobby", Takes::Phrases)),
    rule(Of::Me, r"(?:job|profession|occupation|job title) is (?P<o>.+)", By(is_by_trade_of)),
    rule(Of::Me, r"(?:employer|company) is (?:called )?(?P<o>.+)", State("works_at", Takes::Organisation)),
    rule(Of::Me, r"(?:home ?town|birthplace) is (?P<o>.+)", State("comes_from", Takes::Place)),
    rule(
        Of::Me,
        r"(?:car|bike|motorbike|truck) is (?:an? )?(?:\d{4} |old |new |red |blue |black |white )*(?P<o>.+)",
        State("drives", Takes::Name),
    ),
    rule(
        Of::Me,
        r"(?P<what>nationality|blood type|shoe size|time ?zone|pronouns|height|weight|nickname|license plate|licence plate) (?:is|are) (?P<o>.+)",
        By(attribute),
    ),
    rule(Of::Me, r"(?P<who>[\w-]+(?: [\w-]+){0,2}?) (?:is|are)(?: called| named) (?P<o>.+)", By(is_called)),
    rule(Of::Me, r"(?P<who>[\w-]+(?: [\w-]+){0,2}?)(?:'s|s') names? (?:is|are) (?P<o>.+)", By(is_called)),
    rule(Of::Me, r"(?P<who>[\w-]+(?: [\w-]+){0,2}?) (?:is|are) (?P<o>.+)", By(is_somebody)),
];

const fn rule(of: Of, says: &'static str, tells: Tells) -> Rule {
    Rule { of, says, tells }
}
