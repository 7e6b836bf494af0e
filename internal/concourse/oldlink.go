package concourse

import (
	"context"
	"path/filepath"
	"strings"

	"concourse-ci-machine/internal/host"
	"concourse-ci-machine/internal/plan"
)

const (
	// previousLink names the release that ran before, which is kept: containers
	// that it started still use its programs, and going back needs no download.
	previousLink = "/opt/concourse-ci-machine/previous-release"

	// Earlier versions of this charm had both links in HomeDir.
	oldReleaseLink  = HomeDir + "/release"
	oldPreviousLink = ReleasesDir + "/.previous"
)

// currentRelease is the id of the release in use, also before the link moved.
func currentRelease(root host.Root) (string, bool) {
	if id, ok := linkedRelease(root, ReleaseLink); ok {
		return id, true
	}
	return linkedRelease(root, oldReleaseLink)
}

// previousRelease is the id of the release that ran before.
func previousRelease(root host.Root) (string, bool) {
	if id, ok := linkedRelease(root, previousLink); ok {
		return id, true
	}
	return linkedRelease(root, oldPreviousLink)
}

// linkedRelease is the id that a link names: the links of today are absolute,
// as /opt itself may be a link; those of HomeDir were relative.
func linkedRelease(root host.Root, link string) (string, bool) {
	text, err := root.Readlink(link)
	if err != nil {
		return "", false
	}
	dir, id := filepath.Split(text)
	switch dir {
	case ReleasesDir + "/", releaseFolder(root, ""):
	case "releases/":
		if link != oldReleaseLink {
			return "", false
		}
	case "":
		if link != oldPreviousLink {
			return "", false
		}
	default:
		return "", false
	}
	return id, plainName(id)
}

// releaseFolder is what the links say: the folder as this process sees it.
func releaseFolder(root host.Root, id string) string { return linkText(root, ReleasesDir+"/"+id) }

// linkText is the absolute path of p that a link below the root has to have.
func linkText(root host.Root, p string) string {
	text := root.Path(p)
	if abs, err := filepath.Abs(text); err == nil {
		text = abs
	}
	if strings.HasSuffix(p, "/") {
		text += "/"
	}
	return text
}

func plainName(id string) bool {
	return id != "" && !strings.ContainsAny(id, "/\x00") && !strings.HasPrefix(id, ".")
}

// moveOldLinks takes the links of earlier versions out of HomeDir once
// ReleaseLink is there. What was started by the old path goes on: that becomes
// a link to ReleaseLink, which follows upgrades.
func moveOldLinks(root host.Root) plan.Plan {
	_, release := linkedRelease(root, oldReleaseLink)
	_, previous := linkedRelease(root, oldPreviousLink)
	if !release && !previous {
		return nil
	}
	return plan.Plan{{Op: "link " + oldReleaseLink + " to " + ReleaseLink, Why: "where it was before", Do: func(context.Context) error {
		var err error
		if id, ok := linkedRelease(root, oldPreviousLink); ok {
			if _, have := linkedRelease(root, previousLink); !have {
				err = replaceLink(root, previousLink, releaseFolder(root, id))
			}
		}
		if _, ok := linkedRelease(root, oldReleaseLink); ok && err == nil {
			err = replaceLink(root, oldReleaseLink, linkText(root, ReleaseLink))
		}
		if err != nil {
			return err
		}
		return root.Remove(oldPreviousLink)
	}}}
}
