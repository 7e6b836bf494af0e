package cli

import (
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// foreign finds words that only a user of the charm can follow.
var foreign = regexp.MustCompile(`(?i)\b(this|the|your) unit\b|gpu-(sharing|device-ids|fixed-clocks)\b|` +
	`\bactions?\b|\bdispatch\b|\bjuju (run|config|ssh|status)\b|list-gpus`)

func TestGPUKitSpeaksOfTheMachine(t *testing.T) {
	lines := []string{"cdi list", "cdi generate", "cdi refresh", "cdi validate", "cdi generate --device 9", "gpu list",
		"gpu status", "gpu status --json", "gpu verify", "gpu health", "gpu evidence", "gpu detect", "gpu top --once", "gpu quarantine 0 fan",
		"gpu return 9", "gpu release 0", "gpu release x --force", "gpu check 0", "why", "why run-1", "errors", "explain 9",
		"runtime configure podman", "runtime configure podman --exclusive", "runtime configure containerd --set-as-default",
		"runtime configure docker", "runtime configure crio --remove", "kubernetes labels", "kubernetes manifest", "rocm matrix",
		"runners list", "runners install github", "run -- true", "run --gpus 99 -- true", "run --gpus x -- true", "lease --gpus 1",
		"gpu", "nonsense", "gpu lsit"}
	eachCommand(Root(wellknown.GPUKit), func(c *cobra.Command) {
		lines = append(lines, strings.TrimSpace(strings.TrimPrefix(c.CommandPath(), wellknown.GPUKit))+" --help")
	})
	for _, name := range hosttest.HostNames() {
		root := hosttest.Host(t, name)
		for _, line := range lines {
			_, out, errs := gpukit(t, root, nil, line)
			text := strings.NewReplacer("GitHub Actions", "", "actions-runner", "").Replace(out + errs)
			for l := range strings.Lines(text) {
				if foreign.MatchString(l) {
					t.Errorf("%s: gpukit %s: %s", name, line, l)
				}
			}
		}
		for _, file := range []string{"/etc/cdi/amd.json", "/etc/concourse-ci-machine/wrapper.json", "/etc/docker/daemon.json",
			"/etc/containerd/config.toml", "/etc/containers/containers.conf.d/50-amd-gpu.conf"} {
			if root.Exists(file) {
				text, err := root.ReadText(file)
				require.NoError(t, err)
				require.NotRegexp(t, foreign, text, "%s: %s", name, file)
			}
		}
	}
}
