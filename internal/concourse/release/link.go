package release

import (
	"path/filepath"
	"strings"

	"concourse-ci-machine/internal/base/host"
)

// previousLink names the release that ran before, which is kept: containers
// that it started still use its programs, and going back needs no download.
const previousLink = "/opt/concourse-ci-machine/previous-release"

// currentRelease is the id of the release in use.
func currentRelease(root host.Root) (string, bool) { return linkedRelease(root, Link) }

// previousRelease is the id of the release that ran before.
func previousRelease(root host.Root) (string, bool) { return linkedRelease(root, previousLink) }

// linkedRelease is the id that a link names. Links are absolute, as /opt itself
// may be a link.
func linkedRelease(root host.Root, link string) (string, bool) {
	text, err := root.Readlink(link)
	if err != nil {
		return "", false
	}
	dir, id := filepath.Split(text)
	if dir != Dir+"/" && dir != releaseFolder(root, "") {
		return "", false
	}
	return id, plainName(id)
}

// releaseFolder is what the links say: the folder as this process sees it.
func releaseFolder(root host.Root, id string) string {
	dir := root.Path(Dir)
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	return dir + "/" + id
}

func plainName(id string) bool {
	return id != "" && !strings.ContainsAny(id, "/\x00") && !strings.HasPrefix(id, ".")
}
