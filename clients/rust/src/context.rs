//! In whose name something is done.
//!
//! *Invariant:* a client and its requests say it with the same methods.

/// Methods that say in whose name something is done; `$field` is the [`CallContext`](toolgate_contract::CallContext) that they set.
macro_rules! context_setters {
    ($($field:tt).+) => {
        /// Names the workspace; the service's first one by default.
        pub fn workspace(mut self, name: impl Into<String>) -> Self {
            self.$($field).+.workspace = name.into();
            self
        }

        /// Names a folder inside the workspace to work in, relative to its directory.
        pub fn directory(mut self, folder: impl Into<String>) -> Self {
            self.$($field).+.directory = folder.into();
            self
        }

        /// Names the session. Without one, every call gets a session of its own.
        pub fn session(mut self, id: impl Into<String>) -> Self {
            self.$($field).+.session_id = id.into();
            self
        }

        /// Names the agent, whose permissions count; `build` by default.
        pub fn agent(mut self, name: impl Into<String>) -> Self {
            self.$($field).+.agent = name.into();
            self
        }

        /// Names the model, on which the list of tools and their schemas depend.
        pub fn model(mut self, provider: impl Into<String>, id: impl Into<String>) -> Self {
            self.$($field).+.model = Some(toolgate_contract::ModelRef {
                provider_id: provider.into(),
                model_id: id.into(),
                ..Default::default()
            });
            self
        }

        /// Names the message of the model that calls belong to.
        pub fn message(mut self, id: impl Into<String>) -> Self {
            self.$($field).+.message_id = id.into();
            self
        }

        /// Names the kind of client: `cli`, `app`, `desktop` or a name of your own.
        pub fn client_kind(mut self, kind: impl Into<String>) -> Self {
            self.$($field).+.client_kind = kind.into();
            self
        }

        /// Says which program makes the calls, for people: its name and its version, by default those of this library.
        pub fn client_name(mut self, name: impl Into<String>) -> Self {
            self.$($field).+.client_name = name.into();
            self
        }

        /// Names the call on whose behalf this is done, for subagents.
        pub fn parent_call(mut self, id: impl Into<String>) -> Self {
            self.$($field).+.parent_call_id = id.into();
            self
        }

        /// Adds free data to the record of the call.
        pub fn extra(mut self, extra: &serde_json::Map<String, serde_json::Value>) -> Self {
            self.$($field).+.extra = Some(toolgate_contract::json::struct_from_json(extra.clone()));
            self
        }
    };
}
pub(crate) use context_setters;
