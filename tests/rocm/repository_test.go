//go:build e2e

package rocm

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// signer is a key of gpg's.
type signer struct {
	home        string
	public      []byte // armored
	fingerprint string
}

func (s *signer) gpg(stdin string, args ...string) ([]byte, error) {
	c := exec.Command("gpg", append([]string{"--homedir", s.home, "--batch", "--quiet"}, args...)...)
	c.Stdin = strings.NewReader(stdin)
	var errs bytes.Buffer
	c.Stderr = &errs
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("cannot run gpg %v: %w: %s", args, err, &errs)
	}
	return out, nil
}

func newSigner(name string) (*signer, error) {
	s := &signer{home: filepath.Join(top, "gpg-"+name)}
	if err := os.Mkdir(s.home, 0o700); err != nil {
		return nil, err
	}
	_, err := s.gpg("", "--passphrase", "", "--quick-gen-key", name+" <"+name+"@example.com>", "rsa2048", "sign", "never")
	if err == nil {
		s.public, err = s.gpg("", "--armor", "--export")
	}
	if err != nil {
		return nil, err
	}
	list, err := s.gpg("", "--with-colons", "--list-keys")
	for line := range strings.Lines(string(list)) {
		if f := strings.Split(line, ":"); f[0] == "fpr" && s.fingerprint == "" {
			s.fingerprint = f[9]
		}
	}
	return s, err
}

func makeKeys() (err error) {
	if keys.good, err = newSigner("good"); err == nil {
		keys.other, err = newSigner("other")
	}
	return err
}

// deb is a built package.
type deb struct {
	name    string // of the file
	data    []byte
	control string
}

// recipe is what a package is made of.
type recipe struct {
	name, version, depends string
	files                  map[string]string // path to content; executable
	preinst, postinst      string            // after #!/bin/sh -e
	prerm                  string            // after #!/bin/sh
}

// broken is the file that has a package of these tests fail to be configured.
func broken(name string) string { return "/srv/broken-" + name }

// makeDeb builds a package with dpkg-deb.
func makeDeb(r recipe) (*deb, error) {
	dir := filepath.Join(top, "debs", r.name+"_"+strings.ReplaceAll(r.version, ":", "%3a"))
	control := fmt.Sprintf("Package: %s\nVersion: %s\nArchitecture: all\nMaintainer: Test <test@example.com>\nDescription: stands in for %s\n",
		r.name, r.version, r.name)
	if r.depends != "" {
		control += "Depends: " + r.depends + "\n"
	}
	files := map[string]string{"DEBIAN/control": control,
		"DEBIAN/postinst": "#!/bin/sh -e\nif [ -e " + broken(r.name) + " ]; then echo 'cannot be configured' >&2; exit 1; fi\n" + r.postinst + "\n"}
	if r.preinst != "" {
		files["DEBIAN/preinst"] = "#!/bin/sh -e\n" + r.preinst + "\n"
	}
	if r.prerm != "" {
		files["DEBIAN/prerm"] = "#!/bin/sh\n" + r.prerm + "\n"
	}
	maps.Copy(files, r.files)
	for path, text := range files {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			return nil, err
		}
	}
	if out, err := exec.Command("dpkg-deb", "--root-owner-group", "-Znone", "--build", dir, dir+".deb").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("cannot build %s: %w: %s", r.name, err, out)
	}
	data, err := os.ReadFile(dir + ".deb")
	return &deb{filepath.Base(dir) + ".deb", data, control}, err
}

// packages is a signed repository as files: one suite, one component. A zero
// until never expires.
func packages(s *signer, suite string, until time.Time, debs ...*deb) (map[string][]byte, error) {
	files := map[string][]byte{}
	var index strings.Builder
	for _, d := range debs {
		files["pool/"+d.name] = d.data
		fmt.Fprintf(&index, "%sFilename: pool/%s\nSize: %d\nSHA256: %x\n\n", d.control, d.name, len(d.data), sha256.Sum256(d.data))
	}
	release := fmt.Sprintf("Origin: repo.radeon.com\nSuite: %s\nCodename: %s\nDate: Thu, 01 Jan 2026 00:00:00 UTC\nArchitectures: amd64\nComponents: main\n", suite, suite)
	if !until.IsZero() {
		release += "Valid-Until: " + until.UTC().Format("Mon, 02 Jan 2006 15:04:05 MST") + "\n"
	}
	list := index.String()
	release += fmt.Sprintf("SHA256:\n %x %d main/binary-amd64/Packages\n", sha256.Sum256([]byte(list)), len(list))
	signed, err := s.gpg(release, "--clearsign")
	files["dists/"+suite+"/InRelease"], files["dists/"+suite+"/main/binary-amd64/Packages"] = signed, []byte(list)
	return files, err
}

// site is a web server with repositories, on a port that stays its own.
type site struct {
	t      *testing.T
	addr   string
	mu     sync.Mutex
	files  map[string][]byte
	asked  []string
	server *http.Server
}

func newSite(t *testing.T) *site {
	s := &site{t: t, addr: "127.0.0.1:0", files: map[string][]byte{}}
	s.start()
	t.Cleanup(func() { s.server.Close() })
	return s
}

func (s *site) url() string { return "http://" + s.addr }

func (s *site) start() {
	l, err := net.Listen("tcp", s.addr)
	require.NoError(s.t, err)
	s.addr = l.Addr().String()
	s.server = &http.Server{Handler: s}
	go s.server.Serve(l)
}

// stop makes the site unreachable.
func (s *site) stop() { require.NoError(s.t, s.server.Close()) }

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.asked = append(s.asked, r.URL.Path)
	data, ok := s.files[r.URL.Path]
	s.mu.Unlock()
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Write(data)
}

// publish puts a repository at a path of the site, in place of what was there.
func (s *site) publish(at string, by *signer, until time.Time, names ...string) {
	s.t.Helper()
	var debs []*deb
	for _, n := range names {
		require.Contains(s.t, stock, n)
		debs = append(debs, stock[n])
	}
	files, err := packages(by, "noble", until, debs...)
	require.NoError(s.t, err)
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.files, func(path string, _ []byte) bool { return strings.HasPrefix(path, at+"/") })
	for path, data := range files {
		s.files[at+"/"+path] = data
	}
}

func (s *site) put(path string, data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files[path] = data
}
