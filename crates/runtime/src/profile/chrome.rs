//! Profiles in the trace event format of Chrome ("Trace Event Format", complete events), which Perfetto reads too.

use std::fmt::Write;
use std::time::Duration;

use super::{Profile, Span, SpanKind};

impl Profile {
    /// The profile as JSON for `ui.perfetto.dev` or `chrome://tracing`: one complete event (`"ph": "X"`) for each span,
    /// `ts` and `dur` in microseconds, and for kernels bytes, operations, GFLOP/s and GB/s as `args`.
    pub fn to_chrome_trace(&self) -> String {
        let mut text = String::from("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n");
        text.push_str(
            "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":1,\"tid\":0,\"args\":{\"name\":\"lanthorn\"}}",
        );
        for span in self.spans() {
            text.push_str(",\n");
            write_event(&mut text, &span);
        }
        let _ = write!(text, "\n],\"otherData\":{{\"left_out\":\"{}\"}}}}", self.left_out());
        text.push('\n');
        text
    }
}

impl SpanKind {
    /// The category of its events.
    pub const fn name(self) -> &'static str {
        match self {
            SpanKind::Compile => "compile",
            SpanKind::Pass => "pass",
            SpanKind::Run => "run",
            SpanKind::Kernel => "kernel",
        }
    }
}

fn write_event(text: &mut String, span: &Span<'_>) {
    text.push_str("{\"name\":\"");
    write_escaped(text, span.name);
    let _ = write!(
        text,
        "\",\"cat\":\"{}\",\"ph\":\"X\",\"ts\":{},\"dur\":{},\"pid\":1,\"tid\":{}",
        span.kind.name(),
        Micros(span.start),
        Micros(span.duration),
        span.thread
    );
    if let Some(cost) = span.cost {
        let _ = write!(
            text,
            ",\"args\":{{\"bytes_read\":{},\"bytes_written\":{},\"flops\":{},\"GFLOP/s\":{:.3},\"GB/s\":{:.3}}}",
            cost.bytes_read,
            cost.bytes_written,
            cost.flops,
            per_nanosecond(cost.flops, span.duration),
            per_nanosecond(cost.bytes(), span.duration)
        );
    }
    text.push('}');
}

/// Microseconds with all nanoseconds.
struct Micros(Duration);

impl std::fmt::Display for Micros {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let nanos = self.0.as_nanos();
        write!(f, "{}.{:03}", nanos / 1000, nanos % 1000)
    }
}

/// So many in a nanosecond, which is as many giga in a second; 0 in no time.
pub(super) fn per_nanosecond(count: u64, duration: Duration) -> f64 {
    match duration.as_nanos() {
        0 => 0.0,
        nanos => count as f64 / nanos as f64,
    }
}

fn write_escaped(text: &mut String, name: &str) {
    for c in name.chars() {
        match c {
            '"' | '\\' => text.extend(['\\', c]),
            c if c < ' ' => _ = write!(text, "\\u{:04x}", u32::from(c)),
            c => text.push(c),
        }
    }
}
