package worker

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/resourcetest"
)

const stub = "# This is /run/systemd/resolve/stub-resolv.conf\nnameserver 127.0.0.53\noptions edns0 trust-ad\nsearch lab\n"

// D31: Concourse 8.2.5 gives tasks no name server where systemd-resolved writes resolv.conf.
func TestTasksGetTheNameServersBehindALocalResolver_D31(t *testing.T) {
	for name, c := range map[string]struct {
		resolv, resolved string
		want             []string
	}{
		"systemd-resolved":  {stub, "nameserver 10.0.0.53\nnameserver fd00::53\nnameserver fe80::1%eth0\nsearch lab\n", []string{"10.0.0.53", "fd00::53"}},
		"servers of others": {"nameserver 10.1.1.1\n", "nameserver 10.0.0.53\n", nil},
		"dnsmasq":           {"nameserver 127.0.0.1\n", "", nil},
		"no file":           {"", "", nil},
		"nonsense":          {"nameserver\nnameserver x\n", "nameserver y\n", nil},
	} {
		r := host.Root(t.TempDir())
		for file, text := range map[string]string{resolvConf: c.resolv, resolvedConf: c.resolved} {
			if text != "" {
				hosttest.Put(t, r, file, text)
			}
		}
		got, err := machineNameServers(r)
		require.NoError(t, err, name)
		require.Equal(t, c.want, got, name)
	}
}

func TestNameServersOfTheOptionComeFirst(t *testing.T) {
	r := hosttest.Host(t, "no-gpu")
	hosttest.Put(t, r, resolvConf, stub)
	hosttest.Put(t, r, resolvedConf, "nameserver 10.0.0.53\n")
	for option, want := range map[string]string{"": "10.0.0.53", "9.9.9.9": "9.9.9.9"} {
		o := observed(t, r, map[string]any{"compute-runtime": "none", "containerd-dns-server": option})
		var err error
		o.NameServers, err = machineNameServers(r)
		require.NoError(t, err)
		d := Desire(o, nil)
		env, found := resourcetest.File(d.Resources, concourse.EnvFile)
		require.True(t, found)
		require.Equal(t, want, concourse.EnvValues([]byte(env))["CONCOURSE_CONTAINERD_DNS_SERVER"])
	}
}
