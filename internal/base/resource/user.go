package resource

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/base/plan"
)

// User is a system user without a login, with a group of the same name. An existing user is
// not changed.
type User struct {
	Name string
	Home string // not created
}

// Diff implements plan.Resource.
func (u User) Diff(_ context.Context, h host.Host) (plan.Plan, error) {
	_, there, err := lookupAccount(h.Root, u.Name)
	if err != nil || there {
		return nil, err
	}
	return plan.Plan{{Op: "make user " + u.Name, Why: "missing", Do: func(ctx context.Context) error {
		argv, err := u.command(h.Root)
		if err != nil {
			return err
		}
		_, err = h.Run(ctx, host.Command{Argv: argv})
		return err
	}}}, nil
}

// command returns the useradd(8) command. It names an existing group, left from a removed
// user, because useradd would fail otherwise.
func (u User) command(root host.Root) ([]string, error) {
	group, err := root.ReadFile("/etc/group")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cannot look up group %s: %w", u.Name, err)
	}
	argv := []string{"useradd", "--system"}
	if !root.Real() { // never change the machine's own users for another root
		argv = append(argv, "--prefix", root.Path("/"))
	}
	if bytes.Contains(append([]byte("\n"), group...), []byte("\n"+u.Name+":")) {
		argv = append(argv, "--gid", u.Name)
	} else {
		argv = append(argv, "--user-group")
	}
	return append(argv, "--no-create-home", "--home-dir", u.Home, "--shell", "/bin/false", u.Name), nil
}
