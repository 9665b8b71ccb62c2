//! Keeps web pages out that nobody has named in `listen.origins`.
//!
//! A page may have its browser get what it may not read, as an image or a script, without asking anybody; such a request names no
//! origin, and a script that a page may run it has read. Browsers say that of the request, and heed what an answer says of itself.
//!
//! *Invariant:* knows nothing of what is asked for.

use tonic::body::Body;
use tonic::codegen::http::header::{ORIGIN, X_CONTENT_TYPE_OPTIONS};
use tonic::codegen::http::{HeaderName, HeaderValue, Request, Response, StatusCode};
use tower_http::validate_request::ValidateRequest;

use crate::grpc::answers::plain;

/// Says how the page that has a request made is related to where it goes.
const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Says which pages may show an answer.
const POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

/// Refuses what a page of another origin has its browser get without saying so. An origin that is there was looked at before.
#[derive(Clone, Copy)]
pub(super) struct NoStrangePages;

impl<B> ValidateRequest<B> for NoStrangePages {
    type ResponseBody = Body;

    fn validate(&mut self, request: &mut Request<B>) -> Result<(), Response<Body>> {
        let headers = request.headers();
        let is_strange = |site: &HeaderValue| ["cross-site", "same-site"].iter().any(|strange| site == strange);
        if headers.contains_key(ORIGIN) || !headers.get_all(SITE).iter().any(is_strange) {
            return Ok(());
        }
        let problem = "this web page may not get anything here: have it ask with its origin (CORS), and add that to listen.origins\n";
        Err(plain(StatusCode::FORBIDDEN, problem))
    }
}

/// Has browsers keep an answer from pages of other origins, and take it for nothing but what it says it is.
pub(super) fn kept(mut response: Response<Body>) -> Response<Body> {
    let headers = response.headers_mut();
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(POLICY, HeaderValue::from_static("same-origin"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_does_not_say_which_one_it_is_gets_nothing() {
        let check = |headers: &[(HeaderName, &'static str)], expected: bool| {
            let mut request = Request::new(());
            for (name, value) in headers {
                let value = HeaderValue::from_static(value);
                request.headers_mut().append(name, value);
            }
            assert_eq!(NoStrangePages.validate(&mut request).is_ok(), expected, "{headers:?}");
        };
        check(&[], true);
        check(&[(SITE, "none")], true);
        check(&[(SITE, "same-origin")], true);
        check(&[(SITE, "cross-site")], false);
        check(&[(SITE, "same-site")], false);
        check(&[(SITE, "none"), (SITE, "cross-site")], false);
        check(&[(SITE, "cross-site"), (ORIGIN, "https://listed.example")], true);
    }
}
