//! The layers there are: one line each, in the order in which the assistant should read their sections.

use skymem_core::Plugin;

/// Every plugin this program was built with.
#[must_use]
pub fn all() -> Vec<Box<dyn Plugin>> {
    vec![
        Box::new(skymem_files::FilesPlugin),
        Box::new(skymem_summaries::SummariesPlugin),
        Box::new(skymem_facts::FactsPlugin),
        Box::new(skymem_episodes::EpisodesPlugin),
        Box::new(skymem_vault::VaultPlugin),
    ]
}

/// Their names.
#[must_use]
pub fn names() -> Vec<String> {
    all().iter().map(|plugin| plugin.name().to_string()).collect()
}
