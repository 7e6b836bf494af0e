package suite

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/debian"
)

// ToolsFile is the name in the user's cache folder of the programs built from the module in
// dir: from its go.mod and go.sum, and from the flags if they can change.
func ToolsFile(dir string, how ...string) (string, error) {
	h := sha256.New()
	for _, name := range []string{"go.mod", "go.sum"} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return "", err
		}
		h.Write(data)
	}
	for _, text := range how {
		fmt.Fprint(h, text)
	}
	return fmt.Sprintf("%s-%s-%x.tar", filepath.Base(dir), runtime.GOARCH, h.Sum(nil)[:6]), nil
}

// ToolsCached reports whether Tools of these modules has nothing to build.
func ToolsCached(dirs ...string) (bool, error) {
	for _, dir := range dirs {
		name, err := ToolsFile(dir)
		if err != nil || !debian.Has(name) {
			return false, err
		}
	}
	return true, nil
}

// Tools puts the programs that a module's go.mod names as tools into a folder below into
// with the module's name, and builds them if the cache has none.
func Tools(ctx context.Context, dir, into string) error {
	name, err := ToolsFile(dir)
	if err != nil {
		return err
	}
	tar, err := debian.Cached(name, func(out *os.File) error {
		built, err := os.MkdirTemp("", filepath.Base(dir)+"-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(built)
		if err := BuildIn(dir, built, "tool"); err != nil {
			return err
		}
		return debian.Pack(ctx, out, built, ".")
	})
	if err != nil {
		return err
	}
	return debian.Unpack(ctx, tar, filepath.Join(into, filepath.Base(dir)))
}
