//! What runs beside the requests: layers learning, upkeep.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::memory::Memory;
use crate::observe::{Observer, Round};

/// How long to wait before the database is asked again after it gave no answer.
const AFTER_A_FAULT: Duration = Duration::from_secs(2);

/// How often it is looked whether memory files have changed.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);

/// How long after a round of upkeep that was not finished the next one begins; each further one takes twice as long.
const FIRST_SOON: Duration = Duration::from_secs(15);

/// The background work of one [`Memory`]. Several servers on one database share it.
///
/// Stop it before the program ends. Dropping it gives up what is under way; that is safe, and repeated elsewhere when
/// its lease runs out.
#[derive(Debug)]
pub struct Background {
    stopping: watch::Sender<bool>,
    tasks: JoinSet<()>,
}

impl Memory {
    /// Starts the background work: one worker per layer, one that listens for news, one that looks at memory files, and
    /// upkeep.
    #[must_use]
    pub fn start(&self) -> Background {
        let (stopping, stop) = watch::channel(false);
        let (news, heard) = watch::channel(());
        let mut tasks = JoinSet::new();
        for layer in &self.inner.layers {
            let observer = Observer::new(self.clone(), Arc::clone(layer)).until_told(stop.clone());
            tasks.spawn(learn(observer, self.clone(), heard.clone(), stop.clone()));
        }
        tasks.spawn(listen(self.clone(), news, stop.clone()));
        tasks.spawn(read_files(self.clone(), stop.clone()));
        tasks.spawn(lock_in_time(self.clone(), stop.clone()));
        tasks.spawn(go_on_with_purges(self.clone(), stop.clone()));
        tasks.spawn(keep_up(self.clone(), stop));
        Background { stopping, tasks }
    }
}

impl Background {
    /// Lets every worker finish the batch it is in, if that takes no longer than a few seconds, gives its lease back, and
    /// returns when all are still.
    pub async fn stop(mut self) {
        self.stopping.send_replace(true);
        while let Some(ended) = self.tasks.join_next().await {
            if let Err(error) = ended {
                tracing::error!(%error, "A background task had ended by itself");
            }
        }
    }
}

/// Ends what a server that was killed had begun to purge.
async fn go_on_with_purges(memory: Memory, mut stop: watch::Receiver<bool>) {
    tokio::select! {
        ended = memory.go_on_with_purges(true) => {
            if let Err(error) = ended {
                tracing::warn!(%error, "Purges that were broken off are ended later");
            }
        }
        _ = stop.wait_for(|stop| *stop) => {}
    }
}

/// Has a layer learn whenever there is something to learn.
async fn learn(observer: Observer, memory: Memory, mut news: watch::Receiver<()>, mut stop: watch::Receiver<bool>) {
    let poll = Duration::from_secs(memory.inner.settings.observe.poll_seconds.max(1));
    while !*stop.borrow() {
        // What is told from here on is heard below, also while the layer learns.
        news.borrow_and_update();
        let pause = match observer.learn_some().await {
            Ok(Round::Worked) => continue,
            Ok(Round::Idle) => poll,
            Err(error) => {
                tracing::warn!(%error, "The journal cannot be read; it is tried again");
                AFTER_A_FAULT
            }
        };
        tokio::select! {
            _ = timeout(pause, news.changed()) => {}
            _ = stop.changed() => return,
        }
    }
}

/// Passes on to the workers that a journal changed, whichever server changed it. Without it they poll.
async fn listen(memory: Memory, news: watch::Sender<()>, mut stop: watch::Receiver<bool>) {
    let hear = async {
        loop {
            match memory.inner.journal.wakeups().await {
                Ok(mut wakeups) => {
                    news.send_replace(());
                    while wakeups.next().await.is_ok() {
                        news.send_replace(());
                    }
                }
                Err(error) => tracing::debug!(%error, "No news of the journal; layers look for themselves"),
            }
            sleep(AFTER_A_FAULT).await;
        }
    };
    tokio::select! {
        () = hear => {}
        _ = stop.changed() => {}
    }
}

/// Tells layers of memory files that have changed, within a moment.
async fn read_files(memory: Memory, mut stop: watch::Receiver<bool>) {
    loop {
        let told = tokio::select! {
            told = memory.tell_files() => told,
            _ = stop.changed() => return,
        };
        let pause = match told {
            Ok(()) => BETWEEN_LOOKS,
            Err(error) => {
                tracing::debug!(%error, "Memory files could not be looked at; they are looked at again");
                AFTER_A_FAULT
            }
        };
        tokio::select! {
            () = sleep(pause) => {}
            _ = stop.changed() => return,
        }
    }
}

/// Locks what was unlocked for a time that is over, also when nobody asks for anything.
async fn lock_in_time(memory: Memory, mut stop: watch::Receiver<bool>) {
    loop {
        memory.lock_what_is_over();
        tokio::select! {
            () = sleep(BETWEEN_LOOKS) => {}
            _ = stop.changed() => return,
        }
    }
}

/// Upkeep: at the start, then now and then; sooner while something is missing, but ever less often.
async fn keep_up(memory: Memory, mut stop: watch::Receiver<bool>) {
    let every = Duration::from_secs(memory.inner.settings.upkeep.every_minutes.max(1).saturating_mul(60));
    let mut soon = FIRST_SOON;
    loop {
        // It may take minutes: embedding what was learned without an embedder, building an index.
        let finished = tokio::select! {
            done = memory.upkeep() => done.unwrap_or_else(|error| {
                tracing::warn!(%error, "Upkeep was not finished; it is done again later");
                false
            }),
            _ = stop.changed() => return,
        };
        let pause = if finished { every } else { soon.min(every) };
        soon = if finished { FIRST_SOON } else { pause * 2 };
        tokio::select! {
            () = sleep(pause) => {}
            _ = stop.changed() => return,
        }
    }
}
