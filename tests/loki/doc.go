// Package loki holds the alert rules in src/loki_alert_rules to Loki's own parser and
// engine: each fires on the line that it is for, in the streams that an agent of
// Canonical's observability stack makes of a machine's logs, and is silent otherwise. It is
// its own module, as Loki is AGPL-3.0: nothing of it is ever part of the charm.
package loki
