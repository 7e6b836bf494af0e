package concourse

import (
	"maps"
	"slices"
	"strings"

	"concourse-ci-machine/internal/resource"
)

// Authorized is the file of the worker keys that may register: exactly these
// (D19), each once, without comments and sorted, so that the same keys give the
// same bytes (D16). What is no OpenSSH line is left out; whoever reads it from a
// databag has said so already. Without a key the file is empty: the web does
// not start without a file. A running web reads it again at SIGHUP, without a
// restart; a worker that is connected stays so until CutOff.
func (p WebPaths) Authorized(keys []string) resource.File {
	lines := map[string]bool{}
	for _, k := range keys {
		if line, err := keyLine(strings.TrimSpace(k)); err == nil {
			lines[line+"\n"] = true
		}
	}
	data := strings.Join(slices.Sorted(maps.Keys(lines)), "")
	return resource.File{Path: p.AuthorizedKeys(), Data: []byte(data), Mode: 0o644, Owner: WebUser}
}
