package hosttest

import (
	"fmt"
	"os"
	"path/filepath"

	"concourse-ci-machine/internal/base/host"
)

// Useradd answers useradd(8) for a Runner: it adds the user that the command
// names last to the root's /etc/passwd, with the id 999.
func Useradd(r host.Root) Handler {
	return func(c host.Command) (string, error) {
		file := r.Path("/etc/passwd")
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return "", err
		}
		f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			return "", err
		}
		_, err = fmt.Fprintf(f, "%s:!:999:999::/nonexistent:/bin/false\n", c.Argv[len(c.Argv)-1])
		if cerr := f.Close(); err == nil {
			err = cerr
		}
		return "", err
	}
}
