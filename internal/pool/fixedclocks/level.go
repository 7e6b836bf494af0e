package fixedclocks

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Level holds the value of a GPU's power_dpm_force_performance_level.
type Level string

const (
	auto Level = "auto"
	// Standard runs at the driver's clocks for profiling, below the limits of heat and
	// power, and does not switch parts of the GPU off and on.
	Standard Level = "profile_standard"
	// Determinism replaces Standard on MI300 and later: the graphics clock stays below a
	// limit, here nine tenths of its highest.
	Determinism Level = "perf_determinism"
)

func (l Level) isFixed() bool { return l == Standard || l == Determinism }

// Check returns an error for a level that does not fix clocks.
func (l Level) Check() error {
	if !l.isFixed() {
		return fmt.Errorf("%q is not one of %s, %s", string(l), Standard, Determinism)
	}
	return nil
}

// Names of the driver's files.
const (
	levelFile    = "power_dpm_force_performance_level"
	clocksFile   = "pp_od_clk_voltage"
	divisionFile = "current_compute_partition"
)

// CheckWritable returns why no program on this machine can fix the clocks. It does not ask the
// driver, so it returns at once.
func (c Setting) CheckWritable() error {
	err := unix.Access(c.Sysfs+"/"+levelFile, unix.W_OK)
	switch {
	case isMissing(err):
		return errors.New("its driver has no " + levelFile)
	case err != nil:
		return notWritable(levelFile, err)
	}
	return nil
}

func notWritable(name string, err error) error {
	return fmt.Errorf("cannot write %s: %w; from an LXD container, or a guest with a part of a GPU, only the host can",
		name, err)
}

// checkFixable returns why the clocks cannot be fixed.
func (c Setting) checkFixable() error {
	if division, err := readText(c.Sysfs, divisionFile); err == nil && division != "" && division != "SPX" {
		return fmt.Errorf("it is divided (%s), and its parts have the same clocks", division)
	}
	level, err := readLevel(c.Sysfs)
	switch {
	case isMissing(err):
		return errors.New("its driver has no " + levelFile)
	case err != nil:
		return err
	case level != auto:
		return fmt.Errorf("another program set its clocks (%s is %s, not %s)", levelFile, string(level), auto)
	}
	return nil
}

// apply sets the level and verifies that the driver uses it.
func (s Store) apply(c Setting) error {
	limit := ""
	if c.Level == Determinism { // the highest clock is listed only while no limit is set
		text, err := readText(c.Sysfs, clocksFile)
		if err != nil {
			return err
		}
		highest, ok := highestClock(text)
		if !ok {
			return errors.New(clocksFile + " does not list its highest clock")
		}
		limit = "s 1 " + strconv.Itoa(highest*9/10)
	}
	if err := s.setLevel(c.Sysfs, c.Level); err != nil {
		return err
	}
	if c.Level != Determinism {
		return nil
	}
	for _, text := range []string{limit, "c"} {
		if err := s.writeSetting(c.Sysfs, clocksFile, text); err != nil {
			return err
		}
	}
	return nil
}

// setLevel sets a level and reads it back, because sysfs can accept a write and ignore it.
func (s Store) setLevel(dir string, to Level) error {
	if err := s.writeSetting(dir, levelFile, string(to)); err != nil {
		return err
	}
	now, err := readLevel(dir)
	if err == nil && now != to {
		err = fmt.Errorf("%s is %q, though %q was written", levelFile, string(now), string(to))
	}
	return err
}

func (s Store) writeSetting(dir, name, text string) error {
	s.before("put " + name + " " + text)
	fd, err := unix.Open(dir+"/"+name, unix.O_WRONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err == nil {
		_, err = unix.Write(fd, []byte(text+"\n"))
		unix.Close(fd)
	}
	switch {
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EROFS), errors.Is(err, unix.EPERM):
		return notWritable(name, err)
	case err != nil:
		return fmt.Errorf("cannot write %q to %s: %w", text, name, err)
	}
	return nil
}

func readLevel(dir string) (Level, error) {
	text, err := readText(dir, levelFile)
	word, _, _ := strings.Cut(text, "\n")
	return Level(word[:min(len(word), 40)]), err
}

func readText(dir, name string) (string, error) {
	fd, err := unix.Open(dir+"/"+name, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return "", fmt.Errorf("cannot read %s: %w", name, err)
	}
	defer unix.Close(fd)
	var room [4096]byte // a page, as in sysfs
	n, err := unix.Read(fd, room[:])
	if err != nil {
		return "", fmt.Errorf("cannot read %s: %w", name, err)
	}
	return strings.TrimSpace(string(room[:n])), nil
}

// isMissing reports whether an error means that the GPU or its file no longer exists.
func isMissing(err error) bool { return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV) }

// highestClock returns the highest graphics clock in MHz from the driver's list:
//
//	OD_SCLK:
//	0: 500Mhz
//	1: 2100Mhz
func highestClock(text string) (mhz int, ok bool) {
	_, rest, ok := strings.Cut("\n"+text, "\nOD_SCLK:")
	if !ok {
		return 0, false
	}
	for line := range strings.Lines(strings.TrimSpace(rest)) {
		index, value, found := strings.Cut(line, ":")
		if !found || strings.TrimSpace(value) == "" { // the next list begins
			break
		}
		number, isMHz := strings.CutSuffix(strings.ToLower(strings.TrimSpace(value)), "mhz")
		n, err := strconv.ParseUint(strings.TrimSpace(number), 10, 16)
		if strings.TrimSpace(index) == "1" && isMHz && err == nil && n > 0 {
			return int(n), true
		}
	}
	return 0, false
}

// wake keeps a suspended GPU awake until done is called: newer drivers refuse to read its
// files (EPERM) until a process opens its node. If that fails, the later error reports it.
func (s Store) wake(dir string) (done func()) {
	status, err := readText(dir, "power/runtime_status")
	if err != nil || !strings.HasPrefix(status, "suspend") {
		return func() {}
	}
	nodes, _ := filepath.Glob(dir + "/drm/renderD*") // the pattern is valid
	for _, node := range nodes {
		name := filepath.Base(node)
		s.before("wake " + name)
		fd, err := unix.Open(filepath.Join(cmp.Or(s.DRI, "/dev/dri"), name),
			unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
		if err == nil {
			return func() { unix.Close(fd) }
		}
	}
	return func() {}
}
