//! What is counted about chats that pass through.

use metrics::Unit;

/// Chats forwarded, by upstream, status and what memory did.
pub(crate) const REQUESTS: &str = "skymem_proxy_requests_total";
/// What memory took before a chat was forwarded.
pub(crate) const MEMORY_SECONDS: &str = "skymem_proxy_memory_seconds";
/// What an upstream took until its answer began.
pub(crate) const FIRST_BYTE: &str = "skymem_proxy_first_byte_seconds";
/// How answers ended.
pub(crate) const ANSWERS: &str = "skymem_proxy_answers_total";
/// What memory could not do for a chat, by why.
pub(crate) const FAULTS: &str = "skymem_proxy_memory_faults_total";

/// Says what the figures mean.
pub(crate) fn describe() {
    metrics::describe_counter!(REQUESTS, "Chats forwarded, by upstream, status and what memory did.");
    metrics::describe_histogram!(
        MEMORY_SECONDS,
        Unit::Seconds,
        "Time memory took before a chat was forwarded, from when its key was known."
    );
    metrics::describe_histogram!(FIRST_BYTE, Unit::Seconds, "Time until an upstream's answer began, by upstream.");
    metrics::describe_counter!(ANSWERS, "Answers of upstreams, by upstream and how they ended.");
    metrics::describe_counter!(FAULTS, "Faults of memory that a chat went on without, by why.");
}

/// Counts a fault of memory.
pub(crate) fn fault(why: &'static str) {
    metrics::counter!(FAULTS, "why" => why).increment(1);
}
