// Package page looks at the exporter's page in a real browser: Debian's chromium
// without a window, against the built rocm-exporter on a fixture host. Nothing
// but 127.0.0.1 is asked. It needs no root; the tests are built with the tag
// e2e, and `make e2e` runs them.
package page
