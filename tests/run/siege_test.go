//go:build e2e

package run

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/flight/runend"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/admission"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// work is what a job does with the GPUs in $GPUS. A lock for each GPU shows a second user:
// the kernel frees it with the last process that holds it. A GPU that hangs keeps its job
// until it is quarantined, and then the job fails.
const work = `cd $STAGE
fd=3
for g in $GPUS; do
	eval "exec $fd>>lock-$g"
	flock -n $fd || echo "$JOB: $g" >>twice
	[ ! -e sick-$g ] || echo "$JOB: $g" >>started-sick
	fd=$((fd + 1))
done
echo $GPUS >gpus-$JOB
sleep 0.$((RANDOM % 9))
for g in $GPUS; do
	if [ -e sick-$g ]; then
		until [ -e quarantined ]; do sleep 0.05; done
		echo lost >end-$JOB
		exit 9
	fi
done
echo done >end-$JOB
`

// siege is a machine with jobs of several kinds.
type siege struct {
	*machine
	stage string // folder in which the jobs leave what they saw
	names []string
	mu    sync.Mutex
	live  map[string]*exec.Cmd
	ended map[string]bool // jobs that the test has ended
}

// TestFortyJobsOfTwoRunnersAndContainers runs jobs of GitHub's hooks, of gpukit run and of
// containers at once on four GPUs. One GPU falls sick, and runners and the service are
// killed at random.
func TestFortyJobsOfTwoRunnersAndContainers(t *testing.T) {
	s := newSiege(t)
	const jobs = 40
	seed := uint64(os.Getpid())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	var all sync.WaitGroup
	slots := make(chan struct{}, 10)
	for i := range jobs {
		job := fmt.Sprintf("%s-%d", []string{"github", "run", "container"}[i%3], i)
		count := 1
		if i%3 != 2 && r.IntN(4) == 0 {
			count = 2
		}
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			s.job(job, count)
		})
		switch {
		case i == 15:
			s.fallSick(1)
		case i%10 == 8:
			s.killOne(r)
		case i%10 == 4:
			s.kill()
			s.start()
		}
	}
	all.Wait()
	s.check()
}

func newSiege(t *testing.T) *siege {
	s := &siege{machine: newMachine(t), live: map[string]*exec.Cmd{}, ended: map[string]bool{}}
	s.stage = s.root.Path("/stage")
	require.NoError(t, os.Mkdir(s.stage, 0o777))
	require.NoError(t, os.Chmod(s.stage, 0o777))
	inv, err := gpu.Discover(s.root)
	require.NoError(t, err)
	for i, g := range inv.GPUs { // a job knows a GPU by its id, a container by its node
		name := filepath.Join(s.stage, fmt.Sprintf("lock-%d", 128+i))
		require.NoError(t, os.WriteFile(name, nil, 0o666))
		require.NoError(t, os.Chmod(name, 0o666))
		require.NoError(t, os.Link(name, filepath.Join(s.stage, "lock-"+"GPU-"+g.UniqueID)))
		s.names = append(s.names, "GPU-"+g.UniqueID)
	}
	s.runner()
	s.engine()
	return s
}

// runner makes the program and the hooks of GitHub's runner.
func (s *siege) runner() {
	dir := s.root.Path("/runner")
	require.NoError(s.t, os.MkdirAll(dir, 0o755))
	bash, err := os.ReadFile("/bin/bash")
	require.NoError(s.t, err)
	require.NoError(s.t, os.WriteFile(filepath.Join(dir, "Runner.Worker"), bash, 0o755))
	require.NoError(s.t, os.Symlink(gpukit, filepath.Join(dir, "gpukit")))
}

// job runs a job to its end.
func (s *siege) job(job string, count int) {
	kind, _, _ := strings.Cut(job, "-")
	var c *exec.Cmd
	switch kind {
	case "run":
		c = s.command(1000, "run", "--gpus", itoa(count), "--name", job, "--", "bash", "-c", gpusOfRun+work)
	case "github":
		c = s.command(1001)
		c.Path, c.Args = s.root.Path("/runner/Runner.Worker"), []string{"Runner.Worker", "-c", worker}
		c.Env = append(c.Env, "GPUKIT_GPUS="+itoa(count), "GITHUB_REPOSITORY=o/r", "GITHUB_JOB="+job, "GITHUB_RUN_ID=1",
			"HOOKS="+hosttest.Source()+"/tools/packages/gpukit/runners/github",
			"PATH="+s.root.Path("/runner")+":"+os.Getenv("PATH"),
			"WORK="+gpusOfRun+work)
	default:
		s.container(job)
		return
	}
	c.Env = append(c.Env, "STAGE="+s.stage, "JOB="+job)
	c.SysProcAttr.Setpgid = true
	log := &hosttest.Buffer{}
	c.Stdout, c.Stderr = log, log
	s.mu.Lock()
	err := c.Start()
	s.live[job] = c
	s.mu.Unlock()
	if !assert.NoError(s.t, err) {
		return
	}
	err = c.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.live, job)
	text, _ := os.ReadFile(filepath.Join(s.stage, "end-"+job))
	if end := strings.TrimSpace(string(text)); !s.ended[job] && (end == "" || (end == "done") != (err == nil)) {
		assert.Fail(s.t, "a job has no end", "%s: %v\n%s", job, err, log)
	}
}

// retry is the pause of an engine before it starts a refused container again.
const retry = 200 * time.Millisecond

// gpusOfRun reads the GPUs of a run from its variables.
const gpusOfRun = `GPUS=$(echo "$AMD_VISIBLE_DEVICES" | tr , ' ')
`

// worker is what GitHub's runner does for a job: the first hook, a step with the variables
// that the hook has set, and the second hook.
const worker = `mkdir -p $STAGE/$JOB && export RUNNER_TEMP=$STAGE/$JOB GITHUB_ENV=$STAGE/$JOB/env \
	GITHUB_STEP_SUMMARY=$STAGE/$JOB/summary
: >$GITHUB_ENV
bash -e $HOOKS/job-started.sh || exit 1
env $(cat $GITHUB_ENV) bash -c "$WORK"
status=$?
bash -e $HOOKS/job-completed.sh || exit 1
exit $status`

// killOne ends the first process of a job that runs.
func (s *siege) killOne(r *rand.Rand) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var jobs []string
	for job := range s.live {
		jobs = append(jobs, job)
	}
	if len(jobs) == 0 {
		return
	}
	slices.Sort(jobs)
	job := jobs[r.IntN(len(jobs))]
	s.ended[job] = true
	require.NoError(s.t, unix.Kill(s.live[job].Process.Pid, unix.SIGKILL))
}

// fallSick makes jobs on a GPU fail, and then quarantines it as the watcher does.
func (s *siege) fallSick(i int) {
	for _, name := range []string{itoa(128 + i), s.names[i]} {
		require.NoError(s.t, os.WriteFile(filepath.Join(s.stage, "sick-"+name), nil, 0o644))
	}
	data := admission.Encode(admission.File{GPUs: []admission.GPU{
		{Name: s.states()[i].GPU, Reason: "has been quarantined since 12:00: hangs"}}})
	require.NoError(s.t, s.root.WriteFile(quarantine.AdmissionFile, data, 0o644))
	require.NoError(s.t, os.WriteFile(filepath.Join(s.stage, "quarantined"), nil, 0o644))
}

// check compares what the jobs saw with the promises.
func (s *siege) check() {
	t := s.t
	for _, name := range []string{"twice", "started-sick"} {
		text, _ := os.ReadFile(filepath.Join(s.stage, name))
		if name == "started-sick" && strings.Count(string(text), "\n") <= 1 {
			continue // one may have leased it just before
		}
		require.Empty(t, string(text), name)
	}
	s.until("free GPUs", func() bool { return s.held() == 0 })
	s.untilNoGroup()
	ends := map[string]int{}
	files, err := filepath.Glob(filepath.Join(s.stage, "end-*"))
	require.NoError(t, err)
	for _, f := range files {
		text, err := os.ReadFile(f)
		require.NoError(t, err)
		ends[strings.TrimSpace(string(text))]++
	}
	t.Logf("jobs: %v, ended by the test: %d", ends, len(s.ended))
	require.LessOrEqual(t, ends["lost"], 1)
	require.GreaterOrEqual(t, ends["done"], 40-1-len(s.ended))
	s.checkEnds()
}

// checkEnds compares the recorded ends of runs with what their jobs saw.
func (s *siege) checkEnds() {
	all, err := runend.File.Read(s.root)
	require.NoError(s.t, err)
	compared := 0
	for _, e := range all.Ends {
		job := e.Title
		if name, ok := strings.CutPrefix(job, "o/r "); ok {
			job = strings.Fields(name)[0]
		}
		text, err := os.ReadFile(filepath.Join(s.stage, "gpus-"+job))
		if err != nil {
			require.True(s.t, s.ended[job], "%s ended without a beginning", job)
			continue
		}
		require.Len(s.t, strings.Fields(string(text)), len(e.GPUs), job)
		if end, err := os.ReadFile(filepath.Join(s.stage, "end-"+job)); err == nil && e.Exit != nil {
			require.Equal(s.t, strings.TrimSpace(string(end)) == "done", *e.Exit == 0, job)
		}
		compared++
	}
	s.t.Logf("%d ends of runs are as their jobs saw them", compared)
	require.NotZero(s.t, compared)
}

// engine makes what an engine needs to run containers through the wrapper.
func (s *siege) engine() {
	root := s.root.Path("/engine/rootfs")
	for _, d := range []string{"usr", "proc", "dev", "stage"} {
		require.NoError(s.t, os.MkdirAll(filepath.Join(root, d), 0o755))
	}
	for _, d := range []string{"bin", "lib", "lib64"} {
		require.NoError(s.t, os.Symlink("usr/"+d, filepath.Join(root, d)))
	}
	var devices, gpus []any
	for i, state := range s.states() {
		node := fmt.Sprintf("/dev/dri/renderD%d", 128+i)
		devices = append(devices, map[string]any{"name": itoa(i), "containerEdits": map[string]any{"deviceNodes": []any{
			map[string]any{"path": node, "hostPath": filepath.Join(s.nodes, itoa(i))}}}})
		gpus = append(gpus, map[string]any{"name": state.GPU, "cdi": "amd.com/gpu=" + itoa(i), "nodes": []string{node}})
	}
	s.writeJSON("/engine/amd.json", map[string]any{"cdiVersion": "0.5.0", "kind": "amd.com/gpu", "devices": devices})
	runc, err := exec.LookPath("runc")
	require.NoError(s.t, err)
	s.writeJSON("/engine/wrapper.json", map[string]any{"runtime": runc, "containers": "requested",
		"specs": []string{s.root.Path("/engine/amd.json")}, "gpus": gpus, "state": s.root.Path("/engine/state"),
		"leases":     map[string]any{"dir": s.root.Path(lease.DefaultDir)},
		"quarantine": s.root.Path(quarantine.AdmissionFile)})
}

func (s *siege) writeJSON(path string, v any) {
	data, err := json.Marshal(v)
	require.NoError(s.t, err)
	require.NoError(s.t, os.WriteFile(s.root.Path(path), data, 0o644))
}

// container runs a job in a container that requests one GPU. It is started again while all
// GPUs are leased, as the policies of engines do.
func (s *siege) container(job string) {
	bundle := s.root.Path("/engine/" + job)
	if !assert.NoError(s.t, os.MkdirAll(bundle, 0o755)) {
		return
	}
	mount := func(to, kind, from string, options ...string) any {
		return map[string]any{"destination": to, "type": kind, "source": from, "options": options}
	}
	script := "GPUS=$(cd /dev/dri && echo renderD* | sed s/renderD//g)\n" + work
	s.writeJSON("/engine/"+job+"/config.json", map[string]any{
		"ociVersion": "1.0.2", "root": map[string]any{"path": s.root.Path("/engine/rootfs"), "readonly": true},
		"process": map[string]any{"cwd": "/", "args": []string{"/bin/bash", "-c", script},
			"user": map[string]any{"uid": 0, "gid": 0},
			"env":  []string{"PATH=/bin", "GPU_COUNT=1", "STAGE=/stage", "JOB=" + job}},
		"linux": map[string]any{"cgroupsPath": "/gpukit-siege-" + job, "namespaces": []any{
			map[string]any{"type": "pid"}, map[string]any{"type": "mount"}}},
		"mounts": []any{mount("/proc", "proc", "proc"), mount("/dev", "tmpfs", "tmpfs", "mode=755"),
			mount("/usr", "bind", "/usr", "rbind", "ro"), mount("/stage", "bind", s.stage, "bind", "rw")},
	})
	call := func(words ...string) (string, error) {
		log, err := os.Create(filepath.Join(bundle, "log")) // no pipe, which the container would keep
		if err != nil {
			return "", err
		}
		defer log.Close()
		c := exec.Command(wrapper, append([]string{"--root", s.root.Path("/engine/runc")}, words...)...)
		c.Env = append(os.Environ(), "RUNC_AMD_CONFIG="+s.root.Path("/engine/wrapper.json"))
		c.Stdout, c.Stderr, c.Dir = log, log, bundle
		c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		err = c.Run()
		text, _ := os.ReadFile(log.Name())
		return string(text), err
	}
	pidFile := filepath.Join(bundle, "init.pid")
	text, err := call("create", "--bundle", bundle, "--pid-file", pidFile, job)
	for err != nil && strings.Contains(text, "cannot lease") && s.t.Context().Err() == nil {
		<-time.After(retry)
		text, err = call("create", "--bundle", bundle, "--pid-file", pidFile, job)
	}
	if err == nil {
		text, err = call("start", job)
	}
	if !assert.NoError(s.t, err, text) {
		return
	}
	s.until("the end of "+job, func() bool {
		_, err := os.Stat(filepath.Join(s.stage, "end-"+job))
		return err == nil
	})
	text, err = call("delete", "--force", job)
	assert.NoError(s.t, err, text)
}
