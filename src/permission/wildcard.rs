//! Wildcards.
