//! Long lists come in pages.

use serde::Deserialize;
use skymem_engine::PageRequest;
use utoipa::IntoParams;

use crate::wire::Whole;

/// Which page of a list.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, expecting = "an object")]
#[into_params(parameter_in = Query)]
pub(crate) struct PageQuery {
    /// `next` of the page before; absent for the first page.
    after: Option<String>,
    /// At most so many items; 50 unless said otherwise.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 200)]
    limit: Option<Whole<1, 200>>,
}

impl From<PageQuery> for PageRequest {
    fn from(PageQuery { after, limit }: PageQuery) -> Self {
        page_request(after, limit)
    }
}

/// The page a query string asks for.
pub(crate) fn page_request(after: Option<String>, limit: Option<Whole<1, 200>>) -> PageRequest {
    let usual = PageRequest::default();
    PageRequest { after, limit: limit.map_or(usual.limit, Whole::size) }
}
