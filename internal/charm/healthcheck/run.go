package healthcheck

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
	"time"
	"unicode"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
)

const (
	maxOutput     = 4096 // bytes of output that are stored
	maxWhy        = 400  // bytes of a reason
	maxLog        = 1 << 20
	removeTimeout = 30 * time.Second // for a container's processes to end
)

// Run runs the health check to its end or its deadline. The caller holds the GPU's lock,
// see Lock.
func (j Job) Run(ctx context.Context, h host.Host, deadline time.Duration) (p quarantine.HealthCheck, output string) {
	p = quarantine.HealthCheck{Name: j.Address(), Command: j.Command, Began: h.Now().UTC()}
	defer func() { p.Ended = h.Now().UTC() }()
	not := func(err error) (quarantine.HealthCheck, string) {
		p.End, p.Reason = quarantine.NotRun, printable(err.Error(), maxWhy)
		return p, output
	}
	bundle := path.Join(Dir, j.id())
	if h.Exists(path.Join(bundle, "state")) { // the last run was killed
		if err := j.remove(ctx, h); err != nil {
			return not(fmt.Errorf(
				"the processes of the last health check hang in the driver: reboot the unit: %w",
				err))
		}
	}
	if err := j.write(h.Root, bundle); err != nil {
		return not(err)
	}
	log := path.Join(bundle, "log.json")
	out, err := h.Run(ctx, host.Command{Deadline: deadline, Tail: maxOutput, Argv: []string{
		j.Runc, "--root", h.Path(path.Join(bundle, "state")), "--log", h.Path(log), "--log-format", "json",
		"run", "--bundle", h.Path(bundle), j.id()}})
	output = printable(string(out), maxOutput)
	if left := j.remove(ctx, h); left != nil {
		output += fmt.Sprintf("\n(its processes do not end: %s)\n", printable(left.Error(), maxWhy))
	}
	var failed *host.CommandError
	switch {
	case err == nil:
		p.End = quarantine.Passed
	case !errors.As(err, &failed):
		return not(err)
	case failed.Timeout > 0:
		p.End, p.Late, p.Exit = quarantine.Failed, true, -1
	case failed.Code < 0:
		return not(err)
	default:
		if why := runcError(h.Root, log); why != "" {
			return not(fmt.Errorf("%s does not start it: %s", j.Runc, why))
		}
		p.End, p.Exit = quarantine.Failed, failed.Code
	}
	return p, output
}

// write writes the bundle, and replaces the previous one.
func (j Job) write(r host.Root, bundle string) error {
	t := findTree(r, j.Command)
	s, err := j.spec(t)
	if err != nil {
		return err
	}
	data, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("cannot encode the container's config: %w", err)
	}
	root := path.Join(bundle, "rootfs")
	if err := r.MkdirAll(Dir, 0o700); err != nil {
		return err
	}
	if err := r.MkdirAll(root, 0o755); err != nil {
		return err
	}
	for name, to := range t.links {
		if err := r.Remove(path.Join(root, name)); err != nil {
			return err
		}
		if err := os.Symlink(to, r.Path(path.Join(root, name))); err != nil {
			return err
		}
	}
	if err := r.Remove(path.Join(bundle, "log.json")); err != nil {
		return err
	}
	return r.WriteFile(path.Join(bundle, "config.json"), data, 0o600)
}

// remove deletes the container, whatever its state.
func (j Job) remove(ctx context.Context, h host.Host) error {
	_, err := h.Run(context.WithoutCancel(ctx), host.Command{Deadline: removeTimeout, Argv: []string{
		j.Runc, "--root", h.Path(path.Join(Dir, j.id(), "state")), "delete", "--force", j.id()}})
	return err
}

// runcError returns runc's own error, "" if the program ran. In the latter case the exit
// status is the program's. runc writes the error as JSON lines.
func runcError(r host.Root, log string) (why string) {
	data, err := r.ReadFile(log)
	if err != nil {
		return ""
	}
	for line := range bytes.Lines(data[:min(len(data), maxLog)]) {
		var entry struct{ Level, Msg string }
		if json.Unmarshal(line, &entry) == nil && entry.Level == "error" && entry.Msg != "" {
			why = entry.Msg
		}
	}
	return printable(why, maxWhy)
}

// printable returns the last limit bytes of a foreign text, without control characters.
func printable(s string, limit int) string {
	s = strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && !unicode.IsPrint(r) || r == unicode.ReplacementChar {
			return '?'
		}
		return r
	}, s)
	if len(s) > limit {
		s = strings.ToValidUTF8(s[len(s)-limit:], "")
	}
	return s
}
