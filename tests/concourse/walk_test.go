//go:build e2e

package concourse

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/concourse/release"
	"github.com/fourdollars/concourse-ci-machine/tests/standin"
	"github.com/fourdollars/concourse-ci-machine/tests/suite"
)

// WALK_MINUTES is the length of a walk instead of walkSteps, WALK_SEED chooses one, and WALK
// replays steps as a failed walk prints them, with "; " between two.
const (
	walkSeed   = 44
	walkSteps  = 60
	shrinkTime = 15 * time.Minute
)

// One machine with real systemd, Pebble, PostgreSQL and apt takes random steps. After each,
// the machine must be as its options want it. Without a release of Concourse, a program that
// answers its health checks replaces it, and no step runs a build.
func TestRandomWalkOfOneMachine(t *testing.T) {
	need(t)
	w := walk{tgz: filepath.Join(built, "stand-in-walk.tgz")}
	if os.Getenv(suite.ReleaseEnv) != "" {
		w.tgz, w.real = releaseTarball(t), true
	} else {
		require.NoError(t, standin.Release(w.tgz, filepath.Join(built, "bin", "concourse")))
	}
	seed, minutes := number(t, "WALK_SEED", walkSeed), number(t, "WALK_MINUTES", 0)
	r := rand.New(rand.NewPCG(uint64(seed), 0))
	var taken []walkStep
	end := time.Now().Add(time.Duration(minutes) * time.Minute)
	next := func() (walkStep, bool) {
		return randomStep(r, taken, w.real), minutes == 0 && len(taken) < walkSteps || time.Now().Before(end)
	}
	if fixed := os.Getenv("WALK"); fixed != "" {
		steps := parseSteps(fixed)
		next = func() (s walkStep, more bool) {
			if len(steps) > 0 {
				s, more, steps = steps[0], true, steps[1:]
			}
			return s, more
		}
	}
	err := w.take(t, func() (walkStep, bool) {
		s, more := next()
		if more {
			taken = append(taken, s)
		}
		return s, more
	})
	t.Logf("%d steps of the walk with WALK_SEED=%d: %s", len(taken), seed, countSteps(taken))
	if err == nil {
		return
	}
	until := time.Now().Add(shrinkTime)
	shortest := suite.Shrink(taken, func(steps []walkStep) bool {
		if time.Now().After(until) {
			return false
		}
		i := 0
		return w.take(t, func() (walkStep, bool) {
			i++
			if i > len(steps) {
				return walkStep{}, false
			}
			return steps[i-1], true
		}) != nil
	})
	t.Errorf("%v\nWALK_SEED=%d, all steps: WALK=%s\nshortest form: WALK=%s", err, seed, formatSteps(taken), formatSteps(shortest))
}

// number returns the value of a variable.
func number(t *testing.T, name string, preset int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return preset
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err, name)
	return n
}

// walk holds what is common to all walks.
type walk struct {
	tgz   string
	real  bool // tgz is a release of Concourse
	count int  // machines so far
}

// take walks on a new machine while next returns steps. Its error is the first broken rule.
func (w *walk) take(t *testing.T, next func() (walkStep, bool)) (err error) {
	w.count++
	ended := t.Run(fmt.Sprintf("machine %d", w.count), func(t *testing.T) {
		m := w.newWalker(t)
		begin := time.Now()
		out, upErr := m.run("concourse-ci-machine up --release " + w.tgz)
		require.NoError(t, upErr, out)
		if err = m.holds("up"); err != nil {
			return
		}
		t.Logf("up: %.0f s", time.Since(begin).Seconds())
		for i := 1; ; i++ {
			s, more := next()
			if !more {
				return
			}
			begin := time.Now()
			if err = m.step(s); err == nil {
				err = m.holds(s.String())
			}
			t.Logf("%3d %6.1f s  %s", i, time.Since(begin).Seconds(), s)
			if err != nil {
				err = fmt.Errorf("after step %d, %s: %w", i, s, err)
				t.Logf("%v\n%s", err, m.lastWords())
				return
			}
		}
	})
	if err == nil && !ended {
		err = errors.New("the last step ended the test of its machine, see there")
	}
	return err
}

// newWalker starts a machine with two GPUs, a small disk for Concourse, and files and a
// PostgreSQL cluster of an operator.
func (w *walk) newWalker(t *testing.T) *walker {
	t.Helper()
	m := &walker{real: w.real, up: true, options: map[string]string{}, gpus: map[string]*walkGPU{}}
	m.unit = newMachine(t, 70+w.count, "mi210x4", func(u *unit) {
		u.mount("tmpfs", u.Root.Path(release.HomeDir), "tmpfs", 0, "size=1500m,mode=755")
	})
	for _, pci := range []string{"0000:23:00.0", "0000:43:00.0", "0000:c3:00.0"} {
		counted(m.unit, pci, 0)
	}
	m.must("mkdir -p /etc/concourse-ci-machine && umask 077 && printf '%s\\n' 'mode: all' 'compute-runtime: auto' " +
		"'amd-container-toolkit: skip' 'gpu-device-ids: 0,1' 'worker-drain-timeout: 20s' >/etc/concourse-ci-machine/config.yaml")
	m.must(foreign)
	m.others = m.must(foreignState)
	return m
}

// foreign makes what belongs to an operator. No step may change it.
const foreign = `mkdir -p /etc/cdi /srv/models /etc/systemd/system/getty@.service.d &&
echo '{"cdiVersion":"0.6.0","kind":"example.com/net","devices":[{"name":"0","containerEdits":{"env":["A=B"]}}]}' >/etc/cdi/example.json &&
echo weights >/srv/models/weights && echo '[Service]' >/etc/systemd/system/getty@.service.d/operator.conf &&
printf '[Service]\nExecStart=/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n' >/etc/systemd/system/operators.service &&
systemctl enable --now operators.service`

// foreignState prints what a walk must leave as it is.
const foreignState = `sha256sum /etc/cdi/example.json /srv/models/weights /etc/systemd/system/getty@.service.d/operator.conf \
/etc/systemd/system/operators.service /etc/hostname; stat -c '%n %a %U:%G' /etc/cdi /srv/models`

var errStep = errors.New("the command fails")

// countSteps returns how often each kind of step was taken.
func countSteps(steps []walkStep) string {
	n := map[string]int{}
	var kinds []string
	for _, s := range steps {
		if n[s.kind]++; n[s.kind] == 1 {
			kinds = append(kinds, s.kind)
		}
	}
	var b strings.Builder
	for _, kind := range kinds {
		fmt.Fprintf(&b, " %s %d", kind, n[kind])
	}
	return strings.TrimSpace(b.String())
}
