package clockpin

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Level is what power_dpm_force_performance_level of a GPU says.
type Level string

const (
	auto Level = "auto"
	// Standard runs at clocks that the driver has for profiling, below what heat and power
	// allow, and switches no part of the GPU off and on.
	Standard Level = "profile_standard"
	// Determinism is what MI300 and later have instead: the graphics clock does not pass
	// a limit, here nine tenths of its highest.
	Determinism Level = "perf_determinism"
)

func (l Level) ours() bool { return l == Standard || l == Determinism }

// Check says what is wrong with a level that a file names.
func (l Level) Check() error {
	if !l.ours() {
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

// pinnable says why the GPU can't be pinned.
func (c Card) pinnable() error {
	if division, err := readText(c.Dir, divisionFile); err == nil && division != "" && division != "SPX" {
		return fmt.Errorf("it is divided (%s), and its parts have the same clocks", division)
	}
	level, err := readLevel(c.Dir)
	switch {
	case gone(err):
		return errors.New("its driver has no " + levelFile)
	case err != nil:
		return err
	case level != auto:
		return fmt.Errorf("somebody has set its clocks (%s is %s, not %s)", levelFile, string(level), auto)
	}
	return nil
}

// apply tells the driver, and sees that it has obeyed.
func (p Pins) apply(c Card) error {
	limit := ""
	if c.Level == Determinism { // the highest is told while nothing is set
		text, err := readText(c.Dir, clocksFile)
		if err != nil {
			return err
		}
		highest, ok := highestClock(text)
		if !ok {
			return errors.New(clocksFile + " does not tell its highest clock")
		}
		limit = "s 1 " + strconv.Itoa(highest*9/10)
	}
	if err := p.setLevel(c.Dir, c.Level); err != nil {
		return err
	}
	if c.Level != Determinism {
		return nil
	}
	for _, text := range []string{limit, "c"} {
		if err := p.put(c.Dir, clocksFile, text); err != nil {
			return err
		}
	}
	return nil
}

// setLevel sets a level and reads it back: a write to sysfs can be taken and ignored.
func (p Pins) setLevel(dir string, to Level) error {
	if err := p.put(dir, levelFile, string(to)); err != nil {
		return err
	}
	now, err := readLevel(dir)
	if err == nil && now != to {
		err = fmt.Errorf("%s is %q, though %q was written", levelFile, string(now), string(to))
	}
	return err
}

func (p Pins) put(dir, name, text string) error {
	p.before("put " + name + " " + text)
	fd, err := unix.Open(dir+"/"+name, unix.O_WRONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err == nil {
		_, err = unix.Write(fd, []byte(text+"\n"))
		unix.Close(fd)
	}
	switch {
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EROFS), errors.Is(err, unix.EPERM):
		return fmt.Errorf("this machine may not write %s: %w; in a container of LXD, and in a guest that has a part of a GPU, the host alone may", name, err)
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
	var room [4096]byte // a page, as sysfs has it
	n, err := unix.Read(fd, room[:])
	if err != nil {
		return "", fmt.Errorf("cannot read %s: %w", name, err)
	}
	return strings.TrimSpace(string(room[:n])), nil
}

// gone is how the files of a GPU that went away, or of one without the file, say so.
func gone(err error) bool { return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV) }

// highestClock is the highest graphics clock in MHz, as the driver lists it:
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
