//go:build e2e

package concourse

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// The commands of systemd are this program under their names; they ask the
// machine's process 1.
var systemdTools = []string{"systemctl", "journalctl"}

type request struct{ Argv []string }

type answer struct {
	Stdout, Stderr string
	Code           int
}

// socketOf is where process 1 of a World's machine listens.
func socketOf(dir string) string { return filepath.Join(dir, "systemd.sock") }

// runTool is the command, when this program was started as one.
func runTool() (code int, done bool) {
	name := filepath.Base(os.Args[0])
	if !slices.Contains(systemdTools, name) {
		return 0, false
	}
	// The World tells its commands by this where it is.
	a, err := ask(socketOf(filepath.Dir(os.Getenv("SANDBOX_MACHINE"))), append([]string{name}, os.Args[1:]...))
	if err != nil {
		a = answer{Stderr: err.Error() + "\n", Code: 1}
	}
	fmt.Fprint(os.Stdout, a.Stdout)
	fmt.Fprint(os.Stderr, a.Stderr)
	return a.Code, true
}

func ask(socket string, argv []string) (a answer, err error) {
	conn, err := net.DialTimeout("unix", socket, 10*time.Second)
	if err != nil {
		return a, fmt.Errorf("cannot ask the machine: %w", err)
	}
	defer conn.Close()
	if err = json.NewEncoder(conn).Encode(request{argv}); err == nil {
		err = json.NewDecoder(conn).Decode(&a)
	}
	return a, err
}
