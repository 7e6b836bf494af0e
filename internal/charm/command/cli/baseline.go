package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// becomeProgram replaces this process with another program. Tests replace the variable.
var execProgram = syscall.Exec

// becomeBaseline replaces dispatch with the charm's program gpu-baseline, which is not
// linked into dispatch. It returns only if the program cannot be started.
func (p *caller) execBaseline(args []string) int {
	file := filepath.Join(p.charm.CharmDir, "bin", "gpu-baseline")
	err := execProgram(file, append([]string{file}, args...), os.Environ())
	fmt.Fprintf(p.stderr, "dispatch: cannot start %s: %v\n", file, err)
	return 1
}
