"""The report's style sheet. No fonts, images or scripts: what it needs is in the file, and nothing is fetched."""

from __future__ import annotations

import base64
import hashlib

CSS = """
:root { --bg: #fff; --fg: #1b1f24; --dim: #5d6670; --line: #d9dee3; --panel: #f6f8fa; --accent: #0b62c4; --good: #2b8a57;
  --bad: #c9ced4; --warn: #b3541e; --q1: #e3eefb; --q2: #c3dbf6; --q3: #93bfee; --q4: #5b9be0; }
@media (prefers-color-scheme: dark) { :root { --bg: #14181d; --fg: #e3e7eb; --dim: #98a2ad; --line: #343b44; --panel: #1c2229;
  --accent: #6cb0ff; --good: #45b07a; --bad: #4a535e; --warn: #eb9a5f;
  --q1: #1d2c3f; --q2: #22405f; --q3: #275785; --q4: #2f70b0; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1080px; padding: 28px 24px 80px; background: var(--bg); color: var(--fg);
  font: 15px/1.5 system-ui, "Segoe UI", Roboto, sans-serif; }
h1 { font-size: 24px; margin: 0 0 4px; } h2 { font-size: 19px; margin: 42px 0 8px; border-bottom: 1px solid var(--line); }
h3 { font-size: 15px; margin: 22px 0 6px; } h4 { font-size: 13px; margin: 0 0 6px; color: var(--dim); font-weight: 600; }
h1, h2, h3, td, th, summary { overflow-wrap: anywhere; }
nav { margin: 10px 0 0; } nav a { margin-right: 14px; } a { color: var(--accent); text-decoration: none; }
a:hover { text-decoration: underline; } p { margin: 6px 0; } .note { color: var(--dim); font-size: 13px; }
code, pre { font: 13px/1.45 ui-monospace, Menlo, Consolas, monospace; }
pre { margin: 0; white-space: pre-wrap; overflow-wrap: anywhere; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; margin: 8px 0; font-size: 14px; }
th, td { padding: 4px 12px 4px 0; text-align: right; vertical-align: top; border-bottom: 1px solid var(--line); }
th { font-weight: 600; color: var(--dim); } th:first-child, td:first-child, td.left, th.left { text-align: left; }
td small { display: block; color: var(--dim); white-space: nowrap; } td:first-child { min-width: 130px; }
.matrix td { padding: 4px 12px; } .matrix td.q1 { background: var(--q1); } .matrix td.q2 { background: var(--q2); }
.matrix td.q3 { background: var(--q3); } .matrix td.q4 { background: var(--q4); } .matrix td.never { color: var(--dim); }
.chip { display: inline-block; padding: 0 8px; border-radius: 9px; font-size: 12px; border: 1px solid var(--line); }
.chip.good { background: var(--good); border-color: var(--good); color: #fff; } .chip.bad { background: var(--bad); }
.chip.cause { color: var(--warn); border-color: var(--warn); }
.grid-2 { display: flex; flex-wrap: wrap; gap: 8px 32px; } figure { margin: 4px 0; } figcaption { font-size: 13px; }
svg { max-width: 100%; height: auto; } svg text { fill: var(--fg); font-size: 13px; } svg text.tick, svg text.edge-label {
  fill: var(--dim); font-size: 11px; } svg text.number { font-variant-numeric: tabular-nums; }
svg text.edge-label { paint-order: stroke; stroke: var(--bg); stroke-width: 3px; }
.grid { stroke: var(--line); } .axis { stroke: var(--dim); } .interval { stroke: var(--accent); stroke-width: 2; }
.point { fill: var(--accent); } rect.good { fill: var(--good); } rect.bad { fill: var(--bad); }
.edge { fill: none; stroke: var(--q4); } .arrow { fill: var(--q4); } .node { fill: var(--panel); stroke: var(--line); }
.cause-kept { fill: var(--good); } .cause-parse_retry { fill: #8d3b72; } .cause-unknown_tool { fill: #c2554d; }
.cause-invalid_arguments { fill: #e08a3c; } .cause-gate { fill: #d9b438; } .cause-tool_error { fill: #9e2a2b; }
.cause-repeated_call { fill: #5a6fc0; } .cause-verification { fill: #3a9bb5; } .cause-narration { fill: #9a7fd1; }
.cause-no_reply { fill: #7a5c45; } .cause-other { fill: #a9b1ba; } .key { vertical-align: -1px; margin-right: 6px; }
.finding, details { border: 1px solid var(--line); border-radius: 6px; padding: 8px 12px; margin: 8px 0; }
.finding h3 { margin-top: 0; } summary { cursor: pointer; } details[open] > summary { margin-bottom: 8px; }
.turn { border-top: 1px solid var(--line); padding: 8px 0; } .turn:target, .run:target { outline: 2px solid var(--accent); }
.said { display: grid; grid-template-columns: 92px 1fr; gap: 10px; margin: 3px 0; }
.said b { font-size: 12px; color: var(--dim);
  text-align: right; overflow-wrap: anywhere; } .said pre { background: var(--panel); padding: 4px 8px; border-radius: 4px; }
.said.thoughts pre { color: var(--dim); font-style: italic; background: none; } .said.call pre { color: var(--accent); }
.said.failed pre { border-left: 3px solid var(--warn); } .diff .add { color: var(--good); } .diff .del { color: var(--warn); }
@media print { details:not([open]) { display: none; } body { max-width: none; } }
"""

CONTENT_POLICY = (
    "default-src 'none'; style-src 'sha256-" + base64.b64encode(hashlib.sha256(CSS.encode()).digest()).decode() + "'; "
    "base-uri 'none'; form-action 'none'"
)
"""Nothing may be loaded or run, whatever a transcript says; only this style sheet applies."""
