package baseline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"concourse-ci-machine/internal/base/host"
)

// attempts is how often a run is made that a record says is invalid.
const attempts = 3

// skipped is the exit status by which a command asks to leave a commit out, as git bisect
// has it.
const skipped = 125

// meter runs commands that write profiles. Its temporary folder has the worktrees.
type meter struct {
	host.Host
	log     io.Writer
	dir     string
	record  string // a file; empty: none
	timeout time.Duration
	trees   map[string]string // by commit
	told    bool              // that the clocks are not fixed
}

// newMeter makes the folder, which close takes away.
func newMeter(h host.Host, log io.Writer, timeout time.Duration) (*meter, error) {
	dir, err := os.MkdirTemp("", "gpu-baseline-")
	if err != nil {
		return nil, fmt.Errorf("cannot make a folder for worktrees: %w", cause(err))
	}
	return &meter{Host: h, log: log, dir: dir, record: os.Getenv("GPU_BENCH_RECORD"), timeout: timeout, trees: map[string]string{}}, nil
}

// close removes what newMeter and checkout made, also when the search was interrupted.
func (m *meter) close() error {
	var errs []error
	for id := range m.trees {
		errs = append(errs, m.leave(id))
	}
	return errors.Join(append(errs, os.RemoveAll(m.dir))...)
}

// checkout is the worktree of a commit.
func (m *meter) checkout(ctx context.Context, id string) (string, error) {
	if tree, ok := m.trees[id]; ok {
		return tree, nil
	}
	tree := filepath.Join(m.dir, id)
	m.trees[id] = tree
	_, err := m.Run(ctx, host.Command{Argv: []string{"git", "worktree", "add", "--quiet", "--force", "--detach", tree, id}, Deadline: m.timeout})
	if err != nil {
		return "", fmt.Errorf("cannot check out %s: %w", id, err)
	}
	return tree, nil
}

// leave removes a worktree. It has a context of its own: it comes after an interruption, too.
func (m *meter) leave(id string) error {
	tree, ok := m.trees[id]
	delete(m.trees, id)
	if _, err := m.Stat(tree); !ok || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	_, err := m.Run(context.Background(), host.Command{Argv: []string{"git", "worktree", "remove", "--force", "--force", tree}})
	return err
}

// broken says why a command measured nothing.
type broken struct {
	why  string
	skip bool // it asked for that
}

func (b broken) Error() string { return b.why }

// invalid says that each run's record had it as invalid.
type invalid struct{ why string }

func (i invalid) Error() string {
	return fmt.Sprintf("cannot measure: %d runs in turn were invalid: %s", attempts, i.why)
}

// measure runs a command in a folder and returns the profile that it wrote, and its
// bytes. The error is broken, invalid, or of what must not go on.
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
		fmt.Fprintf(m.log, "the run is invalid and is made again: %s\n", why)
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
		return p, nil, broken{why: "the command wrote a $PROFILE_JSON that is no profile"}
	}
	data, err := m.ReadFile(file)
	return p, data, err
}
