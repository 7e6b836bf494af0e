package oci

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/gpu/cdispec/edits"
)

// withCertificates is a unit that gives its tasks nothing more.
func withCertificates(t *testing.T) (b *testbed, mount edits.Mount) {
	t.Helper()
	b = newTestbed(t)
	file := b.path("ca-certificates.crt")
	require.NoError(t, os.WriteFile(file, []byte("PEM\n"), 0o644))
	b.configure(t, func(c *Config) { *c = Config{Runtime: c.Runtime, State: c.State, CACertificates: file} })
	return b, edits.Mount{Destination: caPath, Type: "bind", Source: file,
		Options: []string{"bind", "ro", "nosuid", "nodev", "noexec"}}
}

func (b *testbed) certificates(t *testing.T) (mounts []edits.Mount, env []string) {
	t.Helper()
	require.NoError(t, b.create())
	r := b.result(t)
	for _, m := range r.Mounts {
		if m.Destination == caPath {
			mounts = append(mounts, edits.Mount{Destination: m.Destination, Type: m.Type, Source: m.Source,
				Options: m.Options})
		}
	}
	for _, e := range r.Process.Env {
		for _, name := range caVariables {
			if strings.HasPrefix(e, name+"=") {
				env = append(env, e)
			}
		}
	}
	return mounts, env
}

func TestTasksFindTheMachinesCertificates(t *testing.T) {
	all := func(except ...string) (env []string) {
		for _, name := range caVariables {
			if len(except) == 0 || !strings.HasPrefix(except[0], name+"=") {
				env = append(env, name+"="+caPath)
			}
		}
		return append(except, env...)
	}
	own := func(source string) func(map[string]any) {
		return func(spec map[string]any) {
			spec["mounts"] = append(spec["mounts"].([]any),
				map[string]any{"destination": caPath, "source": source, "type": "bind"})
		}
	}
	for name, c := range map[string]struct {
		kind   string
		change func(map[string]any)
		given  bool
		env    []string
	}{
		"a task": {"task", env("A=b"), true, all()},
		"one that names its own": {"task", env("SSL_CERT_FILE=/etc/own.pem"), true,
			all("SSL_CERT_FILE=/etc/own.pem")},
		"one that wants none":          {"task", env("GIT_SSL_CAINFO="), true, all("GIT_SSL_CAINFO=")},
		"one with a volume there":      {"task", own("/var/lib/volume"), false, nil},
		"a check, which has Concourse": {"check", env("A=b"), false, nil},
		"a get, which has Concourse":   {"get", env("A=b"), false, nil},
	} {
		b, want := withCertificates(t)
		b.bundle(t, c.kind, c.change)
		mounts, env := b.certificates(t)
		require.Equal(t, c.env, env, name)
		if c.given {
			require.Equal(t, []edits.Mount{want}, mounts, name)
		} else {
			require.NotContains(t, mounts, want, name)
		}
		once := b.text(t)
		require.NoError(t, b.create())
		require.True(t, compact(t, once) == compact(t, b.text(t)), "twice is once")
	}
}

// What Concourse executes later has them by the note for exec.
func TestExecFindsTheMachinesCertificates(t *testing.T) {
	b, _ := withCertificates(t)
	b.bundle(t, "task")
	require.NoError(t, b.create())
	b.put(t, "process", `{"args":["true"],"env":["SSL_CERT_FILE=/own","PATH=/bin"],"user":{"uid":0}}`)
	require.NoError(t, b.call("exec", "--process", b.path("process"), "c1"))
	data, err := os.ReadFile(b.argv[3])
	require.NoError(t, err)
	require.Contains(t, string(data), `"env":["SSL_CERT_FILE=/own","PATH=/bin","REQUESTS_CA_BUNDLE=`+caPath+`"`)
}

func TestMissingCertificatesFailNoTask(t *testing.T) {
	for name, spoil := range map[string]func(file string) error{
		"missing": os.Remove,
		"a folder": func(file string) error {
			if err := os.Remove(file); err != nil {
				return err
			}
			return os.Mkdir(file, 0o755)
		},
	} {
		b, want := withCertificates(t)
		require.NoError(t, spoil(want.Source))
		b.bundle(t, "task")
		before := b.text(t)
		mounts, env := b.certificates(t)
		require.Empty(t, mounts, name)
		require.Empty(t, env, name)
		require.True(t, before == b.text(t), name)
	}
}

func TestUnitsEnvironmentOfGPUTasksComesFirst(t *testing.T) {
	b := newTestbed(t)
	file := b.path("ca-certificates.crt")
	require.NoError(t, os.WriteFile(file, []byte("PEM\n"), 0o644))
	b.configure(t, func(c *Config) {
		c.Env,
			c.CACertificates = map[string]string{"SSL_CERT_FILE": "/srv/ca.pem"}, file
	})
	b.bundle(t, "task")
	_, env := b.certificates(t)
	require.Contains(t, env, "SSL_CERT_FILE=/srv/ca.pem")
	require.Len(t, env, len(caVariables))
}

func TestPathOfCertificatesIsAbsolute(t *testing.T) {
	require.EqualError(t, CheckConfig([]byte(`{"ca_certificates":"x.crt"}`)), `ca_certificates: "x.crt" is not an absolute path`)
}
