package worker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/sanitize"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/beacon"
)

// runCommand is the argument with which Windows starts the service.
const runCommand = "run-service"

// cleanEvery is the time between two cleanings of the work folder.
const cleanEvery = 10 * time.Minute

// State is the report of the running service for the commands status and check. The service
// writes it with its own account, so it shows what that account can do.
type State struct {
	Time        time.Time `json:"time"`
	Since       time.Time `json:"since"`       // of this process of Concourse's worker, or of the problem
	Service     int       `json:"service-pid"` // process of the service
	PID         int       `json:"pid"`         // of Concourse's worker, 0 without one
	Problem     string    `json:"problem,omitempty"`
	Starts      int       `json:"starts"`
	Tags        []string  `json:"tags"`
	Account     string    `json:"account"`
	LinkProblem string    `json:"link-problem,omitempty"` // why it cannot make symbolic links
	HIPProblem  string    `json:"hip-problem,omitempty"`  // why it cannot read the HIP SDK
	GPUProblem  string    `json:"gpu-problem,omitempty"`  // why tasks do not get all GPUs
	WorkBytes   int64     `json:"work-bytes"`
	Removed     int64     `json:"removed-bytes"` // by all cleanings of this process
	OverLimit   bool      `json:"over-limit"`
}

const maxState = 1 << 20

// readState reads the state. The service's account writes it, so it is outside input.
func readState(path string) (s State, err error) {
	data, err := tail(path, maxState)
	if err != nil {
		return s, err
	}
	return parseState(data)
}

func parseState(data []byte) (s State, err error) {
	if err := json.Unmarshal(data, &s); err != nil {
		return State{}, errors.New("it is not the JSON of the service's state")
	}
	for _, text := range []*string{&s.Problem, &s.Account, &s.LinkProblem, &s.HIPProblem, &s.GPUProblem} {
		*text = sanitize.Line(*text, 300)
	}
	s.Tags = s.Tags[:min(len(s.Tags), 2*maxTags)]
	for i := range s.Tags {
		s.Tags[i] = sanitize.Line(s.Tags[i], 100)
	}
	return s, nil
}

// serving is the process of the service.
type serving struct {
	m        Machine
	p        paths
	settings Settings
	log      *logFile
	state    State
	hipInfo  string

	watching atomic.Bool

	mu   sync.Mutex
	seen sight // at the last start of Concourse's worker
}

// serve runs Concourse's worker until ctx ends.
func serve(ctx context.Context, m Machine) error {
	p, err := pathsOf(m)
	if err != nil {
		return err
	}
	s := &serving{m: m, p: p, log: &logFile{path: p.log(), max: maxLog}}
	defer s.log.Close()
	data, err := os.ReadFile(p.settings())
	if err == nil {
		s.settings, err = parseSettings(data)
	}
	if err != nil {
		s.note("cannot read %s: %v", p.settings(), err)
		return err
	}
	s.probe()
	changes, changed := make(chan func(), 1), make(chan string, 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		report := func(pid int, problem string) { changes <- func() { s.report(pid, problem) } }
		supervisor{start: s.start, after: time.After, now: time.Now, changed: changed, report: report}.run(ctx)
	}()
	tick := time.Tick(cleanEvery)
	s.clean()
	for {
		select {
		case change := <-changes:
			change()
		case <-tick:
			s.clean()
			go s.watch(changed)
		case <-ended:
			for len(changes) > 0 {
				(<-changes)()
			}
			return nil
		}
	}
}

// note writes a line into the log, in the form of Concourse's own lines.
func (s *serving) note(format string, args ...any) {
	line, _ := json.Marshal(map[string]string{"timestamp": time.Now().UTC().Format(time.RFC3339Nano), // text only
		"source": Program, "message": fmt.Sprintf(format, args...)})
	_, _ = s.log.Write(append(line, '\n')) // a full disk must not end the worker
}

// probe tries what tasks need, with the account of the service.
func (s *serving) probe() {
	s.state.Account, s.state.Service = s.settings.Account, os.Getpid()
	target := filepath.Join(s.settings.WorkDir, ".link-target")
	link := filepath.Join(s.settings.WorkDir, ".link")
	_ = os.Remove(link) // of an earlier process
	err := os.MkdirAll(target, 0o700)
	if err == nil {
		err = os.Symlink(target, link)
	}
	if err == nil {
		_, err = os.Stat(link) // Wine only pretends to make links
	}
	if err != nil {
		s.state.LinkProblem = err.Error()
	}
	_, _ = os.Remove(link), os.Remove(target)
	facts := s.m.Facts(s.settings.WorkDir)
	s.hipInfo = hipInfoOf(facts)
	for _, h := range facts.HIP {
		if _, err := os.ReadDir(filepath.Join(h.Path, "bin")); err != nil {
			s.state.HIPProblem = err.Error()
		}
	}
}

// start removes leftovers and starts Concourse's worker.
func (s *serving) start() (Child, error) {
	seen, err := look(s.m, s.p, s.hipInfo)
	if err != nil {
		return nil, err
	}
	s.remember(seen)
	work := s.settings.WorkDir
	if err := cleanLeftovers(work); err != nil {
		s.note("cannot remove leftovers of tasks: %v", err)
	}
	for _, dir := range []string{temp(work), cache(work)} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
	}
	return s.m.StartChild(Command{Path: s.p.concourse(), Args: []string{"worker"}, Dir: work, Out: s.log,
		Env: environment(s.p, s.settings, seen.gpus, os.Environ())})
}

// remember keeps what was seen for the next start, and writes a new problem into the event log.
func (s *serving) remember(seen sight) {
	s.mu.Lock()
	before := s.seen
	s.seen = seen
	s.mu.Unlock()
	if known, err := json.Marshal(seen.known); err != nil || replaceFile(s.p.known(), known) != nil {
		s.note("cannot write %s", s.p.known())
	}
	if seen.problem == "" || seen.problem == before.problem {
		return
	}
	s.note("%s", seen.problem)
	if err := s.m.LogEvent(seen.problem + "; " + seen.fix); err != nil {
		s.note("cannot write the event log: %v", err)
	}
}

// watch looks at the GPUs while the worker runs, and restarts it if tasks get others now. Its
// tasks would wait for a GPU that is missing or hangs.
func (s *serving) watch(changed chan<- string) {
	if !s.watching.CompareAndSwap(false, true) {
		return // the last look hangs
	}
	defer s.watching.Store(false)
	s.mu.Lock()
	before := s.seen
	s.mu.Unlock()
	if before.hung {
		return // each further look may leave a process that cannot end
	}
	now, err := look(s.m, s.p, s.hipInfo)
	if err != nil || now.problem == before.problem &&
		slices.Equal(tags(s.settings, now.gpus), tags(s.settings, before.gpus)) {
		return
	}
	select {
	case changed <- cmp.Or(now.problem, "the GPUs have changed"):
	default: // the last reason waits
	}
}

// report writes the new state.
func (s *serving) report(pid int, problem string) {
	s.state.PID, s.state.Problem, s.state.Since = pid, problem, time.Now().UTC()
	if pid > 0 {
		s.state.Starts++
		s.mu.Lock()
		s.state.Tags, s.state.GPUProblem = tags(s.settings, s.seen.gpus), s.seen.problem
		s.mu.Unlock()
	}
	if problem != "" {
		s.note("%s", problem)
	}
	s.write()
}

func (s *serving) clean() {
	c, err := clean(s.settings.WorkDir, int64(s.settings.LimitGB)*1e9, time.Now())
	if err != nil {
		s.note("cannot clean the work folder: %v", err)
	}
	s.state.WorkBytes, s.state.OverLimit = c.Bytes, c.Over
	s.state.Removed += c.Removed
	s.write()
}

func (s *serving) write() {
	s.state.Time = time.Now().UTC()
	data, err := json.Marshal(s.state)
	if err == nil {
		err = replaceFile(s.p.state(), data)
	}
	if err != nil {
		s.note("cannot write %s: %v", s.p.state(), err)
	}
}

// replaceFile writes a file that readers see only whole.
func replaceFile(path string, data []byte) error {
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// Status describes the worker for people and programs.
type Status struct {
	Service      Service             `json:"service"`
	Settings     *Settings           `json:"settings,omitempty"`
	State        *State              `json:"state,omitempty"`
	Registration beacon.Registration `json:"registration"`
	PublicKey    string              `json:"public-key,omitempty"`
	Problem      string              `json:"problem,omitempty"`
}

// registrationBytes is enough for the log lines since the last registration of a quiet
// worker.
const registrationBytes = 1 << 20

// statusOf reads everything that is known of the worker.
func statusOf(m Machine) (st Status, err error) {
	p, err := pathsOf(m)
	if err != nil {
		return st, err
	}
	if st.Service, err = m.Service(); err != nil {
		return st, err
	}
	if !st.Service.Installed {
		st.Problem = "not installed; run: " + Program + " install --help"
		return st, nil
	}
	settings, err := readSettings(m, p)
	if err != nil {
		st.Problem = "cannot read the settings: " + explain(err).Error()
		return st, nil
	}
	st.Settings = &settings
	if public, err := os.ReadFile(p.key() + ".pub"); err == nil {
		st.PublicKey = strings.TrimSpace(string(public))
	}
	state, err := readState(p.state())
	switch {
	case err == nil && state.Service == st.Service.PID: // not of an earlier process
		st.State = &state
	case err == nil:
	case !errors.Is(err, fs.ErrNotExist):
		st.Problem = "cannot read the state of the service: " + explain(err).Error()
	}
	if log, err := tail(p.log(), registrationBytes); err == nil {
		st.Registration = beacon.ParseRegistration(log)
	}
	st.Registration.Why = sanitize.Line(st.Registration.Why, 300)
	switch {
	case st.Problem != "":
	case !st.Service.Running:
		st.Problem = "the service does not run; run: sc.exe start " + ServiceName
	case st.State != nil && st.State.Problem != "":
		st.Problem = st.State.Problem
	case st.State != nil && st.State.GPUProblem != "":
		st.Problem = st.State.GPUProblem
	case st.Registration.State == beacon.Lost:
		st.Problem = "the worker is not registered: " + st.Registration.Why
	}
	return st, nil
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return sanitize.Line(lines[len(lines)-1], 300)
}
