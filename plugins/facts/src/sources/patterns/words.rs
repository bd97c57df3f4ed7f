//! Words that patterns have to know: what is a language, a trade, an animal, a tool, and what is no name.

use std::collections::HashSet;
use std::sync::LazyLock;

/// A list of words, in lower case, that is asked for single words.
pub(super) struct Words(LazyLock<HashSet<&'static str>>);

impl Words {
    const fn new(load: fn() -> HashSet<&'static str>) -> Self {
        Self(LazyLock::new(load))
    }

    /// Whether `word` is one of them, in any case.
    pub(super) fn has(&self, word: &str) -> bool {
        self.0.contains(word.to_lowercase().as_str())
    }

    /// Whether `word` ends with one of them: German puts words together.
    pub(super) fn end(&self, word: &str) -> bool {
        let word = word.to_lowercase();
        self.0.iter().any(|known| word.ends_with(known))
    }
}

macro_rules! words {
    ($($(#[$doc:meta])* $name:ident = $words:literal;)*) => {
        $($(#[$doc])* pub(super) static $name: Words = Words::new(|| $words.split_whitespace().collect());)*
    };
}

words! {
    /// Languages, in English and German.
    LANGUAGES = "english german french spanish italian portuguese dutch danish swedish norwegian finnish icelandic polish czech
        slovak hungarian romanian bulgarian serbian croatian bosnian slovenian albanian greek turkish arabic hebrew persian farsi
        kurdish urdu hindi bengali punjabi tamil telugu malayalam kannada marathi gujarati nepali sinhala thai vietnamese khmer lao
        burmese indonesian malay tagalog filipino chinese mandarin cantonese japanese korean mongolian russian ukrainian belarusian
        georgian armenian azerbaijani kazakh uzbek estonian latvian lithuanian irish welsh scottish gaelic basque catalan galician
        swahili amharic somali hausa yoruba igbo zulu xhosa afrikaans latin esperanto luxembourgish maltese macedonian pashto
        deutsch englisch französisch spanisch italienisch portugiesisch niederländisch holländisch dänisch schwedisch norwegisch
        finnisch isländisch polnisch tschechisch slowakisch ungarisch rumänisch bulgarisch serbisch kroatisch bosnisch slowenisch
        albanisch griechisch türkisch arabisch hebräisch persisch kurdisch hindi bengalisch thailändisch vietnamesisch indonesisch
        chinesisch mandarin japanisch koreanisch mongolisch russisch ukrainisch georgisch armenisch estnisch lettisch litauisch
        irisch walisisch baskisch katalanisch suaheli latein schweizerdeutsch plattdeutsch sorbisch friesisch luxemburgisch";

    /// The last word of what English speakers are by trade.
    TRADES = "engineer developer programmer teacher nurse doctor physician surgeon dentist veterinarian vet lawyer attorney paralegal
        solicitor barrister judge accountant auditor bookkeeper analyst consultant manager director architect designer artist
        illustrator photographer musician singer actor actress writer author journalist editor translator interpreter librarian
        scientist researcher physicist chemist biologist mathematician statistician economist psychologist psychiatrist therapist
        physiotherapist pharmacist paramedic midwife caregiver carpenter plumber electrician mechanic welder roofer mason painter
        builder driver trucker pilot sailor fisherman farmer gardener florist baker butcher chef cook waiter waitress bartender
        barista cashier salesperson salesman saleswoman clerk secretary assistant receptionist administrator officer policeman
        policewoman firefighter soldier guard detective student undergraduate apprentice intern trainee professor lecturer tutor
        coach trainer instructor principal entrepreneur founder cofounder co-founder freelancer contractor ceo cto cfo coo vp
        president chairman chairwoman head lead sre devops sysadmin tester recruiter marketer realtor broker banker trader
        hairdresser barber tailor optician optometrist radiologist cardiologist pediatrician paediatrician anesthesiologist
        dermatologist neurologist oncologist technician operator planner producer composer conductor dancer choreographer
        copywriter statistician geologist astronomer meteorologist historian archaeologist linguist anthropologist sociologist
        priest pastor imam rabbi nun monk stay-at-home-mom homemaker retiree pensioner postdoc machinist locksmith potter sculptor
        blogger streamer youtuber podcaster publisher curator diplomat politician mayor senator zookeeper beekeeper";

    /// What German speakers are by trade, without the ending of women; compounds end with them.
    GERMAN_TRADES = "arzt ärztin lehrer entwickler ingenieur pfleger krankenschwester techniker informatiker koch köchin bäcker
        tischler schreiner maler elektriker mechaniker mechatroniker verkäufer kaufmann kauffrau berater anwalt anwältin jurist
        richter polizist feuerwehrmann feuerwehrfrau soldat fahrer pilot architekt designer gestalter grafiker fotograf journalist
        redakteur autor schriftsteller musiker sänger schauspieler künstler wissenschaftler forscher professor dozent student azubi
        auszubildender auszubildende praktikant erzieher sozialarbeiter pädagoge pädagogin therapeut psychologe psychologin apotheker
        hebamme friseur gärtner landwirt landwirtin bauer bäuerin förster metzger fleischer maurer dachdecker zimmermann klempner
        installateur schlosser schweißer buchhalter controller manager geschäftsführer leiter sekretär assistent makler bibliothekar
        übersetzer dolmetscher kellner barista florist optiker biologe biologin chemiker physiker mathematiker statistiker
        programmierer administrator analyst gründer unternehmer rentner pensionär hausmann hausfrau beamter beamtin angestellter
        handwerker imker winzer brauer konditor schneider goldschmied uhrmacher steuerfachangestellte notar notarin pfarrer
        pfarrerin pastor trainer referent sachbearbeiter projektmanager facharbeiter monteur lektor kurator regisseur kameramann
        komponist tänzer ökonom volkswirt betriebswirt historiker archäologe archäologin geologe geologin linguist soziologe
        soziologin doktorand rettungssanitäter sanitäter krankenpflegehelfer logopäde logopädin physiotherapeut";

    /// Animals that live with people, in English and German.
    ANIMALS = "dog puppy cat kitten tomcat rabbit bunny hamster guinea-pig parrot budgie canary cockatiel bird horse pony donkey
        goat sheep chicken tortoise turtle snake lizard gecko ferret rat mouse fish goldfish hedgehog chinchilla retriever labrador
        beagle poodle terrier dachshund corgi bulldog shepherd collie husky pug chihuahua dalmatian spaniel greyhound boxer
        rottweiler hund hündin welpe katze kater kätzchen kaninchen hase zwergkaninchen meerschweinchen papagei wellensittich
        kanarienvogel vogel pferd stute esel ziege schaf huhn schildkröte schlange echse frettchen ratte maus goldfisch igel
        chinchilla dackel pudel schäferhund mops rauhaardackel";

    /// Instruments and sports that one plays.
    GAMES = "piano guitar bass drums violin viola cello flute clarinet oboe bassoon saxophone trumpet trombone tuba harp organ
        accordion ukulele banjo mandolin harmonica keyboard recorder football soccer basketball baseball volleyball handball tennis
        badminton squash rugby cricket hockey golf chess poker bridge go darts table-tennis padel pickleball lacrosse
        klavier gitarre e-gitarre schlagzeug geige violine bratsche querflöte flöte blockflöte klarinette saxofon saxophon
        trompete posaune harfe orgel akkordeon mundharmonika fußball basketball volleyball tischtennis federball eishockey schach
        skat doppelkopf ukulele kontrabass fagott horn e-bass";

    /// Programs, languages and services whose names are often written in lower case.
    TOOLS = "postgres postgresql mysql mariadb sqlite mongodb redis valkey cassandra dynamodb elasticsearch opensearch kafka rabbitmq
        nats pulsar clickhouse duckdb snowflake bigquery redshift spark hadoop flink airflow dbt pandas polars numpy pytorch
        tensorflow keras scikit-learn jupyter rust python java kotlin scala golang go typescript javascript ruby php perl haskell erlang
        elixir clojure swift dart flutter julia lua zig ocaml c c++ c# .net node node.js nodejs deno bun react vue angular svelte
        sveltekit next.js nextjs nuxt astro remix django flask fastapi rails spring laravel express actix axum tokio docker podman
        kubernetes k8s helm terraform ansible puppet chef jenkins gitlab github gitea bitbucket jira confluence slack notion obsidian
        vim neovim emacs vscode intellij pycharm webstorm zed linux ubuntu debian fedora arch nixos windows macos android ios nginx
        apache caddy traefik haproxy envoy istio prometheus grafana loki jaeger datadog sentry kibana splunk graphql grpc
        protobuf webpack vite eslint prettier jest pytest cargo npm yarn pnpm pip poetry uv conda git svn mercurial
        aws azure gcp heroku vercel netlify cloudflare s3 lambda supabase firebase auth0 keycloak stripe twilio shopify wordpress
        figma photoshop excel word powerpoint outlook teams zoom latex markdown bash zsh fish powershell tmux ollama openai claude
        chatgpt llama mistral whisper pgvector qdrant weaviate milvus faiss chroma langchain selenium playwright cypress bazel cmake
        make maven gradle memcached etcd consul vault nomad zookeeper minio ceph zfs btrfs tailwind bootstrap jquery htmx three.js
        unity unreal godot blender home-assistant mqtt zigbee raspberry arduino esp32 openshift rancher argo argocd flux sap salesforce
        hubspot zendesk tableau powerbi looker metabase superset todoist trello asana linear anki zotero spotify signal telegram
        whatsapp discord matrix nextcloud syncthing bitwarden 1password keepass firefox chrome safari brave thunderbird protonmail";

    /// What one buys and then has for years, in English and German.
    GOODS = "car van truck motorcycle motorbike scooter moped bike bicycle e-bike boat sailboat camper caravan house flat apartment
        condo cottage cabin farm garden piano guitar violin cello keyboard camera laptop computer desktop tablet phone telescope
        printer tent kayak canoe surfboard snowboard guitars horses horse telescope
        auto wagen motorrad roller fahrrad rennrad mountainbike lastenrad e-bike boot segelboot wohnmobil wohnwagen haus wohnung
        ferienhaus garten schrebergarten klavier gitarre geige kamera rechner computer tablet handy drucker zelt kajak kanu teleskop
        hof";

    /// Makes of cars, bicycles and motorcycles.
    MAKES = "vw volkswagen audi bmw mercedes mercedes-benz opel ford porsche skoda škoda seat cupra fiat alfa lancia renault peugeot
        citroën citroen dacia volvo saab toyota honda nissan mazda mitsubishi subaru suzuki lexus hyundai kia tesla polestar byd jeep
        chevrolet chevy dodge cadillac jaguar mini smart land rover range lada yamaha kawasaki ducati vespa harley harley-davidson
        trabant tata";

    /// What one is by origin, belief or habit; capitalised, and no name.
    KINDS_OF_PEOPLE = "german austrian swiss french italian spanish portuguese dutch belgian british english scottish welsh irish
        american canadian mexican brazilian argentinian chilean colombian peruvian cuban australian chinese japanese korean taiwanese
        vietnamese thai indonesian malaysian filipino indian pakistani bangladeshi nepali iranian iraqi israeli syrian lebanese
        turkish greek russian ukrainian polish czech slovak hungarian romanian bulgarian serbian croatian bosnian albanian danish
        swedish norwegian finnish icelandic estonian latvian lithuanian african nigerian kenyan ghanaian ethiopian egyptian moroccan
        algerian tunisian european asian latino latina hispanic black white muslim catholic protestant jewish buddhist hindu sikh
        orthodox atheist mormon lutheran republican democrat
        gen batman god groot satan jesus deutscher deutsche österreicher österreicherin schweizer schweizerin
        vegetarier vegetarierin veganer veganerin student studentin single vater mutter mama papa oma opa fan raucher nichtraucher
        christ christin moslem muslima jude jüdin atheist linkshänder rechtshänder anfänger profi experte expertin";

    /// Capitalised at the beginning of a sentence, or always, and no name of anybody or anything.
    NO_NAMES = "i i'm i've me my mine we our us you your he she it they them his her their this that these those the a an there here
        who what when where why how which someone somebody everyone everybody anyone anybody nobody noone people everything something
        nothing anything all some many most both each every one two three yes no ok okay sure thanks thank please hello hi hey sorry
        today tomorrow yesterday monday tuesday wednesday thursday friday saturday sunday january february march april may june july
        august september october november december mr mrs ms and or but so because since if then also just maybe perhaps god lol
        christmas easter stuff things reference contact lunch dinner breakfast once while until after before
        during mondays tuesdays wednesdays thursdays fridays saturdays sundays weekends
        ich mir mich mein meine meinen meinem meiner wir uns unser unsere du dich dir dein deine er sie es ihr ihm ihn sein seine man
        wer was wann wo warum wie welche welcher welches jemand niemand alle alles etwas nichts der die das den dem des ein eine einen
        einem einer dies diese dieser dieses jene ja nein doch danke bitte hallo heute morgen gestern montag dienstag mittwoch
        donnerstag freitag samstag sonntag januar februar märz april mai juni juli august september oktober november dezember herr
        frau leute arbeiten fragen regen sonne nacht tag bedarf hitze kälte ordnung wochenende zeit und
        oder aber also dann wenn weil dass ob";

    /// No name when they stand alone: "home", but "Home Depot".
    ALONE = "work home school college university church town city hospital arbeit haus hause schule uni kirche stadt universität
        hochschule gym office club team bank company government";

    /// Small words inside of names.
    INSIDE = "of the de del della di da do la le van von vom zu der den am an & y";

    /// Articles, and the like, in front of a noun.
    ARTICLES = "the a an our my der die das den dem des ein eine einen einem einer eines unser unsere unseren unserem unserer 'ne ne";

    /// Countries and regions that have an article in German.
    ARTICLED = "schweiz türkei ukraine slowakei mongolei niederlanden niederlande philippinen malediven bahamas usa ddr pfalz bretagne toskana eifel";

    /// What one can live or be in that is no place.
    NO_PLACES = "fear peace hope denial pain luxury poverty harmony sin shock angst frieden armut luxus scheidung trennung hause haus
        ruhe sorge";

    /// What one joins without working there.
    SITES = "reddit discord facebook twitter instagram linkedin tiktok netflix mastodon bluesky zoom teams slack youtube twitch snapchat
        pinterest quora whatsapp telegram signal github gitlab spotify";

    /// How animals are described.
    LOOKS = "new little old young small big cute tiny lovely adorable beautiful black white brown grey gray red fluffy rescue second first
        other crazy sweet two three four five six neue neuer neuen kleine kleiner kleinen alte alter alten junge junger jungen süße süßer
        süßen schwarze schwarzer schwarzen weiße weißer weißen zwei drei vier";

    /// Words that point to something of the moment, or begin another clause: no phrase to keep has them.
    POINTING = "it this that these those them my our your his her their me us you him the is are was were has have had can will i we he
        she they es das dies diese diesen dieses mein meine meinen dein deine ist sind";

    /// What a phrase does not begin with: it then speaks of something of the moment.
    NO_PHRASES = "it this that these those you your him her his them their me us how what when where why who if the my our to being not no
        one someone everything everyone nothing it's its all about for an even also more less lots just especially in on at as
        es das dies diese diesen dieses dich dir ihn sie sein deine deinen dein euch eure wie was wenn dass mich die der den mein";

    /// Heads of things that every program and text has: what is said of them is no fact to keep.
    GENERIC = "function method class code script file line variable example snippet question article user users people world program
        algorithm test query compiler loop paper author book film movie story text answer output input error message problem issue
        page word sentence idea plan way thing reason result rest document chapter section diagram table picture image
        funktion methode klasse skript datei zeile variable beispiel frage artikel nutzer benutzer leute welt programm algorithmus
        abfrage compiler schleife autor buch film geschichte text antwort ausgabe eingabe meldung seite wort satz idee plan weise ding
        grund ergebnis rest dokument kapitel abschnitt tabelle bild held mensch mann kind";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_knows_its_words_in_any_case_and_as_ends_of_compounds() {
        assert!(LANGUAGES.has("Tamil") && TOOLS.has("PostgreSQL") && !LANGUAGES.has("Klartext"));
        assert!(GERMAN_TRADES.end("Softwareentwickler") && !GERMAN_TRADES.end("Spaziergang"));
    }
}
