//! The doors of skymem: every route there is stands in this file. [`serve`] opens them.
//!
//! A request passes, from the outside in: the trace, the answer's shape, compression, CORS, the counters, the host
//! check, the time limit, then, under `/v1`, the key. A handler calls one method of `Memory`.

mod address;
mod answer;
mod api;
mod auth;
mod body;
mod error;
mod hosts;
mod lately;
mod lets_go;
mod metrics;
mod openapi;
mod pages;
mod proxy;
mod rates;
mod settings;
mod trace;
mod wire;

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::{Duration, Instant};

use actix_cors::Cors;
use actix_web::body::BoxBody;
use actix_web::dev::{ServerHandle, ServiceFactory, ServiceRequest, ServiceResponse};
use actix_web::http::Method;
use actix_web::middleware::{Compress, Condition, Next, from_fn};
use actix_web::web::{self, Data};
use actix_web::{App, Error, HttpServer};
use skymem_core::UserName;
use skymem_engine::{EngineError, Memory};
use tokio::task::JoinHandle;
use tracing_actix_web::TracingLogger;
use utoipa_actix_web::AppExt;
use utoipa_actix_web::scope::scope;

pub use crate::address::Proxies;
use crate::auth::{Door, Principal};
use crate::error::{ApiError, Kind};
use crate::hosts::Hosts;
use crate::lately::Lately;
use crate::proxy::Proxy;
pub use crate::proxy::{Identities, MemoryPlace, ProxySettings, UpstreamSettings};
use crate::rates::Rates;
pub use crate::settings::{AuthSettings, RateSettings, ServerSettings};

/// Opens the doors of `memory` on `listener`. They are open when this returns.
///
/// # Errors
///
/// [`ServeError::Settings`] for settings that make no sense together; says which.
pub async fn serve(
    memory: Memory,
    settings: ServerSettings,
    proxy: ProxySettings,
    listener: TcpListener,
) -> Result<Running, ServeError> {
    let address = listener.local_addr()?;
    settings.check(address).map_err(ServeError::Settings)?;
    let proxy = Data::new(Proxy::open(proxy).map_err(ServeError::Settings)?);
    let rates = Arc::new(Rates::new(&settings));
    let shared = Shared {
        door: Data::new(Door {
            without_key: without_key(&memory, &settings).await?,
            rates: Arc::clone(&rates),
            keys: Lately::default(),
            users: Lately::default(),
        }),
        hosts: Data::new(Hosts::new(&settings, address)),
        memory: Data::new(memory),
        settings: Data::new(settings.clone()),
        proxy: proxy.clone(),
    };
    let mut server = HttpServer::new(move || app(&shared))
        .disable_signals()
        .shutdown_timeout(settings.shutdown_seconds)
        .client_request_timeout(SLOWEST_HEADERS)
        // A model's words go out one by one: each would wait for the client to acknowledge the one before, up to 40 ms.
        .tcp_nodelay(true)
        // Whoever goes away while a model answers is noticed at once, so that the model can stop.
        .h1_allow_half_closed(false);
    if settings.workers > 0 {
        server = server.workers(settings.workers);
    }
    let server = server.listen(listener)?.run();
    let handle = server.handle();
    let upkeep = tokio::spawn(upkeep(rates));
    let patience = Duration::from_secs(settings.shutdown_seconds);
    Ok(Running { address, handle, server: Some(tokio::spawn(server)), upkeep, proxy, patience })
}

/// What a client may take to send its headers.
const SLOWEST_HEADERS: Duration = Duration::from_secs(10);

async fn without_key(memory: &Memory, settings: &ServerSettings) -> Result<Option<Principal>, ServeError> {
    if settings.auth.enabled {
        return Ok(None);
    }
    let name: UserName = settings
        .auth
        .user_without_key
        .parse()
        .map_err(|why| ServeError::Settings(format!("server.auth.user_without_key: {why}")))?;
    tracing::warn!(user = %name, "No key is asked for: whoever reaches this machine's loopback has this memory");
    Ok(Some(Principal::without_key(memory.ensure_user(&name).await?.id)))
}

/// Keeps counters small for as long as the server runs.
async fn upkeep(rates: Arc<Rates>) {
    let mut tick = tokio::time::interval(rates::TIDY_EVERY);
    loop {
        tick.tick().await;
        rates.tidy();
        if let Some(recorder) = metrics::recorder() {
            recorder.run_upkeep();
        }
    }
}

/// Open doors. Dropping it leaves them open: stop it instead.
#[derive(Debug)]
pub struct Running {
    address: SocketAddr,
    handle: ServerHandle,
    /// `None` once it has ended.
    server: Option<JoinHandle<std::io::Result<()>>>,
    upkeep: JoinHandle<()>,
    proxy: Data<Proxy>,
    /// How long what is under way may go on when the server is told to stop.
    patience: Duration,
}

impl Running {
    /// Where the server listens; the port is the real one when 0 was asked for.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Lets requests in flight end within `shutdown_seconds`, takes no new ones, and returns when the doors are shut.
    ///
    /// # Errors
    ///
    /// When the server had failed.
    pub async fn stop(mut self) -> Result<(), ServeError> {
        let begun = Instant::now();
        self.handle.stop(true).await;
        // Answers that are relayed end with their connections; what was said in them may still have to be written down.
        self.proxy.stop(self.patience.saturating_sub(begun.elapsed())).await;
        self.wait().await
    }

    /// Waits until everything that was said through the proxy so far is written down.
    pub async fn remembers(&self) {
        self.proxy.idle().await;
    }

    /// Returns when the server ends by itself, which it does only when it fails. May be given up and asked again.
    ///
    /// # Errors
    ///
    /// When the server had failed.
    pub async fn wait(&mut self) -> Result<(), ServeError> {
        let Some(server) = &mut self.server else { return Ok(()) };
        let ended = server.await;
        self.server = None;
        self.upkeep.abort();
        ended.map_err(std::io::Error::other)??;
        Ok(())
    }
}

/// Why the doors cannot be opened or kept open.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Settings that make no sense together; says which, and what they may be.
    #[error("{0}")]
    Settings(String),
    /// The memory behind the doors gave no answer.
    #[error(transparent)]
    Memory(#[from] EngineError),
    /// The listener failed.
    #[error("cannot listen")]
    Listen(#[from] std::io::Error),
}

/// What all threads of a server share.
#[derive(Clone)]
struct Shared {
    memory: Data<Memory>,
    settings: Data<ServerSettings>,
    door: Data<Door>,
    hosts: Data<Hosts>,
    proxy: Data<Proxy>,
}

fn app(
    shared: &Shared,
) -> App<
    impl ServiceFactory<
        ServiceRequest,
        Config = (),
        Response = ServiceResponse<impl actix_web::body::MessageBody + use<>>,
        Error = Error,
        InitError = (),
    > + use<>,
> {
    let v1 = scope("/v1")
        .wrap(from_fn(auth::let_in))
        .service(api::sessions::list)
        .service(api::sessions::show)
        .service(api::sessions::change)
        .service(api::sessions::forget)
        .service(api::turns::record)
        .service(api::turns::list)
        .service(api::turns::record_bulk)
        .service(api::remember::remember)
        .service(api::exchanges::list)
        .service(api::exchanges::show)
        .service(api::exchanges::forget)
        .service(api::exchanges::restore)
        .service(api::exchanges::pin)
        .service(api::exchanges::unpin)
        .service(api::forget::forget)
        .service(api::forget::restore)
        .service(api::forget::trash)
        .service(api::purge::purge)
        .service(api::purge::list_receipts)
        .service(api::purge::verify)
        .service(api::purge::show_receipt)
        .service(api::purge::remove_user)
        .service(api::recall::recall)
        .service(api::context::context)
        .service(api::files::list)
        .service(api::files::show)
        .service(api::files::write)
        .service(api::files::list_sections)
        .service(api::files::show_section)
        .service(api::files::write_section)
        .service(api::files::remove_section)
        .service(api::files::append)
        .service(api::files::history)
        .service(api::files::show_revision)
        .service(api::files::restore)
        .service(api::facts::tell::tell)
        .service(api::facts::import::import)
        .service(api::facts::list)
        .service(api::facts::show)
        .service(api::facts::retract)
        .service(api::facts::history)
        .service(api::entities::list)
        .service(api::entities::show)
        .service(api::entities::change)
        .service(api::entities::merge)
        .service(api::entities::split)
        .service(api::graph::neighbourhood)
        .service(api::graph::paths)
        .service(api::graph::communities)
        .service(api::graph::export)
        .service(api::collections::list)
        .service(api::collections::set)
        .service(api::collections::remove)
        .service(api::vault::list)
        .service(api::vault::lock_all)
        .service(api::vault::seal)
        .service(api::vault::show)
        .service(api::vault::unlock)
        .service(api::vault::lock)
        .service(api::vault::add_recipient)
        .service(api::vault::remove_recipient)
        .service(api::vault::rotate)
        .service(api::vault::shred)
        .service(api::stats::stats)
        .service(api::layers::list)
        .service(api::layers::retry)
        .service(api::layers::reset)
        .service(api::audit::list)
        .service(api::audit::verify)
        .service(api::keys::list)
        .service(api::keys::make)
        .service(api::keys::revoke)
        .service(api::keys::rotate)
        .service(api::users::list)
        .service(api::users::show)
        .service(api::users::make)
        .service(api::me::show)
        .service(api::me::change)
        .service(api::health::full);

    let (app, described) = App::new()
        .into_utoipa_app()
        .openapi(openapi::begun())
        // Before the rest of /v1, which asks for keys in its own way.
        .service(proxy::chat)
        .service(proxy::chat_with)
        .service(proxy::models)
        .service(proxy::model)
        .service(proxy::models_of)
        .service(proxy::model_of)
        .service(proxy::embeddings)
        .service(proxy::embeddings_with)
        .service(v1)
        .service(api::health::live)
        .service(api::health::ready)
        .service(metrics::page)
        .split_for_parts();
    let described = openapi::completed(described);

    app.service(openapi::docs())
        .service(pages::docs_without_slash)
        .service(pages::home)
        .service(pages::problems)
        .service(pages::problem)
        .service(openapi::as_json)
        .default_service(web::to(pages::nowhere))
        .app_data(Data::new(openapi::Routes::of(&described)))
        .app_data(Data::new(described))
        .app_data(shared.memory.clone())
        .app_data(shared.settings.clone())
        .app_data(shared.door.clone())
        .app_data(shared.hosts.clone())
        .app_data(shared.proxy.clone())
        .app_data(body::path_config())
        .wrap(from_fn(give_up_late))
        .wrap(from_fn(hosts::check_host))
        .wrap(from_fn(metrics::count))
        .wrap(Condition::new(!shared.settings.cors_origins.is_empty(), cors(&shared.settings)))
        .wrap(Compress::default())
        .wrap(from_fn(answer::complete))
        .wrap(TracingLogger::<trace::Requests>::new())
        .wrap(from_fn(lets_go::of_its_buffer))
}

/// A file of facts, a purge, a user's removal, and sealing what stands in a collection may take so many times longer than
/// other requests.
const TIMES_LONGER: u32 = 10;

/// Gives a request up that takes longer than the settings allow.
async fn give_up_late(
    settings: Data<ServerSettings>,
    request: ServiceRequest,
    next: Next<BoxBody>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    if proxy::is_mine(request.path()) {
        // A model takes its time; the proxy has limits of its own.
        return next.call(request).await;
    }
    let mut most = settings.request_timeout();
    let long = [api::facts::import::ADDRESS, api::purge::ADDRESS];
    let removes_a_user = request.method() == Method::DELETE && request.path().starts_with("/v1/users/");
    if long.contains(&request.path()) || api::vault::seals(request.path()) || removes_a_user {
        most *= TIMES_LONGER;
    }
    let late = |_| Error::from(ApiError::new(Kind::TimedOut, "it took too long: ask for less at a time, or try again"));
    tokio::time::timeout(most, next.call(request)).await.map_err(late)?
}

/// Headers of answers that web pages may read.
const EXPOSED: [&str; 9] = [
    "etag",
    "retry-after",
    "x-request-id",
    "x-memory-status",
    "x-memory-session",
    "x-memory-items",
    "x-memory-tokens",
    "x-memory-ms",
    "x-memory-gaps",
];

/// Lets the web pages that the settings name call the API from a browser.
fn cors(settings: &ServerSettings) -> Cors {
    let cors = settings.cors_origins.iter().fold(Cors::default(), |cors, origin| cors.allowed_origin(origin));
    cors.allow_any_method().allow_any_header().expose_headers(EXPOSED).max_age(3_600)
}
