//go:build kubernetes

package kubernetes

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"concourse-ci-machine/tests/debian"
	"concourse-ci-machine/tests/suite"
)

// modules are folders with a go.mod whose tools are programs of the node.
var modules = []string{"k8s", "containerd"}

// cacheFile is the name of the tar with a module's programs.
func cacheFile(module string) (string, error) {
	h := sha256.New()
	for _, name := range []string{"go.mod", "go.sum"} {
		data, err := os.ReadFile(filepath.Join(module, name))
		if err != nil {
			return "", err
		}
		h.Write(data)
	}
	return fmt.Sprintf("%s-%s-%x.tar", module, runtime.GOARCH, h.Sum(nil)[:6]), nil
}

// cached says whether nothing has to be built.
func cached() (bool, error) {
	for _, module := range modules {
		name, err := cacheFile(module)
		if err != nil || !debian.Has(name) {
			return false, err
		}
	}
	return true, nil
}

// programs unpacks a module's programs into a folder below dir with the module's name,
// after building them where the cache has none.
func programs(ctx context.Context, module, dir string) error {
	name, err := cacheFile(module)
	if err != nil {
		return err
	}
	tar, err := debian.Cached(name, func(out *os.File) error {
		into, err := os.MkdirTemp("", module+"-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(into)
		if err := suite.BuildIn(module, into, "tool"); err != nil {
			return err
		}
		return debian.Pack(ctx, out, into, ".")
	})
	if err != nil {
		return err
	}
	return debian.Unpack(ctx, tar, filepath.Join(dir, module))
}
