package relation

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The other side of a relation may be a program of any author.
func TestTextsOfTheOtherSideAreBounded(t *testing.T) {
	const maxID = 200
	text := func(n int) string { return strings.Repeat("x", n) }
	require.NoError(t, checkSecretID(text(maxID)))
	require.Error(t, checkSecretID(text(maxID+1)))
	require.NoError(t, plainText(text(maxText)))
	require.Error(t, plainText(text(maxText+1)))
	for host, ok := range map[string]bool{text(maxHostName): true, text(maxHostName + 1): false} {
		_, _, err := hostPort(host+":65535", 0)
		require.Equal(t, ok, err == nil, "%d", len(host))
	}
	pem := caPEM(t)
	_, err := certificates(pem + strings.Repeat("\n", maxPEM-len(pem)))
	require.NoError(t, err)
	_, err = certificates(pem + strings.Repeat("\n", maxPEM-len(pem)+1))
	require.ErrorContains(t, err, "longer than 262144 bytes")
}

func TestVersionOfAWorkerIsBounded(t *testing.T) {
	for version, want := range map[string]string{"": "", " 8.2.5\n": "8.2.5", "123456.123456.123456": "123456.123456.123456",
		"1234567.123456.123456": ""} {
		require.Equal(t, want, WorkerVersion(map[string]string{"worker-version": version}), version)
	}
	bag := WorkerDatabag(line(t, "a"), "gpu-3", "8.3.0")
	require.Equal(t, "8.3.0", WorkerVersion(bag))
}

// Some providers append the port to an IPv6 address without brackets.
func TestAddressesAreReadWithTheirPort(t *testing.T) {
	type address struct {
		host string
		port int
	}
	for text, want := range map[string]address{
		"db:1": {"db", 1}, "db:65535": {"db", 65535}, "db": {"db", 7}, "10.0.0.9:5432": {"10.0.0.9", 5432},
		"[fd00::9]:5432": {"fd00::9", 5432}, "[fd00::9]": {"fd00::9", 7}, "fd00::9": {"fd00::9", 7}, "::1": {"::1", 7},
		"fd00::9:5432": {"fd00::9", 5432}, "::1:80": {"::1", 80},
	} {
		host, port, err := hostPort(text, 7)
		require.NoError(t, err, text)
		require.Equal(t, want, address{host, port}, text)
	}
	for _, text := range []string{"", ":80", "a:b:80", "fe80::1%eth0:80", "db:65536", "db:0", "db:", "db:[80"} {
		_, _, err := hostPort(text, 7)
		require.Error(t, err, text)
	}
	_, _, err := hostPort("db", 0)
	require.EqualError(t, err, `"db" is not host:port`)
}

func TestTimeToDrainIsBounded(t *testing.T) {
	for text, ok := range map[string]bool{"": true, "0s": true, "-1ns": false, "24h": true, "24h0m0.000000001s": false, "soon": false} {
		_, problems := ParseDrain(map[string]string{"drain-timeout": text}, 24*time.Hour)
		require.Equal(t, ok, len(problems) == 0, "%s %v", text, problems)
	}
	d, _ := ParseDrain(DrainDatabag(90*time.Minute), 24*time.Hour)
	require.Equal(t, 90*time.Minute, d)
}

func TestListsOfTheOtherSideAreBounded(t *testing.T) {
	const receivers = `[{"protocol": {"name": "otlp_grpc"}, "url": "tempo:4317"}]`
	archs := func(n int) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf("gfx9%02x=1", i))
		}
		return strings.Join(all, ",")
	}
	spaces := func(text string, n int) string { return text + strings.Repeat(" ", n-len(text)) }
	for name, c := range map[string]struct {
		text string
		most int
		read func(text string) error
	}{
		"endpoints":   {`["https://ci.example.com"]`, maxEndpoints, func(s string) error { _, err := ParseRoute(map[string]string{"endpoints": s}, ""); return err }},
		"receivers":   {receivers, maxReceivers, func(s string) error { _, _, err := ParseTracing(map[string]string{"receivers": s}); return err }},
		"authorities": {`["x"]`, maxAuthorities, func(s string) error { _, err := textsOf(s); return err }},
		"servers":     {`["ldap://ldap.example.com"]`, maxText, func(s string) error { _, err := ldapHost(s, "ldap"); return err }},
	} {
		require.NoError(t, c.read(spaces(c.text, c.most)), name)
		require.Error(t, c.read(spaces(c.text, c.most+1)), name)
	}
	counts, err := parseArchs(archs(maxArchs), maxArchs)
	require.NoError(t, err)
	require.Len(t, counts, maxArchs)
	_, err = parseArchs(archs(maxArchs+1), 100)
	require.ErrorContains(t, err, "want at most 16 architectures")
}

func TestSocketsOfThisMachineHaveAPort(t *testing.T) {
	for text, ok := range map[string]bool{"/run/pg:1": true, "/run/pg:65535": true, "/run/pg:0": false, "/run/pg:65536": false,
		"/run/pg:": false, "/run/pg": false, "/run/../pg:1": false, "/run/p\ng:1": false} {
		host, port, err := serverOf(text)
		require.Equal(t, ok, err == nil, text)
		require.Equal(t, ok, host == "/run/pg" && port > 0, text)
	}
}

func TestGPUsOfAWorkerAtTheirLimits(t *testing.T) {
	g, problems := ParseWorkerGPUs(map[string]string{"gpu-count": "1024", "gpu-missing": "1024"})
	require.Empty(t, problems)
	require.Equal(t, WorkerGPUs{Count: 1024, Missing: 1024}, g)
	for year, ok := range map[int]bool{1999: false, 2000: true, 9000: true, 9001: false} {
		each := fmt.Sprintf(`{"at":"%d-08-01T14:00:00Z","gpus":[{"index":1023}]}`, year)
		_, problems := ParseWorkerGPUs(map[string]string{"gpu-count": "1", "gpus": each})
		require.Equal(t, ok, len(problems) == 0, "%d %v", year, problems)
	}
}
