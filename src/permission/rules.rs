//! Rules.
pub(crate) fn to_json(rules: &[crate::call::Rule]) -> String {
    serde_json::to_string(rules).unwrap_or_default()
}
