//! `skymem facts export`

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::{Args, ValueEnum};
use serde_json::json;

use super::Seen;
use crate::cli::Context;
use crate::output::{Outcome, bytes};

/// Write all facts as other programs read them: to standard output, or to a file.
#[derive(Args)]
#[command(after_help = "Examples:
  skymem facts export --format dot | dot -Tsvg > facts.svg
  skymem facts export --format csv --history --output facts.csv     can be imported again
  skymem facts export --format graphml --as-of 2024 --output facts.graphml")]
pub(crate) struct Export {
    /// How they are written
    #[arg(long, value_enum)]
    format: Format,
    #[command(flatten)]
    seen: Seen,
    /// Facts of every time, what was taken back as well
    #[arg(long, conflicts_with = "as_of")]
    history: bool,
    /// The file (else standard output); one that is there is overwritten
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// How facts are written.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    /// Graphviz
    Dot,
    /// Gephi, yEd, NetworkX
    Graphml,
    /// Cytoscape and Cytoscape.js
    Cytoscape,
    /// A line for each fact
    Csv,
}

impl Export {
    pub(crate) async fn run(self, context: &Context) -> Result<Outcome> {
        let client = context.client()?;
        let format = self.format.to_possible_value().map(|word| word.get_name().to_owned()).unwrap_or_default();
        let mut query = vec![("format", format.clone())];
        if self.history {
            query.push(("history", "true".into()));
        }
        self.seen.write(&client, &mut query).await?;
        let text = client.download(&["v1", "graph", "export"], &query).await?;
        let size = text.len() as u64;
        let Some(path) = self.output else {
            if context.json() {
                return Ok(Outcome::new("", json!({ "format": format, "text": String::from_utf8_lossy(&text) })));
            }
            // Byte for byte: a CSV has line ends of its own.
            let mut out = std::io::stdout().lock();
            return match out.write_all(&text).and_then(|()| out.flush()) {
                Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
                    Err(error).context("cannot write to standard output")
                }
                _ => Ok(Outcome::new("", json!(null))),
            };
        };
        let shown = path.display().to_string();
        std::fs::write(&path, &text).with_context(|| format!("cannot write {shown}"))?;
        let told = format!("Wrote {shown} ({}).", bytes(size));
        Ok(Outcome::new(told, json!({ "format": format, "file": shown, "bytes": size })))
    }
}
