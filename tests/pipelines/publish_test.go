//go:build e2e

package pipelines

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// index is a package index: it takes uploads as twine sends them, and offers the files as pip
// reads them, both with a token.
type index struct {
	mu      sync.Mutex
	files   map[string][]byte
	uploads int
	damage  bool   // what it offers is another file
	hash    string // the fragment of links; "" for sha256
}

const indexToken = "pypi-SECRET0123"

func (x *index) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if user, password, _ := r.BasicAuth(); user != "__token__" || password != indexToken {
		w.Header().Set("WWW-Authenticate", `Basic realm="index"`)
		http.Error(w, "no such token", http.StatusUnauthorized)
		return
	}
	name := strings.TrimPrefix(r.URL.Path, "/files/")
	switch {
	case r.Method == http.MethodPost:
		x.upload(w, r)
	case r.URL.Path == "/simple/project/" && len(x.files) > 0:
		for name, data := range x.files {
			sum := fmt.Sprintf("sha256=%x", sha256.Sum256(data))
			if x.hash != "" {
				sum = x.hash
			}
			fmt.Fprintf(w, "<!DOCTYPE html><a href=\"../../files/%s#%s\">%s</a>", strings.ReplaceAll(name, "+", "%2B"), sum, name)
		}
	case x.files[name] != nil:
		w.Write(x.files[name])
	default:
		http.NotFound(w, r)
	}
}

func (x *index) upload(w http.ResponseWriter, r *http.Request) {
	file, header, err := r.FormFile("content")
	if err != nil || r.FormValue(":action") != "file_upload" {
		http.Error(w, "no file", http.StatusBadRequest)
		return
	}
	data, err := io.ReadAll(file)
	if err != nil || fmt.Sprintf("%x", sha256.Sum256(data)) != r.FormValue("sha256_digest") {
		http.Error(w, "another file", http.StatusBadRequest)
		return
	}
	if x.damage {
		data = append(data, 'x')
	}
	x.uploads++
	x.files[header.Filename] = data
}

// publishing is a step after the release of a wheel, with an index.
func publishing(t *testing.T) (*step, *index) {
	t.Helper()
	s, _ := toRelease(t)
	s.tagged(t, "v1.2.3")
	s.vars["verify-python"] = withTwine(t)
	x := &index{files: map[string][]byte{}}
	server := httptest.NewServer(x)
	t.Cleanup(server.Close)
	s.vars["index-url"], s.vars["index-simple-url"] = server.URL+"/", server.URL+"/simple/"
	s.vars["index-token"], s.vars["twine"] = indexToken, ""
	return s, x
}

// withTwine is a Python that has twine.
func withTwine(t *testing.T) string {
	t.Helper()
	for _, path := range []string{needPython(t, ""), "/usr/bin/python3"} {
		if exec.Command(path, "-m", "twine", "--version").Run() == nil {
			return path
		}
	}
	require.Empty(t, os.Getenv("E2E"), "needs twine: sudo apt-get install -y twine")
	t.Skip("needs twine: sudo apt-get install -y twine")
	return ""
}

func TestReleaseIsPublishedWithTheTestedChecksum(t *testing.T) {
	s, x := publishing(t)
	out := s.passes(t, "publish")
	require.Regexp(t, `published: project-1\.2\.3\+rocm-py3-none-any\.whl [0-9a-f]{64}\n`, out)
	require.NotContains(t, out, indexToken)
	require.Equal(t, 1, x.uploads)

	// pip installs it.
	simple := strings.Replace(s.vars["index-simple-url"], "http://", "http://__token__:"+indexToken+"@", 1)
	c := exec.Command(needPython(t, "pip"), "-m", "pip", "download", "--disable-pip-version-check", "--no-deps", "--index-url", simple,
		"--dest", s.path("got"), "project==1.2.3+rocm")
	c.Env = append(os.Environ(), "PIP_FIND_LINKS=")
	text, err := c.CombinedOutput()
	require.NoError(t, err, string(text))
	require.FileExists(t, s.path("got/project-1.2.3+rocm-py3-none-any.whl"))

	// Run again, it only looks.
	require.Contains(t, s.passes(t, "publish"), "published: project-1.2.3+rocm-py3-none-any.whl ")
	require.Equal(t, 1, x.uploads)
}

func TestPublishFails(t *testing.T) {
	const name = "project-1.2.3+rocm-py3-none-any.whl"
	for want, change := range map[string]func(s *step, x *index){
		"the index has another " + name + ": its SHA-256 is ": func(_ *step, x *index) { x.files[name] = []byte("an older build") },
		"the tested wheel's ":                         func(_ *step, x *index) { x.damage = true },
		"has no SHA-256 of " + name:                   func(_ *step, x *index) { x.files[name], x.hash = []byte("x"), "md5=0" },
		"/simple/project/ answers 401":                func(s *step, _ *index) { s.vars["index-token"] = "wrong" },
		"index-token is empty":                        func(s *step, _ *index) { s.vars["index-token"] = "" },
		"index-url begins with http: the token":       func(s *step, _ *index) { s.vars["index-url"] = "http://pypi.example/" },
		"index-simple-url is no URL without a passwo": func(s *step, _ *index) { s.vars["index-simple-url"] = "https://u:p@pypi.example/simple" },
		"twine can't upload " + name: func(s *step, _ *index) {
			s.vars["index-url"] = strings.TrimSuffix(s.vars["index-url"], "/") + "0/"
			s.vars["index-url"] = strings.Replace(s.vars["index-url"], "127.0.0.1", "localhost", 1)
		},
		"v1.2.4 would release version 1.2.3+rocm": func(s *step, _ *index) {
			s.git(t, "tag", "tag", "v1.2.4")
			require.NoError(t, os.WriteFile(s.path("tag/.git/ref"), []byte("v1.2.4\n"), 0o644))
		},
	} {
		t.Run(want, func(t *testing.T) {
			s, x := publishing(t)
			change(s, x)
			out, code := s.run(t, "publish")
			require.Equal(t, 1, code, out)
			require.Contains(t, out, want)
			require.NotContains(t, out, indexToken)
		})
	}
}

// backend is a build backend of Python that writes what it can read of the processes above it:
// pip runs such a program of each package that it builds.
const backend = `import os, zipfile

def build_wheel(folder, config_settings=None, metadata_directory=None):
    seen, pid = b"", os.getpid()
    while pid > 1:
        stat = open(f"/proc/{pid}/stat").read()
        for part in ("environ", "cmdline"):
            try:
                seen += open(f"/proc/{pid}/{part}", "rb").read()
            except PermissionError:
                pass
        pid = int(stat.rpartition(")")[2].split()[1])
    open(os.path.expanduser("~/seen"), "wb").write(seen)
    with zipfile.ZipFile(os.path.join(folder, "curious-1-py3-none-any.whl"), "w") as z:
        z.writestr("curious-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: curious\nVersion: 1\n")
        z.writestr("curious-1.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        z.writestr("curious-1.dist-info/RECORD", "")
    return "curious-1-py3-none-any.whl"
`

func TestProgramsOfPipDoNotGetTheToken(t *testing.T) {
	s, x := publishing(t)
	for name, text := range map[string]string{"backend.py": backend,
		"pyproject.toml": "[build-system]\nrequires = []\nbuild-backend = \"backend\"\nbackend-path = [\".\"]\n"} {
		require.NoError(t, os.MkdirAll(s.path("curious"), 0o755))
		require.NoError(t, os.WriteFile(s.path("curious/"+name), []byte(text), 0o644))
	}
	s.vars["twine"] = s.path("curious")
	s.passes(t, "publish")
	require.Equal(t, 1, x.uploads, "twine has the token")
	seen, err := os.ReadFile(s.path("seen"))
	require.NoError(t, err)
	require.Contains(t, string(seen), "INDEX_URL="+s.vars["index-url"])
	require.NotContains(t, string(seen), indexToken)
}

func TestWithoutAnIndexNothingIsPublished(t *testing.T) {
	s, x := publishing(t)
	s.vars["index-url"], s.vars["index-token"] = "", ""
	require.Contains(t, s.passes(t, "publish"), "index-url is empty: nothing is published\n")
	require.Zero(t, x.uploads)
}

// Whatever a package index answers is read, or refused with one line. The pages are made from
// parts that upset parsers of HTML and URLs.
func TestAnyPageOfAnIndexIsReadOrRefused(t *testing.T) {
	const sum = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	scripts, err := filepath.Abs("../../pipelines/tasks/rocm")
	require.NoError(t, err)
	program := `
import io, random, sys, urllib.error
sys.path.insert(0, "` + scripts + `")
import publish
class Opener:
    def open(self, page, timeout):
        return io.BytesIO(self.text)
good = b'<!DOCTYPE html><a href="../../files/p-1%2Br.whl#sha256=` + sum + `">p</a>'
parts = [b"<![", b"<!", b"<![foo[", b"<!DOCTYPE", b"<a href=", b"'", b'"', b">", b"</a>", b"<?", b"&#", b"&#x110000;", b"#", b"%ff", b"?", b"//[", b"\xff", b"\0", b"<!--", b"-->", b"<script>", b"p-1+r.whl", b"#sha256=", b"md5=0", good]
o, r = Opener(), random.Random(44)
texts = [good, b"", b"<![foo[x"] + [b"".join(r.choice(parts) for _ in range(r.randint(1, 12))) for _ in range(20000)]
found = refused = 0
for o.text in texts:
    try:
        out = publish.offered("http://x/simple", "p", "p-1+r.whl", o)
        assert out == "" or len(out) == 64, (o.text, out)
        found += out != ""
    except ValueError as e:
        refused += 1
        assert "\n" not in str(e), e
assert found and refused
print("read", found, "refused", refused)
`
	text, err := exec.Command(needPython(t, ""), "-c", program).CombinedOutput()
	require.NoError(t, err, string(text))
	t.Logf("%s", text)
}
