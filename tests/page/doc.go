// Package page looks at the exporter's page, and at the site of docs/, in a real browser: Debian's chromium
// without a window, driven by its pipe for developer tools, against the built
// rocm-exporter on a fixture host, through HAProxy, and against the page with made-up GPUs. Nothing but
// 127.0.0.1 is asked, and npm for axe-core once. It needs no root; the tests are built
// with the tag e2e, and `make e2e` runs them. PICTURES=FOLDER keeps what they see.
package page
