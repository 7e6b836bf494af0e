//go:build e2e

package container

import (
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/oci"
)

// whole is a spec with all that the wrapper applies, as NVIDIA's has it.
func (b *bed) whole() {
	require.NoError(b.t, os.WriteFile(b.path("library"), []byte("of the host\n"), 0o644))
	require.NoError(b.t, os.WriteFile(b.path("hook"), []byte("#!/bin/sh\necho \"$1 $HOOK\" >> "+b.path("hooked")+"\n"), 0o755))
	s := spec(b.t)
	edits := maps.Clone(s["containerEdits"].(map[string]any))
	edits["env"] = []string{"SPEC=set", "TASK=replaced"}
	edits["mounts"] = []any{map[string]any{"hostPath": b.path("library"), "containerPath": "/usr/lib/gpu/library", "options": []string{"ro", "nosuid", "nodev", "rbind", "rprivate"}}}
	edits["hooks"] = []any{map[string]any{"hookName": "createRuntime", "path": b.path("hook"), "args": []string{"hook", "called"}, "env": []string{"HOOK=with env"}}}
	edits["additionalGids"] = []int{44}
	s["containerEdits"] = edits
	b.write("amd.json", s)
	b.configure(oci.Config{GPUs: oneGPU, Env: map[string]string{"UNIT": "set", "PATH": "/unit"}})
}

// Concourse makes the environment and the groups of an exec from its own records: what
// create wrote into config.json must be added there again.
func TestEverythingOfASpecReachesInitAndExec(t *testing.T) {
	const script = "echo library: $(busybox cat /usr/lib/gpu/library); echo env: $SPEC $TASK $UNIT $PATH; echo groups: $(busybox id -G); " +
		"if e=$( { : > /usr/lib/gpu/library; } 2>&1); then echo write: done; else echo \"write: ${e##*: }\"; fi\n"
	want := map[string]string{"library": "of the host", "env": "set replaced set /bin", "write": readOnlyFS}
	for version, runc := range runcs(t) {
		for _, s := range settings[:3] {
			t.Run(s.name+", runc "+version, func(t *testing.T) {
				b := s.bed(t, runc, 0o660)
				b.whole()
				b.start()
				for _, uid := range []int{0, 1000} {
					p := process(uid, script)
					p["env"] = []string{"PATH=/bin", "TASK=task"}
					b.write("process", p)
					got := found(b.output(nil, "exec", "--process", b.path("process"), "--detach", b.id))
					require.Equal(t, len(s.maps) != 1, strings.Contains(got["groups"]+" ", " 44 "), "44 has no number in a mapping of 100000 on: %s", got)
					delete(got, "groups")
					require.Equal(t, want, got)
				}
				hooked, err := os.ReadFile(b.path("hooked"))
				require.NoError(t, err)
				require.Equal(t, "called with env\n", string(hooked))
			})
		}
	}
}
