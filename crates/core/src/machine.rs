//! What the machine is told of memory that is read from its beginning to its end for one question: between two questions it
//! leaves the caches, and then coming from far is what takes the time.

/// Has a row come nearer that is `ahead` rows like `row` further on in memory, if there is one: a hint. The processor by
/// itself fetches too little ahead, and stops at each page.
#[inline(always)]
pub fn fetch_ahead<T>(row: &[T], ahead: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        const LINE: usize = 64;
        let start = row.as_ptr().wrapping_add(ahead * row.len()).cast::<i8>();
        for line in 0..size_of_val(row).div_ceil(LINE) {
            // SAFETY: it is a hint, for whatever address.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(line * LINE)) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (row, ahead);
}

/// Room for `capacity` values, on large pages as far as the system has them: looking up where a page is takes its time too.
#[must_use]
pub fn roomy<T>(capacity: usize) -> Vec<T> {
    on_large_pages(Vec::with_capacity(capacity))
}

#[cfg(not(target_os = "linux"))]
fn on_large_pages<T>(room: Vec<T>) -> Vec<T> {
    room
}

/// Asks for large pages where nothing was written yet. A system that has none says no, which changes nothing.
#[cfg(target_os = "linux")]
fn on_large_pages<T>(mut room: Vec<T>) -> Vec<T> {
    use rustix::mm::{Advice, madvise};
    const LARGE: usize = 2 << 20;
    let bytes = room.spare_capacity_mut().as_mut_ptr_range();
    let (start, end) = (bytes.start.addr().next_multiple_of(LARGE), bytes.end.addr() / LARGE * LARGE);
    if start < end {
        // SAFETY: these bytes are part of the room, and what is in them stays as it is.
        let _ = unsafe { madvise(bytes.start.with_addr(start).cast(), end - start, Advice::LinuxHugepage) };
    }
    room
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_room_however_much() {
        for capacity in [0, 1, 1_000, 3 << 20] {
            let mut room: Vec<u16> = roomy(capacity);
            let place = room.as_ptr();
            assert!(room.capacity() >= capacity);

            room.resize(capacity, 7);

            assert!(room.as_ptr() == place && room.iter().all(|&value| value == 7));
            fetch_ahead(&room, 1_000_000);
        }
    }
}
