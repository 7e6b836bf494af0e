package resource

import (
	"context"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

const passwd = "root:x:0:0:root:/root:/bin/sh\nconcourse:x:4711:4712::/var/lib/concourse:/bin/false\n"

func TestLookupAccount(t *testing.T) {
	for name, c := range map[string]struct {
		passwd string
		want   account
		ok     bool
		err    string
	}{
		"there":            {passwd, account{4711, 4712}, true, ""},
		"not there":        {"root:x:0:0::/:/bin/sh\n", account{}, false, ""},
		"only a beginning": {"concourse2:x:1:1::/:/bin/sh\n", account{}, false, ""},
		"no numbers":       {"concourse:x:a:b::/:/bin/sh\n", account{}, false, "has no numbers"},
		"negative":         {"concourse:x:-1:-1::/:/bin/sh\n", account{}, false, "has no numbers"},
		"cut off":          {"concourse:x\n", account{}, false, ""},
	} {
		r := hosttest.Root(t)
		hosttest.Put(t, r, "/etc/passwd", c.passwd)
		got, ok, err := lookupAccount(r, "concourse")
		if c.err != "" {
			require.ErrorContains(t, err, c.err, name)
			continue
		}
		require.NoError(t, err, name)
		require.Equal(t, c.ok, ok, name)
		require.Equal(t, c.want, got, name)
	}
	_, ok, err := lookupAccount(hosttest.Root(t), "concourse")
	require.NoError(t, err)
	require.False(t, ok, "a root without /etc/passwd has no user")
	_, ok, err = lookupAccount(hosttest.Root(t), "root")
	require.NoError(t, err)
	require.True(t, ok, "root is everywhere")
}

// Without root the owner is neither compared nor set, so that a unit can be
// played by anybody.
func TestOwnerIsNotCheckedWithoutRoot(t *testing.T) {
	if managesOwners() {
		t.Skip("running as root")
	}
	h, _ := machine(t)
	want := []plan.Resource{Dir{Path: "/keys", Mode: 0o700, Owner: "concourse"}, File{Path: "/keys/a", Mode: 0o600, Owner: "concourse"}}
	p, err := plan.Diff(context.Background(), h, want...)
	require.NoError(t, err)
	_, err = p.Apply(context.Background(), nil)
	require.NoError(t, err)
	p, err = plan.Diff(context.Background(), h, want...)
	require.NoError(t, err)
	require.Empty(t, p)
}

func owner(t *testing.T, h host.Host, path string) account {
	t.Helper()
	st, err := h.Lstat(path)
	require.NoError(t, err)
	unix := st.Sys().(*syscall.Stat_t)
	return account{int(unix.Uid), int(unix.Gid)}
}

// D11: what has the right owner is left alone, whichever unit looks; what has
// another is given to the user of this machine, by name.
func TestOwnerIsMadeRightOnce_D11(t *testing.T) {
	if !managesOwners() {
		t.Skip("only root can give a file to another user")
	}
	h, _ := machine(t)
	hosttest.Put(t, h.Root, "/etc/passwd", passwd)
	want := []plan.Resource{Dir{Path: "/keys", Mode: 0o700, Owner: "concourse"}, File{Path: "/keys/a", Data: []byte("x"), Mode: 0o600, Owner: "concourse"}}
	run := func() (ops []string) {
		p, err := plan.Diff(context.Background(), h, want...)
		require.NoError(t, err)
		_, err = p.Apply(context.Background(), nil)
		require.NoError(t, err)
		for _, s := range p {
			ops = append(ops, s.Op+" ("+s.Why+")")
		}
		return ops
	}
	require.Equal(t, []string{"make directory /keys (missing)", "write /keys/a (missing)"}, run())
	require.Empty(t, run())
	for _, p := range []string{"/keys", "/keys/a"} {
		require.Equal(t, account{4711, 4712}, owner(t, h, p))
		require.NoError(t, os.Chown(h.Path(p), 0, 0))
	}
	require.Equal(t, []string{"make directory /keys (not owned by concourse)", "write /keys/a (not owned by concourse)"}, run())
	require.Empty(t, run())
	require.Equal(t, account{4711, 4712}, owner(t, h, "/keys/a"))
}

func TestUnknownOwnerLeavesTheOldFile(t *testing.T) {
	if !managesOwners() {
		t.Skip("only root can give a file to another user")
	}
	h, _ := machine(t)
	hosttest.Put(t, h.Root, "/a", "old")
	p, err := plan.Diff(context.Background(), h, File{Path: "/a", Data: []byte("new"), Mode: 0o644, Owner: "nobody-of-that-name"})
	require.NoError(t, err)
	_, err = p.Apply(context.Background(), nil)
	require.EqualError(t, err, "cannot write /a: user nobody-of-that-name is missing")
	text, err := h.ReadText("/a")
	require.NoError(t, err)
	require.Equal(t, "old", text)
}

func TestUserIsMadeOnce(t *testing.T) {
	for name, c := range map[string]struct{ group, want string }{
		"new":             {"", "--user-group"},
		"its group left":  {"concourse:x:900:\n", "--gid concourse"},
		"another's group": {"concourse2:x:900:\n", "--user-group"},
	} {
		h, r := machine(t)
		hosttest.Put(t, h.Root, "/etc/group", "root:x:0:\n"+c.group)
		r.On("useradd", hosttest.Useradd(h.Root))
		u := User{Name: "concourse", Home: "/var/lib/concourse"}
		apply(t, h, u)
		require.Equal(t, []string{"useradd --system --prefix " + h.Path("/") + " " + c.want +
			" --no-create-home --home-dir /var/lib/concourse --shell /bin/false concourse"}, r.Ran, name)
		require.Empty(t, diff(t, h, u), name)
	}
	argv, err := User{Name: "a", Home: "/h"}.command("/")
	require.NoError(t, err)
	require.NotContains(t, argv, "--prefix", "the machine itself needs none")
}

// useradd itself, on its own root: it needs no root there.
func TestUseraddUnderstandsTheCommand(t *testing.T) {
	if _, err := exec.LookPath("useradd"); err != nil {
		t.Skip("useradd is not installed")
	}
	for name, group := range map[string]string{"new": "", "its group left": "concourse:x:900:\n"} {
		h := host.Host{Root: hosttest.Root(t), Runner: host.Exec{}}
		hosttest.Put(t, h.Root, "/etc/passwd", "root:x:0:0::/root:/bin/sh\n")
		hosttest.Put(t, h.Root, "/etc/group", "root:x:0:\n"+group)
		u := User{Name: "concourse", Home: "/var/lib/concourse"}
		apply(t, h, u)
		require.Empty(t, diff(t, h, u), name)
		text, err := h.ReadText("/etc/passwd")
		require.NoError(t, err)
		require.Regexp(t, `(?m)^concourse:[^:]*:\d+:\d+:[^:]*:/var/lib/concourse:/bin/false$`, text, name)
	}
}
