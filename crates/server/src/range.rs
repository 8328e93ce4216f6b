//! Requests with a malformed `Range` header: HTTP and S3 ignore such a range, but s3s refuses it.

use hyper::header::{AUTHORIZATION, RANGE};
use hyper::http::Extensions;
use hyper::http::uri::PathAndQuery;
use hyper::{HeaderMap, Method, Request, Uri};
use s3s::dto::Range;
use s3s::route::S3Route;
use s3s::service::{S3Service, S3ServiceBuilder};
use s3s::{Body, S3Error, S3ErrorCode, S3Request, S3Response, S3Result};

use crate::limits::check_validity;
use crate::service::Service;

/// Route that answers a read with a malformed range as if it had no range. s3s calls it after
/// checking the signature, which covers the header, so the header cannot be removed earlier.
pub struct WithoutRange {
    /// Service that requires no signature.
    open: S3Service,
}

impl WithoutRange {
    /// Create the route for a service.
    pub fn over(service: Service) -> Self {
        Self { open: S3ServiceBuilder::new(service).build() }
    }
}

#[async_trait::async_trait]
impl S3Route for WithoutRange {
    fn is_match(&self, method: &Method, _: &Uri, headers: &HeaderMap, _: &mut Extensions) -> bool {
        let mut ranges = headers.get_all(RANGE).iter();
        let Some(first) = ranges.next() else { return false };
        let single = first.to_str().ok().filter(|_| ranges.next().is_none());
        (method == Method::GET || method == Method::HEAD)
            && single.is_none_or(|range| Range::parse(range).is_err())
    }

    async fn call(&self, request: S3Request<Body>) -> S3Result<S3Response<Body>> {
        check_validity(&request.uri)?;
        let mut whole = Request::new(Body::empty());
        *whole.method_mut() = request.method;
        *whole.uri_mut() = unsigned(&request.uri);
        *whole.headers_mut() = request.headers;
        whole.headers_mut().remove(RANGE);
        whole.headers_mut().remove(AUTHORIZATION);
        let internal = |error| S3Error::with_source(S3ErrorCode::InternalError, error);
        let answer = self.open.call(whole).await.map_err(|error| internal(error.into()))?;
        let (head, body) = answer.into_parts();
        let mut answer = S3Response::with_status(body, head.status);
        answer.headers = head.headers;
        Ok(answer)
    }
}

/// Return the URI without the signature parameters of a presigned URL.
fn unsigned(uri: &Uri) -> Uri {
    let Some(query) = uri.query() else { return uri.clone() };
    let of_signature = |pair: &&str| pair.starts_with("X-Amz-") || pair.starts_with("Signature=");
    let rest: Vec<&str> = query.split('&').filter(|pair| !of_signature(pair)).collect();
    let target = format!("{}?{}", uri.path(), rest.join("&"));
    PathAndQuery::try_from(target).map_or_else(|_| uri.clone(), Uri::from)
}
