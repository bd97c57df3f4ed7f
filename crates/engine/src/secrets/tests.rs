//! What is a secret, and what only looks like one. Tokens are put together here, so that nobody's scanner takes these
//! lines for leaks.

use std::time::Instant;

use super::*;

/// `count` characters of `alphabet` in an order that has no order.
fn chance(alphabet: &str, count: usize) -> String {
    let letters: Vec<char> = alphabet.chars().collect();
    let mut state: u64 = 0x9E37_79B9_7F4A_7C15 ^ count as u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        letters[usize::try_from(state >> 33).unwrap() % letters.len()]
    };
    (0..count).map(|_| next()).collect()
}

const ALNUM: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const CAPITALS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
const HEX: &str = "0123456789abcdef";
const LETTERS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

pub(super) fn a(count: usize) -> String {
    chance(ALNUM, count)
}

pub(super) fn h(count: usize) -> String {
    chance(HEX, count)
}

fn u(count: usize) -> String {
    chance(CAPITALS, count)
}

/// A card number with the right last digit.
fn card(beginning: &str) -> String {
    let last = (0..10).find(|last| {
        let digits: Vec<u32> = format!("{beginning}{last}").chars().filter_map(|c| c.to_digit(10)).collect();
        let sum: u32 =
            digits.iter().rev().enumerate().map(|(at, d)| if at % 2 == 0 { *d } else { d * 2 / 10 + d * 2 % 10 }).sum();
        sum.is_multiple_of(10)
    });
    format!("{beginning}{}", last.unwrap())
}

/// `text` holds one secret of that kind, and it is `secret` that goes.
fn holds(text: &str, secret: &str, kind: &str) {
    let mut met = SecretsFound::default();
    let clean = redact(text, &mut met);
    assert!(!clean.contains(secret), "{kind} stays in {clean:?}");
    assert_eq!(clean, text.replacen(secret, &mark(kind), 1), "{kind} in {text:?}");
    assert_eq!(met.0.get(kind), Some(&1), "{kind} in {text:?}: {met:?}");
    assert_eq!(redact(&clean, &mut SecretsFound::default()), clean, "what is redacted stays as it is");
}

fn pem(title: &str) -> String {
    format!("-----BEGIN {title}-----\n{}\n{}\n-----END {title}-----", a(64), a(40))
}

#[test]
fn secrets_are_known_by_their_shape() {
    let tokens: Vec<(&str, String)> = vec![
        ("aws access key", format!("AKIA{}", u(16))),
        ("aws access key", format!("ASIA{}", u(16))),
        ("github token", format!("ghp_{}", a(36))),
        ("github token", format!("gho_{}", a(36))),
        ("github token", format!("ghs_{}", a(40))),
        ("github token", format!("github_pat_{}_{}", a(22), a(59))),
        ("gitlab token", format!("glpat-{}", a(20))),
        ("gitlab token", format!("glrt-{}", a(24))),
        ("slack token", format!("xoxb-{}-{}-{}", chance("0123456789", 12), chance("0123456789", 13), a(24))),
        ("slack token", format!("xoxp-{}-{}", chance("0123456789", 12), a(32))),
        ("slack token", format!("xapp-1-A{}-{}-{}", u(10), chance("0123456789", 13), h(64))),
        ("slack webhook", format!("hooks.slack.com/services/T{}/B{}/{}", u(9), u(9), a(24))),
        ("stripe key", format!("sk_live_{}", a(24))),
        ("stripe key", format!("rk_test_{}", a(99))),
        ("stripe key", format!("whsec_{}", a(32))),
        ("openai key", format!("sk-{}", a(48))),
        ("openai key", format!("sk-proj-{}", a(120))),
        ("anthropic key", format!("sk-ant-api03-{}-{}AA", a(60), a(30))),
        ("openrouter key", format!("sk-or-v1-{}", h(64))),
        ("google api key", format!("AIza{}", a(35))),
        ("google oauth secret", format!("GOCSPX-{}", a(28))),
        ("google oauth token", format!("ya29.{}", a(120))),
        ("hugging face token", format!("hf_{}", chance(LETTERS, 34))),
        ("npm token", format!("npm_{}", a(36))),
        ("pypi token", format!("pypi-AgEIcHlwaS5vcmc{}", a(120))),
        ("crates.io token", format!("cio{}", a(32))),
        ("sendgrid key", format!("SG.{}.{}", a(22), a(43))),
        ("mailgun key", format!("key-{}", h(32))),
        ("mailchimp key", format!("{}-us14", h(32))),
        ("telegram token", format!("{}:AA{}", chance("123456789", 10), a(33))),
        ("discord token", format!("M{}.{}.{}", a(25), a(6), a(38))),
        ("discord webhook", format!("discord.com/api/webhooks/{}/{}", chance("123456789", 18), a(68))),
        ("json web token", format!("eyJ{}.eyJ{}.{}", a(30), a(60), a(43))),
        ("digitalocean token", format!("dop_v1_{}", h(64))),
        ("databricks token", format!("dapi{}", h(32))),
        ("shopify token", format!("shpat_{}", h(32))),
        ("square token", format!("sq0atp-{}", a(22))),
        ("new relic key", format!("NRAK-{}", u(27))),
        ("linear key", format!("lin_api_{}", a(40))),
        ("notion token", format!("secret_{}", a(43))),
        ("vault token", format!("hvs.{}", a(90))),
        ("docker token", format!("dckr_pat_{}", a(27))),
        ("atlassian token", format!("ATATT3{}", a(180))),
        ("azure storage key", format!("AccountKey={}==", a(86))),
        ("postman key", format!("PMAK-{}-{}", h(24), h(34))),
        ("figma token", format!("figd_{}", a(40))),
        ("tailscale key", format!("tskey-auth-{}-{}", a(12), a(32))),
        ("grafana token", format!("glsa_{}_{}", a(32), h(8))),
        ("groq key", format!("gsk_{}", a(52))),
        ("replicate token", format!("r8_{}", a(37))),
        ("xai key", format!("xai-{}", a(80))),
        ("perplexity key", format!("pplx-{}", a(48))),
        ("age identity", format!("AGE-SECRET-KEY-1{}", chance("023456789ACDEFGHJKLMNPQRSTUVWXYZ", 58))),
        ("skymem key", format!("skm_{}_{}", h(16), h(64))),
        ("private key", pem("RSA PRIVATE KEY")),
        ("private key", pem("OPENSSH PRIVATE KEY")),
        ("private key", pem("PGP PRIVATE KEY BLOCK")),
        ("card number", card("453201511283036")),
        ("card number", "4111 1111 1111 1111".into()),
        ("card number", "5500-0000-0000-0004".into()),
        ("card number", "3782 822463 10005".into()),
        ("card number", card("601100099013942")),
    ];
    for (kind, token) in &tokens {
        holds(token, token, kind);
        holds(&format!("here it is: {token}, keep it"), token, kind);
        holds(&format!("Schlüssel „{token}“ für später"), token, kind);
    }
    assert!(tokens.len() >= 60, "{}", tokens.len());
}

#[test]
fn secrets_are_known_by_what_is_said_of_them() {
    let (b64, long) = (chance(&format!("{ALNUM}/+"), 40), a(32));
    let uuid = "3f2504e0-4f89-41d3-9a0c-0305e82c3301";
    for (text, secret, kind) in [
        ("my password is hunter2", "hunter2", "password"),
        ("The password for the router is Tr0ub4dor&3.", "Tr0ub4dor&3", "password"),
        ("Password: s3cr3t-plans", "s3cr3t-plans", "password"),
        ("das Passwort lautet Kaffee2024!", "Kaffee2024!", "password"),
        ("Mein Kennwort ist 'blauwal99'", "blauwal99", "password"),
        ("le mot de passe est Soleil#77", "Soleil#77", "password"),
        ("la contraseña es gato1234", "gato1234", "password"),
        ("пароль: zima2024!", "zima2024!", "password"),
        ("密码是 abc12345", "abc12345", "password"),
        ("DB_PASSWORD=kx8Zq!pw", "kx8Zq!pw", "password"),
        (r#"{"password": "swordfish"}"#, "swordfish", "password"),
        ("passphrase = `blue7horse`", "blue7horse", "password"),
        ("the wifi password at the office was 12345678", "12345678", "password"),
        ("pwd: p@ssword", "p@ssword", "password"),
        ("postgres://app:n0tsafe@db.example.org/app", "n0tsafe", "password in an address"),
        ("amqp://guest1:qwertz@10.0.0.5:5672", "qwertz", "password in an address"),
        ("curl -u anna:geheim77 https://example.org", "geheim77", "password"),
        (&format!("api_key = {long}"), &long, "api key"),
        (&format!("export CLIENT_SECRET=\"{long}\""), &long, "api key"),
        (&format!("my access token is {long}."), &format!("{long}."), "api key"),
        (&format!("the api key is {uuid}"), uuid, "api key"),
        (&format!("aws_secret_access_key = {b64}"), &b64, "aws secret key"),
        (&format!("Authorization: Bearer {long}"), &long, "bearer token"),
        ("Authorization: Basic YW5uYTpnZWhlaW0=", "YW5uYTpnZWhlaW0=", "basic credentials"),
        (&format!("PrivateKey = {}=", a(43)), &format!("{}=", a(43)), "private key"),
    ] {
        let secret = secret.trim_end_matches('.');
        let mut met = SecretsFound::default();
        let clean = redact(text, &mut met);
        assert!(!clean.contains(secret), "{text:?} became {clean:?}");
        assert!(clean.contains("[secret: ") && met.0.values().sum::<usize>() == 1, "{text:?}: {met:?}");
        assert!(
            met.0.contains_key(kind) || kind == "aws secret key" && met.0.contains_key("api key"),
            "{text:?}: {met:?}"
        );
        assert_eq!(redact(&clean, &mut SecretsFound::default()), clean, "what is redacted stays as it is");
    }
}

#[test]
fn what_only_looks_like_a_secret_stays() {
    let innocent = [
        "uuid 123e4567-e89b-12d3-a456-426614174000",
        "session token: 123e4567-e89b-12d3-a456-426614174000",
        "commit 9fceb02d0ae598e95dc970b74767f19372d61af8",
        "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "md5 d41d8cd98f00b204e9800998ecf8427e",
        "call +49 170 1234567 or 0170 1234 5678",
        "phone 4915112345678",
        "+4111111111111111",
        "IBAN DE89 3704 0044 0532 0130 00",
        "IBAN GB29NWBK60161331926819",
        "IBAN FR76 3000 6000 0112 3456 7890 189",
        "4111 1111 1111 1112 fails the check",
        "5500000000000005",
        "1234 5678 9012 3456",
        "0000 0000 0000 0000",
        "4444 4444 4444 4444",
        "order 4111-1111-1111",
        "tracking 1Z999AA10123456784",
        "ISBN 978-3-16-148410-0",
        "EAN 4006381333931",
        "snowflake 175928847299117063",
        "timestamp 1700000000000",
        "it took 4111111111111111.5 nanoseconds",
        "0.4111111111111111",
        "price: 1.299,00 EUR, 4,111,111,111,111,111",
        "version 4.11.1111-1111",
        "$4111111111111111",
        "2024-01-02T03:04:05.678Z",
        "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk",
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==",
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGZ4Zm1qQ2R3c2Rmc2Rmc2Rmc2Rmc2Rmc2Rm anna@laptop",
        "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kudhpjxzq0k3g7d",
        "-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8A\n-----END PUBLIC KEY-----",
        "-----BEGIN CERTIFICATE-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8A\n-----END CERTIFICATE-----",
        "a file that begins with -----BEGIN and goes on",
        "the password is required",
        "the password is too weak",
        "password: string",
        "password: ********",
        "password: <your password>",
        "PASSWORD=$DB_PASSWORD",
        "password=${PASSWORD}",
        "password: {{ vault_password }}",
        "\"password\": \"string\"",
        "type=\"password\" name=\"password\"",
        "password = os.environ.get(\"PASSWORD\")",
        "let password = read_password();",
        "passphrase: &Passphrase,",
        "password = *Password",
        "the password is sha256-hashed",
        "the password is 8-20 characters long",
        "password: 12-character minimum",
        "the password was changed yesterday",
        "Das Passwort ist vergessen",
        "my password is the name of my dog",
        "where is the password kept? In the safe.",
        "password policy: rotate quarterly",
        "postgres://app@db.example.org/app",
        "postgres://app:password@localhost/app",
        "postgres://user:$PASSWORD@db/app",
        "https://example.org:8080/a@b",
        "http://example.org/?token=short",
        "token: next",
        "the secret is to salt the water",
        "secret: /etc/ssl/private/server-key-2024.pem",
        "private key: ~/.ssh/id_ed25519_work_laptop",
        "api key: stored-in-the-keychain-of-my-laptop",
        "api_key = settings.providers.openai.api_key",
        "access token = context.session.accessTokenProvider",
        "token = tokenizer.encode_plus_with_padding",
        "the key-value store, and key-0123",
        "AKIA is what they begin with",
        "AKIAshort",
        "ghp_short",
        "sk-learn-contrib-extensions-and-more-modules-here",
        "task-management-for-busy-people-in-large-organisations",
        "hf_hub_download and hf_transfer_enabled_by_default_now",
        "npm_config_registry_and_other_npm_settings_here",
        "ciochemistryofthelargeintestineatwork",
        "glpat-is-the-beginning-of-gitlab-tokens",
        "xoxo-love-and-kisses-from-all-of-us-here",
        "eyJhbGciOiJIUzI1NiJ9 is a head alone",
        "Bearer tokens are sent in a header",
        "bearer authentication-is-described-in-the-manual",
        "Authorization: Basic auth",
        "M.R.T.",
        "SG.1 and SG.2",
        "[secret: password]",
        "password: [secret: password]",
        "/usr/local/share/skymem/models/MiniLM-L12-v2-q4",
        "0x52908400098527886E0F7030069857D2E4169EE7",
        "bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq",
        "MAC 00:1B:44:11:3A:B7, IP 2001:0db8:85a3:0000:0000:8a2e:0370:7334",
        "5f4dcc3b5aa765d61d8327deb882cf99",
        "Tel. 4111 1111",
    ];
    for text in innocent {
        assert_eq!(find(text), [], "{text:?}");
    }
    assert!(innocent.len() >= 60, "{}", innocent.len());
}

#[test]
fn a_private_key_goes_whole_even_when_its_end_is_missing() {
    let block = format!("-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\n{}\n", a(64));
    let mut met = SecretsFound::default();

    assert_eq!(
        redact(&format!("{block}\n\u{2014} that was it"), &mut met),
        "[secret: private key]\n\n\u{2014} that was it"
    );
    assert_eq!(
        redact(&format!("{}\nbye {}", pem("PRIVATE KEY"), pem("PRIVATE KEY")), &mut met).matches("[secret").count(),
        2
    );
}

#[test]
fn two_secrets_side_by_side_are_two_and_what_is_between_stays() {
    let mut met = SecretsFound::default();
    let text = format!("ghp_{} und AKIA{}; card {}", a(36), u(16), card("453201511283036"));

    assert_eq!(
        redact(&text, &mut met),
        "[secret: github token] und [secret: aws access key]; card [secret: card number]"
    );
    assert_eq!(met.0.len(), 3);
}

#[test]
fn a_long_text_is_looked_through_in_time_linear_in_its_length() {
    let bad = [
        "4 ".repeat(500_000),
        "4111 1111 1111 1111 ".repeat(50_000),
        "-----BEGIN PRIVATE KEY-----".repeat(38_000),
        "-----BEGIN ".repeat(95_000),
        "password is ".repeat(85_000),
        "password for a ".repeat(70_000),
        "eyJaaaaaaaaaaaa.".repeat(62_000),
        format!("eyJ{}", "a".repeat(1_000_000)),
        "aws secret ".repeat(95_000),
        "sk-".repeat(340_000),
        "a://a:".repeat(170_000),
        "ä密码".repeat(120_000),
        "x".repeat(1_000_000),
    ];
    let plain = "What I had for lunch was soup. ".repeat(32_000);
    find("warm");
    let begun = Instant::now();
    find(&plain);
    // However busy the machine is: what grows with the square takes a hundred thousand times as long.
    let at_most = begun.elapsed() * 1_000;
    for text in bad {
        let begun = Instant::now();
        find(&text);
        assert!(begun.elapsed() < at_most, "{:?} for {:?}", begun.elapsed(), text.chars().take(20).collect::<String>());
    }
}

#[test]
fn every_rule_can_be_looked_for() {
    assert_eq!(told::compiled(), 17);
}
