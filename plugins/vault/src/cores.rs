//! Work that takes long: on all cores, and where it keeps nobody waiting.

/// `work` on each of `items`, in their order, on all cores.
pub(crate) fn on_every_core<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    if items.len() < 64 || cores == 1 {
        return items.iter().map(work).collect();
    }
    let work = &work;
    std::thread::scope(|scope| {
        let parts: Vec<_> = items
            .chunks(items.len().div_ceil(cores))
            .map(|part| scope.spawn(move || part.iter().map(work).collect::<Vec<R>>()))
            .collect();
        parts
            .into_iter()
            .flat_map(|part| part.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}

/// Does what takes long where it keeps nobody waiting.
pub(crate) async fn in_background<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_on_all_cores_comes_back_in_order() {
        let items: Vec<usize> = (0..1_000).collect();
        assert_eq!(on_every_core(&items, |item| item + 1), (1..=1_000).collect::<Vec<_>>());
    }
}
