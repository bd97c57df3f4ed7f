//! The command line: what can be asked for, and how it ends.

use std::cell::OnceCell;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::{Args, Parser, Subcommand};
use serde_json::json;
use skymem_core::UserName;

use crate::client::Client;
use crate::commands;
use crate::config::{Loaded, local_url};
use crate::door::LocalDoor;
use crate::output::{Outcome, note, say};

/// Runs the program: 0 when it worked, 1 when it failed, 2 when it was called wrongly.
#[must_use]
pub fn main() -> ExitCode {
    ExitCode::from(run(std::env::args_os()))
}

/// Runs the program with `arguments`, of which the first is its own name; answers its exit code. Not to be called where
/// a runtime is already at work.
#[must_use]
pub fn run(arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>) -> u8 {
    let Cli { global, command } = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => {
            // Whoever closed the pipe has read enough of the help.
            let _ = error.print();
            return u8::try_from(error.exit_code()).unwrap_or(2);
        }
    };
    crate::use_ring();
    let json = global.json;
    let outcome =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start threads").and_then(
            |runtime| {
                let outcome = runtime.block_on(command.run(&Context::of(global)));
                // A command that is over waits for no thread that still reads a file or a name server.
                runtime.shutdown_background();
                outcome
            },
        );
    match outcome {
        Ok(outcome) => outcome.print(json),
        Err(error) => {
            if json {
                say(&json!({ "error": format!("{error:#}") }).to_string());
            }
            note(&format!("skymem: {error:#}"));
            1
        }
    }
}

/// A memory for your assistants, on your own machine.
#[derive(Parser)]
#[command(name = "skymem", version, after_help = EXAMPLES, arg_required_else_help = true)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  skymem serve                                   start the server; the first start prints a key
  skymem import conversations.json               take over a ChatGPT export
  skymem recall \"which database did we choose\"   ask memory
  skymem doctor                                  what is wrong, and what to do about it

On the server's own machine commands need no key. Elsewhere give --url and --key, or SKYMEM_URL and SKYMEM_KEY.
Exit codes: 0 it worked, 1 it failed, 2 it was called wrongly (3 is `skymem eval`'s: something was missed).";

/// What every command understands.
#[derive(Args)]
struct Global {
    /// Configuration file (else ./config/local.toml, then ~/.config/skymem/config.toml)
    #[arg(long, global = true, env = "SKYMEM_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Address of the server (else the one on this machine)
    #[arg(long, global = true, env = "SKYMEM_URL", value_name = "URL")]
    url: Option<String>,
    /// Key to the server (on the server's own machine none is needed)
    #[arg(long, global = true, env = "SKYMEM_KEY", value_name = "KEY", hide_env_values = true)]
    key: Option<String>,
    /// Whose memory (else the key's own user's); an admin's key may name any
    #[arg(long, global = true, value_name = "NAME")]
    user: Option<UserName>,
    /// Print JSON for programs instead of text for people
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Start the server
    Serve,
    /// Take over conversations from a file
    Import(commands::import::Import),
    /// Ask memory
    Recall(commands::recall::Recall),
    /// Assemble what an assistant should know for its next answer
    Context(commands::context::Context),
    /// Tell memory something
    Remember(commands::remember::Remember),
    /// What holds of whom, since when, and how we know
    #[command(subcommand)]
    Facts(commands::facts::Facts),
    /// The Markdown files that are in every context
    #[command(subcommand)]
    Files(commands::files::Files),
    /// Conversations, the most recent first
    Sessions(commands::sessions::Sessions),
    /// What was said, the newest first
    Exchanges(commands::exchanges::Exchanges),
    /// Forget exchanges; they can be restored for a while
    Forget(commands::forget::Forget),
    /// Take forgotten exchanges back
    Restore(commands::restore::Restore),
    /// Remove exchanges for good, and make sure that nothing is left
    Purge(commands::purge::Purge),
    /// What is done about tokens, passwords and card numbers in what you tell
    Secrets(commands::secrets::Secrets),
    /// Who changed what, and whether the log is as it was written
    #[command(subcommand)]
    Audit(commands::audit::Audit),
    /// Collections that only whoever has a key can read
    #[command(subcommand)]
    Vault(commands::vault::Vault),
    /// Keys that let programs in
    #[command(subcommand)]
    Key(commands::key::Key),
    /// Learn everything again with the configured embedder
    Reembed(commands::reembed::Reembed),
    /// Play scripted conversations and check what is remembered of them
    Eval(commands::eval::Eval),
    /// Say what is wrong, and what to do about it
    Doctor,
    /// What is kept, and how far the layers are
    Stats(commands::stats::Stats),
    /// The settings in force
    #[command(subcommand)]
    Config(commands::config::Config),
    /// The version of this program and of the server
    Version,
}

impl Command {
    async fn run(self, context: &Context) -> Result<Outcome> {
        match self {
            Command::Serve => commands::serve::run(context).await,
            Command::Import(import) => import.run(context).await,
            Command::Recall(recall) => recall.run(context).await,
            Command::Context(ask) => ask.run(context).await,
            Command::Remember(remember) => remember.run(context).await,
            Command::Facts(facts) => facts.run(context).await,
            Command::Files(files) => files.run(context).await,
            Command::Sessions(sessions) => sessions.run(context).await,
            Command::Exchanges(exchanges) => exchanges.run(context).await,
            Command::Forget(forget) => forget.run(context).await,
            Command::Restore(restore) => restore.run(context).await,
            Command::Purge(purge) => purge.run(context).await,
            Command::Secrets(secrets) => secrets.run(context).await,
            Command::Audit(audit) => audit.run(context).await,
            Command::Vault(vault) => vault.run(context).await,
            Command::Key(key) => key.run(context).await,
            Command::Reembed(reembed) => reembed.run(context).await,
            Command::Eval(eval) => eval.run(context).await,
            Command::Doctor => commands::doctor::run(context).await,
            Command::Stats(stats) => stats.run(context).await,
            Command::Config(config) => config.run(context),
            Command::Version => commands::version::run(context).await,
        }
    }
}

/// What a command may need, found when it is asked for.
pub(crate) struct Context {
    global: Global,
    loaded: OnceCell<Loaded>,
}

impl Context {
    fn of(global: Global) -> Self {
        Self { global, loaded: OnceCell::new() }
    }

    /// Whether the outcome is for programs.
    pub(crate) fn json(&self) -> bool {
        self.global.json
    }

    /// Whose memory was asked for, if anybody's.
    pub(crate) fn user(&self) -> Option<&UserName> {
        self.global.user.as_ref()
    }

    /// Whether a server was named, rather than left to be found.
    pub(crate) fn names_server(&self) -> bool {
        self.global.url.is_some()
    }

    /// The configuration.
    pub(crate) fn loaded(&self) -> Result<&Loaded> {
        if let Some(loaded) = self.loaded.get() {
            return Ok(loaded);
        }
        let loaded = Loaded::read(self.global.config.as_deref())?;
        Ok(self.loaded.get_or_init(|| loaded))
    }

    /// The server that commands talk to.
    pub(crate) fn client(&self) -> Result<Client> {
        let (url, key) = self.server()?;
        let is_local = key.is_some() && self.global.key.is_none();
        let client = Client::new(&url, key)?.acting_for(self.user().map(ToString::to_string));
        Ok(if is_local { client.with_local_key() } else { client })
    }

    /// Its address and the key to it: as given, else those that the server on this machine left.
    fn server(&self) -> Result<(String, Option<String>)> {
        let given_key = self.global.key.clone();
        match (&self.global.url, given_key) {
            (Some(url), Some(key)) => Ok((url.clone(), Some(key))),
            (Some(url), None) => {
                // The local key is for the local server alone; a configuration that cannot be read has none.
                let door = self.loaded().and_then(|loaded| LocalDoor::read(&loaded.config.data_dir()?)).ok().flatten();
                let key = door.filter(|door| door.url == url.trim_end_matches('/')).map(|door| door.key);
                Ok((url.clone(), key))
            }
            (None, given) => {
                let config = &self.loaded()?.config;
                // With a key of one's own, a door that one may not look through is no hindrance.
                let door = match (LocalDoor::read(&config.data_dir()?), &given) {
                    (Err(_), Some(_)) => None,
                    (door, _) => door?,
                };
                Ok(match door {
                    Some(door) => (door.url, given.or(Some(door.key))),
                    None => (local_url(config.server.listen), given),
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    fn each(command: &mut clap::Command, look: &mut dyn FnMut(&mut clap::Command)) {
        look(command);
        for inner in command.get_subcommands_mut() {
            each(inner, look);
        }
    }

    #[test]
    fn every_command_and_every_option_is_explained() {
        each(&mut Cli::command(), &mut |command| {
            assert!(command.get_about().is_some(), "{} is not explained", command.get_name());
            for option in command.get_arguments() {
                let explained = option.get_help().is_some() || matches!(option.get_id().as_str(), "help" | "version");
                assert!(explained, "{} {} is not explained", command.get_name(), option.get_id());
            }
        });
    }

    #[test]
    fn a_key_in_the_environment_is_not_printed_with_the_help() {
        let help = Cli::command().render_long_help().to_string();

        assert!(help.contains("SKYMEM_KEY") && !help.contains("SKYMEM_KEY="), "{help}");
    }

    #[test]
    fn a_wrong_call_ends_with_two() {
        for call in [&["skymem", "frobnicate"][..], &["skymem", "recall"], &["skymem", "import"]] {
            let error = Cli::try_parse_from(call).err().unwrap();
            assert_eq!(error.exit_code(), 2, "{call:?}");
        }
    }
}
