//! The configuration: `config/default.toml`, a file of the person's, `SKYMEM_...`; read once, then values.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use figment::value::{Dict, Map, Value};
use figment::{Figment, Metadata, Profile, Provider};
use garde::Validate;
use serde::{Deserialize, Serialize};
use skymem_engine::EngineSettings;
use skymem_models::{ChatSettings, EmbedderSettings, Secret};
use skymem_server::{ProxySettings, ServerSettings, UpstreamSettings};

use crate::plugins;
use crate::unlock::UnlockSettings;

/// Every key with its meaning and its value in a new installation.
pub const DEFAULT: &str = include_str!("../../../config/default.toml");

/// All that can be set. Each section belongs to the crate that acts on it.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// `[data]`: where things lie on disk.
    pub data: DataSettings,
    /// `[database]`: which Postgres.
    pub database: DatabaseSettings,
    /// `[server]`: the doors.
    pub server: ServerSettings,
    /// `[embedder]`: where vectors come from.
    pub embedder: EmbedderSettings,
    /// `[chat]`: which language models there are, if any.
    pub chat: ChatSettings,
    /// `[proxy]`: chat models that are talked to through this server.
    pub proxy: ProxySettings,
    /// `[engine]`: context, background work, upkeep.
    pub engine: EngineSettings,
    /// `[unlock.<name>]`: sealed collections that are unlocked at the start.
    pub unlock: BTreeMap<String, UnlockSettings>,
    /// `[layers.<name>]` of every layer that is switched on.
    pub layers: BTreeMap<String, toml::Table>,
    /// `[log]`: what is logged, and how.
    pub log: LogSettings,
}

impl Config {
    /// What a new installation gets.
    ///
    /// # Errors
    ///
    /// When the built-in file contradicts the program, which a test rules out.
    pub fn built_in() -> Result<Self> {
        Ok(Loaded::from(None, std::iter::empty())?.config)
    }

    /// The folder that everything lives in.
    ///
    /// # Errors
    ///
    /// When it is not set and there is no home folder to take.
    pub fn data_dir(&self) -> Result<PathBuf> {
        if !self.data.dir.as_os_str().is_empty() {
            return std::path::absolute(&self.data.dir).context("data.dir is no path");
        }
        skymem_store::postgres::default_data_folder()
            .context("there is no home folder to keep the data in: set data.dir (SKYMEM_DATA__DIR)")
    }

    /// The folder that holds a folder of Markdown files per user.
    ///
    /// # Errors
    ///
    /// As [`Config::data_dir`].
    pub fn memory_files(&self) -> Result<PathBuf> {
        if self.data.memory_files.as_os_str().is_empty() {
            return Ok(self.data_dir()?.join("memory-files"));
        }
        std::path::absolute(&self.data.memory_files).context("data.memory_files is no path")
    }

    fn check(&self) -> Result<()> {
        self.database.validate().map_err(|report| anyhow::anyhow!("[database] {report}"))?;
        self.log.validate().map_err(|report| anyhow::anyhow!("[log] {report}"))?;
        self.server.check(self.server.listen).map_err(anyhow::Error::msg)?;
        if !self.database.url.0.is_empty() && !self.database.url_file.as_os_str().is_empty() {
            bail!("database.url and database.url_file are both set: keep one");
        }
        self.chat.check().map_err(anyhow::Error::msg)?;
        self.proxy.check().map_err(anyhow::Error::msg)?;
        crate::unlock::check(&self.unlock).map_err(anyhow::Error::msg)?;
        self.only_known_layers()?;
        self.engine.check().map_err(anyhow::Error::msg)
    }

    /// That what is set for a layer by its name is set for one that there is, switched on or not.
    fn only_known_layers(&self) -> Result<()> {
        let context = &self.engine.context;
        let tables = [
            ("layer_deadline_ms", context.layer_deadline_ms.keys().collect::<Vec<_>>()),
            ("share_percent", context.share_percent.keys().collect()),
        ];
        let known = plugins::names();
        for (table, names) in tables {
            if let Some(unknown) = names.into_iter().find(|name| !known.contains(name)) {
                bail!("engine.context.{table} names a layer `{unknown}`; the layers are {}", known.join(", "));
            }
        }
        Ok(())
    }
}

/// `[data]`: where things lie on disk. Empty paths are not set.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataSettings {
    /// The folder that everything lives in; read it through [`Config::data_dir`].
    pub dir: PathBuf,
    /// The folder of memory files; read it through [`Config::memory_files`].
    pub memory_files: PathBuf,
}

/// `[database]`: which Postgres. Empty paths and texts are not set.
#[derive(Clone, Deserialize, Validate)]
#[serde(deny_unknown_fields)]
pub struct DatabaseSettings {
    /// URL of an external Postgres; read it through [`DatabaseSettings::external_url`].
    #[garde(skip)]
    pub url: Secret,
    /// A file that holds that URL.
    #[garde(skip)]
    pub url_file: PathBuf,
    /// Folder of the Postgres programs for the private Postgres.
    #[garde(skip)]
    pub binaries: PathBuf,
    /// The account the private Postgres runs under when root starts it.
    #[garde(skip)]
    pub account: String,
    /// Connections at a time.
    #[garde(range(min = 2, max = 1_000))]
    pub pool_connections: u32,
    /// How long to wait for the database at the start.
    #[garde(range(min = 1, max = 3_600))]
    pub connect_timeout_seconds: u64,
    /// How long a request waits for a free connection.
    #[garde(range(min = 1, max = 3_600))]
    pub acquire_timeout_seconds: u64,
}

impl DatabaseSettings {
    /// The URL of the external Postgres; `None` when skymem runs its own.
    ///
    /// # Errors
    ///
    /// When the file that should hold it cannot be read or is empty.
    pub fn external_url(&self) -> Result<Option<String>> {
        if !self.url_file.as_os_str().is_empty() {
            let shown = self.url_file.display();
            let url = std::fs::read_to_string(&self.url_file)
                .with_context(|| format!("cannot read database.url_file {shown}"))?;
            return match url.trim() {
                "" => bail!("database.url_file {shown} is empty"),
                url => Ok(Some(url.to_owned())),
            };
        }
        Ok(Some(self.url.0.clone()).filter(|url| !url.is_empty()))
    }
}

impl fmt::Debug for Config {
    /// Says nothing: addresses and keys may hold secrets. `config show` shows all values with those masked.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config").finish_non_exhaustive()
    }
}

impl fmt::Debug for DatabaseSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DatabaseSettings")
            .field("url", &without_password(&self.url.0))
            .field("url_file", &self.url_file)
            .field("binaries", &self.binaries)
            .field("pool_connections", &self.pool_connections)
            .finish_non_exhaustive()
    }
}

/// `[log]`: what is logged, and how.
#[derive(Debug, Clone, Deserialize, Validate)]
#[serde(deny_unknown_fields)]
pub struct LogSettings {
    /// Levels, as `tracing_subscriber::EnvFilter` reads them.
    #[garde(length(min = 1))]
    pub filter: String,
    /// For whom.
    #[garde(skip)]
    pub format: LogFormat,
}

/// For whom the log is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    Text,
    /// For machines: a JSON object per line.
    Json,
}

/// A configuration and where each of its values comes from.
pub struct Loaded {
    /// The values.
    pub config: Config,
    /// The file that was read beside the built-in one, if any.
    pub file: Option<PathBuf>,
    figment: Figment,
}

/// One value in force, for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Shown {
    /// `section.key`.
    pub key: String,
    /// As TOML writes it, secrets masked.
    pub value: String,
    /// `default`, a file, or a variable.
    pub source: String,
}

impl Loaded {
    /// Reads the configuration: of `explicit` (`--config`), or the first file that is there, or none; then the
    /// environment.
    ///
    /// # Errors
    ///
    /// In words, with the key, where it was set, and what it may be.
    pub fn read(explicit: Option<&Path>) -> Result<Self> {
        let file = match explicit {
            Some(path) if path.is_file() => Some(path.to_owned()),
            Some(path) => bail!("there is no configuration file {}", path.display()),
            None => usual_files().into_iter().find(|path| path.is_file()),
        };
        let environment = std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
        let mut variables = Vec::new();
        for (name, value) in environment.filter(|(name, _)| name.starts_with(PREFIX)) {
            let Ok(value) = value.into_string() else { bail!("{name} is not UTF-8") };
            variables.push((name, value));
        }
        Self::from(file, variables.into_iter())
    }

    fn from(file: Option<PathBuf>, variables: impl Iterator<Item = (String, String)>) -> Result<Self> {
        let defaults = read_toml(DEFAULT).context("the built-in settings")?;
        let mut figment = Figment::from(Named { name: "default".into(), dict: defaults.clone() });
        if let Some(path) = &file {
            let name = path.display().to_string();
            let text =
                std::fs::read_to_string(path).with_context(|| format!("cannot read the configuration {name}"))?;
            let dict = read_toml(&text).with_context(|| format!("cannot read the configuration {name}"))?;
            only_known(&dict, &defaults, &mut Vec::new(), &name)?;
            figment = figment.merge(Named { name, dict });
        }
        for (name, text) in variables {
            if let Some(dict) = of_variable(&name, &text, &defaults)? {
                figment = figment.merge(Named { name, dict });
            }
        }

        let mut values: Dict = figment.extract().map_err(in_words)?;
        drop_unset(&mut values);
        let mut config: Config = Value::from(values).deserialize().map_err(|error| blame(&error, &figment))?;
        config.layers = switched_on(config.layers)?;
        config.check().map_err(|error| anyhow::anyhow!("bad setting: {error}"))?;
        Ok(Self { config, file, figment })
    }

    /// Every value in force, in order of keys.
    ///
    /// # Errors
    ///
    /// None in practice: what was extracted once is extracted again.
    pub fn shown(&self) -> Result<Vec<Shown>> {
        let mut shown = Vec::new();
        let values: Dict = self.figment.extract().map_err(in_words)?;
        list(&values, &mut Vec::new(), &mut |key, value| {
            let value = match (key, value.as_str()) {
                ("database.url", Some(url)) => format!("{:?}", without_password(url)),
                (key, Some(url)) if key.ends_with(".url") && url.contains("://") => {
                    format!("{:?}", without_password(url))
                }
                (key, Some(secret)) if key.ends_with(".key") && !secret.is_empty() => "\"***\"".into(),
                _ => toml_text(value),
            };
            let source = self.figment.find_metadata(key).map_or_else(String::new, |about| about.name.to_string());
            shown.push(Shown { key: key.to_owned(), value, source });
        });
        Ok(shown)
    }
}

fn read_toml(text: &str) -> Result<Dict> {
    let table: toml::Table = toml::from_str(text)?;
    Value::serialize(&table).map_err(in_words)?.into_dict().context("is no table")
}

const PREFIX: &str = "SKYMEM_";

/// Variables that are options of the command line or of the scripts around the program, not settings.
const OPTIONS: [&str; 4] = ["SKYMEM_CONFIG", "SKYMEM_URL", "SKYMEM_KEY", "SKYMEM_POSTGRES_BIN"];

fn usual_files() -> Vec<PathBuf> {
    let home = |variable: &str| std::env::var_os(variable).filter(|path| !path.is_empty()).map(PathBuf::from);
    let user = home("XDG_CONFIG_HOME").or_else(|| Some(home("HOME")?.join(".config")));
    [Some(PathBuf::from("config/local.toml")), user.map(|folder| folder.join("skymem/config.toml"))]
        .into_iter()
        .flatten()
        .collect()
}

/// Values from one place, under the name people know it by.
struct Named {
    name: String,
    dict: Dict,
}

impl Provider for Named {
    fn metadata(&self) -> Metadata {
        Metadata::named(self.name.clone())
    }

    fn data(&self) -> figment::Result<Map<Profile, Dict>> {
        Ok(Profile::Default.collect(self.dict.clone()))
    }
}

/// The setting that a variable makes; `None` when it is an option of the command line.
///
/// Its value is read as what the built-in value is: a text that looks like a number stays a text.
fn of_variable(name: &str, text: &str, defaults: &Dict) -> Result<Option<Dict>> {
    if OPTIONS.contains(&name) {
        return Ok(None);
    }
    let path = name.trim_start_matches(PREFIX).to_lowercase().replace("__", ".");
    let named = named_sections()?;
    let of_named = named.iter().find_map(|(section, keys)| {
        let rest = path.strip_prefix(section)?.strip_prefix('.')?;
        keys.get(rest.split_once('.')?.1)
    });
    let default = find(defaults, &path).or(of_named);
    let value = match default {
        Some(Value::String(..)) => Value::from(text),
        Some(Value::Dict(..)) | None => {
            let open = path.rsplit_once('.').is_some_and(|(parent, _)| OPEN_TABLES.contains(&parent));
            if !open {
                bail!("{name} names no setting{}", advice(&path, defaults));
            }
            parsed(name, text)?
        }
        Some(_) => parsed(name, text)?,
    };
    let mut nested = value;
    for key in path.rsplit('.') {
        nested = Value::from(Dict::from([(key.to_owned(), nested)]));
    }
    Ok(nested.into_dict())
}

fn parsed(name: &str, text: &str) -> Result<Value> {
    let table: toml::Table = toml::from_str(&format!("value = {text}")).map_err(|_| {
        anyhow::anyhow!("{name}={text} is no value: write a number, true, false, or a list like [\"a\"]")
    })?;
    let value = table.get("value").with_context(|| format!("{name} is empty"))?;
    Value::serialize(value).map_err(in_words)
}

/// Which key might have been meant, or which there are.
fn advice(path: &str, defaults: &Dict) -> String {
    let flat = |key: &str| key.replace(['.', '_'], "");
    let mut meant = None;
    let mut known = Vec::new();
    list(defaults, &mut Vec::new(), &mut |key, _| {
        if flat(key) == flat(path) {
            meant = Some(key.to_owned());
        }
        known.push(key.to_owned());
    });
    match meant {
        Some(key) => format!(": did you mean {PREFIX}{}?", key.to_uppercase().replace('.', "__")),
        None => {
            let section = path.split('.').next().unwrap_or_default();
            let near: Vec<&str> =
                known.iter().map(String::as_str).filter(|key| key.split('.').next() == Some(section)).collect();
            match near.is_empty() {
                true => format!(": the sections are {}", sections(defaults)),
                false => format!(": [{section}] has {}", near.join(", ")),
            }
        }
    }
}

/// Tables whose keys the person chooses.
const OPEN_TABLES: [&str; 3] =
    ["engine.context.layer_deadline_ms", "engine.context.model_window_tokens", "engine.context.share_percent"];

/// That every key is one of the built-in file, which is complete.
fn only_known(dict: &Dict, known: &Dict, path: &mut Vec<String>, file: &str) -> Result<()> {
    let named = named_sections()?;
    for (key, value) in dict {
        let section = path.join(".");
        let of_named = named.get(section.as_str()).cloned().map(Value::from);
        match of_named.as_ref().or_else(|| known.get(key)) {
            _ if OPEN_TABLES.contains(&section.as_str()) => {}
            Some(Value::Dict(_, known)) => {
                let Some(dict) = value.as_dict() else {
                    bail!("{file}: {} is a section, not a value", join(path, key));
                };
                path.push(key.clone());
                only_known(dict, known, path, file)?;
                path.pop();
            }
            Some(_) => {}
            None if section == "layers" => {
                bail!("{file}: there is no layer `{key}`; the layers are {}", plugins::names().join(", "));
            }
            None if path.is_empty() => {
                bail!("{file}: there is no section [{key}]; the sections are {}", sections(known));
            }
            None => {
                let keys: Vec<&str> = known.keys().map(String::as_str).collect();
                bail!("{file}: there is no setting {}; [{section}] has {}", join(path, key), keys.join(", "));
            }
        }
    }
    Ok(())
}

/// Every key of the sections in which the person chooses names, for instance `[proxy.upstreams.<name>]`.
fn named_sections() -> Result<BTreeMap<&'static str, Dict>> {
    let keys = |settings: figment::error::Result<Value>| settings.map_err(in_words)?.into_dict().context("is no table");
    Ok(BTreeMap::from([
        ("proxy.upstreams", keys(Value::serialize(UpstreamSettings::default()))?),
        ("unlock", keys(Value::serialize(UnlockSettings::default()))?),
    ]))
}

fn join(path: &[String], key: &str) -> String {
    path.iter().map(String::as_str).chain([key]).collect::<Vec<_>>().join(".")
}

fn sections(known: &Dict) -> String {
    known.keys().map(|key| format!("[{key}]")).collect::<Vec<_>>().join(", ")
}

fn find<'a>(dict: &'a Dict, path: &str) -> Option<&'a Value> {
    match path.split_once('.') {
        None => dict.get(path),
        Some((key, rest)) => find(dict.get(key)?.as_dict()?, rest),
    }
}

fn list<'a>(dict: &'a Dict, path: &mut Vec<&'a str>, each: &mut dyn FnMut(&str, &'a Value)) {
    for (key, value) in dict {
        path.push(key);
        match value {
            Value::Dict(_, inner) => list(inner, path, each),
            _ => each(&path.join("."), value),
        }
        path.pop();
    }
}

/// Options of models are absent when they are not set; TOML has no word for that, so the file says "" or 0.
fn drop_unset(values: &mut Dict) {
    if let Some(Value::Dict(_, embedder)) = values.get_mut("embedder") {
        embedder.retain(|key, value| !is_empty(value) && (key != "dimensions" || !is_zero(value)));
    }
    if let Some(Value::Dict(_, chat)) = values.get_mut("chat") {
        chat.retain(|_, value| !is_empty(value));
        if let Some(Value::Dict(_, rewriter)) = chat.get_mut("rewriter") {
            rewriter.retain(|_, value| !is_empty(value) && !is_zero(value));
        }
    }
}

fn is_empty(value: &Value) -> bool {
    value.as_str() == Some("")
}

fn is_zero(value: &Value) -> bool {
    value.to_i128() == Some(0)
}

/// The tables of the layers that are on, without the word that says so.
fn switched_on(layers: BTreeMap<String, toml::Table>) -> Result<BTreeMap<String, toml::Table>> {
    let mut on = BTreeMap::new();
    for (name, mut table) in layers {
        match table.remove("enabled") {
            Some(toml::Value::Boolean(true)) | None => {
                on.insert(name, table);
            }
            Some(toml::Value::Boolean(false)) => {}
            Some(other) => bail!("layers.{name}.enabled is true or false, not {other}"),
        }
    }
    Ok(on)
}

fn in_words(error: figment::Error) -> anyhow::Error {
    anyhow::Error::msg(error.to_string())
}

/// The error with the place where the value was set.
fn blame(error: &figment::Error, figment: &Figment) -> anyhow::Error {
    let key = error.path.join(".");
    let source = figment.find_metadata(&key).map(|about| about.name.to_string());
    match source {
        Some(source) if !key.is_empty() => anyhow::anyhow!("bad setting: {key} ({source}): {}", error.kind),
        _ => anyhow::anyhow!("bad setting: {error}"),
    }
}

fn toml_text(value: &Value) -> String {
    match value {
        Value::String(_, text) => format!("{text:?}"),
        Value::Num(_, number) => number
            .to_i128()
            .map(|whole| whole.to_string())
            .or_else(|| number.to_f64().map(|number| number.to_string()))
            .unwrap_or_default(),
        Value::Bool(_, truth) => truth.to_string(),
        Value::Char(_, letter) => format!("{:?}", letter.to_string()),
        Value::Array(_, items) => format!("[{}]", items.iter().map(toml_text).collect::<Vec<_>>().join(", ")),
        Value::Dict(..) | Value::Empty(..) => String::new(),
    }
}

/// `url` as it may be shown: what stands between the user's name and the host is masked.
#[must_use]
pub fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return if url.is_empty() { String::new() } else { "***".into() };
    };
    // A password may also stand among the parameters, and may hold an `@`: the last one ends it.
    let (rest, parameters) = match rest.split_once('?') {
        Some((rest, parameters)) => (rest, Some(parameters)),
        None => (rest, None),
    };
    let shown = match rest.rsplit_once('@') {
        Some((login, place)) => match login.split_once(':') {
            Some((user, _)) => format!("{scheme}://{user}:***@{place}"),
            None => format!("{scheme}://{login}@{place}"),
        },
        None => format!("{scheme}://{rest}"),
    };
    match parameters {
        None => shown,
        Some(parameters) if parameters.contains("password") => format!("{shown}?***"),
        Some(parameters) => format!("{shown}?{parameters}"),
    }
}

/// Where the server of this configuration listens, as a client on this machine reaches it.
#[must_use]
pub fn local_url(listen: SocketAddr) -> String {
    let ip = listen.ip();
    let host = match (ip.is_unspecified(), ip.is_ipv6()) {
        (true, true) => "[::1]".into(),
        (true, false) => "127.0.0.1".into(),
        (false, true) => format!("[{ip}]"),
        (false, false) => ip.to_string(),
    };
    format!("http://{host}:{}", listen.port())
}

#[cfg(test)]
mod tests {
    use skymem_models::{ChatKind, RewriterSettings};

    use super::*;

    fn load(file: Option<&str>, variables: &[(&str, &str)]) -> Result<Loaded> {
        let folder = tempfile::tempdir().unwrap();
        let path = file.map(|text| {
            let path = folder.path().join("my.toml");
            std::fs::write(&path, text).unwrap();
            path
        });
        Loaded::from(path, variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())))
    }

    #[track_caller]
    fn check_refused(file: &str, variables: &[(&str, &str)], expected: &[&str]) {
        let error = format!("{:#}", load(Some(file), variables).map(|loaded| loaded.config).unwrap_err());
        for part in expected {
            assert!(error.contains(part), "{part:?} is not in: {error}");
        }
    }

    #[test]
    fn what_is_set_for_a_layer_that_there_is_not_is_refused_with_those_that_there_are() {
        for (table, file) in [
            ("share_percent", "[engine.context.share_percent]\nepisode = 60\n"),
            ("layer_deadline_ms", "[engine.context.layer_deadline_ms]\nnosuch = 60\n"),
        ] {
            let error = load(Some(file), &[]).err().unwrap().to_string();

            assert!(error.contains(table) && error.contains("files, "), "{error}");
        }
        let off = "[layers.episodes]\nenabled = false\n[engine.context.share_percent]\nepisodes = 10\n";
        assert!(load(Some(off), &[]).is_ok(), "a layer that is switched off may keep its share");
    }

    #[test]
    fn the_windows_of_ones_own_models_can_be_set() {
        let loaded = load(Some("[engine.context.model_window_tokens]\n\"llama3.2:3b\" = 8192\n"), &[]).unwrap();
        let small = load(Some("[engine.context.model_window_tokens]\nllama = 10\n"), &[]).err().unwrap();

        assert_eq!(loaded.config.engine.context.model_window_tokens["llama3.2:3b"], 8_192);
        assert!(loaded.shown().is_ok());
        assert!(small.to_string().contains("1000"), "{small}");
    }

    #[test]
    fn the_built_in_file_says_what_the_program_would_do_anyway() {
        let config = Config::built_in().unwrap();

        assert_eq!(config.server, ServerSettings::default());
        assert_eq!(config.embedder, EmbedderSettings::default());
        assert_eq!(config.chat, ChatSettings::default());
        assert_eq!(config.proxy, ProxySettings::default());
        assert_eq!(config.engine, EngineSettings::default());
        assert_eq!(
            config.layers.keys().map(String::as_str).collect::<Vec<_>>(),
            ["episodes", "facts", "files", "summaries", "vault"]
        );
    }

    #[test]
    fn memory_files_at_their_limit_fit_a_context_and_leave_room() {
        let config = Config::built_in().unwrap();

        let context = &config.engine.context;
        let share = context.budget_tokens * usize::from(context.share_percent["files"]) / 100;
        let files = usize::try_from(config.layers["files"]["budget_tokens"].as_integer().unwrap()).unwrap();
        assert!((files..context.budget_tokens).contains(&share), "{files} of {share}");
    }

    #[test]
    fn the_built_in_file_has_every_key_of_every_section() {
        let known: toml::Table = toml::from_str(DEFAULT).unwrap();
        for (section, keys) in [
            ("server", toml::Table::try_from(ServerSettings::default()).unwrap()),
            ("engine", toml::Table::try_from(EngineSettings::default()).unwrap()),
            ("embedder", toml::Table::try_from(EmbedderSettings::default()).unwrap()),
            ("chat", toml::Table::try_from(ChatSettings::default()).unwrap()),
            ("proxy", toml::Table::try_from(ProxySettings::default()).unwrap()),
        ] {
            fn compare(path: &str, keys: &toml::Table, known: &toml::Table) {
                for (key, value) in keys {
                    let inner = known.get(key).unwrap_or_else(|| panic!("{path}.{key} is not in default.toml"));
                    if let (Some(value), Some(inner)) = (value.as_table(), inner.as_table()) {
                        compare(&format!("{path}.{key}"), value, inner);
                    }
                }
            }
            compare(section, &keys, known[section].as_table().unwrap());
        }
    }

    #[test]
    fn the_environment_overrides_the_file_and_the_file_the_defaults() {
        let file = "[server]\nlisten = \"127.0.0.1:1\"\nworkers = 3\n[engine.context.share_percent]\nepisodes = 60\n";
        let variables = [
            ("SKYMEM_SERVER__LISTEN", "127.0.0.1:2"),
            ("SKYMEM_SERVER__ALLOWED_HOSTS", "[\"a\", \"b\"]"),
            ("SKYMEM_EMBEDDER__KEY", "12345"),
            ("SKYMEM_ENGINE__CONTEXT__NOTE_USE", "false"),
            ("SKYMEM_ENGINE__CONTEXT__SHARE_PERCENT__FILES", "30"),
            ("SKYMEM_URL", "http://elsewhere"),
        ];

        let loaded = load(Some(file), &variables).unwrap();

        assert_eq!(loaded.config.server.listen.port(), 2);
        assert_eq!(loaded.config.server.workers, 3);
        assert_eq!(loaded.config.server.allowed_hosts, ["a", "b"]);
        assert_eq!(loaded.config.embedder.key, Some(Secret("12345".into())), "a text stays a text");
        assert!(!loaded.config.engine.context.note_use);
        assert_eq!(loaded.config.engine.context.share_percent["episodes"], 60);
        assert_eq!(loaded.config.engine.context.share_percent["files"], 30);
        let shown = loaded.shown().unwrap();
        let of = |key: &str| shown.iter().find(|shown| shown.key == key).unwrap();
        assert_eq!(of("server.listen").source, "SKYMEM_SERVER__LISTEN");
        assert!(of("server.workers").source.ends_with("my.toml"));
        assert_eq!(
            (of("server.metrics_need_key").source.as_str(), of("server.metrics_need_key").value.as_str()),
            ("default", "true")
        );
    }

    #[test]
    fn a_layer_can_be_switched_off_and_its_table_reaches_it_without_the_switch() {
        let loaded = load(Some("[layers.files]\nenabled = false\n"), &[]).unwrap();

        assert!(!loaded.config.layers.contains_key("files"));
        assert!(!loaded.config.layers["episodes"].contains_key("enabled"));
        check_refused("", &[("SKYMEM_LAYERS__FILES__ENABLED", "7")], &["layers.files.enabled is true or false"]);
    }

    #[test]
    fn a_misspelt_key_is_answered_with_those_there_are() {
        check_refused("[server]\nport = 1\n", &[], &["my.toml", "no setting server.port", "listen, "]);
        check_refused("[sever]\n", &[], &["no section [sever]", "[server]"]);
        check_refused("server = 5\n", &[], &["server is a section"]);
        check_refused(
            "[layers.documents]\n",
            &[],
            &["no layer `documents`", "files, summaries, facts, episodes, vault"],
        );
        check_refused("", &[("SKYMEM_DATABASE_URL", "x")], &["did you mean SKYMEM_DATABASE__URL?"]);
        check_refused("", &[("SKYMEM_SERVER__PORT", "1")], &["names no setting", "server.listen"]);
        check_refused("", &[("SKYMEM_X", "1")], &["names no setting", "[server]"]);
        check_refused("", &[("SKYMEM_SERVER__WORKERS", "many")], &["SKYMEM_SERVER__WORKERS=many is no value"]);
        check_refused("oops", &[], &["my.toml"]);
    }

    #[test]
    fn a_value_that_cannot_be_says_where_it_was_set_and_what_it_may_be() {
        check_refused("[server]\nworkers = \"x\"\n", &[], &["server.workers", "my.toml", "invalid type"]);
        check_refused("[embedder]\nkind = \"magic\"\n", &[], &["embedder.kind", "`local`"]);
        check_refused("[chat]\nkind = \"magic\"\n", &[], &["chat.kind", "my.toml", "`ollama`"]);
        check_refused("[chat]\nkind = \"ollama\"\n", &[], &["chat.model is not set"]);
        check_refused("[chat]\ntimeout_ms = -1\n", &[], &["chat.timeout_ms", "my.toml"]);
        check_refused("[chat]\nconcurrency = 0\n", &[], &["chat.concurrency is from 1"]);
        check_refused("[chat.rewriter]\nmodel = 5\n", &[], &["chat.rewriter.model", "my.toml"]);
        check_refused("[chat]\nkey = \"a\"\nkey_file = \"b\"\n", &[], &["both set"]);
        check_refused(
            "[engine.context]\nwindow_exchanges = 9\n",
            &[],
            &["engine.context.window_exchanges is from 1 to 8"],
        );
        check_refused("[database]\npool_connections = 1\n", &[], &["pool_connections"]);
        check_refused("[database]\nurl = \"a\"\nurl_file = \"b\"\n", &[], &["both set"]);
        check_refused("[server]\nlisten = \"0.0.0.0:1\"\n[server.auth]\nenabled = false\n", &[], &["loopback"]);
    }

    #[test]
    fn what_is_not_set_for_the_rewriter_is_as_for_the_main_model() {
        let unset = load(Some("[chat]\nkind = \"ollama\"\nmodel = \"llama3.2:3b\"\n"), &[]).unwrap().config.chat;
        assert_eq!((unset.kind, unset.model.as_deref()), (ChatKind::Ollama, Some("llama3.2:3b")));
        assert_eq!((unset.url, unset.rewriter), (None, RewriterSettings::default()));

        let variables = [
            ("SKYMEM_CHAT__KIND", "openai"),
            ("SKYMEM_CHAT__MODEL", "large"),
            ("SKYMEM_CHAT__REWRITER__MODEL", "small"),
            ("SKYMEM_CHAT__REWRITER__TIMEOUT_MS", "900"),
        ];
        let own = load(None, &variables).unwrap().config.chat.rewriter;
        let expected =
            RewriterSettings { model: Some("small".into()), timeout_ms: Some(900), ..RewriterSettings::default() };
        assert_eq!(own, expected);
    }

    #[test]
    fn secrets_are_never_shown() {
        let file = "[database]\nurl = \"postgres://anna:hunter2@db/x\"\n[embedder]\nkey = \"sk-hunter2\"\n\
                    [chat]\nkey = \"sk-hunter2\"\nurl = \"http://me:hunter2@gpu/v1\"\n\
                    [chat.rewriter]\nkey = \"sk-hunter2\"\n";
        let loaded = load(Some(file), &[]).unwrap();

        let all = format!("{:?} {:?}", loaded.config, loaded.shown().unwrap());
        assert!(!all.contains("hunter2"), "{all}");
        assert!(all.contains("postgres://anna:***@db/x"), "{all}");
    }

    #[test]
    fn an_upstream_has_the_name_that_the_person_gives_it() {
        let file = "[proxy.upstreams.local]\nurl = \"http://127.0.0.1:1/v1\"\n";
        let variables = [
            ("SKYMEM_PROXY__UPSTREAMS__LOCAL__KEY", "12345"),
            ("SKYMEM_PROXY__UPSTREAMS__OTHER__URL", "http://other/v1"),
            ("SKYMEM_PROXY__UPSTREAMS__OTHER__PASS_AUTHORIZATION", "true"),
            ("SKYMEM_PROXY__DEFAULT", "local"),
        ];

        let loaded = load(Some(file), &variables).unwrap();

        let upstreams = &loaded.config.proxy.upstreams;
        assert_eq!((upstreams["local"].key.as_str(), upstreams["other"].pass_authorization), ("12345", true));
        assert!(!format!("{:?} {:?}", loaded.config, loaded.shown().unwrap()).contains("12345"));
        check_refused("[proxy.upstreams.a]\naddress = 1\n", &[], &["no setting proxy.upstreams.a.address", "url"]);
        check_refused("[proxy.upstreams]\na = 1\n", &[], &["proxy.upstreams.a is a section"]);
        check_refused("[proxy.upstreams.a]\n", &[], &["proxy.upstreams.a.url is not set"]);
        check_refused("", &[("SKYMEM_PROXY__UPSTREAMS__A__ADDRESS", "x")], &["names no setting"]);
        check_refused("[proxy]\ndefault = \"x\"\n", &[], &["proxy.default is the name of an upstream"]);
    }

    #[test]
    fn a_password_is_masked_wherever_it_stands() {
        let check = |url: &str, expected: &str| assert_eq!(without_password(url), expected);
        check("postgres://u:p@h/d", "postgres://u:***@h/d");
        check("postgres://u:p@ss@h/d", "postgres://u:***@h/d");
        check("postgres://u@h/d?sslmode=require", "postgres://u@h/d?sslmode=require");
        check("postgres://h/d?user=u&password=p", "postgres://h/d?***");
        check("host=h password=p", "***");
        check("", "");
    }

    #[test]
    fn a_secret_may_come_from_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("url");
        std::fs::write(&path, "postgres://a/b\n").unwrap();
        let mut database = Config::built_in().unwrap().database;
        assert_eq!(database.external_url().unwrap(), None);

        database.url_file = path.clone();
        assert_eq!(database.external_url().unwrap().as_deref(), Some("postgres://a/b"));

        std::fs::write(&path, " ").unwrap();
        assert!(database.external_url().unwrap_err().to_string().contains("is empty"));
    }

    #[test]
    fn a_server_that_listens_everywhere_is_reached_on_loopback() {
        assert_eq!(local_url("0.0.0.0:8765".parse().unwrap()), "http://127.0.0.1:8765");
        assert_eq!(local_url("[::]:1".parse().unwrap()), "http://[::1]:1");
        assert_eq!(local_url("192.168.1.5:1".parse().unwrap()), "http://192.168.1.5:1");
    }
}
