//! The service's own configuration: `toolgate.toml`, then `TOOLGATE_*` variables, then flags, the strongest last.
//!
//! A [`RawConfig`] is what flags say; [`Config`] is what is in force, checked, with the source of every value.
//! The variable of the key `limits.max_running_calls` is `TOOLGATE_LIMITS_MAX_RUNNING_CALLS`, and so on; workspaces are
//! given as `TOOLGATE_WORKSPACES=name=/folder,other=/folder`.

use std::path::{Path, PathBuf};

use super::environment::Environment;
use super::error::ConfigError;
use super::read;

mod addresses;
mod bucket;
mod cluster;
mod keys;
mod kinds;
mod layers;
mod parse;
mod provisioner;
mod resolve;
mod roles;
mod sandbox;
mod secrets;
mod telemetry;
mod values;
mod variables;

pub use bucket::BucketKeys;
pub use cluster::worker_name;
pub use keys::*;
pub use kinds::{MAX_COUNT, Shape};
pub use layers::{Key, RawConfig};
pub use resolve::{AuthConfig, Config};
pub use values::*;
pub use variables::unknown as unknown_variables;

use layers::Layer;

impl Config {
    /// Reads the configuration: a file, the variables of `env`, and what the command line says. Blocking.
    ///
    /// The file is `file`, else `$TOOLGATE_CONFIG`, else the first that exists of `toolgate/toolgate.toml` in the
    /// user's and in the machine's folder for settings. The current folder is not looked at: a project must not configure
    /// the service.
    ///
    /// # Errors
    /// A named file is missing, or something in a file, a variable or a flag means nothing.
    pub fn load(file: Option<&Path>, flags: RawConfig, env: &Environment) -> Result<Self, ConfigError> {
        let file = find_file(file, env)?;
        let mut layers = Vec::new();
        if let Some((path, text)) = &file {
            layers.push(Layer::file(path.clone(), text)?);
        }
        layers.extend([Layer::Variables(env), Layer::Flags(&flags)]);
        layers.iter().try_for_each(|layer| layer.check(KEYS))?;
        resolve::config(&layers, env)
    }
}

impl RawConfig {
    /// Checks that a text is a configuration file: that its keys are known and their values have the right form.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check_file(text: &str) -> Result<(), ConfigError> {
        Layer::file(PathBuf::from("toolgate.toml"), text)?.check(KEYS)
    }
}

fn find_file(named: Option<&Path>, env: &Environment) -> Result<Option<(PathBuf, String)>, ConfigError> {
    let named = named.map(|path| env.cwd().join(path));
    let named = named.or_else(|| env.get("TOOLGATE_CONFIG").map(|path| env.resolve(path, env.cwd())));
    if let Some(path) = named {
        return match read::text(&path)? {
            Some(text) => Ok(Some((path, text))),
            None => Err(ConfigError::Missing { path }),
        };
    }
    for folder in env.config_home().into_iter().chain([env.system_dir().to_path_buf()]) {
        let path = folder.join("toolgate/toolgate.toml");
        if let Some(text) = read::text(&path)? {
            return Ok(Some((path, text)));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests;
