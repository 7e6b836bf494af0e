package predecessor

import (
	"bytes"
	"context"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/release"
)

// The Python charm's wrappers are scripts. Shims find them as runc through links. The
// scripts run copies of runc.
const (
	oldBin         = "/opt/bin"
	oldRunc        = oldBin + "/runc"
	oldHookWrapper = "/usr/local/bin/runc-wrapper"
	oldRealRunc    = oldBin + "/runc.real"
	systemRunc     = "/usr/bin/runc"
	nvidiaRuntime  = "/usr/bin/nvidia-container-runtime"
	realSuffix     = ".real"
	oldBundles     = "/run/containerd/io.containerd.runtime.v2.task/concourse"
	leakedConfigs  = oldBundles + "/*/config.json.??????"
	// oldContainerdConfig is the configuration of containerd on a worker with GPUs.
	oldContainerdConfig = release.HomeDir + "/containerd-gpu.toml"
)

// oldWrappers returns the wrappers in the order of their removal. The install hook's wrapper
// is the last one: containerd may run it until it is restarted.
func oldWrappers() []string {
	return []string{oldBin + "/runc-amd-wrapper", oldBin + "/runc-gpu-wrapper", oldBin + "/runc-wrapper",
		oldHookWrapper}
}

// runtime removes everything between containers and runc. It does nothing while a process of
// the Python charm's worker runs: its shims find runc through these files until their
// containers end.
func (l *leftovers) runtime() {
	wrappers, named := l.wrappers()
	links := l.linksToWrapper(oldRunc)
	backups := l.containerdBackups(wrappers)
	config := !l.shared() && l.exists(oldContainerdConfig)
	if len(wrappers) == 0 && !links && !config && !l.nvidiaEdited() && !l.hasStanza() || busy(l.root) {
		return
	}
	l.restoreReleaseRunc()
	l.nvidiaConfig(named)
	l.containerdConfig()
	if links {
		l.remove(oldRunc)
	} else if l.exists(oldRunc) {
		l.noteKept(oldRunc, "it does not lead to "+oldBin+"/runc-wrapper")
	}
	for _, original := range []string{systemRunc, nvidiaRuntime} {
		l.restoreOriginal(original, named)
	}
	if named[oldRealRunc] {
		l.remove(oldRealRunc)
	} else if l.exists(oldRealRunc) {
		l.noteKept(oldRealRunc, "no wrapper of the Python charm runs it")
	}
	if config {
		l.remove(oldContainerdConfig)
	}
	if leaked, err := l.root.Glob(leakedConfigs); err == nil && len(wrappers) > 0 {
		l.remove(leaked...)
	}
	l.remove(backups...)
	for _, w := range wrappers {
		l.removeWrapper(w)
	}
}

// wrappers returns the existing wrappers, and the programs that they run.
func (l *leftovers) wrappers() (found []string, named map[string]bool) {
	named = map[string]bool{}
	for _, p := range oldWrappers() {
		data, err := l.text(p)
		if err != nil {
			continue
		}
		if !wrapperScript(data) {
			l.noteKept(p, "it is not a wrapper of the Python charm")
			continue
		}
		found = append(found, p)
		for _, real := range []string{oldRealRunc, systemRunc + realSuffix, nvidiaRuntime + realSuffix} {
			named[real] = named[real] || bytes.Contains(data, []byte(real))
		}
	}
	return found, named
}

// wrapperScript reports whether data is one of the three scripts: it edits config.json of a
// bundle and then runs a copy of the real runtime.
func wrapperScript(data []byte) bool {
	if !bytes.HasPrefix(data, []byte("#!")) {
		return false
	}
	for _, word := range []string{"--bundle", "config.json", "/srv"} {
		if !bytes.Contains(data, []byte(word)) {
			return false
		}
	}
	return bytes.Contains(data, []byte(oldRealRunc)) || bytes.Contains(data, []byte(nvidiaRuntime+realSuffix))
}

// linksToWrapper reports whether p is a link to one of the wrappers.
func (l *leftovers) linksToWrapper(p string) bool {
	to, err := l.root.Readlink(p)
	if err != nil {
		return false
	}
	if !path.IsAbs(to) {
		to = path.Join(path.Dir(p), to)
	}
	to = path.Clean(strings.TrimPrefix(to, strings.TrimSuffix(l.root.Path("/"), "/")))
	return slices.Contains(oldWrappers(), to)
}

// busy reports whether a process of the Python charm's release runs: its worker, its
// containerd, or a shim.
func busy(root host.Root) bool {
	exes, err := root.Glob("/proc/[0-9]*/exe")
	if err != nil {
		return false // the pattern is valid
	}
	for _, exe := range exes {
		to, err := root.Readlink(exe)
		if err == nil && strings.HasPrefix(to, release.HomeDir+"/bin/") {
			return true
		}
	}
	return false
}

// restoreReleaseRunc restores runc in the release that the Python charm unpacked. That
// release stays.
func (l *leftovers) restoreReleaseRunc() {
	const dir, runc = release.HomeDir + "/bin", release.HomeDir + "/bin/runc"
	if st, err := l.root.Lstat(dir); l.shared() || err != nil || !st.IsDir() || !l.linksToWrapper(runc) {
		return
	}
	l.addStep("restore runc in place of a wrapper", func(_ context.Context, h host.Host) error {
		if st, err := h.Lstat(runc + realSuffix); err == nil && st.Mode().IsRegular() {
			return os.Rename(h.Path(runc+realSuffix), h.Path(runc))
		}
		return h.Remove(runc) // its target will be removed
	})
}

// restoreOriginal restores a program of the system that a wrapper replaced. Otherwise it
// removes the copy that the Python charm made of it.
func (l *leftovers) restoreOriginal(p string, named map[string]bool) {
	copied := p + realSuffix
	wrapped := l.linksToWrapper(p)
	if data, err := l.text(p); err == nil && wrapperScript(data) {
		wrapped = true
	}
	st, err := l.root.Lstat(copied)
	whole := err == nil && st.Mode().IsRegular()
	switch {
	case wrapped && whole:
		l.addStep("put back "+p, func(_ context.Context, h host.Host) error {
			return os.Rename(h.Path(copied), h.Path(p))
		})
	case wrapped:
		l.noteKept(p, "it is a wrapper of the Python charm, and the original is missing; install its package again")
	case err != nil:
	case !named[copied]:
		l.noteKept(copied, "no wrapper of the Python charm runs it")
	case p == nvidiaRuntime && !l.exists(p):
		// The toolkit's package installed the original, and only the copy exists.
		l.addStep("put back "+p, func(_ context.Context, h host.Host) error {
			return os.Rename(h.Path(copied), h.Path(p))
		})
	default:
		// If /usr/bin/runc is missing, this is a copy of Concourse's runc.
		l.remove(copied)
	}
}

// removeWrapper removes a wrapper, and its folder if it is empty then.
func (l *leftovers) removeWrapper(p string) {
	if p != oldHookWrapper {
		l.addStep("remove "+p, func(_ context.Context, h host.Host) error {
			if err := h.Remove(p); err != nil {
				return err
			}
			if entries, err := h.ReadDir(oldBin); err == nil && len(entries) == 0 {
				return h.Remove(oldBin)
			}
			return nil
		})
		return
	}
	if !l.exists(containerdConfig) {
		l.remove(p)
		return
	}
	// The system's containerd uses the wrapper until its restart, which containers survive.
	// So the wrapper is removed after the restart.
	l.addOptionalStep("remove "+p+" and restart containerd", func(ctx context.Context, h host.Host) error {
		states, err := resource.ShowUnits(ctx, h, containerdUnit)
		if err != nil {
			return err
		}
		if states[containerdUnit].Running() {
			if _, err := h.Run(ctx, resource.Systemctl("try-restart", containerdUnit)); err != nil {
				return err
			}
		}
		return h.Remove(p)
	})
}
