package baseline

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
)

// attempts is the maximum number of runs if records report them as invalid.
const attempts = 3

// skipped is the exit status of a command that skips a commit, as in git bisect.
const skipped = 125

// meter runs commands that write profiles. Its temporary folder has the worktrees.
type meter struct {
	host.Host
	log     io.Writer
	dir     string
	record  string // path of the record; empty: none
	timeout time.Duration
	trees   map[string]string // by commit
	warned  bool              // the log has the warning about clocks
}

// newMeter creates the folder, which close removes.
func newMeter(h host.Host, log io.Writer, timeout time.Duration) (*meter, error) {
	dir, err := os.MkdirTemp("", "gpu-baseline-")
	if err != nil {
		return nil, fmt.Errorf("cannot make a folder for worktrees: %w", cause(err))
	}
	return &meter{Host: h, log: log, dir: dir, record: os.Getenv("GPU_FIXED_CLOCKS_RECORD"), timeout: timeout,
		trees: map[string]string{}}, nil
}

// close removes the folder and the worktrees, also after an interruption.
func (m *meter) close() error {
	var errs []error
	for id := range m.trees {
		errs = append(errs, m.drop(id))
	}
	return errors.Join(append(errs, os.RemoveAll(m.dir))...)
}

// checkout returns the worktree of a commit.
func (m *meter) checkout(ctx context.Context, id string) (string, error) {
	if tree, ok := m.trees[id]; ok {
		return tree, nil
	}
	tree := filepath.Join(m.dir, id)
	m.trees[id] = tree
	_, err := m.Run(ctx, host.Command{Argv: []string{"git", "worktree", "add", "--quiet", "--force", "--detach",
		tree, id}, Deadline: m.timeout})
	if err != nil {
		return "", fmt.Errorf("cannot check out %s: %w", id, err)
	}
	return tree, nil
}

// drop removes a worktree. It does not use the caller's context, because it also runs after
// an interruption.
func (m *meter) drop(id string) error {
	tree, ok := m.trees[id]
	delete(m.trees, id)
	if _, err := m.Stat(tree); !ok || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	_, err := m.Run(context.Background(), host.Command{Argv: []string{"git", "worktree", "remove", "--force",
		"--force", tree}})
	return err
}

// broken reports why a command produced no profile.
type broken struct {
	why  string
	skip bool // the command requested it
}

func (b broken) Error() string { return b.why }

// invalid reports that the records of all attempts were invalid.
type invalid struct{ why string }

func (i invalid) Error() string {
	return fmt.Sprintf("cannot measure: %d runs in turn were invalid: %s", attempts, i.why)
}

// measure runs a command in a folder and returns the profile that it wrote, and its bytes.
// The error is broken, invalid, or another one that must end the search.
func (m *meter) measure(ctx context.Context, dir string, command []string) (Profile, []byte, error) {
	for n := 1; ; n++ {
		began := m.Now()
		p, data, err := m.once(ctx, dir, command)
		if err != nil {
			return p, data, err
		}
		why, err := m.recorded(ctx, began, m.Now())
		switch {
		case err != nil:
			return p, nil, err
		case why == "":
			return p, data, nil
		case n == attempts:
			return p, nil, invalid{why}
		}
		fmt.Fprintf(m.log, "the run is invalid and is repeated: %s\n", why)
	}
}

func (m *meter) once(ctx context.Context, dir string, command []string) (Profile, []byte, error) {
	file := filepath.Join(m.dir, "profile.json")
	if err := m.Remove(file); err != nil {
		return Profile{}, nil, fmt.Errorf("cannot remove %s: %w", file, cause(err))
	}
	_, err := m.Run(ctx, host.Command{
		Argv:     append([]string{"sh", "-c", `cd "$0" && exec "$@"`, dir}, command...),
		Env:      []string{"PROFILE_JSON=" + file},
		Deadline: m.timeout,
		Tail:     4096,
		Shown:    true,
	})
	var failed *host.CommandError
	switch {
	case ctx.Err() != nil:
		return Profile{}, nil, errors.New("interrupted")
	case errors.As(err, &failed) && failed.Timeout > 0:
		return Profile{}, nil, broken{why: fmt.Sprintf("the command did not end within %s", failed.Timeout)}
	case errors.As(err, &failed) && failed.Code < 0:
		return Profile{}, nil, broken{why: "the command: " + visible(failed.Err.Error())}
	case errors.As(err, &failed):
		return Profile{}, nil, broken{fmt.Sprintf("the command exits with %d", failed.Code), failed.Code == skipped}
	case err != nil:
		return Profile{}, nil, err
	}
	p, err := readProfile(m.Path(file), nil)
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil, broken{why: "the command wrote no $PROFILE_JSON"}
	} else if err != nil {
		fmt.Fprintln(m.log, err)
		return p, nil, broken{why: "the command wrote an invalid profile to $PROFILE_JSON"}
	}
	data, err := m.ReadFile(file)
	return p, data, err
}

// The unit reads a GPU every few seconds. The program waits at most lookTime for it, and
// reads the record every lookPause.
const (
	lookTime  = 30 * time.Second
	lookPause = time.Second
)

// record holds a unit's report about a measurement. A record from another source has only
// Valid and Reason, for the run that has just ended.
type record struct {
	Valid  *bool
	Reason string
	Level  *string // empty if the clocks are not fixed, which a repeated run would not change
	Looked string  // end of the covered time, RFC 3339; empty: none
	// InvalidSpans lists times with a problem.
	InvalidSpans *[]struct {
		From, To time.Time
		Reason   string
	} `json:"invalid_spans"`
}

// recorded returns why a run in that time is invalid, or "".
func (m *meter) recorded(ctx context.Context, began, ended time.Time) (why string, err error) {
	for m.record != "" {
		data, err := m.ReadFile(m.record)
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err != nil {
			return "", fmt.Errorf("cannot read the record GPU_FIXED_CLOCKS_RECORD: %w", err)
		}
		r, err := parseRecord(data)
		switch {
		case err != nil:
			return "", err
		case r.unfixed() && !m.warned:
			m.warned = true
			fmt.Fprintf(m.log, "the runs are as the GPU's own clocks make them: %s\n", r.reason())
			return "", nil
		case r.unfixed():
			return "", nil
		case r.covers(ended):
			return r.against(began, ended), nil
		case m.Now().Sub(ended) > lookTime:
			return "the unit did not look at the GPU after the end", nil
		case ctx.Err() != nil:
			return "", errors.New("interrupted")
		}
		m.Sleep(lookPause)
	}
	return "", nil
}

// parseRecord parses {"valid": false, "reason": "throttled"}; other fields are optional.
func parseRecord(data []byte) (r record, err error) {
	if err := json.Unmarshal(data, &r); err != nil {
		return r, fmt.Errorf("cannot read the record GPU_FIXED_CLOCKS_RECORD: %s", visible(err.Error()))
	}
	return r, nil
}

func (r record) unfixed() bool { return r.Level != nil && *r.Level == "" }

// covers reports whether the record covers the time until ended.
func (r record) covers(ended time.Time) bool {
	looked, err := time.Parse(time.RFC3339, r.Looked)
	return r.Level == nil || err == nil && !looked.Before(ended)
}

// against returns why a run in that time is invalid, or "".
func (r record) against(began, ended time.Time) string {
	if r.InvalidSpans == nil && (r.Valid == nil || *r.Valid) {
		return ""
	}
	if r.InvalidSpans == nil {
		return r.reason()
	}
	for _, s := range *r.InvalidSpans {
		if s.From.Before(ended) && s.To.After(began) {
			return reasonOf(s.Reason)
		}
	}
	return ""
}

func (r record) reason() string { return reasonOf(r.Reason) }

func reasonOf(text string) string {
	return cmp.Or(strings.TrimSpace(visible(strings.ToValidUTF8(text[:min(len(text), maxName)], ""))),
		"no reason is given")
}
