package suite

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	// What is tested is built by go build, which go test knows nothing of: this
	// makes a changed charm a reason to run the suites again.
	"github.com/fourdollars/concourse-ci-machine/internal/charm/amd"
	_ "github.com/fourdollars/concourse-ci-machine/internal/charm/command/cli"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/tools/charmpack"
)

// Pebble is its daemon, as the charm provides it.
const Pebble = "github.com/canonical/pebble/cmd/pebble"

// Build makes programs into a folder, statically linked as `make build` does. They are
// packages as from the top of this repository, "./src/dispatch", or flags of go build.
func Build(into string, packages ...string) error {
	return BuildIn(hosttest.Source(), into, packages...)
}

// BuildIn is Build of packages of the module in dir.
func BuildIn(dir, into string, packages ...string) error {
	c := exec.Command("go", append([]string{"build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", into + string(filepath.Separator)}, packages...)...)
	c.Dir, c.Env = dir, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot build %s: %w\n%s", strings.Join(packages, " "), err, out)
	}
	return nil
}

// Driver builds the DRA driver, a module of its own, into a folder.
func Driver(into string) error {
	return BuildIn(filepath.Join(hosttest.Source(), "src/gpu-dra-driver"), into, "-tags=grpcnotrace", ".")
}

// Charm makes the charm's programs and the sandbox into dir/bin, and the charm, as
// `make charm` unpacks, into dir/charm. More are packages and flags as Build has them.
func Charm(dir string, more ...string) error {
	if err := Build(filepath.Join(dir, "bin"), append(more, "./src/dispatch", "./src/runc-amd-wrapper", "./src/rocm-exporter",
		"./src/concourse-exporter", "./src/gpu-baseline", "./src/gpu-device-plugin", "./tools/sandbox", Pebble)...); err != nil {
		return err
	}
	if err := Driver(filepath.Join(dir, "bin")); err != nil {
		return err
	}
	return Unpack(dir)
}

// Unpack makes dir/charm of the programs in dir/bin.
func Unpack(dir string) error {
	var out strings.Builder
	if charmpack.Run([]string{"tree", "-root", hosttest.Source(), "-bin", filepath.Join(dir, "bin"), "-arch", runtime.GOARCH, "-version", "test",
		"-o", filepath.Join(dir, "charm")}, &out, &out) != 0 {
		return fmt.Errorf("cannot unpack the charm: %s", out.String())
	}
	return nil
}

// LightCharm makes the charm as Charm does, with only dispatch and the sandbox built. The
// other programs are a few bytes, for suites that copy units a hundred times.
func LightCharm(dir string, more ...string) error {
	bin := filepath.Join(dir, "bin")
	if err := Build(bin, append(more, "./src/dispatch", "./tools/sandbox")...); err != nil {
		return err
	}
	for _, name := range hosttest.Programs { // the charm takes programs of this machine alone
		if err := os.Link(filepath.Join(bin, "dispatch"), filepath.Join(bin, name)); err != nil {
			return err
		}
	}
	if err := Unpack(dir); err != nil {
		return err
	}
	for _, name := range hosttest.Programs {
		path := filepath.Join(dir, "charm", "bin", name)
		if err := os.Remove(path); err != nil { // it may be a link to one that stays
			return err
		}
		if err := os.WriteFile(path, []byte("stands in for "+name+"\n"), 0o755); err != nil {
			return err
		}
	}
	return nil
}

// Trusting is the flag of go build with which the charm trusts a key of the test's own
// in place of AMD's; files for it lie in dir (go help build: -overlay).
func Trusting(dir, fingerprint string) (flag string, err error) {
	sources, err := filepath.Glob(filepath.Join(hosttest.Source(), "internal/charm/amd/*.go"))
	if err != nil {
		return "", err
	}
	replace := map[string]string{}
	for i, path := range sources {
		data, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		changed := bytes.ReplaceAll(data, []byte(amd.KeyFingerprint), []byte(fingerprint))
		if bytes.Equal(data, changed) {
			continue
		}
		replace[path] = filepath.Join(dir, fmt.Sprintf("overlay%d.go", i))
		if err := os.WriteFile(replace[path], changed, 0o644); err != nil {
			return "", err
		}
	}
	if len(replace) == 0 {
		return "", errors.New("cannot have a key of the test's own: AMD's fingerprint is not in internal/charm/amd")
	}
	data, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	return "-overlay=" + path, os.WriteFile(path, data, 0o644)
}
