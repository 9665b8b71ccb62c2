//! The switches that OpenCode reads from the environment (`docs/spec/extensions.md` §4.8).

use std::time::Duration;

use super::environment::Environment;

/// What the environment switches on and off. `OPENCODE_EXPERIMENTAL` is already taken into account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// The kind of client where a call names none.
    pub client: String,
    /// The question tool for every kind of client.
    pub question: bool,
    /// The LSP tool.
    pub lsp: bool,
    /// The server `ty` in the place of `pyright`.
    pub lsp_ty: bool,
    /// The plan mode tools.
    pub plan_mode: bool,
    /// The search tools for every model.
    pub exa: bool,
    /// The second search service.
    pub parallel: bool,
    /// Edits without a read before them.
    pub disable_file_time_check: bool,
    /// Skills from `.claude` are left out.
    pub disable_claude_skills: bool,
    /// Skills from `.claude` and `.agents` are left out.
    pub disable_external_skills: bool,
    /// Configuration files of projects are left out.
    pub disable_project_config: bool,
    /// Plugins are left out, wherever they come from.
    pub pure: bool,
    /// How long a command may run that says nothing about it.
    pub bash_timeout: Option<Duration>,
}

impl Flags {
    /// Reads the switches.
    pub fn from_environment(env: &Environment) -> Self {
        let any = |names: &[&str]| names.iter().any(|name| env.is_on(name));
        let disable_external_skills = env.is_on("OPENCODE_DISABLE_EXTERNAL_SKILLS");
        Self {
            client: env.get("OPENCODE_CLIENT").unwrap_or("cli").to_owned(),
            question: env.is_on("OPENCODE_ENABLE_QUESTION_TOOL"),
            lsp: any(&["OPENCODE_EXPERIMENTAL_LSP_TOOL", "OPENCODE_EXPERIMENTAL"]),
            lsp_ty: env.is_on("OPENCODE_EXPERIMENTAL_LSP_TY"),
            plan_mode: any(&["OPENCODE_EXPERIMENTAL_PLAN_MODE", "OPENCODE_EXPERIMENTAL"]),
            exa: any(&[
                "OPENCODE_ENABLE_EXA",
                "OPENCODE_EXPERIMENTAL_EXA",
                "OPENCODE_EXPERIMENTAL",
            ]),
            parallel: any(&["OPENCODE_ENABLE_PARALLEL", "OPENCODE_EXPERIMENTAL_PARALLEL"]),
            disable_file_time_check: env.is_on("OPENCODE_DISABLE_FILETIME_CHECK"),
            disable_claude_skills: disable_external_skills
                || any(&["OPENCODE_DISABLE_CLAUDE_CODE", "OPENCODE_DISABLE_CLAUDE_CODE_SKILLS"]),
            disable_external_skills,
            disable_project_config: env.is_on("OPENCODE_DISABLE_PROJECT_CONFIG"),
            pure: env.is_on("OPENCODE_PURE"),
            bash_timeout: env
                .get("OPENCODE_EXPERIMENTAL_BASH_DEFAULT_TIMEOUT_MS")
                .and_then(|text| text.parse().ok())
                .filter(|&millis: &u64| millis > 0)
                .map(Duration::from_millis),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(vars: &[(&str, &str)]) -> Flags {
        let vars = vars.iter().map(|&(name, value)| (name.to_owned(), value.to_owned()));
        Flags::from_environment(&Environment::new(vars, "/"))
    }

    #[test]
    fn switches() {
        assert_eq!(flags(&[]).client, "cli");
        assert_eq!(flags(&[("OPENCODE_CLIENT", "acp")]).client, "acp");
        for (value, on) in [
            ("1", true),
            ("true", true),
            ("TRUE", true),
            ("yes", false),
            ("0", false),
            ("", false),
        ] {
            assert_eq!(flags(&[("OPENCODE_EXPERIMENTAL_LSP_TOOL", value)]).lsp, on, "{value:?}");
        }
        let all = flags(&[("OPENCODE_EXPERIMENTAL", "1")]);
        assert!(all.lsp && all.plan_mode && all.exa && !all.parallel && !all.pure);
        assert!(flags(&[("OPENCODE_PURE", "true")]).pure);
    }

    #[test]
    fn the_timeout_is_a_positive_integer_or_ignored() {
        for (value, millis) in [
            ("1500", Some(1500)),
            ("0", None),
            ("-5", None),
            ("1.5", None),
            ("10s", None),
            ("99999999999999999999999", None),
        ] {
            let flags = flags(&[("OPENCODE_EXPERIMENTAL_BASH_DEFAULT_TIMEOUT_MS", value)]);
            assert_eq!(flags.bash_timeout, millis.map(Duration::from_millis), "{value}");
        }
    }
}
