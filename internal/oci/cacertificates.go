package oci

import (
	"golang.org/x/sys/unix"

	"concourse-ci-machine/internal/oci/edits"
)

// caPath is where a task has the file of Config.CACertificates: not below /run, where
// tasks that start engines mount a file system of their own.
const caPath = "/opt/concourse-ci-machine/ca-certificates.crt"

// caVariables name a file of certificates to trust: OpenSSL and Go, Python's requests,
// curl, Node.js, git, pip.
var caVariables = []string{"SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "GIT_SSL_CAINFO", "PIP_CERT"}

// addCertificates adds the file and names it where neither the task nor its image names
// another: no task fails for want of it.
func addCertificates(e *edits.Edits, f facts, file string) {
	var st unix.Stat_t
	if err := unix.Stat(file, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return
	}
	if source, taken := f.mountAt(caPath); taken && source != file {
		return
	}
	e.Mounts = append(e.Mounts, edits.Mount{Destination: caPath, Type: "bind", Source: file, Options: []string{"bind", "ro", "nosuid", "nodev", "noexec"}})
	for _, name := range caVariables {
		e.Process.Env.Defaults = append(e.Process.Env.Defaults, name+"="+caPath)
	}
}
