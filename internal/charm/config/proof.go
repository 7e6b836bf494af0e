package config

import (
	"fmt"
	"path"
	"strings"
)

// proofPath checks the option gpu-proof: a path that is in the proof's container at the
// same place, which has /opt, /usr and one folder of /srv; see package healthcheck. What
// lies there is looked at when it is to run.
func proofPath(s string) error {
	if s == "" {
		return nil
	}
	if !printable(s) {
		return errLine
	}
	below, folder := strings.Split(s, "/"), ""
	if len(below) > 2 {
		folder = below[2]
	}
	switch {
	case !path.IsAbs(s) || path.Clean(s) != s:
		return fmt.Errorf("%q is not the absolute path of a file, without . and .. and doubled slashes", s)
	case strings.HasPrefix(s, "/opt/") || strings.HasPrefix(s, "/usr/"):
		return nil
	case below[1] != "srv" || len(below) < 4:
		return fmt.Errorf("%q is not in the proof's container; want a file below /opt, /usr or a folder of /srv, such as /srv/tools/gpu-proof", s)
	case folder[0] == '.':
		return fmt.Errorf("%q is in a hidden folder of /srv; take another one", s)
	case strings.HasSuffix(folder, "_rw") || strings.HasSuffix(folder, "_writable"):
		return fmt.Errorf("tasks can write to /srv/%s, and would say what proves a GPU; put the program into a folder whose name ends otherwise", folder)
	}
	return nil
}
