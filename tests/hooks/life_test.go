package hooks

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/sandbox"
)

func TestLifeOfAROCmWorker(t *testing.T) {
	t.Parallel()
	begun := time.Now()
	u := processUnit(t, fixture("amd-nvidia"), nil)
	var story strings.Builder
	tell := func(name string, r sandbox.Result) {
		fmt.Fprintf(&story, "== %s\n", name)
		if p := r.Plan(); p != "" {
			fmt.Fprintln(&story, p)
		}
		for _, c := range r.Commands {
			fmt.Fprintln(&story, "ran:", c)
		}
		s := r.Status()
		fmt.Fprintf(&story, "%s: %s\n", s.Status, s.Message)
	}
	tell("install", u.hook("install"))
	u.set(options{"compute-runtime": "rocm", "amd-container-toolkit": "auto"})
	tell("config-changed", u.hook("config-changed"))
	tell("start", u.hook("start"))
	outside := writtenOutside(u, begun)
	flight := u.Model.Relate(7, "flight", "web")
	tell("flight-relation-created", u.flight("created", ""))
	flight.Units = map[string]map[string]string{"web/0": {}}
	tell("flight-relation-joined", u.flight("joined", "web/0"))
	require.Equal(t, flight.Local["worker-public-key"]+"\n", u.read("/var/lib/concourse-worker/keys/worker_key.pub"))
	flight.Units["web/0"] = map[string]string{"tsa-host": "10.0.0.2:2222", "tsa-public-key": tsaKey, "concourse-version": "8.2.5"}
	tell("flight-relation-changed", u.flight("changed", "web/0"))
	for _, name := range []string{"update-status", "upgrade-charm", "leader-elected", "a-hook-of-the-future"} {
		tell(name, u.hook(name))
	}
	require.Equal(t, "8.2.5", u.Model.Version)
	tell("flight-relation-departed", u.flight("departed", "web/0"))
	delete(flight.Units, "web/0")
	tell("flight-relation-broken", u.flight("broken", ""))
	u.Model.Relations = nil
	tell("stop", u.hook("stop"))
	tell("remove", u.hook("remove"))
	for _, path := range []string{"/var/lib/concourse-worker", "/opt/concourse-ci-machine", "/var/lib/concourse-ci-machine", "/etc/cdi/amd.json",
		"/etc/systemd/system/concourse-worker.service", "/etc/systemd/system/concourse-pebble.service"} {
		require.False(t, u.Root.Exists(path), path)
	}
	hosttest.Golden(t, "testdata/life.golden", anonymous(story.String()))
	require.Empty(t, outside, "files of the machine itself were written")
}

// anonymous takes out what differs from run to run.
func anonymous(text string) string {
	text = regexp.MustCompile(`file-[0-9a-f]{12}`).ReplaceAllString(text, "file-SHA256")
	return regexp.MustCompile(`ssh-rsa [A-Za-z0-9+/=]+`).ReplaceAllString(text, "ssh-rsa KEY")
}

// writtenOutside lists the files that the charm wrote below its root and that
// changed outside of it, too.
func writtenOutside(u *unit, since time.Time) (paths []string) {
	for path := range tree(u, "/etc", "/opt", "/run", "/var") {
		st, err := os.Lstat(path)
		if err == nil && !st.IsDir() && st.ModTime().After(since) {
			paths = append(paths, path)
		}
	}
	return paths
}
