//! A request lets go of the bytes it came in.
//!
//! The address of a request and the values of its headers are slices of the buffer its connection is read into, in which the
//! requests before it stand with their bodies. Actix keeps the parts of a request for a later one, and with them that buffer,
//! for as long as the server runs: what was said to a sealed collection would stand in memory after it is locked. So would
//! what its work left on the stack.

use actix_web::Error;
use actix_web::body::MessageBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::Uri;
use actix_web::http::header::{HeaderMap, HeaderValue};
use actix_web::middleware::Next;

/// Gives a request an address and headers in memory of their own.
pub(crate) async fn of_its_buffer<B: MessageBody + 'static>(
    mut request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<B>, Error> {
    // What was an address or a value is one when it is read again.
    if let Ok(address) = request.uri().to_string().parse::<Uri>() {
        request.match_info_mut().get_mut().update(&address);
        request.head_mut().uri = address;
    }
    let mut headers = HeaderMap::with_capacity(request.headers().len());
    for (name, value) in request.headers() {
        if let Ok(value) = HeaderValue::from_bytes(value.as_bytes()) {
            headers.append(name.clone(), value);
        }
    }
    request.head_mut().headers = headers;
    let answer = next.call(request).await;
    sweep_the_stack();
    answer
}

/// How far below a request its work has been, about: without optimisation calls take far more room.
const DEEPEST: usize = if cfg!(debug_assertions) { 512 } else { 128 } * 1024;

/// Overwrites what the calls of a request left on the stack of its thread: pieces of text that were searched stand there in
/// what were vector registers, until something else goes as deep.
#[inline(never)]
fn sweep_the_stack() {
    let mut below = [0_u8; DEEPEST];
    std::hint::black_box(&mut below);
}
