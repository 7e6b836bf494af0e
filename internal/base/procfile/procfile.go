// Package procfile parses files of /proc that several packages read. It opens no file, and
// starts fast enough for programs that run at each container. procfs of Prometheus compiles
// regular expressions at the start and needs all fields of a file.
package procfile

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/moby/sys/mountinfo"
)

// Stat holds fields of /proc/PID/stat, see proc_pid_stat(5).
type Stat struct {
	Parent int    // 0 outside of /proc's own namespace
	Start  uint64 // ticks since the boot; with the process id it identifies a process for good
	Alive  bool
}

// ParseStat parses /proc/PID/stat. The name in parentheses can contain anything. A zombie is
// alive while it has other threads: a kill ends the first thread sooner, and the rest still
// has the open files.
func ParseStat(text string) (s Stat, err error) {
	const state, parent, threads, start = 3, 4, 20, 22
	at, parents, starts := state, "", ""
	for field := range strings.FieldsSeq(text[strings.LastIndexByte(text, ')')+1:]) {
		switch at {
		case state:
			s.Alive = field != "Z" && field != "X" && field != "x"
		case parent:
			parents = field
		case threads:
			s.Alive = s.Alive || field != "0" && field != "1"
		case start:
			starts = field
		}
		at++
	}
	if s.Start, err = strconv.ParseUint(starts, 10, 64); err != nil {
		return Stat{}, fmt.Errorf("it has no start time: %q", text)
	}
	if s.Parent, err = strconv.Atoi(parents); err != nil {
		return Stat{}, fmt.Errorf("it has no parent: %q", text)
	}
	return s, nil
}

// TypeOfMount returns the type of the file system that the file mountinfo lists with this
// id, or "" if it is missing.
func TypeOfMount(mounts io.Reader, id int) string {
	found, err := mountinfo.GetMountsFromReader(mounts, func(m *mountinfo.Info) (skip, stop bool) {
		return m.ID != id, m.ID == id
	})
	if err != nil || len(found) == 0 {
		return ""
	}
	return found[0].FSType
}
