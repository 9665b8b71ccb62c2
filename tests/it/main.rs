//! Every test of the service that is more than one module's; one module for each theme.

mod store;
