package watcher

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/term"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/healthcheck"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/cdi"
	"github.com/fourdollars/concourse-ci-machine/internal/oci"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

const (
	sick           = "0000:43:00.0"
	healthCheckCmd = "/opt/check"
)

// checkable is a unit with gpu-health-check that records calls of systemd-run and runc. Real
// containers are in tests/container.
func checkable(t *testing.T, option string) (*Unit, *hosttest.Runner) {
	t.Helper()
	u := served(t, "mi210x4")
	r := u.Host.Root
	run := hosttest.NewRunner(t).Answer("systemd-run", "")
	u.Host.Runner = run
	require.NoError(t, os.Chmod(r.Path("/"), 0o755))
	require.NoError(t, r.MkdirAll("/opt", 0o755))
	require.NoError(t, r.WriteFile(healthCheckCmd, nil, 0o755))
	hosttest.Put(t, r, oci.DefaultConfig, `{"runtime":"/opt/runc"}`)
	hosttest.Put(t, r, "/opt/runc", "")
	inv, err := gpu.Discover(r)
	require.NoError(t, err)
	spec, _, err := cdi.Spec(inv.GPUs, inv.KFD)
	require.NoError(t, err)
	data, err := json.Marshal(spec)
	require.NoError(t, err)
	hosttest.Put(t, r, cdi.Path, string(data))
	u.setHealthCheck(t, option)
	return u, run
}

func (u *Unit) setHealthCheck(t *testing.T, option string) {
	t.Helper()
	require.NoError(t, model.Save(u.Host.Root, model.Facts{}, model.Facts{Unit: "concourse-ci-machine/0", Role: model.WorkerRole,
		Config: map[string]any{"mode": "worker", "gpu-health-check": option}}))
}

// startProbation puts GPU 1 on probation: an error, and five minutes without one.
func (u *Unit) startProbation(t *testing.T) {
	t.Helper()
	before, err := u.Host.ReadFile(ueFile)
	require.NoError(t, err)
	watched(t, u)
	hosttest.Put(t, u.Host.Root, ueFile, "ue: 1\nce: 0\n")
	u.after(15 * time.Second)
	require.Contains(t, watched(t, u), "quarantined")
	hosttest.Put(t, u.Host.Root, ueFile, string(before))
	for range 20 {
		u.after(15 * time.Second)
		watched(t, u)
	}
}

// ends makes runc end with this code, time and output.
func (u *Unit) ends(run *hosttest.Runner, code int, output string) {
	runc := u.Host.Path("/opt/runc")
	run.Answer(runc, "")
	state := u.Host.Path(healthcheck.Dir + "/concourse-gpu-health-check-0000-43-00.0/state")
	log := u.Host.Path(healthcheck.Dir + "/concourse-gpu-health-check-0000-43-00.0/log.json")
	run.On(runc+" --root "+state+" --log "+log+" --log-format json run", func(cmd host.Command) (string, error) {
		if code == 0 {
			return output, nil
		}
		return output, &host.CommandError{Argv: cmd.Argv, Code: code, Err: errors.New("it failed")}
	})
}

func recorded(t *testing.T, u *Unit) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, u.RecordHealthCheck(t.Context(), &b, sick))
	return b.String()
}

// A look starts the health check in a service and continues. The next look reads the
// result.
func TestGPUReturnsAfterAPassedHealthCheck(t *testing.T) {
	u, run := checkable(t, healthCheckCmd)
	u.startProbation(t)
	require.Empty(t, run.Ran)
	u.after(15 * time.Second)
	require.Equal(t, "GPU 0000:43:00.0: gpu-health-check begins\n", watched(t, u))
	require.Equal(t, []string{"systemd-run --quiet --no-block --collect --unit=concourse-gpu-health-check-0000-43-00.0.service --description=gpu-health-check on GPU 0000:43:00.0" +
		" --property=RuntimeMaxSec=900 -- /opt/concourse-ci-machine/bin/dispatch gpu record-check 0000:43:00.0"}, run.Ran)
	require.Contains(t, gpuStatus(t, u, term.Format{}), "; on probation: gpu-health-check is about to begin\n")

	unlock, err := healthcheck.Lock(u.Host.Root, sick)
	require.NoError(t, err)
	u.after(15 * time.Second)
	require.Empty(t, watched(t, u), "one at a time")
	require.Contains(t, gpuStatus(t, u, term.Format{}), "; on probation: gpu-health-check runs\n")
	require.EqualError(t, u.RecordHealthCheck(t.Context(), nil, sick), "cannot check GPU 0000:43:00.0: gpu-health-check runs on it already; gpu status has its end")
	unlock()

	u.ends(run, 0, "sum is right\n")
	require.Equal(t, "GPU 0000:43:00.0: gpu-health-check ended with 0 after 0s\n", recorded(t, u))
	require.Equal(t, "sum is right\n", textOf(t, u, healthcheck.OutputFile(sick)))
	st, err := u.Host.Stat(healthcheck.OutputFile(sick))
	require.NoError(t, err)
	require.EqualValues(t, 0o600, st.Mode().Perm())
	require.NotEmpty(t, quarantinedNow(t, u.Host.Root), "nobody decided yet")
	u.after(15 * time.Second)
	require.Equal(t, "GPU 1 (0000:43:00.0): in service: healthy for 5m0s, and gpu-health-check ended with 0\n", watched(t, u))
	require.Empty(t, quarantinedNow(t, u.Host.Root))
	require.Empty(t, recorded(t, u), "it waits for none any more")
	require.EqualError(t, u.RecordHealthCheck(t.Context(), nil, "../x"), `cannot check GPU "../x": it is not known`)
}

func textOf(t *testing.T, u *Unit, path string) string {
	t.Helper()
	data, err := u.Host.ReadFile(path)
	require.NoError(t, err)
	return string(data)
}

func TestFailedHealthCheckKeepsTheQuarantine(t *testing.T) {
	u, run := checkable(t, healthCheckCmd)
	u.startProbation(t)
	u.ends(run, 3, "sum is \x1b[31mwrong\n")
	require.Equal(t, "GPU 0000:43:00.0: gpu-health-check ended with 3 after 0s\n", recorded(t, u))
	require.Equal(t, "sum is ?[31mwrong\n", textOf(t, u, healthcheck.OutputFile(sick)))
	u.after(15 * time.Second)
	require.Equal(t, "GPU 1 (0000:43:00.0): quarantined: gpu-health-check ended with 3\n", watched(t, u))
	require.Contains(t, quarantinedNow(t, u.Host.Root), "gpu-health-check ended with 3")
	r, err := quarantine.RecordFile.Read(u.Host.Root)
	require.NoError(t, err)
	require.Len(t, r.Find(sick).Strikes, 2)
	require.Equal(t, "health check failed", r.Find(sick).ShortReason())
}

// The GPU stays on probation with a reason. A fixed problem is seen within a minute.
func TestHealthCheckThatCannotRunIsExplained(t *testing.T) {
	u, run := checkable(t, healthCheckCmd)
	u.startProbation(t)
	u.after(15 * time.Second)
	watched(t, u)
	require.NoError(t, u.Host.Remove(healthCheckCmd))
	require.Contains(t, recorded(t, u), "gpu-health-check can't be run: /opt/check is missing; add it")
	u.after(15 * time.Second)
	require.Empty(t, watched(t, u))
	require.Contains(t, gpuStatus(t, u, term.Format{}), "; on probation: gpu-health-check can't be run: /opt/check is missing; add it, or remove it from the option gpu-health-check\n")
	u.after(time.Minute)
	watched(t, u)
	require.Len(t, run.Ran, 2, "it is tried again")

	run.Fail("systemd-run", 1, "no bus")
	u.after(time.Minute)
	err := look(t, u, &bytes.Buffer{})
	require.ErrorContains(t, err, "no bus")
	u.after(15 * time.Second)
	watched(t, u)
	require.Contains(t, gpuStatus(t, u, term.Format{}), "gpu-health-check can't be run: cannot run \"systemd-run ")

	u.setHealthCheck(t, "/home/me/check")
	u.after(15 * time.Second)
	watched(t, u)
	require.Contains(t, gpuStatus(t, u, term.Format{}), `gpu-health-check can't be run: gpu-health-check: "/home/me/check" is not in its container`)
	u.setHealthCheck(t, "")
	u.after(15 * time.Second)
	require.Equal(t, "GPU 1 (0000:43:00.0): in service: healthy for 5m0s\n", watched(t, u), "time alone")
}

func TestProveRunsOnlyOnQuarantinedGPUs(t *testing.T) {
	u, run := checkable(t, "")
	check := func(which string) (string, error) {
		var b strings.Builder
		err := u.RunHealthCheck(t.Context(), &b, which)
		return b.String(), err
	}
	watched(t, u)
	_, err := check("1")
	require.ErrorContains(t, err, "it is in service, so a task can get it at any moment; quarantine it first: dispatch gpu quarantine 1 REASON")
	require.NoError(t, u.Quarantine(&bytes.Buffer{}, "1", "new fan"))
	_, err = check("1")
	require.ErrorContains(t, err, "no program is set; run: juju config <application> gpu-health-check=<program>")
	u.setHealthCheck(t, "/home/me/check")
	_, err = check("1")
	require.ErrorContains(t, err, `gpu-health-check: "/home/me/check" is not in`)
	u.setHealthCheck(t, healthCheckCmd)
	u.ends(run, 0, "sum is right\n")
	text, err := check(sick)
	require.NoError(t, err)
	require.Regexp(t, `^GPU 1 \(GPU-\w+, 0000:43:00.0\): /opt/check begins, which may take 10m0s\nsum is right\nGPU 1 .*: gpu-health-check ended with 0 after 0s\n$`, text)
	u.ends(run, 1, "")
	_, err = check("1")
	require.ErrorContains(t, err, "cannot rely on GPU 1")
	unlock, err := healthcheck.Lock(u.Host.Root, sick)
	require.NoError(t, err)
	_, err = check("1")
	require.ErrorContains(t, err, "gpu-health-check runs on it already")
	unlock()
	require.False(t, u.Host.Exists(healthcheck.Dir+"/"+sick+".json"), "what a person runs decides nothing")
}
