//! `skill`: hands the model what a skill says (`docs/spec/skills-and-lsp.md` §A).
//!
//! *Invariant:* names no skill that the agent may not load: not in the description, not in an error.

use std::sync::Arc;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use toolgate_fs::path::file_url;
use toolgate_model::{Ask, Claims, Definition, Effect, OutputText, Source, ToolOutput, json_map};
use toolgate_tool::{Offer, Outline, Properties, Tool, ToolContext, ToolError, blocking, invalid_arguments, schema_of};

use crate::skills::remote::Arrival;
use crate::skills::{Catalog, Skill};

const NAME: &str = "skill";
const NONE: &str = "Load a skill to get detailed instructions for a specific task. No skills are currently available.";

/// Files of a skill's folder that the model is told of.
const MAX_LISTED_FILES: usize = 10;

/// Names that the description of the argument gives as examples.
const MAX_EXAMPLES: usize = 3;

/// Bytes of the list of skills in the tool's description.
const MOST_LISTED: usize = 100 * 1024;

/// The tool, for one workspace.
pub struct LoadSkill {
    catalog: Arc<Catalog>,
    arrival: Arrival,
}

/// Its arguments.
#[derive(Debug, Deserialize, JsonSchema)]
struct Input {
    /// The name of the skill
    name: String,
}

impl LoadSkill {
    /// Makes the tool for the skills of a workspace, some of which are still to arrive.
    pub fn new(catalog: Arc<Catalog>, arrival: Arrival) -> Self {
        Self { catalog, arrival }
    }

    async fn found(&self) -> Result<Arc<[Skill]>, ToolError> {
        self.arrival.wait().await;
        let catalog = self.catalog.clone();
        blocking(move || catalog.refresh()).await
    }
}

#[async_trait]
impl Tool for LoadSkill {
    fn name(&self) -> &str {
        NAME
    }

    fn input_schema(&self) -> Value {
        schema_of::<Input>()
    }

    fn definition(&self, offer: &Offer<'_>) -> Definition {
        let skills = self.catalog.current();
        let listed: Vec<(&Skill, &str)> = skills
            .iter()
            .filter(|skill| !offer.denies(NAME, &skill.name))
            .filter_map(|skill| Some((skill, skill.description.as_deref()?)))
            .collect();
        let mut schema = self.input_schema();
        if let Some(Value::String(text)) = schema.pointer_mut("/properties/name/description") {
            text.push_str(&examples(&listed));
        }
        Definition {
            name: NAME.to_owned(),
            title: String::new(),
            description: description(&listed),
            input_schema: schema,
            source: Source::Builtin,
            effects: vec![Effect::Reads],
            permissions: vec![NAME.to_owned()],
            experimental: false,
            advertised: true,
            claims: Claims::default(),
        }
    }

    async fn refresh(&self) {
        // It fails only when the service ends.
        let _ = self.found().await;
    }

    fn example(&self) -> &str {
        r#"{"name": "release-notes"}"#
    }

    fn properties(&self) -> Properties {
        Properties::RESUMABLE
    }

    fn outline(&self, input: &Value) -> Outline {
        Outline::of(input, &["name"])
    }

    async fn call(&self, input: Value, ctx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let Input { name } = serde_json::from_value(input)
            .map_err(|error| ToolError::Failed(invalid_arguments(NAME, &error.to_string())))?;
        let skills = self.found().await?;
        let Some(skill) = skills.iter().find(|skill| skill.name == name).cloned() else {
            return Err(ToolError::Failed(not_found(&name, &skills, ctx)));
        };
        ctx.permission
            .ask(Ask {
                always: vec![name.clone()],
                title: format!("Load the skill {name}"),
                ..Ask::new(NAME, vec![name])
            })
            .await?;
        let cancelled = ctx.cancelled.clone();
        blocking(move || load(&skill, &cancelled)).await?
    }
}

fn not_found(name: &str, skills: &[Skill], ctx: &ToolContext) -> String {
    let names = skills.iter().map(|skill| skill.name.as_str());
    let names: Vec<&str> = names.filter(|name| !ctx.permission.denies(NAME, name)).collect();
    let names = if names.is_empty() {
        "none".to_owned()
    } else {
        names.join(", ")
    };
    format!("Skill \"{name}\" not found. Available skills: {names}")
}

fn load(skill: &Skill, cancelled: &CancellationToken) -> Result<ToolOutput, ToolError> {
    let Skill { name, .. } = skill;
    let body = skill
        .body()
        .map_err(|error| ToolError::failed(format!("The skill \"{name}\" could not be loaded: {error}.")))?;
    let folder = skill.folder().to_string_lossy();
    let files = skill.sample(MAX_LISTED_FILES, cancelled);
    let files: Vec<String> = files
        .iter()
        .map(|file| format!("<file>{}</file>", file.display()))
        .collect();
    let files = files.join("\n");
    let text = format!(
        "<skill_content name=\"{name}\">\n\
         # Skill: {name}\n\
         \n\
         {body}\n\
         \n\
         Base directory for this skill: {folder}\n\
         Relative paths in this skill (e.g., scripts/, reference/) are relative to this base directory.\n\
         Note: file list is sampled.\n\
         \n\
         <skill_files>\n\
         {files}\n\
         </skill_files>\n\
         </skill_content>"
    );
    Ok(ToolOutput {
        title: format!("Loaded skill: {name}"),
        output: OutputText::Text(text),
        metadata: json_map([("name", json!(name)), ("dir", json!(folder))]),
        attachments: Vec::new(),
        result: None,
    })
}

fn description(skills: &[(&Skill, &str)]) -> String {
    if skills.is_empty() {
        return NONE.to_owned();
    }
    let mut text = format!("{}\n\n<available_skills>\n", include_str!("skill.md").trim_end());
    let end = text.len() + MOST_LISTED;
    for (index, (skill, description)) in skills.iter().enumerate() {
        let entry = format!(
            "  <skill>\n    <name>{}</name>\n    <description>{description}</description>\n    <location>{}</location>\n  </skill>\n",
            skill.name,
            file_url(&skill.location)
        );
        if text.len() + entry.len() > end {
            text.push_str(&format!(
                "  ({} more are too many to be listed)\n",
                skills.len() - index
            ));
            break;
        }
        text.push_str(&entry);
    }
    text.push_str("</available_skills>");
    text
}

/// Returns what the description of the argument ends in.
fn examples(skills: &[(&Skill, &str)]) -> String {
    let names: Vec<String> = skills
        .iter()
        .take(MAX_EXAMPLES)
        .map(|(skill, _)| format!("'{}'", skill.name))
        .collect();
    if names.is_empty() {
        return String::new();
    }
    format!(" (e.g., {}, ...)", names.join(", "))
}

#[cfg(test)]
mod tests {
    use toolgate_fs::Workspace;
    use toolgate_model::Model;
    use toolgate_model::skills::SkillFolder;
    use toolgate_permission::Refusal;
    use toolgate_permission::Rights;
    use toolgate_permission::rules;

    use super::*;
    use crate::skills::remote::FirstFetch;
    use crate::testing::{Bench, output_text};

    fn tool(bench: &Bench) -> LoadSkill {
        let root = SkillFolder {
            path: bench.at("skills"),
            enters_hidden: false,
            own_only: false,
            within: None,
        };
        let nothing = FirstFetch::new(Vec::new()).arrival();
        LoadSkill::new(Arc::new(Catalog::new(vec![root])), nothing)
    }

    fn write(bench: &Bench, name: &str, front: &str) {
        let text = format!("---\nname: {name}\n{front}\n---\n\nSay $ARGUMENTS.\n\n");
        bench.write(&format!("skills/{name}/SKILL.md"), text);
    }

    #[tokio::test]
    async fn loads_what_the_file_says_now() {
        let bench = Bench::new();
        let tool = tool(&bench);
        write(&bench, "one", "description: d");
        bench.write("skills/one/sub/ref.md", "x");
        let expected = bench.fill(
            "<skill_content name=\"one\">\n# Skill: one\n\nSay $ARGUMENTS.\n\nBase directory for this skill: \
             $w/skills/one\nRelative paths in this skill (e.g., scripts/, reference/) are relative to this base \
             directory.\nNote: file list is sampled.\n\n<skill_files>\n<file>$w/skills/one/sub/ref.md</file>\n\
             </skill_files>\n</skill_content>",
        );
        let output = bench.run(&tool, json!({"name": "one"})).await.unwrap();
        assert_eq!(output_text(&output), expected);
        assert_eq!(output.title, "Loaded skill: one");
        assert_eq!(output.metadata["dir"], json!(bench.fill("$w/skills/one")));
        assert_eq!(bench.last_ask().always, ["one"]);
        std::fs::remove_file(bench.at("skills/one/sub/ref.md")).unwrap();
        let output = bench.run(&tool, json!({"name": "one"})).await.unwrap();
        assert!(output_text(&output).contains("<skill_files>\n\n</skill_files>"));
    }

    #[tokio::test]
    async fn what_is_refused_is_not_read() {
        let bench = Bench::new();
        let tool = tool(&bench);
        write(&bench, "one", "");
        bench.answer(Err(Refusal::Rejected));
        let gone = bench.at("skills/one/SKILL.md");
        bench.on_ask(move |_| std::fs::remove_file(&gone).unwrap());
        let error = bench.run(&tool, json!({"name": "one"})).await.unwrap_err();
        assert_eq!(error, Refusal::Rejected.to_string());
        let error = bench.run(&tool, json!({"name": "one"})).await.unwrap_err();
        assert_eq!(error, "Skill \"one\" not found. Available skills: none");
        assert_eq!(bench.asked().len(), 1);
    }

    #[tokio::test]
    async fn lists_what_the_agent_may_load() {
        let bench = Bench::new();
        let tool = tool(&bench);
        let workspace = Workspace::open("w", &bench.at(""), None).unwrap();
        let deny = rules::rule("skill", "secret*", toolgate_model::Action::Deny);
        let rights = Rights {
            rules: [rules::rule("*", "*", toolgate_model::Action::Allow), deny].into(),
            ancestors: Vec::new(),
            worktree: bench.at("").into(),
            requesters: [].into(),
        };
        let offer = Offer {
            workspace: &workspace,
            agent: "build",
            model: &Model::default(),
            client: "cli",
            rights: Some(&rights),
        };
        let definition = async || {
            tool.refresh().await;
            let definition = tool.definition(&offer);
            let argument = definition.input_schema["properties"]["name"]["description"].clone();
            (definition.description, argument)
        };
        assert_eq!(definition().await, (NONE.to_owned(), json!("The name of the skill")));
        write(&bench, "b", "description: second & <b>");
        write(&bench, "a b", "description: first");
        write(&bench, "mute", "");
        write(&bench, "secret-x", "description: hidden");
        let (text, argument) = definition().await;
        assert_eq!(argument, json!("The name of the skill (e.g., 'a b', 'b', ...)"));
        let list = &text[text.find("<available_skills>").unwrap()..];
        let expected = bench.fill(
            "<available_skills>\n  <skill>\n    <name>a b</name>\n    <description>first</description>\n    \
             <location>file://$w/skills/a%20b/SKILL.md</location>\n  </skill>\n  <skill>\n    <name>b</name>\n    \
             <description>second & <b></description>\n    <location>file://$w/skills/b/SKILL.md</location>\n  \
             </skill>\n</available_skills>",
        );
        assert_eq!(list, expected);
        write(&bench, "long", &format!("description: {}", "x".repeat(MOST_LISTED)));
        assert!(
            definition()
                .await
                .0
                .contains("(1 more are too many to be listed)\n</available_skills>")
        );
    }
}
