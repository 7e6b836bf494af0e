package predecessor

import (
	"bytes"
	"context"
	"regexp"
	"slices"
	"strings"

	"concourse-ci-machine/internal/base/host"
)

// Configurations of others that the Python charm changed, see the functions.
const (
	containerdUnit    = "containerd.service"
	containerdConfig  = "/etc/containerd/config.toml"
	containerdBackups = containerdConfig + ".backup-"
	nvidiaConfig      = "/etc/nvidia-container-runtime/config.toml"
)

// backupTime is how the Python charm's install hook ended a backup's name.
var backupTime = regexp.MustCompile(`^[0-9]{14}$`)

// stanza reports whether the system's containerd is told to run the wrapper.
func (l *leftovers) stanza() bool {
	data, err := l.text(containerdConfig)
	return err == nil && !bytes.Equal(withoutStanza(data), data)
}

func (l *leftovers) containerdConfig() {
	if !l.stanza() {
		return
	}
	l.do("take "+oldHookWrapper+" out of "+containerdConfig, func(_ context.Context, h host.Host) error {
		return rewrite(h.Root, containerdConfig, withoutStanza)
	})
}

// containerdBackups are those that hold nothing but what the configuration
// will hold. Others are the operator's to look at.
func (l *leftovers) containerdBackups(wrappers []string) (same []string) {
	if !slices.Contains(wrappers, oldHookWrapper) {
		return nil
	}
	data, err := l.text(containerdConfig)
	if err != nil {
		return nil
	}
	found, _ := l.root.Glob(containerdBackups + "*") // the pattern is right
	for _, p := range found {
		backup, err := l.text(p)
		if err == nil && backupTime.MatchString(strings.TrimPrefix(p, containerdBackups)) &&
			bytes.Equal(bytes.TrimRight(backup, "\n"), bytes.TrimRight(withoutStanza(data), "\n")) {
			same = append(same, p)
		}
	}
	return same
}

// rewrite changes a file in one step; it keeps its mode.
func rewrite(root host.Root, p string, change func([]byte) []byte) error {
	st, err := root.Lstat(p)
	if err != nil {
		return err
	}
	data, err := root.ReadFile(p)
	if err != nil {
		return err
	}
	return root.WriteFile(p, change(data), st.Mode().Perm())
}

var (
	wrapperBinary = regexp.MustCompile(`^\s*BinaryName\s*=\s*["']` + regexp.QuoteMeta(oldHookWrapper) + `["']\s*(#.*)?$`)
	tableHeader   = regexp.MustCompile(`^\s*\[[^\[].*\]\s*(#.*)?$`)
	runtimeType   = regexp.MustCompile(`^\s*runtime_type\s*=\s*["']io\.containerd\.runc\.v2["']\s*(#.*)?$`)
)

// withoutStanza takes the two tables out that the install hook appended to
// containerd's configuration, and the empty line before them. A table with
// something else in it, by the operator, loses only the line with the wrapper.
func withoutStanza(data []byte) []byte {
	lines := strings.SplitAfter(string(data), "\n")
	at := slices.IndexFunc(lines, func(s string) bool { return wrapperBinary.MatchString(strings.TrimRight(s, "\r\n")) })
	if at < 0 {
		return data
	}
	from, to := at, at+1
	if head, alone := tableAround(lines, at, wrapperBinary); alone {
		from, to = head, tableEnd(lines, head)
		above := head - 1
		for above >= 0 && strings.TrimSpace(lines[above]) == "" {
			above--
		}
		if up, alone := tableAround(lines, above, runtimeType); alone && optionsOf(lines[head], lines[up]) {
			from = up
		}
		if from > 0 && strings.TrimSpace(lines[from-1]) == "" {
			from--
		}
	}
	return withoutStanza([]byte(strings.Join(slices.Delete(lines, from, to), "")))
}

// tableAround is the line with the header of the table that line at is in;
// alone is whether nothing is in that table but lines that match.
func tableAround(lines []string, at int, match *regexp.Regexp) (head int, alone bool) {
	for head = at; head >= 0 && !tableHeader.MatchString(strings.TrimRight(lines[head], "\r\n")); head-- {
	}
	if head < 0 {
		return 0, false
	}
	for _, s := range lines[head+1 : tableEnd(lines, head)] {
		if s = strings.TrimSpace(s); s != "" && !match.MatchString(s) {
			return head, false
		}
		alone = alone || s != ""
	}
	return head, alone
}

// optionsOf reports whether one header names the table "options" of the other.
func optionsOf(options, runtime string) bool {
	name := func(s string) string {
		s, _, _ = strings.Cut(s, "#")
		return strings.Trim(strings.TrimSpace(s), "[] \t")
	}
	return name(options) == name(runtime)+".options"
}

// tableEnd is the line after the last one of the table; empty lines before
// the next header belong to what follows.
func tableEnd(lines []string, head int) int {
	end := head + 1
	for i := end; i < len(lines) && !strings.HasPrefix(strings.TrimSpace(lines[i]), "["); i++ {
		if strings.TrimSpace(lines[i]) != "" {
			end = i + 1
		}
	}
	return end
}

// nvidiaRuntimes is the list of runtimes that NVIDIA's tries in turn, on one
// line as its package writes it.
var nvidiaRuntimes = regexp.MustCompile(`(?m)^\s*runtimes\s*=\s*\[[^\]\n]*\]`)

// withOwnRuntimes gives the list back what the Python charm replaced in it:
// "runc", the first of the package's default.
func withOwnRuntimes(data []byte) []byte {
	return nvidiaRuntimes.ReplaceAllFunc(data, func(list []byte) []byte {
		with := []byte(`"runc"`)
		if bytes.Contains(list, with) { // the operator put it there again
			return regexp.MustCompile(`"`+regexp.QuoteMeta(oldRealRunc)+`"\s*,?\s*`).ReplaceAll(list, nil)
		}
		return bytes.ReplaceAll(list, []byte(`"`+oldRealRunc+`"`), with)
	})
}

func (l *leftovers) nvidiaEdited() bool {
	data, err := l.text(nvidiaConfig)
	return err == nil && !bytes.Equal(withOwnRuntimes(data), data)
}

// nvidiaConfig is done unless the copy of runc is somebody else's.
func (l *leftovers) nvidiaConfig(named map[string]bool) {
	if !l.nvidiaEdited() {
		return
	}
	if l.there(oldRealRunc) && !named[oldRealRunc] {
		l.keep(nvidiaConfig, "it names "+oldRealRunc+", which is not the Python charm's")
		return
	}
	l.do("take "+oldRealRunc+" out of "+nvidiaConfig, func(_ context.Context, h host.Host) error {
		return rewrite(h.Root, nvidiaConfig, withOwnRuntimes)
	})
}
