package guest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// PackRelease makes the tarball to of a Concourse release, which is a published tarball or
// its unpacked folder.
func PackRelease(release, to string) error {
	st, err := os.Stat(release)
	if err != nil {
		return err
	}
	if !st.IsDir() {
		return Command("cp", "--reflink=auto", release, to)
	}
	if _, err := os.Stat(filepath.Join(release, "bin/concourse")); err != nil {
		return err
	}
	out, err := exec.Command("tar", "-cf", to, "-I", "gzip -1", "-C", release, "--transform", "s,^\\.,concourse,",
		".").CombinedOutput()
	if err != nil {
		return fmt.Errorf("cannot pack %s: %w\n%s", release, err, out)
	}
	return nil
}
