package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// becomeProgram replaces this process with another program. Tests replace the variable.
var becomeProgram = syscall.Exec

// becomeBaseline replaces dispatch with the charm's program gpu-baseline, which is not
// linked into dispatch. It returns only if the program cannot be started.
func (p *caller) becomeBaseline(args []string) error {
	file := filepath.Join(p.charm.CharmDir, "bin", "gpu-baseline")
	err := becomeProgram(file, append([]string{file}, args...), os.Environ())
	return fmt.Errorf("cannot start %s: %w", file, err)
}
