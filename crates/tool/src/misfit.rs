//! Whether a value fits a schema that is not to be trusted.
//!
//! *Invariant:* bounded: nothing is fetched, patterns take linear time, and what is too large is not looked at.

use jsonschema::PatternOptions;
use serde_json::Value;

use super::dialect::unfolds_too_far;

/// Bytes of the largest schema and of the largest value that are looked at.
const MAX_SIZE: usize = 1 << 20;

/// Bytes of both, multiplied: each part of the one may be held against each part of the other.
const MAX_WORK: usize = 1 << 32;

/// Returns what is wrong with a value by a schema; none if it fits or is too large to tell. A schema that is none fits nothing.
pub fn misfit(schema: &Value, value: &Value) -> Option<String> {
    let (of_schema, of_value) = (schema.to_string().len(), value.to_string().len());
    if of_schema.max(of_value) > MAX_SIZE || of_schema.saturating_mul(of_value) > MAX_WORK {
        return None;
    }
    let wrong = |problem: String| Some(format!("its schema cannot be used: {problem}"));
    if let Some(problem) = unfolds_too_far(schema) {
        return wrong(problem);
    }
    let options = jsonschema::options().with_pattern_options(PatternOptions::regex());
    let validator = match options.build(schema) {
        Ok(validator) => validator,
        Err(error) => return wrong(error.to_string()),
    };
    let problem = validator.iter_errors(value).next()?;
    let place = problem.instance_path().to_string();
    Some(match place.as_str() {
        "" => problem.to_string(),
        place => format!("at {place}: {problem}"),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_value_fits_or_does_not() {
        let schema = json!({
            "type": "object", "properties": {"n": {"type": "integer"}, "t": {"pattern": "^(a+)+$"}}, "required": ["n"],
        });
        assert_eq!(misfit(&schema, &json!({"n": 1})), None);
        let problem = misfit(&schema, &json!({"n": "x"})).unwrap();
        assert!(problem.contains("/n") && problem.contains("integer"), "{problem}");
        assert!(misfit(&schema, &json!({})).unwrap().contains("required"));
        // In linear time.
        let long = format!("{}b", "a".repeat(5000));
        assert!(misfit(&schema, &json!({"n": 1, "t": long})).is_some());
        let elsewhere = json!({"$ref": "http://127.0.0.1:9/schema.json"});
        assert!(misfit(&elsewhere, &json!({})).unwrap().contains("cannot be used"));
        assert!(
            misfit(&json!({"type": "int"}), &json!(1))
                .unwrap()
                .contains("cannot be used")
        );
        assert_eq!(misfit(&schema, &json!({"n": "x", "t": "a".repeat(MAX_SIZE)})), None);
        // Each is small enough, and both together are not.
        let many = json!({"type": "integer", "description": "d".repeat(1 << 17)});
        assert!(misfit(&many, &json!("x")).is_some());
        assert_eq!(misfit(&many, &json!("x".repeat(1 << 17))), None);
    }
}
