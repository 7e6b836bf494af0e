//go:build e2e

package concourse

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/debian"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/guest"
	"github.com/fourdollars/concourse-ci-machine/tests/suite"
)

// outsideAt is where the stand-ins of testdata/resource.py find what is outside.
const outsideAt = "http://" + gateway + ":8099"

// The keys that an operator gives the pipeline. Whoever has none changes nothing.
const (
	readKey  = "AKIA-reads"
	writeKey = "writes-the-bucket"
	token    = "makes-releases"
)

// outside is the world of a pipeline: repositories of git, a bucket and a forge.
type outside struct {
	t   *testing.T
	dir string // git/<name>.git, bucket/<key>, releases/<owner>/<repository>/<tag>/<file>
	mu  sync.Mutex

	fetched []string // images, as registry/repository@digest
}

func newOutside(t *testing.T) *outside {
	t.Helper()
	o := &outside{t: t, dir: t.TempDir()}
	l, err := net.Listen("tcp", strings.TrimPrefix(outsideAt, "http://"))
	require.NoError(t, err)
	server := &http.Server{Handler: o}
	go server.Serve(l) // until it is closed
	t.Cleanup(func() { require.NoError(t, server.Close()) })
	return o
}

func (o *outside) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	file := filepath.Join(o.dir, filepath.Clean("/"+r.URL.Path))
	key := r.Header.Get("Authorization")
	top, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch {
	case r.Method == http.MethodPut && (top == "bucket" && key == writeKey || top == "releases" && key == token):
		data, err := io.ReadAll(r.Body)
		if err == nil {
			err = os.MkdirAll(filepath.Dir(file), 0o755)
		}
		if err == nil {
			err = os.WriteFile(file, data, 0o644)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	case r.Method == http.MethodGet && top == "registry":
		o.fetched = append(o.fetched, strings.TrimPrefix(r.URL.Path, "/registry/"))
	case r.Method == http.MethodGet && top == "bucket" && key == readKey && strings.HasSuffix(r.URL.Path, "/"):
		for _, name := range o.names(strings.TrimPrefix(r.URL.Path, "/")) {
			fmt.Fprintln(w, name)
		}
	case r.Method == http.MethodGet && (top == "git" || top == "bucket" && key == readKey):
		http.ServeFile(w, r, file)
	default:
		http.Error(w, r.Method+" "+r.URL.Path+" is not allowed", http.StatusForbidden)
	}
}

// requests are the images that were asked for, in their order.
func (o *outside) requests() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.fetched)
}

// names are the files below a folder, relative to it.
func (o *outside) names(folder string) (all []string) {
	root := filepath.Join(o.dir, folder)
	filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			all = append(all, strings.TrimPrefix(path, root+"/"))
		}
		return nil // a folder that no one wrote to yet has none
	})
	return all
}

// repository is one that a person works in and pushes from.
type repository struct {
	t         *testing.T
	work, uri string
	published string
}

// repository has the files of folders, each below its name in it.
func (o *outside) repository(name string, folders map[string]string) *repository {
	o.t.Helper()
	r := &repository{t: o.t, work: o.t.TempDir(), uri: outsideAt + "/git/" + name + ".git", published: filepath.Join(o.dir, "git", name+".git")}
	for at, from := range folders {
		require.NoError(o.t, os.CopyFS(filepath.Join(r.work, at), os.DirFS(from)))
	}
	r.git("init", "-q", "-b", "main")
	require.NoError(o.t, guest.Command("git", "init", "-q", "--bare", "-b", "main", r.published))
	r.push("begin")
	return r
}

func (r *repository) git(args ...string) string {
	r.t.Helper()
	c := exec.Command("git", append([]string{"-C", r.work, "-c", "user.name=t", "-c", "user.email=t@t.example"}, args...)...)
	out, err := c.CombinedOutput()
	require.NoError(r.t, err, "git %v: %s", args, out)
	return strings.TrimSpace(string(out))
}

// push commits all that changed and pushes it, and all tags.
func (r *repository) push(why string) (commit string) {
	r.t.Helper()
	r.git("add", ".")
	r.git("commit", "-q", "--allow-empty", "-m", why)
	r.publish()
	return r.git("rev-parse", "HEAD")
}

func (r *repository) publish() {
	r.t.Helper()
	r.git("push", "-q", "--tags", r.published, "HEAD:refs/heads/main")
	require.NoError(r.t, guest.Command("git", "-C", r.published, "update-server-info")) // for whoever reads it by plain HTTP
}

func (r *repository) write(name, text string) {
	r.t.Helper()
	require.NoError(r.t, os.WriteFile(filepath.Join(r.work, name), []byte(text), 0o644))
}

// ciImage is the tar of a Debian that replaces an image of ROCm: Python with pip and a
// torch that sees what a worker's file has. It is the image of all stand-ins for
// resource types, too.
func ciImage() (string, error) {
	tree, err := os.MkdirTemp("", "ci-image-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tree)
	resources := filepath.Join(tree, "opt/resource")
	modules := filepath.Join(tree, "usr/lib/python3/dist-packages")
	for _, dir := range []string{resources, modules} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return "", err
		}
	}
	for from, to := range map[string]string{"testdata/resource.py": filepath.Join(resources, "check"), "../pipelines/testdata/python/torch.py": filepath.Join(modules, "torch.py")} {
		text, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(to, text, 0o755)
		}
		if err != nil {
			return "", err
		}
	}
	for _, name := range []string{"in", "out"} {
		if err := os.Symlink("check", filepath.Join(resources, name)); err != nil {
			return "", err
		}
	}
	_, release, err := debian.Mirror()
	if err != nil {
		return "", err
	}
	return debian.System{Name: "ci-image", Suite: release, Packages: "ca-certificates,git,python3,python3-pip", Tree: tree,
		// No worker in a user namespace could unpack nodes.
		Script: "rm -rf /dev/* /var/cache/apt/* /var/lib/apt/lists/* /usr/share/doc/* /usr/share/locale/* /usr/share/man/* /usr/share/zoneinfo/*"}.Tar(context.Background()) // it ends with this program
}

// chainTarball is the release whose resource type registry-image is the stand-in.
func chainTarball(t *testing.T) string {
	t.Helper()
	needRelease(t)
	image, err := ciImage()
	require.NoError(t, err)
	made := filepath.Join(built, "chain.tgz") // if the machines see it
	require.NoError(t, suite.WithRegistryImage(t.Context(), image, t.TempDir(), made))
	return made
}

// put returns what another program stored.
func (o *outside) put(name, text string) {
	o.t.Helper()
	file := filepath.Join(o.dir, name)
	require.NoError(o.t, os.MkdirAll(filepath.Dir(file), 0o755))
	require.NoError(o.t, os.WriteFile(file, []byte(text), 0o644))
}
