//! Programs: the only place that starts one.
