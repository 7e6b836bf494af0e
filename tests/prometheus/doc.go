// Package prometheus holds what the charm gives to Prometheus and Grafana
// against the real thing: promtool checks and tests the alert rules, and a
// Prometheus that scrapes the built exporter on every fixture host loads them
// and answers each query of the dashboard. It needs no root; the tests are built
// with the tag e2e, and `make e2e` runs them.
package prometheus
