//go:build e2e

package container

import (
	"crypto/tls"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/oci"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

const server = "ci.example.org"

// serves has a TLS server of the authority at a socket in the task's volume.
func (b *bed) serves(a hosttest.Authority) {
	b.t.Helper()
	l, err := net.Listen("unix", b.path("volume/socket"))
	require.NoError(b.t, err)
	require.NoError(b.t, os.Chmod(b.path("volume/socket"), 0o777))
	b.t.Cleanup(func() { l.Close() })
	config := &tls.Config{Certificates: []tls.Certificate{a.Server(b.t, server)}}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_ = tls.Server(conn, config).Handshake() // the client reports
			conn.Close()
		}
	}()
}

// A task really verifies a server of a private authority, in whatever container and
// whatever its image is like, and nothing of the host is written.
func TestTaskTrustsThePrivateAuthorityOfItsUnit(t *testing.T) {
	const at = "opt/concourse-ci-machine/ca-certificates.crt"
	for name, c := range map[string]struct {
		maps  []idMap
		uid   int
		trust bool      // the unit has the authority
		env   string    // of the task's command
		image [2]string // a link in the image, and its target
		want  string
	}{
		"a task":                       {maps: concourse, trust: true, want: "verified"},
		"another user":                 {maps: concourse, uid: 1000, trust: true, want: "verified"},
		"a privileged task":            {trust: true, want: "verified"},
		"without the authority":        {maps: concourse, want: "certificate signed by unknown authority"},
		"one that trusts others":       {maps: concourse, trust: true, env: "SSL_CERT_FILE=/none", want: "certificate signed by unknown authority"},
		"an image with a link for opt": {maps: concourse, trust: true, image: [2]string{"opt", "HOST"}, want: "verified"},
		"an image with a link there":   {trust: true, image: [2]string{at, "HOST/file"}, want: "verified"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, 0o660)
			b.maps, b.uid = c.maps, c.uid
			authority, victim := hosttest.NewAuthority(t, "private"), b.path("victim")
			require.NoError(t, os.WriteFile(b.path("bundle.crt"), []byte(authority.PEM), 0o644))
			require.NoError(t, os.Mkdir(victim, 0o777))
			require.NoError(t, os.WriteFile(filepath.Join(victim, "file"), []byte("host\n"), 0o644))
			var unit oci.Config
			if c.trust {
				unit.CACertificates = b.path("bundle.crt")
			}
			b.configure(unit)
			b.bundle()
			data, err := os.ReadFile(filepath.Join(os.Getenv(insideEnv), "tlsclient"))
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(b.path("bundle/rootfs/bin/tlsclient"), data, 0o755))
			if link := b.path("bundle/rootfs/" + c.image[0]); c.image[0] != "" {
				require.NoError(t, os.MkdirAll(filepath.Dir(link), 0o755))
				require.NoError(t, os.Symlink(strings.Replace(c.image[1], "HOST", victim, 1), link))
			}
			b.serves(authority)
			b.output(func() error { return b.runc(io.Discard, "start", b.id) }, "create", "--bundle", b.path("bundle"), b.id)
			p := process(c.uid, "tlsclient /tmp/build/0badcafe/socket "+server+"\necho x 2>/dev/null >>/"+at+" && echo written\ntrue\n")
			if c.env != "" {
				p["env"] = append(p["env"].([]string), c.env)
			}
			b.write("process", p)
			out := b.output(nil, "exec", "--process", b.path("process"), b.id)
			require.Contains(t, out, c.want)
			if c.trust {
				require.NotContains(t, out, "written", "it is there to read only")
			}
			text, err := os.ReadFile(b.path("bundle.crt"))
			require.NoError(t, err)
			require.Equal(t, authority.PEM, string(text))
			entries, err := os.ReadDir(victim)
			require.NoError(t, err)
			require.Len(t, entries, 1)
			text, err = os.ReadFile(filepath.Join(victim, "file"))
			require.NoError(t, err)
			require.Equal(t, "host\n", string(text))
		})
	}
}
