//! `/ports/SECRET/`.

/// Where opened ports are.
pub(super) const PATH: &str = "/ports/";
