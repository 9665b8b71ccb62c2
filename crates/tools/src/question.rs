//! `question`: asks the person who is there, and tells the model what they said.
//!
//! *Invariant:* changes nothing. It asks for no permission: who may not ask is not given the tool.

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use toolgate_model::{self as call, Effect, OutputText, QuestionOption, ToolOutput, json_map};
use toolgate_tool::{About, Offer, Outline, Properties, ToolContext, ToolError, TypedTool};

/// The kinds of client with a person in front of them who expects questions. Of MCP clients, only those that show forms
/// to their user are told of the tool.
const CLIENTS: [&str; 4] = ["app", "cli", "desktop", "mcp"];

/// The most questions in one call.
const MAX_QUESTIONS: usize = 100;
/// The most bytes that the texts of one call may have together: every approver is sent them.
const MAX_BYTES: usize = 256 * 1024;

/// The tool.
#[derive(Clone, Copy, Debug)]
pub struct Question {
    any_client: bool,
}

impl Question {
    /// Makes the tool, for every kind of client or only for those that are known to have a person in front of them.
    pub fn new(any_client: bool) -> Self {
        Self { any_client }
    }
}

/// Its arguments.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct Input {
    /// The questions, in the order in which they should be answered
    pub questions: Vec<Asked>,
}

/// One question.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct Asked {
    /// The whole question
    pub question: String,
    /// A very short label for it (max 30 chars)
    pub header: String,
    /// What may be chosen; the person can always write an answer instead
    pub options: Vec<Choice>,
    /// Whether several options may be chosen
    pub multiple: Option<bool>,
}

/// One choice.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct Choice {
    /// What is chosen, in one to five words
    pub label: String,
    /// What choosing it means
    pub description: String,
}

impl Asked {
    fn bytes(&self) -> usize {
        let choices = self.options.iter();
        let choices = choices.map(|choice| choice.label.len() + choice.description.len() + 1);
        self.question.len() + self.header.len() + choices.sum::<usize>()
    }
}

impl From<Asked> for call::Question {
    fn from(asked: Asked) -> Self {
        Self {
            question: asked.question,
            header: asked.header,
            options: asked
                .options
                .into_iter()
                .map(|choice| QuestionOption {
                    label: choice.label,
                    description: choice.description,
                })
                .collect(),
            multiple: asked.multiple.unwrap_or(false),
            custom: true,
            form: None,
        }
    }
}

fn check_size(questions: &[Asked]) -> Result<(), ToolError> {
    if questions.len() > MAX_QUESTIONS {
        return Err(ToolError::failed(format!(
            "{} questions are too many for one call: ask at most {MAX_QUESTIONS}, and rather one to four.",
            questions.len()
        )));
    }
    let bytes: usize = questions.iter().map(Asked::bytes).sum();
    if bytes > MAX_BYTES {
        return Err(ToolError::failed(format!(
            "The questions have {bytes} bytes of text together, and at most {MAX_BYTES} can be shown to a person. Ask \
             shorter ones."
        )));
    }
    Ok(())
}

fn answered(questions: &[String], answers: &[Vec<String>]) -> ToolOutput {
    let pairs: Vec<String> = questions
        .iter()
        .enumerate()
        .map(|(index, question)| {
            let labels = answers.get(index).filter(|labels| !labels.is_empty());
            let answer = labels.map_or_else(|| "Unanswered".to_owned(), |labels| labels.join(", "));
            format!("\"{question}\"=\"{answer}\"")
        })
        .collect();
    let plural = if questions.len() > 1 { "s" } else { "" };
    ToolOutput {
        title: format!("Asked {} question{plural}", questions.len()),
        output: OutputText::Text(format!(
            "User has answered your questions: {}. You can now continue with the user's answers in mind.",
            pairs.join(", ")
        )),
        metadata: json_map([("answers", json!(answers))]),
        attachments: Vec::new(),
        result: None,
    }
}

#[async_trait]
impl TypedTool for Question {
    type Input = Input;

    const ABOUT: About = About {
        name: "question",
        effects: &[Effect::AsksUser],
        permissions: &[],
        advertised: true,
        properties: Properties::RESUMABLE,
        example: r#"{"questions": [{"question": "Tabs or spaces?", "header": "Indent", "options": [{"label": "Tabs", "description": "One tab per level"}]}]}"#,
    };

    fn description(&self, _offer: &Offer<'_>) -> String {
        include_str!("question.md").trim_end().to_owned()
    }

    fn is_offered(&self, offer: &Offer<'_>) -> bool {
        self.any_client || CLIENTS.contains(&offer.client)
    }

    fn outline(&self, input: &Value) -> Outline {
        Outline::of(&input["questions"][0], &["question"]).titled(&input["questions"][0], "header")
    }

    async fn run(&self, input: Input, ctx: &ToolContext) -> Result<ToolOutput, ToolError> {
        check_size(&input.questions)?;
        let texts: Vec<String> = input.questions.iter().map(|asked| asked.question.clone()).collect();
        let answers = if texts.is_empty() {
            Vec::new()
        } else {
            let questions = input.questions.into_iter().map(call::Question::from).collect();
            ctx.permission.ask_questions(questions).await?
        };
        Ok(answered(&texts, &answers))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use toolgate_fs::Workspace;
    use toolgate_model::Model;
    use toolgate_permission::Refusal;

    use super::*;
    use crate::testing::{Bench, output_text};

    fn asked(question: &str) -> Value {
        json!({"question": question, "header": "h", "options": []})
    }

    #[tokio::test]
    async fn answers_stand_beside_their_questions() {
        async fn check(questions: &[&str], answers: &[&[&str]], title: &str, pairs: &str) {
            let bench = Bench::new();
            let owned = |labels: &&[&str]| labels.iter().map(|&label| label.to_owned()).collect();
            let answers: Vec<Vec<String>> = answers.iter().map(owned).collect();
            bench.answer_questions(Ok(answers.clone()));
            let questions: Vec<Value> = questions.iter().map(|question| asked(question)).collect();
            let output = bench
                .run(&Question::new(false), json!({ "questions": questions }))
                .await
                .unwrap();
            assert_eq!(output.title, title);
            let text = format!(
                "User has answered your questions: {pairs}. You can now continue with the user's answers in mind."
            );
            assert_eq!(output_text(&output), text);
            assert_eq!(output.metadata["answers"], json!(answers));
        }
        check(&["a?"], &[&["x"]], "Asked 1 question", r#""a?"="x""#).await;
        check(
            &["a?", "b?"],
            &[&["x", "y"], &["z"]],
            "Asked 2 questions",
            r#""a?"="x, y", "b?"="z""#,
        )
        .await;
        check(
            &["a?", "b?"],
            &[&[]],
            "Asked 2 questions",
            r#""a?"="Unanswered", "b?"="Unanswered""#,
        )
        .await;
        check(
            &["\"q\"?"],
            &[&["x"], &["too", "many"]],
            "Asked 1 question",
            r#"""q"?"="x""#,
        )
        .await;
    }

    #[tokio::test]
    async fn no_questions_ask_nobody() {
        let bench = Bench::new();
        bench.answer_questions(Err(Refusal::Unattended { asked: String::new() }));
        let output = bench
            .run(&Question::new(false), json!({"questions": []}))
            .await
            .unwrap();
        assert_eq!(output.title, "Asked 0 question");
        assert_eq!(output.metadata["answers"], json!([]));
    }

    #[tokio::test]
    async fn the_person_sees_what_the_model_wrote() {
        let bench = Bench::new();
        let written = json!({"questions": [{
            "question": "q", "header": "h".repeat(50), "multiple": true, "custom": false,
            "options": [{"label": "l", "description": "d"}],
        }]});
        bench.run(&Question::new(false), written).await.unwrap();
        let seen = bench.questions();
        assert_eq!(seen.len(), 1);
        assert_eq!(seen[0].header.len(), 50);
        assert!(seen[0].multiple && seen[0].custom, "`custom` is not the model's to say");
        assert_eq!(seen[0].options[0].label, "l");
    }

    #[tokio::test]
    async fn too_much_is_refused_before_anybody_is_asked() {
        let bench = Bench::new();
        for (questions, problem) in [
            (vec![asked("q"); MAX_QUESTIONS + 1], "101 questions are too many"),
            (vec![asked(&"q".repeat(MAX_BYTES))], "262145 bytes of text"),
        ] {
            let error = bench
                .run(&Question::new(false), json!({ "questions": questions }))
                .await
                .unwrap_err();
            assert!(error.contains(problem), "{error}");
        }
        assert!(bench.questions().is_empty());
    }

    #[test]
    fn some_clients_have_it() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = Workspace::open("w", folder.path(), None).unwrap();
        let check = |client: &str, any_client: bool, expected: bool| {
            let offer = Offer {
                workspace: &workspace,
                agent: "build",
                model: &Model::default(),
                client,
                rights: None,
            };
            assert_eq!(Question::new(any_client).is_offered(&offer), expected, "{client}");
        };
        for client in CLIENTS {
            check(client, false, true);
        }
        check("acp", false, false);
        check("", false, false);
        check("acp", true, true);
    }
}
