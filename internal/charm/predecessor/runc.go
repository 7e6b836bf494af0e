package predecessor

import (
	"bytes"
	"context"
	"os"
	"path"
	"slices"
	"strings"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/base/resource"
	"concourse-ci-machine/internal/concourse/release"
)

// The Python charm's wrappers are scripts; the links are what shims found as
// runc, and the copies what the scripts ran.
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
	// oldContainerdConfig is what a GPU worker's containerd was started with.
	oldContainerdConfig = release.HomeDir + "/containerd-gpu.toml"
)

// oldWrappers are in the order in which they go. The install hook's is last:
// containerd may run it until it is restarted.
func oldWrappers() []string {
	return []string{oldBin + "/runc-amd-wrapper", oldBin + "/runc-gpu-wrapper", oldBin + "/runc-wrapper", oldHookWrapper}
}

// runtime is all that stood between containers and runc. It is left alone as
// long as a process of the Python charm's worker is there, whose shims find
// runc by these names until their containers are gone.
func (l *leftovers) runtime() {
	wrappers, named := l.wrappers()
	links := l.ours(oldRunc)
	backups := l.containerdBackups(wrappers)
	config := !l.shared() && l.there(oldContainerdConfig)
	if len(wrappers) == 0 && !links && !config && !l.nvidiaEdited() && !l.stanza() || busy(l.root) {
		return
	}
	l.releaseRunc()
	l.nvidiaConfig(named)
	l.containerdConfig()
	if links {
		l.remove(oldRunc)
	} else if l.there(oldRunc) {
		l.keep(oldRunc, "it does not lead to "+oldBin+"/runc-wrapper")
	}
	for _, original := range []string{systemRunc, nvidiaRuntime} {
		l.original(original, named)
	}
	if named[oldRealRunc] {
		l.remove(oldRealRunc)
	} else if l.there(oldRealRunc) {
		l.keep(oldRealRunc, "no wrapper of the Python charm runs it")
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

// wrappers are the scripts that are there, and what they run.
func (l *leftovers) wrappers() (found []string, named map[string]bool) {
	named = map[string]bool{}
	for _, p := range oldWrappers() {
		data, err := l.text(p)
		if err != nil {
			continue
		}
		if !wrapperScript(data) {
			l.keep(p, "it is no wrapper of the Python charm")
			continue
		}
		found = append(found, p)
		for _, real := range []string{oldRealRunc, systemRunc + realSuffix, nvidiaRuntime + realSuffix} {
			named[real] = named[real] || bytes.Contains(data, []byte(real))
		}
	}
	return found, named
}

// wrapperScript reports whether this is one of the three: a script that edits a
// bundle's config.json and then runs a copy of the real runtime.
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

// ours reports whether p is a link to one of the wrappers.
func (l *leftovers) ours(p string) bool {
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

// busy reports whether a process of a release of the Python charm runs: its
// worker, its containerd, a shim of a container.
func busy(root host.Root) bool {
	exes, err := root.Glob("/proc/[0-9]*/exe")
	if err != nil {
		return false // the pattern is right
	}
	for _, exe := range exes {
		to, err := root.Readlink(exe)
		if err == nil && strings.HasPrefix(to, release.HomeDir+"/bin/") {
			return true
		}
	}
	return false
}

// releaseRunc puts runc back into the release that the Python charm unpacked, which
// stays.
func (l *leftovers) releaseRunc() {
	const dir, runc = release.HomeDir + "/bin", release.HomeDir + "/bin/runc"
	if st, err := l.root.Lstat(dir); l.shared() || err != nil || !st.IsDir() || !l.ours(runc) {
		return
	}
	l.do("put runc back where a wrapper has its place", func(_ context.Context, h host.Host) error {
		if st, err := h.Lstat(runc + realSuffix); err == nil && st.Mode().IsRegular() {
			return os.Rename(h.Path(runc+realSuffix), h.Path(runc))
		}
		return h.Remove(runc) // it leads nowhere from now on
	})
}

// original gives a program of the system its place back where a wrapper took
// it, and else takes the copy away that the Python charm made of it.
func (l *leftovers) original(p string, named map[string]bool) {
	copied := p + realSuffix
	wrapped := l.ours(p)
	if data, err := l.text(p); err == nil && wrapperScript(data) {
		wrapped = true
	}
	st, err := l.root.Lstat(copied)
	whole := err == nil && st.Mode().IsRegular()
	switch {
	case wrapped && whole:
		l.do("put back "+p, func(_ context.Context, h host.Host) error { return os.Rename(h.Path(copied), h.Path(p)) })
	case wrapped:
		l.keep(p, "it is a wrapper of the Python charm, and the original is gone; install its package again")
	case err != nil:
	case !named[copied]:
		l.keep(copied, "no wrapper of the Python charm runs it")
	case p == nvidiaRuntime && !l.there(p):
		// The toolkit's package brought it, so the copy is all that is left.
		l.do("put back "+p, func(_ context.Context, h host.Host) error { return os.Rename(h.Path(copied), h.Path(p)) })
	default:
		// Without /usr/bin/runc it is a copy of Concourse's.
		l.remove(copied)
	}
}

// removeWrapper also takes the folder away when that was the last in it.
func (l *leftovers) removeWrapper(p string) {
	if p != oldHookWrapper {
		l.do("remove "+p, func(_ context.Context, h host.Host) error {
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
	if !l.there(containerdConfig) {
		l.remove(p)
		return
	}
	// The system's containerd knows the wrapper until it is restarted, which its
	// containers survive. The wrapper goes after that.
	l.tolerated("remove "+p+" and restart containerd", func(ctx context.Context, h host.Host) error {
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
