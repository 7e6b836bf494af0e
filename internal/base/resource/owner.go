package resource

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"

	"concourse-ci-machine/internal/base/host"
)

// account is a user and its primary group, by number.
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
		return 0, 0, fmt.Errorf("there is no user %s", owner)
	}
	return a.uid, a.gid, nil
}
