//! One person's files as they stand in memory: what requests read. Pure; `library.rs` swaps it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chrono::{DateTime, Utc};
use sha2::{Digest, Sha256};
use skymem_core::files::{FileHead, FileName, FileText, Revision};
use skymem_core::{Citation, Provenance, Recall, RecallId, Score, Tokens};

use crate::NAME;
use crate::disk::{Folder, Found, Listing, Stamp};
use crate::markdown::{Outline, outline, prompt_copy};
use crate::prompt::{Copy, fit};

/// One person's files at one moment. Never changed, only replaced.
#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    /// The files in use, each as it was last read well.
    pages: BTreeMap<FileName, Arc<Page>>,
    /// The files that cannot be used as they are now, and why.
    damaged: BTreeMap<FileName, Damage>,
    /// That the folder is gone, in words, when it is.
    gone: Option<String>,
    /// What else is wrong with the folder.
    folder_faults: Vec<String>,
    /// What an assistant reads, in order.
    copies: Vec<Copy>,
}

/// A text of a file and what is made of it.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) text: Arc<str>,
    pub(crate) revision: Revision,
    changed_at: DateTime<Utc>,
    stamp: Stamp,
    always: bool,
    outline: Outline,
}

#[derive(Debug, Clone)]
struct Damage {
    fault: String,
    stamp: Stamp,
}

/// A text to be kept in the database, or that a file is gone.
#[derive(Debug, Clone)]
pub(crate) struct News {
    pub(crate) file: FileName,
    /// `None` when the file is gone.
    pub(crate) text: Option<(Revision, Arc<str>)>,
    pub(crate) seen_at: DateTime<Utc>,
    pub(crate) origin: Origin,
}

/// The newest text of each file in the database, and when it was seen.
pub(crate) type KeptTexts = BTreeMap<FileName, (String, DateTime<Utc>)>;

/// Who changed a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A person, in the folder.
    Disk,
    /// A door.
    Api,
}

impl Origin {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Origin::Disk => "disk",
            Origin::Api => "api",
        }
    }
}

/// The snapshot after a look at the disk.
#[derive(Debug)]
pub(crate) struct Next {
    pub(crate) snapshot: Snapshot,
    /// The texts that are new, and the files that are gone.
    pub(crate) news: Vec<News>,
    /// The faults that are new, for the log: file names and lines, no memory text.
    pub(crate) faults: Vec<String>,
}

/// The snapshot that follows `before` after `folder` was seen; `None` when the disk should be looked at again first.
///
/// A file that is suddenly empty or missing may be half way through a save: that is believed when it is `certain`.
pub(crate) fn next(before: &Snapshot, folder: Folder, certain: bool, budget: Tokens) -> Option<Next> {
    let listing = match folder {
        Folder::Here(listing) if listing.torn => return None,
        Folder::Here(listing) => listing,
        Folder::Gone(_) if !certain => return None,
        Folder::Gone(why) => return Some(without_folder(before, &why)),
    };
    if !certain && loses(before, &listing) {
        return None;
    }
    let mut after = Snapshot { folder_faults: listing.faults, ..Snapshot::default() };
    let mut news = Vec::new();
    for (name, found) in listing.files {
        let old = before.pages.get(&name);
        match found {
            Found::Unchanged => {
                after.damaged.extend(before.damaged.get(&name).map(|damage| (name.clone(), damage.clone())));
                after.pages.extend(old.map(|page| (name, Arc::clone(page))));
            }
            Found::Read { text, stamp, changed_at } => match Page::read(&name, text.into(), stamp, changed_at) {
                Ok(page) => {
                    let page = match old {
                        // Touched, or saved without a change: as it was, but for the stamp.
                        Some(old) if old.revision == page.revision => Page { changed_at: old.changed_at, ..page },
                        _ => {
                            news.push(page.news(&name, Origin::Disk));
                            page
                        }
                    };
                    after.pages.insert(name, Arc::new(page));
                }
                Err(fault) => {
                    after.pages.extend(old.map(|page| (name.clone(), Arc::clone(page))));
                    after.damaged.insert(name, Damage { fault, stamp });
                }
            },
            Found::Damaged { fault, stamp } => {
                after.pages.extend(old.map(|page| (name.clone(), Arc::clone(page))));
                after.damaged.insert(name, Damage { fault, stamp });
            }
        }
    }
    let gone = before.pages.keys().filter(|name| !after.pages.contains_key(*name));
    news.extend(gone.map(|name| News::gone(name.clone(), listing.changed_at)));
    after.copies = copies(&after.pages, budget);
    let faults = new_faults(before, &after);
    Some(Next { snapshot: after, news, faults })
}

impl Snapshot {
    /// What an assistant reads: MEMORY.md first, NOW.md last, so that what changes most often stands latest and a
    /// provider's prompt cache keeps as long a prefix as possible.
    pub(crate) fn recalls(&self) -> Vec<Recall> {
        let shown = self.copies.iter().filter(|copy| !copy.text.is_empty());
        shown
            .map(|copy| Recall {
                id: RecallId(copy.file.to_string()),
                layer: NAME,
                text: copy.text.clone(),
                score: Score(1.0),
                citation: Citation::document(copy.file.as_str()),
                provenance: Provenance {
                    file: Some(copy.file.to_string()),
                    occurred_at: self.pages.get(&copy.file).map(|page| page.changed_at),
                    ..Provenance::default()
                },
                neighbours: Vec::new(),
            })
            .collect()
    }

    /// What people should know of, in words.
    pub(crate) fn faults(&self) -> Vec<String> {
        let damaged = self.damaged.iter().map(|(name, damage)| self.told(name, damage));
        let left_out = self.copies.iter().filter_map(Copy::fault);
        self.gone.iter().chain(&self.folder_faults).cloned().chain(damaged).chain(left_out).collect()
    }

    pub(crate) fn heads(&self) -> Vec<FileHead> {
        self.pages.iter().map(|(name, page)| self.head(name, page)).collect()
    }

    pub(crate) fn page(&self, name: &FileName) -> Option<&Arc<Page>> {
        self.pages.get(name)
    }

    pub(crate) fn file(&self, name: &FileName) -> Option<FileText> {
        self.pages.get(name).map(|page| FileText {
            head: self.head(name, page),
            text: page.text.to_string(),
            sections: page.outline.sections.iter().map(Into::into).collect(),
        })
    }

    /// Why the file cannot be used as it is on disk, if so.
    pub(crate) fn damage(&self, name: &FileName) -> Option<&str> {
        self.damaged.get(name).map(|damage| damage.fault.as_str())
    }

    /// The stamp of each file when it was last read, well or not.
    pub(crate) fn stamps(&self) -> BTreeMap<FileName, Stamp> {
        let pages = self.pages.iter().map(|(name, page)| (name.clone(), page.stamp));
        pages.chain(self.damaged.iter().map(|(name, damage)| (name.clone(), damage.stamp))).collect()
    }

    /// That the folder is gone, in words, when it is.
    pub(crate) fn folder_is_gone(&self) -> Option<&str> {
        self.gone.as_deref()
    }

    /// How many files are in use.
    pub(crate) fn count(&self) -> usize {
        self.pages.len()
    }

    pub(crate) fn sections(&self) -> usize {
        self.pages.values().map(|page| page.outline.sections.len()).sum()
    }

    pub(crate) fn tokens(&self) -> Tokens {
        self.copies.iter().map(|copy| copy.tokens).sum()
    }

    /// This snapshot with `page` as the text of `name`.
    pub(crate) fn with(&self, name: &FileName, page: Page, budget: Tokens) -> Self {
        let mut pages = self.pages.clone();
        pages.insert(name.clone(), Arc::new(page));
        let copies = copies(&pages, budget);
        Self {
            pages,
            copies,
            damaged: self.damaged.clone(),
            gone: self.gone.clone(),
            folder_faults: self.folder_faults.clone(),
        }
    }

    /// This snapshot with `texts` for the files that cannot be read and have no good text yet.
    pub(crate) fn with_last_good(self, texts: &KeptTexts, budget: Tokens) -> Self {
        let orphan = |name: &FileName| {
            !self.pages.contains_key(name) && (self.gone.is_some() || self.damaged.contains_key(name))
        };
        let orphans: Vec<_> = texts.iter().filter(|(name, _)| orphan(name)).collect();
        let pages = orphans.into_iter().filter_map(|(name, (text, seen_at))| {
            let page = Page::read(name, text.as_str().into(), Stamp::default(), *seen_at).ok()?;
            Some((name, page))
        });
        pages.fold(self, |snapshot, (name, page)| snapshot.with(name, page, budget))
    }

    fn head(&self, name: &FileName, page: &Page) -> FileHead {
        let copy = self.copies.iter().find(|copy| copy.file == *name);
        let damaged = self.damaged.get(name).map(|damage| self.told(name, damage));
        FileHead {
            name: name.clone(),
            revision: page.revision.clone(),
            tokens: copy.map(|copy| copy.tokens).unwrap_or_default(),
            bytes: page.text.len() as u64,
            changed_at: page.changed_at,
            always: page.always,
            faults: damaged.into_iter().chain(copy.and_then(Copy::fault)).collect(),
        }
    }

    fn told(&self, name: &FileName, damage: &Damage) -> String {
        let use_of = if self.pages.contains_key(name) { "its last good text is in use" } else { "it is not loaded" };
        format!("{}; {use_of}", damage.fault)
    }
}

impl Copy {
    fn fault(&self) -> Option<String> {
        let left_out = self.left_out.as_ref()?;
        Some(format!("{} is over the token budget for memory files; left out of the prompt: {left_out}", self.file))
    }
}

impl Page {
    /// What is made of `text`.
    ///
    /// # Errors
    ///
    /// The fault, in words with the file's name, when it cannot be used.
    pub(crate) fn read(
        name: &FileName,
        text: Arc<str>,
        stamp: Stamp,
        changed_at: DateTime<Utc>,
    ) -> Result<Self, String> {
        let outline = outline(&text).map_err(|bad| {
            format!(
                "{name} has front matter that does not parse, in line {}: mend it, or remove the lines between the two ---",
                bad.line
            )
        })?;
        let always = outline.always.unwrap_or(matches!(name.as_str(), "MEMORY.md" | "NOW.md"));
        Ok(Self { revision: revision_of(&text), text, changed_at, stamp, always, outline })
    }

    /// As read from, or written to, the file of that stamp.
    pub(crate) fn at(self, stamp: Stamp) -> Self {
        Self { stamp, ..self }
    }

    pub(crate) fn news(&self, name: &FileName, origin: Origin) -> News {
        News {
            file: name.clone(),
            text: Some((self.revision.clone(), Arc::clone(&self.text))),
            seen_at: self.changed_at,
            origin,
        }
    }
}

impl News {
    pub(crate) fn gone(file: FileName, seen_at: DateTime<Utc>) -> Self {
        Self { file, text: None, seen_at, origin: Origin::Disk }
    }
}

/// Names a text.
pub(crate) fn revision_of(text: &str) -> Revision {
    Revision(hex::encode(Sha256::digest(text)))
}

/// The prompt copies of `pages`, the most stable first.
fn copies(pages: &BTreeMap<FileName, Arc<Page>>, budget: Tokens) -> Vec<Copy> {
    let mut always: Vec<_> = pages.iter().filter(|(_, page)| page.always).collect();
    always.sort_by_key(|(name, _)| match name.as_str() {
        "MEMORY.md" => 0,
        "NOW.md" => 2,
        _ => 1,
    });
    fit(always.into_iter().map(|(name, page)| (name.clone(), prompt_copy(&page.text, &page.outline))).collect(), budget)
}

/// Whether a text that is in use would be empty or gone.
fn loses(before: &Snapshot, listing: &Listing) -> bool {
    before.pages.iter().filter(|(_, page)| !page.text.trim().is_empty()).any(|(name, _)| {
        match listing.files.get(name) {
            None => true,
            Some(Found::Read { text, .. }) => text.trim().is_empty(),
            Some(_) => false,
        }
    })
}

/// A folder that is moved away takes no memory with it: it may be a disk that is not mounted, a sync at work.
fn without_folder(before: &Snapshot, why: &str) -> Next {
    let fault = format!(
        "the folder of the memory files {why}; the last good texts are in use: put it back, or an empty one to start afresh"
    );
    let after = Snapshot {
        pages: before.pages.clone(),
        damaged: before.damaged.clone(),
        copies: before.copies.clone(),
        gone: Some(fault),
        folder_faults: Vec::new(),
    };
    let faults = new_faults(before, &after);
    Next { snapshot: after, news: Vec::new(), faults }
}

fn new_faults(before: &Snapshot, after: &Snapshot) -> Vec<String> {
    let known: BTreeSet<_> =
        before.damaged.values().map(|damage| &damage.fault).chain(&before.gone).chain(&before.folder_faults).collect();
    let now = after.gone.iter().chain(&after.folder_faults).chain(after.damaged.values().map(|damage| &damage.fault));
    now.filter(|fault| !known.contains(fault)).cloned().collect()
}
