//! What the JSON Schema of a tool's input becomes for models that take only a part of JSON Schema
//! (`docs/spec/framework.md` §13 and §16 F10).
//!
//! A schema is rewritten for whom it is shown to, never for what it checks: calls are validated by the tool's own schema.
//! Each dialect goes through all places of a schema where a schema stands, and no others: a property may be named like a
//! keyword, and an `enum`, a `const` or a `default` may hold what looks like a schema.
//!
//! *Invariant:* pure and total: any JSON value is accepted, and what is no schema is left alone. Each dialect is one pass,
//! whose cost grows with the size only and which takes no stack for depth; a second pass would change nothing.

mod gemini;
mod moonshot;
mod openai;
mod places;
#[cfg(test)]
mod tests;
mod unfold;

use std::collections::BTreeMap;

use serde_json::Value;
use toolgate_model::{Definition, Model};

pub use unfold::unfolds_too_far;

/// Providers that are reached through one package unless the configuration says otherwise. The others do not matter here.
const KNOWN_PACKAGES: [(&str, &str); 3] = [
    ("openai", "@ai-sdk/openai"),
    ("azure", "@ai-sdk/azure"),
    ("azure-cognitive-services", "@ai-sdk/azure"),
];

/// Returns a definition as the model is told of it.
pub fn adapt(definition: Definition, model: &Model) -> Definition {
    Definition {
        input_schema: for_model(definition.input_schema, model),
        ..definition
    }
}

/// Returns a schema in the dialect of a model; for most models that is the schema as it is.
pub fn for_model(mut schema: Value, model: &Model) -> Value {
    if matches!(package(model), "@ai-sdk/openai" | "@ai-sdk/azure") {
        openai::rewrite(&mut schema);
    }
    if model.provider_id == "moonshotai" || model.model_id.to_lowercase().contains("kimi") {
        moonshot::rewrite(&mut schema);
    }
    if model.provider_id == "google" || model.model_id.contains("gemini") {
        gemini::rewrite(&mut schema);
    }
    schema
}

/// Fills in through which package a model is reached, if the caller did not say and the configuration does. `configured`
/// has packages by `provider/model` and by `provider`.
pub fn complete(model: &mut Model, configured: &BTreeMap<String, String>) {
    if model.package.is_empty() {
        let own = configured.get(&format!("{}/{}", model.provider_id, model.model_id));
        let package = own.or_else(|| configured.get(&model.provider_id));
        model.package = package.cloned().unwrap_or_default();
    }
}

fn package(model: &Model) -> &str {
    if !model.package.is_empty() {
        return &model.package;
    }
    let known = KNOWN_PACKAGES
        .iter()
        .find(|(provider, _)| *provider == model.provider_id);
    known.map_or("", |(_, package)| package)
}
