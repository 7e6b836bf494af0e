//go:build controller

package controller

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// standIns are this test program under other names, in the operator's PATH before the real
// ones: front always, user if deploy-test.sh is run.
var standIns = map[string]func(folder string, argv []string) error{"front/go": noSource, "front/make": noBuild, "user/juju": noCharmhub}

func TestMain(m *testing.M) {
	self, err := os.Executable()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	at := filepath.Dir(filepath.Dir(self))
	name, err := filepath.Rel(at, self)
	if f, ok := standIns[name]; ok && err == nil {
		if err := f(at, os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, "stand-in:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// noSource informs `juju bootstrap --build-agent`, which alone asks no streams, that the
// folder is Juju's source.
func noSource(folder string, argv []string) error {
	if !slices.Contains(argv, "github.com/juju/juju") {
		return fmt.Errorf("no go %s", strings.Join(argv, " "))
	}
	fmt.Printf("{\"Root\": %q}\n", folder)
	return nil
}

// noBuild hands over the agent that is built already.
func noBuild(folder string, _ []string) error {
	for _, name := range []string{"jujuagentd", "jujuc"} {
		data, err := os.ReadFile(filepath.Join(folder, "bin", name))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(os.Getenv("GOBIN"), name), data, 0o755); err != nil {
			return err
		}
	}
	return nil
}

// placeStandIns puts them into the folder.
func placeStandIns(t *testing.T, folder string) {
	t.Helper()
	self, err := os.Executable()
	for name := range standIns {
		if err == nil {
			err = os.MkdirAll(filepath.Dir(filepath.Join(folder, name)), 0o755)
		}
		if err == nil {
			err = copyFile(self, filepath.Join(folder, name), 0o755)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

func copyFile(from, to string, mode os.FileMode) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, mode)
}
