package guest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/debian"
)

// PackRelease makes the tarball to of a Concourse release, which is a published tarball or
// its unpacked folder.
func PackRelease(ctx context.Context, release, to string) error {
	st, err := os.Stat(release)
	if err != nil {
		return err
	}
	argv := []string{"cp", "--reflink=auto", release, to}
	if st.IsDir() {
		if _, err := os.Stat(filepath.Join(release, "bin/concourse")); err != nil {
			return err
		}
		argv = []string{"tar", "-cf", to, "-I", "gzip -1", "-C", release, "--transform", "s,^\\.,concourse,", "."}
	}
	if err := debian.Run(ctx, argv...); err != nil {
		return fmt.Errorf("cannot pack %s: %w", release, err)
	}
	return nil
}
