//! What a stored change must survive.

/// What a stored change has to survive before whoever asked for it is told that it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// The death of the service. A loss of power or of the system may take the last seconds with it; what was stored before
    /// stays whole.
    #[default]
    Process,
    /// A loss of power as well: the disk is waited for.
    Power,
}
