//! Short answers in HTTP, for the doors that do not speak gRPC.

use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use tonic::codegen::http::{HeaderValue, Response, StatusCode};
use tonic_types::StatusExt as _;

/// Says in HTTP what the gate says in gRPC.
pub fn refused(status: Status) -> Response<Body> {
    use tonic::Code;
    #[allow(clippy::wildcard_enum_match_arm)] // what the gate and the checks here can say
    let code = match status.code() {
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        Code::PermissionDenied => StatusCode::FORBIDDEN,
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::InvalidArgument => StatusCode::BAD_REQUEST,
        Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    let mut response = plain(code, &format!("{}\n", status.message()));
    let retry = status.get_details_retry_info().and_then(|retry| retry.retry_delay);
    if let Some(wait) = retry {
        // In whole seconds, and never too early.
        let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    if code == StatusCode::UNAUTHORIZED {
        let bearer = HeaderValue::from_static("Bearer realm=\"toolgate\"");
        response.headers_mut().insert(WWW_AUTHENTICATE, bearer);
    }
    response
}

/// Answers with a text.
pub fn plain(code: StatusCode, text: &str) -> Response<Body> {
    let mut response = Response::new(Body::new(text.to_owned()));
    *response.status_mut() = code;
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}
