package predecessor

import (
	"bytes"
	"context"
	"regexp"
	"slices"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/lazyregexp"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
)

// Configurations of other packages that the Python charm changed.
const (
	containerdUnit    = "containerd.service"
	containerdConfig  = "/etc/containerd/config.toml"
	containerdBackups = containerdConfig + ".backup-"
	nvidiaConfig      = "/etc/nvidia-container-runtime/config.toml"
)

// backupTime matches the end of a backup's name from the Python charm's install hook.
var backupTime = lazyregexp.New(`^[0-9]{14}$`)

// hasStanza reports whether the system's containerd is configured to run the wrapper.
func (l *leftovers) hasStanza() bool {
	data, err := l.text(containerdConfig)
	return err == nil && !bytes.Equal(withoutStanza(data), data)
}

func (l *leftovers) containerdConfig() {
	if !l.hasStanza() {
		return
	}
	l.addStep("take "+oldHookWrapper+" out of "+containerdConfig, func(_ context.Context, h host.Host) error {
		return rewrite(h.Root, containerdConfig, withoutStanza)
	})
}

// containerdBackups returns the backups that equal the configuration without the stanza.
// Other backups are left to the operator.
func (l *leftovers) containerdBackups(wrappers []string) (same []string) {
	if !slices.Contains(wrappers, oldHookWrapper) {
		return nil
	}
	data, err := l.text(containerdConfig)
	if err != nil {
		return nil
	}
	found, _ := l.root.Glob(containerdBackups + "*") // the pattern is valid
	for _, p := range found {
		backup, err := l.text(p)
		if err == nil && backupTime().MatchString(strings.TrimPrefix(p, containerdBackups)) &&
			bytes.Equal(bytes.TrimRight(backup, "\n"), bytes.TrimRight(withoutStanza(data), "\n")) {
			same = append(same, p)
		}
	}
	return same
}

// rewrite changes a file atomically and keeps its mode.
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
	wrapperBinary = lazyregexp.New(`^\s*BinaryName\s*=\s*["']` + regexp.QuoteMeta(oldHookWrapper) +
		`["']\s*(#.*)?$`)
	tableHeader = lazyregexp.New(`^\s*\[[^\[].*\]\s*(#.*)?$`)
	runtimeType = lazyregexp.New(`^\s*runtime_type\s*=\s*["']io\.containerd\.runc\.v2["']\s*(#.*)?$`)
)

// withoutStanza removes the two tables that the install hook appended to containerd's
// configuration, and the empty line before them. If the operator added lines to a table,
// only the line with the wrapper is removed.
func withoutStanza(data []byte) []byte {
	lines := strings.SplitAfter(string(data), "\n")
	at := slices.IndexFunc(lines, func(s string) bool {
		return wrapperBinary().MatchString(strings.TrimRight(s, "\r\n"))
	})
	if at < 0 {
		return data
	}
	from, to := at, at+1
	if head, alone := tableAround(lines, at, wrapperBinary()); alone {
		from, to = head, tableEnd(lines, head)
		above := head - 1
		for above >= 0 && strings.TrimSpace(lines[above]) == "" {
			above--
		}
		if up, alone := tableAround(lines, above, runtimeType()); alone && optionsOf(lines[head], lines[up]) {
			from = up
		}
		if from > 0 && strings.TrimSpace(lines[from-1]) == "" {
			from--
		}
	}
	return withoutStanza([]byte(strings.Join(slices.Delete(lines, from, to), "")))
}

// tableAround returns the line with the header of the table around line at. alone reports
// that all lines of the table match.
func tableAround(lines []string, at int, match *regexp.Regexp) (head int, alone bool) {
	for head = at; head >= 0 && !tableHeader().MatchString(strings.TrimRight(lines[head], "\r\n")); head-- {
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

// optionsOf reports whether a header names the table "options" of the other header.
func optionsOf(options, runtime string) bool {
	name := func(s string) string {
		s, _, _ = strings.Cut(s, "#")
		return strings.Trim(strings.TrimSpace(s), "[] \t")
	}
	return name(options) == name(runtime)+".options"
}

// tableEnd returns the line after the table. Empty lines before the next header belong to
// the next table.
func tableEnd(lines []string, head int) int {
	end := head + 1
	for i := end; i < len(lines) && !strings.HasPrefix(strings.TrimSpace(lines[i]), "["); i++ {
		if strings.TrimSpace(lines[i]) != "" {
			end = i + 1
		}
	}
	return end
}

// nvidiaRuntimes matches the list of runtimes that NVIDIA's runtime tries in turn. The
// package writes it on one line.
var nvidiaRuntimes = lazyregexp.New(`(?m)^\s*runtimes\s*=\s*\[[^\]\n]*\]`)

// withOwnRuntimes restores "runc" in the list, the first value of the package's default. The
// Python charm replaced it.
func withOwnRuntimes(data []byte) []byte {
	return nvidiaRuntimes().ReplaceAllFunc(data, func(list []byte) []byte {
		with := []byte(`"runc"`)
		if bytes.Contains(list, with) { // the operator restored it
			return regexp.MustCompile(`"`+regexp.QuoteMeta(oldRealRunc)+`"\s*,?\s*`).ReplaceAll(list, nil)
		}
		return bytes.ReplaceAll(list, []byte(`"`+oldRealRunc+`"`), with)
	})
}

func (l *leftovers) nvidiaEdited() bool {
	data, err := l.text(nvidiaConfig)
	return err == nil && !bytes.Equal(withOwnRuntimes(data), data)
}

// nvidiaConfig restores the configuration, unless the copy of runc has another owner.
func (l *leftovers) nvidiaConfig(named map[string]bool) {
	if !l.nvidiaEdited() {
		return
	}
	if l.exists(oldRealRunc) && !named[oldRealRunc] {
		l.noteKept(nvidiaConfig, "it names "+oldRealRunc+", which is not the Python charm's")
		return
	}
	l.addStep("take "+oldRealRunc+" out of "+nvidiaConfig, func(_ context.Context, h host.Host) error {
		return rewrite(h.Root, nvidiaConfig, withOwnRuntimes)
	})
}

// Encryption returns the current and the previous encryption key of the web's database from
// the environment file, or "". It is for an application that has no secret yet. The Python
// charm left the key in the file when its option was cleared, and the database stayed
// encrypted. Without the key its content would be lost.
func Encryption(root host.Root, p concourse.WebPaths) (key, old string) {
	data, err := root.ReadFile(p.Env())
	if err != nil {
		return "", ""
	}
	env := concourse.EnvValues(data)
	return env["CONCOURSE_ENCRYPTION_KEY"], env["CONCOURSE_OLD_ENCRYPTION_KEY"]
}

// Variables that only the Python charm wrote into the environment of a worker and of a web.
const (
	predecessorsWorker = "CONCOURSE_WORKER_PROCS"
	predecessorsWeb    = "CONCOURSE_TSA_PUBLIC_KEY"
)

// WroteWorker reports whether the Python charm wrote a worker's environment file.
func WroteWorker(env []byte) bool { return assigns(env, predecessorsWorker) }

// WroteWeb reports whether the Python charm wrote a web's environment file.
func WroteWeb(env []byte) bool { return assigns(env, predecessorsWeb) }

func assigns(env []byte, key string) bool {
	_, ok := concourse.EnvValues(env)[key]
	return ok
}
