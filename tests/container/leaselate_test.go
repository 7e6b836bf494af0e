//go:build e2e

package container

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fourdollars/concourse-ci-machine/tests/suite"

	"github.com/stretchr/testify/require"
)

// ended makes a container with a task that ran to its end: Concourse keeps it, with nothing
// but its init.
func (u *unit) ended(s setting) *bed {
	u.t.Helper()
	b := u.container(s)
	b.bundle()
	require.NoError(u.t, b.up())
	_, err := u.fifo(b.id).WriteString("\n")
	require.NoError(u.t, err)
	require.NoError(u.t, b.run(task))
	require.Equal(u.t, []string{"+", b.id, "128"}, u.event())
	require.Equal(u.t, []string{"-", b.id}, u.event())
	return b
}

// fly intercept, and a task that Concourse runs in a container it has.
func TestLateExecLeasesAgainOrIsRefused(t *testing.T) {
	for _, s := range settings[:2] {
		t.Run(s.name, func(t *testing.T) {
			u := newUnit(t, 1)
			old := u.ended(s)
			u.isFree()
			holder := u.busy(s)

			var out bytes.Buffer
			require.Error(t, old.runc(&out, "exec", "--process", old.path("process"), "--detach", old.id))
			require.Contains(t, out.String(), "cannot use 1 GPU in container "+old.id+" again: its task has ended, and since then GPU-0 is held by the task of container "+holder.id+" since ")
			require.Equal(t, strings.TrimSpace(out.String()), old.logged())
			out.Reset()
			require.Error(t, old.runc(&out, "exec", old.id, "/bin/busybox", "true"), "without a process file, too")
			require.Contains(t, out.String(), " GPU-0 is held by the task of container "+holder.id+" since ")

			holder.kill9("exec.pid")
			u.isFree()
			require.NoError(t, old.runExec())
			require.Equal(t, []string{"+", old.id, "128"}, u.event(), "its GPU opens as before")
			u.isHeldBy(old)
			require.NoError(t, old.runc(&out, "exec", old.id, "/bin/busybox", "true"), "who holds it, may enter")
			u.isHeldBy(old)
			old.kill9("exec.pid")
			u.isFree()

			u.shared(old) // then no one is refused, whoever has the GPU
			u.busy(s)
			require.NoError(t, old.runc(&out, "exec", old.id, "/bin/busybox", "true"))
		})
	}
}

// shared takes the leases out of a container's config, as gpu-sharing=shared does.
func (u *unit) shared(b *bed) {
	c := b.unit
	c.Leases = nil
	b.configure(c)
}

// logged is the last reason in the file that --log names, which containerd reads.
func (b *bed) logged() string {
	b.t.Helper()
	data, err := os.ReadFile(b.path("bundle/log.json"))
	require.NoError(b.t, err)
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	var line struct{ Level, Msg string }
	require.NoError(b.t, json.Unmarshal([]byte(lines[len(lines)-1]), &line))
	require.Equal(b.t, "error", line.Level)
	return line.Msg
}

// What a task leaves in the background can still use its GPU.
func TestLeftoverOfATaskKeepsItsGPU(t *testing.T) {
	for _, s := range settings[:2] {
		t.Run(s.name, func(t *testing.T) {
			u := newUnit(t, 1)
			b := u.container(s)
			b.bundle()
			require.NoError(t, b.up())
			kill := u.fifo(b.id)
			require.NoError(t, b.run(`busybox sh -c "echo left > /events/all; read word < /events/$TASK" <&- >&- 2>&- &`))
			require.Equal(t, []string{"left"}, u.event())
			states, _, err := u.leases().Read()
			require.NoError(t, err)
			require.True(t, states[0].Held)
			require.Equal(t, "the ended task of container "+b.id, states[0].Holder())
			_, err = kill.WriteString("\n")
			require.NoError(t, err)
			u.isFree()
		})
	}
}

func TestRefusalIsInTheLogWordForWord(t *testing.T) {
	u := newUnit(t, 1)
	holder := u.busy(settings[1])
	for env, want := range map[string]string{
		"A=b":                   `^runc-amd-wrapper: cannot lease 1 GPU: 0 of 1 are free; 0 \(GPU-0\) is held by the task of container ` + holder.id + ` since \d\d:\d\d:\d\d UTC \(.*\); run the task again later \[container %s\]$`,
		"AMD_VISIBLE_DEVICES=0": `^runc-amd-wrapper: cannot lease 1 GPU: .*0 \(GPU-0\) is held by the task of container ` + holder.id + ` since .* \[container %s\]$`,
		"GPU_COUNT=2":           `^runc-amd-wrapper: cannot lease 2 GPUs: this machine has 1.* \[container %s\]$`,
		"GPU_COUNT=two":         `^runc-amd-wrapper: cannot give the task GPU_COUNT="two" GPUs: it is not a whole number or all \[container %s\]$`,
	} {
		b := u.container(settings[1], env)
		b.bundle()
		var out bytes.Buffer
		require.Error(t, b.runc(&out, b.createWords()...))
		t.Log(out.String())
		require.Regexp(t, fmt.Sprintf(want, b.id), b.logged())
		require.Equal(t, b.logged()+"\n", out.String())
		require.NoError(t, b.runc(&out, "delete", "--force", b.id), "a refused container can be deleted")
	}
}

// Through the shim and containerd, as in a build's output.
func TestRefusalOfALeaseReachesTheUserThroughContainerd(t *testing.T) {
	u := newUnit(t, 1)
	holder := u.busy(settings[0])
	b := u.container(settings[0])
	ctr := b.containerd()
	b.bundle()
	run := func(id string) (string, error) {
		return ctr("run", "--rm", "--rootfs", "--mount", "type=bind,src="+b.path("volume")+",dst=/tmp/build/0badcafe,options=rbind:rw",
			b.path("bundle/rootfs"), id, "/tmp/gdn-init")
	}
	out, err := run(b.id + "-refused")
	require.Error(t, err)
	require.Regexp(t, `OCI runtime create failed: runc-amd-wrapper: cannot lease 1 GPU: 0 of 1 are free; 0 \(GPU-0\) is held by the task of container `+holder.id+
		` since \d\d:\d\d:\d\d UTC \(\d+s\); run the task again later \[container `+b.id+`-refused\]`, out)

	holder.kill9("exec.pid")
	u.isFree()
	require.NoError(t, os.WriteFile(b.path("bundle/rootfs/tmp/gdn-init"), []byte("#!/bin/busybox sh\n"+probe), 0o755))
	out, err = run(b.id + "-leased")
	require.NoError(t, err, out)
	require.Equal(t, map[string]string{"kfd": "opens", "dri/renderD128": "opens", "dri/renderD129": absent}, found(out))
	u.isFree()
}

// The task's own GPU opens, no other is there or can be opened, and what asks for
// none gets none: in each kind of container.
func TestOnlyLeasedGPUsOpen(t *testing.T) {
	for version, runc := range runcs(t) {
		for _, s := range settings {
			t.Run(s.name+", runc "+version, func(t *testing.T) {
				u := newUnit(t, 2)
				want := map[string]string{"kfd": "opens", "dri/renderD128": absent, "dri/renderD129": absent}
				for _, gpu := range []string{"0", "1"} {
					var through []string
					if s.lxd {
						through = ownCgroup(t, filepath.Base(u.dir)+gpu, nestedRoot)
					}
					b := s.bed(t, runc, 0o660)
					b.enter = append(through, b.enter...)
					b.env, b.init = []string{"AMD_VISIBLE_DEVICES=" + gpu}, probe+"exec /bin/busybox sleep 600 </dev/null >/dev/null 2>&1\n"
					if s.lxd { // its root makes the folder
						require.NoError(t, os.Chown(u.dir, b.offset, b.offset))
					}
					u.lend(b)
					mine := "dri/renderD12" + string(gpu[0]+'8'-'0')
					want[mine] = "opens"
					require.Equal(t, want, b.start())
					require.Equal(t, want, b.exec(0))
					require.Equal(t, want, b.exec(1000))
					want[mine] = absent
				}
			})
		}
	}
}

// The node of a GPU that another leased can be made in a privileged container,
// and does not open.
func TestGPUOfAnotherStaysShutForAPrivilegedTask(t *testing.T) {
	u := newUnit(t, 2)
	numbers, err := suite.Minors()
	require.NoError(t, err)
	for i, other := range []string{"/dev/dri/renderD129", "/dev/dri/renderD128"} {
		b := u.container(settings[0])
		b.bundle()
		require.NoError(t, b.up())
		b.write("process", process(0, fmt.Sprintf("busybox mknod /tmp/n c 10 %d; if e=$( { : <>/tmp/n; } 2>&1); then echo n: opens; else echo \"n: ${e##*: }\"; fi\nbusybox sleep 600 <&- >&- 2>&- &", numbers[other])))
		require.Equal(t, map[string]string{"n": "Operation not permitted"}, found(b.output(nil, "exec", "--process", b.path("process"), "--detach", b.id)), i)
	}
	u2 := u.refusal()
	require.Contains(t, u2, "0 of 2 are free")
}
