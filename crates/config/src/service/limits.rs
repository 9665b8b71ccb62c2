//! The keys of `limits`: bounds on what everybody and each may use.
//!
//! *Invariant:* what is not in its range is an error that names the key and the range; nothing is made to fit.

use std::path::Path;

use super::layered::Layered;
use super::raw::RawConfig;
use super::values::LimitsConfig;
use crate::error::ConfigError;
use crate::units;

/// More of anything that is counted is a slip of the hand.
const MAX_COUNT: u32 = 1_000_000;

/// The largest message that gRPC clients of all languages can send.
const MAX_MESSAGE_BYTES: u64 = (1 << 31) - 1;

/// The largest message unless a larger input is allowed. It is well above that limit, so that a large input gets an error
/// that says what to do.
pub const DEFAULT_MESSAGE_BYTES: usize = 32 << 20;

type Count = fn(&RawConfig) -> &Option<i64>;

impl Layered<'_> {
    pub(super) fn limits(&mut self) -> Result<LimitsConfig, ConfigError> {
        let max_running_calls = self.count("limits.max_running_calls", |raw| &raw.limits.max_running_calls, 1, 1000)?;
        let max_running_calls_per_workspace = self.count_if("limits.max_running_calls_per_workspace", |raw| {
            &raw.limits.max_running_calls_per_workspace
        })?;
        let max_running_calls_per_session = self.count_if("limits.max_running_calls_per_session", |raw| {
            &raw.limits.max_running_calls_per_session
        })?;
        let max_running_calls_per_principal = self.count_if("limits.max_running_calls_per_principal", |raw| {
            &raw.limits.max_running_calls_per_principal
        })?;
        let max_queued_calls = self.count("limits.max_queued_calls", |raw| &raw.limits.max_queued_calls, 0, 1000)?;
        let (max_requests_per_second, max_request_burst) = self.requests()?;
        let max_streams = self.count("limits.max_streams", |raw| &raw.limits.max_streams, 1, 10_000)?;
        let max_streams_per_principal = self.count_if("limits.max_streams_per_principal", |raw| {
            &raw.limits.max_streams_per_principal
        })?;
        let max_streams_per_connection = self.count(
            "limits.max_streams_per_connection",
            |raw| &raw.limits.max_streams_per_connection,
            1,
            1024,
        )?;
        let max_open_prompts = self.count("limits.max_open_prompts", |raw| &raw.limits.max_open_prompts, 1, 10_000)?;
        let max_open_prompts_per_session = self.count_if("limits.max_open_prompts_per_session", |raw| {
            &raw.limits.max_open_prompts_per_session
        })?;
        let max_input_bytes = self.size("limits.max_input_bytes", |raw| &raw.limits.max_input_bytes, 2 << 20)?;
        let max_queued_bytes = self.queued_bytes(max_input_bytes)?;
        let max_message_bytes = self.message_bytes(max_input_bytes)?;
        let (max_output_bytes, max_total_output_bytes) = self.output_bytes()?;
        Ok(LimitsConfig {
            max_running_calls,
            max_running_calls_per_workspace,
            max_running_calls_per_session,
            max_running_calls_per_principal,
            max_queued_calls,
            max_queued_bytes,
            max_requests_per_second,
            max_request_burst,
            max_streams,
            max_streams_per_principal,
            max_streams_per_connection,
            max_message_bytes,
            max_open_prompts,
            max_open_prompts_per_session,
            max_input_bytes,
            max_output_bytes,
            max_total_output_bytes,
            max_undo_bytes: self.size("limits.max_undo_bytes", |raw| &raw.limits.max_undo_bytes, 64 << 20)?,
            min_free_bytes: self.size("limits.min_free_bytes", |raw| &raw.limits.min_free_bytes, 256 << 20)?,
        })
    }

    /// Takes a number of at least `least`.
    fn count(&mut self, key: &str, get: Count, least: u32, default: u32) -> Result<u32, ConfigError> {
        self.value(key, get, |count, _| in_range(*count, least), || default, u32::to_string)
    }

    /// Takes a number that is no limit if nobody says it.
    fn count_if(&mut self, key: &str, get: Count) -> Result<Option<u32>, ConfigError> {
        let parse = |count: &i64, _: &Path| in_range(*count, 1).map(Some);
        let show = |count: &Option<u32>| count.map_or_else(|| "none".to_owned(), |count| count.to_string());
        self.value(key, get, parse, || None, show)
    }

    /// Takes the rate of requests, and how many may come at once: as many as in a second unless somebody says otherwise.
    fn requests(&mut self) -> Result<(Option<u32>, Option<u32>), ConfigError> {
        let rate = self.count_if("limits.max_requests_per_second", |raw| {
            &raw.limits.max_requests_per_second
        })?;
        let key = "limits.max_request_burst";
        let burst: Count = |raw| &raw.limits.max_request_burst;
        if rate.is_none() && self.said(burst).is_some() {
            let message = "it says nothing without limits.max_requests_per_second".to_owned();
            return Err(self.conflict(key, burst, message));
        }
        let burst = match rate {
            None => self.count_if(key, burst)?,
            Some(rate) => Some(self.count(key, burst, 1, rate)?),
        };
        Ok((rate, burst))
    }

    fn queued_bytes(&mut self, max_input_bytes: u64) -> Result<u64, ConfigError> {
        let key = "limits.max_queued_bytes";
        let bytes = self.size(key, |raw| &raw.limits.max_queued_bytes, max_input_bytes.max(64 << 20))?;
        if bytes >= max_input_bytes {
            return Ok(bytes);
        }
        let message = format!(
            "expected at least limits.max_input_bytes, {}, found {}",
            units::show_size(max_input_bytes),
            units::show_size(bytes)
        );
        Err(self.conflict(key, |raw| &raw.limits.max_queued_bytes, message))
    }

    fn message_bytes(&mut self, max_input_bytes: u64) -> Result<u64, ConfigError> {
        let key = "limits.max_message_bytes";
        let default = (DEFAULT_MESSAGE_BYTES as u64)
            .max(max_input_bytes.saturating_mul(4))
            .min(MAX_MESSAGE_BYTES);
        let bytes = self.size(key, |raw| &raw.limits.max_message_bytes, default)?;
        if (max_input_bytes..=MAX_MESSAGE_BYTES).contains(&bytes) {
            return Ok(bytes);
        }
        let message = format!(
            "expected from limits.max_input_bytes, {}, to {}, found {}",
            units::show_size(max_input_bytes),
            units::show_size(MAX_MESSAGE_BYTES),
            units::show_size(bytes)
        );
        match self.said(|raw| &raw.limits.max_message_bytes) {
            Some(_) => Err(self.conflict(key, |raw| &raw.limits.max_message_bytes, message)),
            // It is the input that no message can carry.
            None => {
                let most = units::show_size(MAX_MESSAGE_BYTES);
                let message = format!("expected at most {most}, found {}", units::show_size(max_input_bytes));
                Err(self.conflict("limits.max_input_bytes", |raw| &raw.limits.max_input_bytes, message))
            }
        }
    }

    /// Takes the bytes of one output and of all.
    fn output_bytes(&mut self) -> Result<(u64, u64), ConfigError> {
        let one = self.size("limits.max_output_bytes", |raw| &raw.limits.max_output_bytes, 1 << 30)?;
        let key = "limits.max_total_output_bytes";
        let all = self.size(key, |raw| &raw.limits.max_total_output_bytes, 16 << 30)?;
        if all >= one {
            return Ok((one, all));
        }
        let message = format!(
            "expected at least limits.max_output_bytes, {}, found {}",
            units::show_size(one),
            units::show_size(all)
        );
        Err(self.conflict(key, |raw| &raw.limits.max_total_output_bytes, message))
    }
}

fn in_range(count: i64, least: u32) -> Result<u32, String> {
    let fits = u32::try_from(count)
        .ok()
        .filter(|count| (least..=MAX_COUNT).contains(count));
    fits.ok_or_else(|| format!("expected a number from {least} to {MAX_COUNT}, found {count}"))
}
