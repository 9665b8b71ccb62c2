//! Answers in HTTP as the SDKs expect them.
//!
//! *Invariant:* 500, 502, 503 and 504 make SDKs send a request again by themselves, so these are said only where that does no harm.

use serde_json::{Value, json};
use tonic::body::Body;
use tonic::codegen::http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use tonic::codegen::http::{HeaderValue, Response, StatusCode};
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

/// Answers with JSON.
pub(super) fn json(value: &Value) -> Response<Body> {
    told(StatusCode::OK, value)
}

/// Answers with nothing.
pub(super) fn nothing(code: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = code;
    response
}

/// Says that a request was refused before anything was done.
pub(super) fn refusal(status: Status) -> Response<Body> {
    failure(&status, false, false)
}

/// Says what went wrong. `is_new_again`: whether the same request would do it once more, so that nobody should send it by himself.
/// `goes_on`: whether it would go on with what was begun.
pub(super) fn failure(status: &Status, is_new_again: bool, goes_on: bool) -> Response<Body> {
    let (code, name) = code_of(status.code());
    let code = match code {
        StatusCode::REQUEST_TIMEOUT if goes_on => StatusCode::GATEWAY_TIMEOUT,
        code if code.is_server_error() && is_new_again => StatusCode::CONFLICT,
        code => code,
    };
    let mut response = told(code, &json!({"code": name, "message": status.message()}));
    let headers = response.headers_mut();
    let retry = status.get_details_retry_info().and_then(|retry| retry.retry_delay);
    if let Some(wait) = retry.filter(|_| !is_new_again) {
        // In whole seconds, and never too early.
        let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    if code == StatusCode::UNAUTHORIZED {
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"toolgate\""));
    }
    response
}

fn told(code: StatusCode, value: &Value) -> Response<Body> {
    let mut response = Response::new(Body::new(value.to_string()));
    *response.status_mut() = code;
    let kind = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

fn code_of(code: Code) -> (StatusCode, &'static str) {
    match code {
        Code::Ok => (StatusCode::OK, "OK"),
        Code::InvalidArgument | Code::OutOfRange => (StatusCode::BAD_REQUEST, "INVALID_ARGUMENT"),
        Code::Unauthenticated => (StatusCode::UNAUTHORIZED, "UNAUTHENTICATED"),
        Code::PermissionDenied => (StatusCode::FORBIDDEN, "PERMISSION_DENIED"),
        Code::NotFound => (StatusCode::NOT_FOUND, "NOT_FOUND"),
        Code::DeadlineExceeded => (StatusCode::REQUEST_TIMEOUT, "DEADLINE_EXCEEDED"),
        Code::AlreadyExists | Code::FailedPrecondition | Code::Aborted => (StatusCode::CONFLICT, "CONFLICT"),
        Code::Cancelled => (StatusCode::CONFLICT, "CANCELLED"),
        Code::ResourceExhausted => (StatusCode::TOO_MANY_REQUESTS, "RESOURCE_EXHAUSTED"),
        Code::Unimplemented => (StatusCode::NOT_IMPLEMENTED, "UNIMPLEMENTED"),
        Code::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, "UNAVAILABLE"),
        Code::Unknown | Code::Internal | Code::DataLoss => (StatusCode::INTERNAL_SERVER_ERROR, "INTERNAL"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_run_twice_is_not_asked_for_again() {
        let check = |code: Code, is_new_again: bool, goes_on: bool, expected: u16| {
            let response = failure(&Status::new(code, "x"), is_new_again, goes_on);
            assert_eq!(
                response.status().as_u16(),
                expected,
                "{code:?} {is_new_again} {goes_on}"
            );
        };
        check(Code::Unavailable, false, false, 503);
        check(Code::Unavailable, true, false, 409);
        check(Code::Internal, true, false, 409);
        check(Code::Internal, false, true, 500);
        check(Code::DeadlineExceeded, true, false, 408);
        check(Code::DeadlineExceeded, false, true, 504);
        check(Code::PermissionDenied, true, false, 403);
    }
}
