package baseline

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
)

// gitRange returns the commits of OLD..NEW from git, oldest first. It follows first
// parents, so that each commit is a state of the branch.
func gitRange(ctx context.Context, r host.Runner, spec string) ([]Commit, error) {
	old, now, ok := strings.Cut(spec, "..")
	if !ok || old == "" || strings.HasPrefix(now, ".") {
		return nil, fmt.Errorf("cannot bisect %s: want OLD..NEW", quoted(spec))
	}
	now = cmp.Or(now, "HEAD")
	ids := []string{}
	for _, rev := range []string{old, now} {
		id, err := resolve(ctx, r, rev)
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	if _, err := git(ctx, r, "merge-base", "--is-ancestor", ids[0], ids[1]); err != nil {
		return nil, fmt.Errorf("cannot bisect %s: %s is not among the commits before %s, or the clone lacks what "+
			"is between: %w", quoted(spec), quoted(old), quoted(now), err)
	}
	var all []Commit
	for _, args := range [][]string{{"-1", ids[0]}, {ids[0] + ".." + ids[1]}} {
		out, err := git(ctx, r, append([]string{"log", "--first-parent", "--reverse", "--format=%H%x09%P%x09%s"},
			args...)...)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(out) {
			f := strings.SplitN(strings.TrimSuffix(line, "\n"), "\t", 3)
			if len(f) == 3 {
				all = append(all, Commit{f[0], f[2], strings.Contains(f[1], " ")})
			}
		}
	}
	return all, nil
}

// resolve returns the id of a commit, by any name that git accepts.
func resolve(ctx context.Context, r host.Runner, rev string) (string, error) {
	id, err := git(ctx, r, "rev-parse", "--verify", "--quiet", "--end-of-options", rev+"^{commit}")
	if err != nil {
		return "", fmt.Errorf("cannot find the commit %s: is this the folder of a clone that has it? %w",
			quoted(rev), err)
	}
	return strings.TrimSpace(id), nil
}

func git(ctx context.Context, r host.Runner, args ...string) (string, error) {
	out, err := r.Run(ctx, host.Command{Argv: append([]string{"git"}, args...), ReadOnly: true})
	return string(out), err
}

// parseVersions parses the versions of a pipeline. The input is the output of fly
// resource-versions --json, newest first, or one version in the first word of each line,
// oldest first. A version is a commit's id, or the path of its profile.
func parseVersions(file string, data []byte) ([]Commit, error) {
	var all []Commit
	fail := func(format string, a ...any) ([]Commit, error) {
		return nil, fmt.Errorf("cannot read %s: %s", visible(file), fmt.Sprintf(format, a...))
	}
	add := func(where, version, subject string) error {
		id := version
		if commit, ok := profileName(path.Base(version)); ok {
			id = commit
		}
		if !isID(id) {
			return fmt.Errorf("%s is %s; want a commit's id, or the path of its profile", where, quoted(short(version)))
		}
		// The same commit measured again is the same version.
		if !slices.ContainsFunc(all, func(c Commit) bool { return sameCommit(c.ID, id) }) {
			all = append(all, Commit{ID: id, Subject: subject})
		}
		return nil
	}
	if data = bytes.TrimSpace(data); bytes.HasPrefix(data, []byte("[")) {
		var listed []struct {
			Version struct{ Ref, Path string }
		}
		if err := json.Unmarshal(data, &listed); err != nil {
			return fail("it is not a list of versions: %s", visible(err.Error()))
		}
		for i, v := range slices.Backward(listed) {
			if err := add(fmt.Sprintf("version %d", i+1), v.Version.Ref+v.Version.Path, ""); err != nil {
				return fail("%v", err)
			}
		}
		return all, nil
	}
	n := 0
	for line := range strings.Lines(string(data)) {
		n++
		version, subject, _ := strings.Cut(strings.TrimSpace(line), " ")
		if version == "" || strings.HasPrefix(version, "#") {
			continue
		}
		if err := add(fmt.Sprintf("line %d", n), version, strings.TrimSpace(subject)); err != nil {
			return fail("%v", err)
		}
	}
	return all, nil
}

// isID reports whether s may be a commit's id, or a sufficiently long beginning of one.
func isID(s string) bool {
	return len(s) >= 7 && len(s) <= 64 && strings.Trim(s, "0123456789abcdef") == ""
}

// sameCommit compares two ids. One may be the beginning of the other.
func sameCommit(a, b string) bool {
	n := min(len(a), len(b))
	return a[:n] == b[:n]
}

// profileName returns the commit of profile-<time>-<commit>.json.
func profileName(name string) (id string, ok bool) {
	name, ends := strings.CutSuffix(name, ".json")
	name, begins := strings.CutPrefix(name, "profile-")
	stamp, id, cut := strings.Cut(name, "-")
	return id, ends && begins && cut && stamp != "" && strings.Trim(stamp, "0123456789") == "" && isID(id)
}
