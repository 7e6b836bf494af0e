package suite

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// ReleaseEnv names a release of Concourse that several suites run: a published tarball
// or its unpacked folder. None downloads one.
const ReleaseEnv = "CONCOURSE_RELEASE"

// NextReleaseEnv names a release that comes after the one of ReleaseEnv, in the same way.
const NextReleaseEnv = "CONCOURSE_NEXT_RELEASE"

// NoRelease is why a test that needs one is skipped.
const NoRelease = ReleaseEnv + " names no Concourse release: set it to a published concourse-<version>-linux-<arch>.tgz, or to its unpacked folder"

// ReleaseFolder is the release as a folder, "" if none is named. Of a tarball it unpacks
// below dir what suites start themselves: concourse, and the archive with fly.
func ReleaseFolder(dir string) (string, error) {
	release := os.Getenv(ReleaseEnv)
	if release == "" {
		return "", nil
	}
	st, err := os.Stat(release)
	if err == nil && !st.IsDir() {
		release, err = unpack(release, filepath.Join(dir, "release"))
	}
	if err == nil {
		_, err = os.Stat(filepath.Join(release, "bin/concourse"))
	}
	if err != nil {
		return "", fmt.Errorf("cannot use %s=%s: %w", ReleaseEnv, os.Getenv(ReleaseEnv), err)
	}
	return release, nil
}

func unpack(tarball, dir string) (string, error) {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", err
	}
	out, err := exec.Command("tar", "-xzf", tarball, "-C", dir, "--strip-components=1", "--wildcards", "*/bin/concourse", "*/fly-assets/fly-linux-"+runtime.GOARCH+".tgz").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return dir, nil
}
