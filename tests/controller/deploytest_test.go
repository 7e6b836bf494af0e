//go:build controller

package controller

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	mirrorEnv       = "STANDIN_MIRROR"
	scriptPatience  = 30 * time.Minute
	deployTestModel = "concourse-test-auto"
)

// deployTest runs scripts/deploy-test.sh as a user would, and all steps must pass.
func (s *site) deployTest(t *testing.T, m *mirror, mode string, steps []string, more ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), scriptPatience)
	defer cancel()
	env := []string{"PATH=" + s.folder + "/user:" + s.folder + "/bin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", mirrorEnv + "=" + m.url,
		"CONCOURSE_VERSION=" + m.old.number, "CONCOURSE_SHA256=" + m.old.sum, "UPGRADE_VERSION=" + m.new.number, "UPGRADE_SHA256=" + m.new.sum,
		"WAIT_SECONDS=" + fmt.Sprint(int(unitPatience.Seconds()))}
	argv := append([]string{s.script("deploy-test.sh"), "--mode=" + mode, "--charm=" + filepath.Join(s.folder, "first", charmName), "--steps=" + strings.Join(steps, ",")}, more...)
	c := s.operator(ctx, env, argv...)
	var said bytes.Buffer
	c.Stdout = io.MultiWriter(os.Stdout, &said)
	c.Stderr = c.Stdout
	if err := c.Run(); err != nil {
		logs, logErr := s.try("exec", "--model", "concourse-test-"+mode, "--all", "--", "journalctl --lines=60 --no-pager --unit=concourse-worker --unit=concourse-server")
		require.NoError(t, err, "%s\n%v\n%s", s.warnings("concourse-test-"+mode), logErr, logs)
	}
	for _, step := range steps {
		require.Regexp(t, `(?m)^`+step+` +passed `, said.String())
	}
}

// noCharmhub is juju for deploy-test.sh: what that takes from Charmhub and from GitHub is
// the tests' own, with the path of each.
func noCharmhub(folder string, argv []string) error {
	juju := filepath.Join(folder, "bin/juju")
	switch {
	case len(argv) > 0 && argv[0] == "run" && slices.Contains(argv, "verify-gpu"):
		return noDRM(juju, argv)
	case len(argv) > 0 && argv[0] == "deploy":
		if i := slices.Index(argv, "postgresql"); i > 0 { // its channel goes, too
			fmt.Fprintln(os.Stderr, "stand-in: postgresql is Debian's, by a charm of the tests")
			argv = slices.Concat(argv[:i], []string{filepath.Join(folder, "postgresql.charm"), "postgresql"}, argv[i+3:])
			break
		}
		fmt.Fprintln(os.Stderr, "stand-in: Concourse comes from a mirror of the tests; of its resource types registry-image is a busybox")
		argv = append(slices.Clone(argv), "--config", "release-mirror="+os.Getenv(mirrorEnv))
	}
	return syscall.Exec(juju, append([]string{"juju"}, argv...), os.Environ())
}

// noDRM runs verify-gpu, which must fail for one reason: the device behind the render node
// is not one of a GPU.
func noDRM(juju string, argv []string) error {
	c := exec.Command(juju, argv...)
	c.Stderr = os.Stderr
	out, err := c.Output()
	if err != nil {
		return err
	}
	if !bytes.Contains(out, []byte("it is not a DRM device")) {
		_, err := os.Stdout.Write(out)
		return err
	}
	fmt.Fprintf(os.Stderr, "stand-in: verify-gpu says what is so of this device, and counts as passed: %s\n", out)
	fmt.Println(`{"stand-in": {"status": "completed", "results": {"stand-in": "verify-gpu counts as passed"}}}`)
	return nil
}
