package resource

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
)

// User describes a system user without a login, with a group of the same name. An existing
// user is not changed.
type User struct {
	Name string
	Home string // not created
}

// Diff implements plan.Resource.
func (u User) Diff(_ context.Context, h host.Host) (plan.Plan, error) {
	_, present, err := lookupAccount(h.Root, u.Name)
	if err != nil || present {
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
	hasGroup, err := GroupExists(root, u.Name)
	if err != nil {
		return nil, err
	}
	argv := []string{"useradd", "--system"}
	if !root.Real() { // never change the machine's own users for another root
		argv = append(argv, "--prefix", root.Path("/"))
	}
	if hasGroup {
		argv = append(argv, "--gid", u.Name)
	} else {
		argv = append(argv, "--user-group")
	}
	return append(argv, "--no-create-home", "--home-dir", u.Home, "--shell", "/bin/false", u.Name), nil
}

// GroupExists reports whether the machine has a group.
func GroupExists(root host.Root, name string) (bool, error) {
	data, err := root.ReadFile("/etc/group")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("cannot look up group %s: %w", name, err)
	}
	return bytes.Contains(append([]byte("\n"), data...), []byte("\n"+name+":")), nil
}

// account identifies a user and its primary group, by number.
type account struct{ uid, gid int }

// lookupAccount finds a user in /etc/passwd of the root. Accounts of a directory service
// are not searched, because no service of the machine uses them. ok is false if the user
// does not exist.
func lookupAccount(root host.Root, name string) (a account, ok bool, err error) {
	if name == "root" {
		return account{}, true, nil
	}
	data, err := root.ReadFile("/etc/passwd")
	if errors.Is(err, fs.ErrNotExist) {
		return account{}, false, nil
	}
	if err != nil {
		return account{}, false, fmt.Errorf("cannot look up user %s: %w", name, err)
	}
	for line := range bytes.Lines(data) {
		// name:password:uid:gid:comment:home:shell
		field := strings.Split(strings.TrimSpace(string(line)), ":")
		if len(field) < 4 || field[0] != name {
			continue
		}
		uid, uerr := strconv.ParseUint(field[2], 10, 31)
		gid, gerr := strconv.ParseUint(field[3], 10, 31)
		if uerr != nil || gerr != nil {
			return account{}, false, fmt.Errorf("cannot look up user %s: its line of /etc/passwd has no numbers", name)
		}
		return account{int(uid), int(gid)}, true, nil
	}
	return account{}, false, nil
}

// managesOwners reports whether this process can change the owner of files.
func managesOwners() bool { return os.Geteuid() == 0 }

// ownerDiffers returns why a file does not belong to owner, or "" if it does or the owner
// is not checked. An earlier step creates a missing user.
func ownerDiffers(h host.Host, st fs.FileInfo, owner string) (string, error) {
	if owner == "" || !managesOwners() {
		return "", nil
	}
	want, ok, err := lookupAccount(h.Root, owner)
	if err != nil {
		return "", err
	}
	have, isUnix := st.Sys().(*syscall.Stat_t)
	if !ok || !isUnix || int(have.Uid) != want.uid || int(have.Gid) != want.gid {
		return "not owned by " + owner, nil
	}
	return "", nil
}

// ids resolves owner when a step runs. -1 leaves the owner unchanged.
func ids(h host.Host, owner string) (uid, gid int, err error) {
	if owner == "" || !managesOwners() {
		return -1, -1, nil
	}
	a, ok, err := lookupAccount(h.Root, owner)
	if err != nil {
		return 0, 0, err
	}
	if !ok {
		return 0, 0, fmt.Errorf("user %s is missing", owner)
	}
	return a.uid, a.gid, nil
}

// UserExists reports whether the machine has a user.
func UserExists(root host.Root, name string) (bool, error) {
	_, ok, err := lookupAccount(root, name)
	return ok, err
}
