package onemachine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/release"
	"github.com/fourdollars/concourse-ci-machine/internal/oci/engines"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// dpkg writes the database of installed packages.
func dpkg(t *testing.T, r host.Root, names ...string) {
	t.Helper()
	var b strings.Builder
	for _, name := range names {
		fmt.Fprintf(&b, "Package: %s\nStatus: install ok installed\nVersion: 1\n\n", name)
	}
	hosttest.Put(t, r, resource.DpkgStatus, b.String())
}

const pgSimulation = "Inst libpq5 (15.18 Debian [amd64])\nInst libc6 [2.36] (2.37 Debian [amd64])\n" +
	"Inst postgresql-15 (15.18 Debian [amd64]) []\nInst postgresql (15 Debian [all])\n" +
	"Conf libpq5 (15.18 Debian [amd64])\n"

// The first run fails without a network, and the operator installs packages before the next.
func TestPackagesOfTheOperatorAreNotRecorded(t *testing.T) {
	r := hosttest.Root(t)
	dpkg(t, r, "libc6")
	runner := hosttest.NewRunner(t).Fail("apt-get update", 100, "no network")
	m := machineOn(t, r).Model
	m.Host.Runner = runner
	require.NoError(t, m.Save())
	install := func() error { return m.apply(t.Context(), ownPackages{m}) }
	require.Error(t, install())
	require.Empty(t, m.state.Packages)

	runner.Answer("apt-get update", "").Answer("apt-get install", pgSimulation)
	var recorded []string
	fails := errors.New("killed")
	runner.On("apt-get install", func(c host.Command) (string, error) {
		if slices.Contains(c.Argv, "--simulate") {
			return pgSimulation, nil
		}
		again, err := Load(m.Host)
		require.NoError(t, err)
		recorded = again.state.Packages
		require.True(t, m.Host.Exists(noMainCluster))
		return "", fails
	})
	require.Error(t, install())
	require.Equal(t, []string{"libpq5", "postgresql", "postgresql-15"}, recorded, "before apt runs")
	require.Empty(t, m.state.Packages, "apt did not add them")
	require.False(t, m.Host.Exists(noMainCluster), "it would be in the operator's way")

	dpkg(t, r, "libc6", "libpq5", "nginx")
	fails = nil
	runner.On("apt-get install", func(c host.Command) (string, error) {
		if slices.Contains(c.Argv, "--simulate") {
			return strings.ReplaceAll(pgSimulation, "Inst libpq5", "Conf libpq5"), nil
		}
		dpkg(t, r, "libc6", "libpq5", "nginx", "postgresql", "postgresql-15")
		return "", fails
	})
	require.NoError(t, install())
	require.Equal(t, []string{"postgresql", "postgresql-15"}, m.state.Packages)
}

// purge waits for other users of apt.
const purge = "apt-get purge --yes -o DPkg::Lock::Timeout=600"

func TestPurgeOfPackages(t *testing.T) {
	all := []string{"libpq5", "libxml2", "nginx", "postgresql", "postgresql-15"}
	needs := map[string]string{"libpq5": "postgresql-15", "libxml2": "postgresql-15", "postgresql-15": "postgresql"}
	for name, tt := range map[string]struct {
		cluster string
		manual  string
		needs   map[string]string // of the operator
		want    string            // note
		purged  string
	}{
		"nothing needs them": {"", "postgresql nginx", nil, "", "libpq5 libxml2 postgresql postgresql-15"},
		"another needs one of two": {"", "", map[string]string{"libpq5 libxml2": "nginx"},
			"other packages need libxml2, or you installed it; it stays", "libpq5 postgresql postgresql-15"},
		"a cluster of others": {"/16/main/postgresql.conf", "", nil,
			"that would drop the cluster 16/main, which is not the CI's; they stay", ""},
		"the operator installed one": {"", "postgresql libpq5", nil,
			"other packages need libpq5, or you installed it; it stays", "libxml2 postgresql postgresql-15"},
		"another needs one": {"", "postgresql", map[string]string{"libxml2": "nginx"},
			"other packages need libxml2, or you", "libpq5 postgresql postgresql-15"},
		"another needs all": {"", "postgresql", map[string]string{"postgresql": "nginx"},
			"other packages need libpq5, libxml2, postgresql, postgresql-15, or you", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := hosttest.Root(t)
			dpkg(t, r, all...)
			if tt.cluster != "" {
				hosttest.Put(t, r, clustersDir+tt.cluster, "")
			}
			purged := ""
			runner := hosttest.NewRunner(t).Answer("apt-mark showmanual", tt.manual)
			runner.On(purge, func(c host.Command) (string, error) {
				require.Greater(t, len(c.Argv), 5, "apt would purge nothing")
				purged = strings.Join(c.Argv[5:], " ")
				gone := func(name string) bool { return slices.Contains(c.Argv, name) }
				dpkg(t, r, slices.DeleteFunc(slices.Clone(all), gone)...)
				return "", nil
			}).On(purge+" --simulate", func(c host.Command) (string, error) {
				var out strings.Builder
				for both, n := range tt.needs {
					one, other, _ := strings.Cut(both, " ")
					if slices.Contains(c.Argv, one) && slices.Contains(c.Argv, other) {
						fmt.Fprintf(&out, "Remv %s [1]\n", n)
					}
				}
				for _, name := range c.Argv[6:] {
					for ; name != ""; name = needs[name] {
						fmt.Fprintf(&out, "Purg %s [1]\n", name)
						if n := tt.needs[name]; n != "" {
							fmt.Fprintf(&out, "Remv %s [1]\n", n)
						}
					}
				}
				return out.String(), nil
			})
			m, out := machineOn(t, r).Model, &strings.Builder{}
			m.Host.Runner, m.Progress.W = runner, out
			require.NoError(t, m.apply(t.Context(), noPackages{[]string{"gone", "libpq5", "libxml2", "postgresql", "postgresql-15"}}))
			require.Equal(t, tt.purged, purged)
			require.Equal(t, tt.want != "", strings.Contains(out.String(), "could not"))
			require.Contains(t, out.String(), tt.want)
		})
	}
}

// The end of a purge removes the record, so another try must be possible.
func TestPurgeEndsIfAptFails(t *testing.T) {
	r := hosttest.Root(t)
	dpkg(t, r, pgPackage)
	m := machineOn(t, r).Model
	m.state.Packages = []string{pgPackage}
	m.Host.Runner = hosttest.NewRunner(t).Answer("apt-mark showmanual", "").Answer(purge+" --simulate", "Purg postgresql [1]\n").
		Fail(purge, 100, "E: Could not get lock /var/lib/dpkg/lock-frontend")
	err := m.RemoveDatabase(t.Context())
	require.ErrorContains(t, err, "purge PostgreSQL's packages: ")
	require.ErrorContains(t, err, "lock-frontend; repair apt, then run again: sudo concourse-ci-machine purge")
}

// A cluster is the machine's by its name. The machine made it, upgraded it, or was ended while
// it made it.
func TestClusterIsMadeAgainUnlessItIsComplete(t *testing.T) {
	const name = "concourse_abcdefgh"
	for text, tt := range map[string]struct {
		made        bool
		files, want []string
	}{
		"missing": {false, nil, []string{"flock true", "flock pg_createcluster 17 " + name}},
		"removed": {true, nil, []string{"flock true", "flock pg_createcluster 17 " + name}},
		"others' clusters": {false, []string{"15/concourse/postgresql.conf:port = 5432", "15/main/start.conf:"},
			[]string{"flock true", "flock pg_createcluster 17 " + name}},
		"incomplete": {false, []string{"15/" + name + "/postgresql.conf:#port = 5432",
			"15/main/postgresql.conf:port = 5432"},
			[]string{"flock true", "pg_dropcluster --stop 15 " + name, "flock pg_createcluster 17 " + name}},
		"complete":         {false, []string{"15/" + name + "/postgresql.conf:port = 5432"}, nil},
		"upgraded":         {false, []string{"9/" + name + "/start.conf:", "15/" + name + "/postgresql.conf:port = 5432"}, nil},
		"used, no port":    {true, []string{"15/" + name + "/postgresql.conf:#port = 5432"}, nil},
		"used, no setting": {true, []string{"15/" + name + "/start.conf:"}, nil},
	} {
		t.Run(text, func(t *testing.T) {
			h := host.Host{Root: hosttest.Root(t)}
			var ran []string
			record := func(c host.Command) (string, error) {
				ran = append(ran, strings.ReplaceAll(c.String(), clusterLock+" ", ""))
				return "", nil
			}
			h.Runner = hosttest.NewRunner(t).On("flock", record).On("pg_dropcluster", record)
			for _, v := range []string{"9", "15", "17"} {
				hosttest.Put(t, h.Root, pgBinaries+"/"+v+"/bin/initdb", "")
			}
			for _, f := range tt.files {
				file, content, _ := strings.Cut(f, ":")
				hosttest.Put(t, h.Root, clustersDir+"/"+file, content+"\n")
			}
			p, err := cluster{name: name, made: tt.made}.Diff(t.Context(), h)
			require.NoError(t, err)
			_, err = p.Apply(t.Context(), nil)
			require.NoError(t, err)
			require.Equal(t, tt.want, ran)
			for _, f := range tt.files {
				file, _, _ := strings.Cut(f, ":")
				stays := text != "incomplete" || strings.Contains(file, "main")
				require.Equal(t, stays, h.Exists(clustersDir+"/"+file), file)
			}
		})
	}
}

func TestPortOfTheCluster(t *testing.T) {
	for text, want := range map[string]int{"port = 5433": 5433, "PORT=5433\t# own": 5433, "port 5433": 5433,
		" port='5433' ": 5433, "port = 5432\nport '5433'": 5433, "#port = 5432": 0, "support = 5433": 0, "port = x": 0,
		"port5433": 0, "port = 5433s": 0, "": 0} {
		r := hosttest.Root(t)
		hosttest.Put(t, r, clustersDir+"/17/c/postgresql.conf", "a = 1\n"+text+"\nb = 2\n")
		got, err := clusterPort(r, clustersDir+"/17/c")
		require.Equal(t, want, got, text)
		require.Equal(t, want == 0, err != nil, text)
	}
}

func TestMachineWithFilesOfOthersIsNotSetUp(t *testing.T) {
	for name, tt := range map[string]struct{ file, want string }{
		"none":                 {"/var/lib/concourse/lost+found/1", ""},
		"a data folder":        {"/var/lib/concourse/data/1", "/var/lib/concourse/data is in a folder of the CI"},
		"another work folder":  {"/var/lib/concourse/worker/volumes/1", "/var/lib/concourse/worker is in"},
		"left by a purge":      {"/var/lib/concourse/worker/cache/", ""},
		"left from Juju":       {"/var/lib/concourse/releases/8/bin/fly", ""},
		"shared storage":       {"/var/lib/concourse/.lxc_shared_storage", ""},
		"the source":           {"/opt/concourse-ci-machine/README.md", "/opt/concourse-ci-machine/README.md is in"},
		"gpukit leases":        {"/etc/concourse-ci-machine/wrapper.json", "gpukit leases its GPUs"},
		"gpukit's records":     {"/var/lib/concourse-ci-machine/engines/docker.json", ""},
		"options before Up":    {"/etc/concourse-ci-machine/config.yaml", ""},
		"left by a killed Up":  {"/var/lib/concourse-ci-machine/.machine.json.17~", ""},
		"state of a worker":    {"/var/lib/concourse-worker/keys/worker_key", "worker_key is in a folder of the CI"},
		"state of the service": {"/var/lib/concourse-ci-machine/gpu-fixed-clocks/0", "move it away, because purge removes"},
	} {
		t.Run(name, func(t *testing.T) {
			r := hosttest.Root(t)
			if strings.HasSuffix(tt.file, "/") {
				require.NoError(t, r.MkdirAll(tt.file, 0o755))
			} else {
				hosttest.Put(t, r, tt.file, "x: 1")
			}
			err := machineOn(t, r).refuseFolders()
			if tt.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tt.want)
			require.ErrorContains(t, err, "cannot set up this machine: ")
		})
	}
}

func TestPurgeLeavesFilesOfOthersInTheFolderOfTheCI(t *testing.T) {
	own := []string{"releases/8/bin/fly", "worker/volumes/live/1", "keys/tsa_host_key", "config.env", ".config.env.17~",
		"units/a"}
	for name, tt := range map[string]struct {
		others, mounts string
		note           string
	}{
		"only the CI's":        {"", "", ""},
		"an older folder":      {"", "", ""},
		"a disk of its own":    {"lost+found/1", "31 20 8:2 / /var/lib/concourse rw - ext4 /dev/sdb rw\n", ""},
		"a folder":             {"models/1", "", "/var/lib/concourse/models is not from the CI; it stays"},
		"storage of LXD hosts": {".lxc_shared_storage", "", ""},
		"a mount in a folder": {"worker/cache/1", "31 20 8:2 / /var/lib/concourse/worker/cache rw - ext4 /dev/sdb rw\n",
			"a file system is mounted on /var/lib/concourse/worker/cache; it stays"},
	} {
		t.Run(name, func(t *testing.T) {
			m := machineOn(t, hosttest.Root(t)).Model
			var out strings.Builder
			m.Progress.W = &out
			if tt.mounts != "" {
				hosttest.Put(t, m.Host.Root, "/proc/self/mountinfo", "20 1 8:1 / / rw - ext4 /dev/sda1 rw\n"+tt.mounts)
			}
			if name == "an older folder" {
				require.NoError(t, m.Host.MkdirAll(release.HomeDir, 0o755))
			}
			m.recordFolders()
			for _, f := range append([]string{tt.others}, own...) {
				if f != "" {
					hosttest.Put(t, m.Host.Root, "/var/lib/concourse/"+f, "x")
				}
			}
			require.NoError(t, m.apply(t.Context(), append([]plan.Resource{noHome{}}, m.noFolders()...)...))
			require.Equal(t, name != "only the CI's", m.Host.Exists(release.HomeDir))
			shared := name == "storage of LXD hosts"
			for _, f := range own {
				require.Equal(t, shared, m.Host.Exists("/var/lib/concourse/"+f), f)
			}
			if tt.others != "" {
				require.True(t, m.Host.Exists("/var/lib/concourse/"+tt.others))
			}
			if tt.note == "" {
				require.NotContains(t, out.String(), "could not")
			} else {
				require.Contains(t, out.String(), "could not remove all of /var/lib/concourse: "+tt.note)
			}
		})
	}
}

// The operator's user has the name of the web's.
func TestOnlyTheOwnUserIsRecorded(t *testing.T) {
	for name, tt := range map[string]struct {
		passwd, group string
		fails         bool
		want          bool
	}{
		"made":         {"", "", false, true},
		"there":        {"concourse:x:1001:1001::/home/c:/bin/sh\n", "concourse:x:1001:\n", false, false},
		"group there":  {"", "concourse:x:1001:\n", false, false},
		"useradd ends": {"", "", true, false},
	} {
		t.Run(name, func(t *testing.T) {
			m := machineOn(t, hosttest.Root(t)).Model
			hosttest.Put(t, m.Host.Root, "/etc/passwd", tt.passwd)
			hosttest.Put(t, m.Host.Root, "/etc/group", tt.group)
			m.Host.Runner = hosttest.NewRunner(t).On("useradd", func(host.Command) (string, error) {
				again, err := Load(m.Host)
				require.NoError(t, err)
				require.Equal(t, tt.group == "", again.state.OwnUser, "recorded before")
				if tt.fails {
					return "", errors.New("no space")
				}
				return "", nil
			})
			err := m.apply(context.Background(), ownUser{m})
			require.Equal(t, tt.fails, err != nil)
			again, err := Load(m.Host)
			require.NoError(t, err)
			require.Equal(t, tt.want, again.state.OwnUser)
		})
	}
}

// Up was refused, or the operator wrote options first.
func TestPurgeOfAMachineThatWasNotSetUpRemovesItsOptions(t *testing.T) {
	r := hosttest.Root(t)
	for _, f := range []string{OptionsFile, "/etc/concourse-ci-machine/notes", "/var/lib/concourse/worker/1"} {
		hosttest.Put(t, r, f, "x: 1")
	}
	require.NoError(t, machineOn(t, r).Purge(t.Context()))
	require.False(t, r.Exists(OptionsFile))
	require.True(t, r.Exists("/etc/concourse-ci-machine/notes"))
	require.True(t, r.Exists("/var/lib/concourse/worker/1"))
	require.ErrorIs(t, machineOn(t, r).Purge(t.Context()), errNotUp)

	require.NoError(t, r.MkdirAll(wellknown.StateDir, 0o755))
	require.NoError(t, machineOn(t, r).CheckSetUp(), "a purge was killed at its end")
	require.NoError(t, machineOn(t, r).Purge(t.Context()))
	require.False(t, r.Exists(wellknown.StateDir))

	hosttest.Put(t, r, engines.Records+"/docker.json", "{}")
	require.ErrorIs(t, machineOn(t, r).CheckSetUp(), errNotUp, "gpukit has its records there")
}
