package release

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"regexp"
	"time"

	"concourse-ci-machine/internal/host"
	"concourse-ci-machine/internal/plan"
)

var versionInText = regexp.MustCompile(`\b[0-9]+\.[0-9]+\.[0-9]+\b`)

// programs that have to be in a release for a worker to run.
func programs() []string { return []string{"bin/concourse", "bin/containerd", "bin/runc"} }

// unpack makes the folder id from the tarball from, which this process opens
// by that name. Until the last rename it is called .unpack-<id>; what a killed
// run left there is thrown away.
func (r *Release) unpack(ctx context.Context, h host.Host, id, from string, o origin) error {
	dir := path.Join(Dir, ".unpack-"+id)
	if err := os.RemoveAll(h.Path(dir)); err != nil {
		return err
	}
	if err := h.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	shown := path.Base(from)
	plan.Say(ctx, "Extracting Concourse "+orElse(r.Version, shown)+"...")
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	err = untar(ctx, h.Path(dir), f, releaseLimits)
	var bad problem
	if err == nil {
		o.Version, err = releaseVersion(ctx, h, dir)
	}
	if err == nil && r.Version != "" && o.File == "" && o.Version != r.Version {
		err = errors.Join(&VersionError{Path: shown, Want: r.Version, Got: o.Version}, r.refuse(h.Root, o.SHA256, o.Version))
	}
	if err != nil {
		if errors.As(err, &bad) {
			err = &badReleaseError{Path: shown, Problem: string(bad)}
		}
		return errors.Join(err, os.RemoveAll(h.Path(dir)))
	}
	if err := h.WriteFile(dir+"/VERSION", []byte(o.Version+"\n"), 0o644); err != nil {
		return err
	}
	if err := writeOrigin(h.Root, dir, o); err != nil {
		return err
	}
	if err := syncTree(h.Path(dir)); err != nil {
		return err
	}
	if err := os.Rename(h.Path(dir), h.Path(path.Join(Dir, id))); err != nil {
		return err
	}
	return syncDir(h.Path(Dir))
}

// releaseVersion checks that the worker's programs are there and asks the
// main one for its version. It is the first time that anything of the release
// runs; its checksum has been verified, or the operator attached it.
func releaseVersion(ctx context.Context, h host.Host, dir string) (string, error) {
	for _, p := range programs() {
		st, err := h.Stat(path.Join(dir, p))
		if err != nil || !st.Mode().IsRegular() || st.Mode()&0o111 == 0 {
			return "", problem(p + " is missing or not executable")
		}
	}
	out, err := h.Run(ctx, host.Command{ReadOnly: true, Deadline: 30 * time.Second,
		Argv: []string{h.Path(path.Join(dir, "bin/concourse")), "--version"}})
	var cmd *host.CommandError
	if errors.As(err, &cmd) {
		return "", problem(fmt.Sprintf("bin/concourse does not run on this machine: %s", orElse(cmd.LastLine(), cmd.Err.Error())))
	}
	if err != nil {
		return "", err
	}
	version := string(versionInText.Find(out[:min(len(out), 4096)]))
	if CheckVersion(version) != nil {
		return "", problem("bin/concourse --version prints no version")
	}
	return version, nil
}

func writeOrigin(root host.Root, dir string, o origin) error {
	data, err := json.Marshal(o)
	if err != nil {
		return err
	}
	return root.WriteFile(path.Join(dir, originName), append(bytes.TrimSpace(data), '\n'), 0o644)
}

// syncTree makes the names of a tree durable; the files' contents were synced
// when they were written. Folders get their mode whatever the umask is: users
// that are not this process's run what is in them.
func syncTree(dir string) error {
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := syncTree(path.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return syncDir(dir)
}

func orElse(s, otherwise string) string {
	if s != "" {
		return s
	}
	return otherwise
}
