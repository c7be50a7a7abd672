//! Profiles of the engine's device, which all sessions of the process share.

use lanthorn_ir::{Error, Result};
use lanthorn_runtime::Device;

use crate::value::{Env, Value};

/// Starts to record (1), or ends the recording (0) and gives `[table, trace, number of spans left out]`: the kernels that took
/// longest as text, and all spans as Chrome's trace events.
pub fn profile(env: Env, device: &Device, change: f64) -> Result<Value> {
    match change {
        1.0 => {
            device.start_profile()?;
            Ok(env.number(0.0))
        }
        0.0 => {
            let profile = device.stop_profile();
            let left_out = env.number(profile.left_out() as f64);
            env.list(&[env.text(&profile.to_string()), env.text(&profile.to_chrome_trace()), left_out])
        }
        other => Err(Error::unsupported("profile", format!("got {other}, expected 0 or 1"))),
    }
}
