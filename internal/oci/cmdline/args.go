// Package cmdline parses the wrapper's command line as runc's own parser does.
package cmdline

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A Call holds the parts of one call of runc that the wrapper uses.
type Call struct {
	// Command is create, run, start or exec. It is empty for calls that become the real
	// runc at once: other commands, help, and calls that runc refuses.
	Command string
	ID      string
	// Bundle is the bundle's directory, "." by default.
	Bundle string
	// PidFile is the file for the number of the container's first process. It may be empty.
	PidFile string
	// Log, LogFormat and Root are the global flags. They may be empty.
	Log, LogFormat, Root string

	Process Word // exec's --process
}

// A Word holds a flag's value and its position: args[At] is Prefix + Value.
type Word struct {
	At            int
	Prefix, Value string
}

// errUnknownFlag marks a flag that a newer runc may support. A container must not silently
// lose its GPU because of it.
var errUnknownFlag = errors.New("unknown flag")

// Parse reads the arguments after the program's name as runc's own parser (urfave/cli v1
// over Go's flag package) does: one dash or two, a value in the next word or after "=", and
// for create and run also flags after the ID.
func Parse(args []string) (Call, error) {
	var c Call
	global, rest, err := parse(globalFlags, positions(args))
	c.Log, c.LogFormat, c.Root = global.value("log"), global.value("log-format"), global.value("root")
	if err != nil {
		if errors.Is(err, errUnknownFlag) && (slices.Contains(args, "create") || slices.Contains(args, "run")) {
			return c, fmt.Errorf("cannot read the call of runc: %w", err)
		}
		return c, nil
	}
	if requestsHelp(global) || len(rest) == 0 {
		return c, nil
	}
	command, rest := rest[0].Value, rest[1:]
	switch command {
	case "create", "run":
		return c, c.parseCreate(command, rest)
	case "start":
		if len(rest) == 1 && !strings.HasPrefix(rest[0].Value, "-") {
			c.Command, c.ID = command, rest[0].Value
		}
	case "exec":
		c.parseExec(rest)
	}
	return c, nil
}

func (c *Call) parseCreate(command string, words []Word) error {
	known := flagSet(createFlags)
	if command == "run" {
		known = runFlags
	}
	flags, ids, err := parse(known, reorder(known, words))
	if errors.Is(err, errUnknownFlag) {
		return fmt.Errorf("cannot read the call of runc %s: %w", command, err)
	}
	long, isLong := flags.get("bundle")
	short, isShort := flags.get("b")
	if err != nil || requestsHelp(flags) || len(ids) != 1 || isLong && isShort {
		return nil
	}
	c.Command, c.ID = command, ids[0].Value
	c.Bundle = long.Value + short.Value
	c.PidFile = flags.value("pid-file")
	c.Bundle = cmp.Or(c.Bundle, ".")
	return nil
}

func (c *Call) parseExec(words []Word) {
	flags, ids, err := parse(execFlags, words)
	long, isLong := flags.get("process")
	short, isShort := flags.get("p")
	if err != nil || requestsHelp(flags) || len(ids) == 0 || isLong && isShort {
		return
	}
	c.Command, c.ID, c.Process = "exec", ids[0].Value, long
	if isShort {
		c.Process = short
	}
}

func requestsHelp(flags foundFlags) bool {
	for _, name := range []string{"help", "h", "version", "v"} {
		if w, there := flags.get(name); there {
			if on, _ := strconv.ParseBool(w.Value); on {
				return true
			}
		}
	}
	return false
}

func positions(args []string) []Word {
	words := make([]Word, len(args))
	for i, a := range args {
		words[i] = Word{At: i, Value: a}
	}
	return words
}

// usualFlags is enough for each call of containerd. Each size of memory that a new process
// uses first costs two page faults.
const usualFlags = 8

// parse reads flags up to the first word that is not a flag, as Go's flag package does. The
// last flag of a name wins. A flag without value is "true".
func parse(known flagSet, words []Word) (found foundFlags, rest []Word, err error) {
	found = make(foundFlags, 0, usualFlags)
	for len(words) > 0 {
		w := words[0]
		if len(w.Value) < 2 || w.Value[0] != '-' {
			break
		}
		words = words[1:]
		if w.Value == "--" {
			break
		}
		name, value, inline := strings.Cut(strings.TrimPrefix(w.Value[1:], "-"), "=")
		takes, ok := known(name)
		f := Word{At: w.At, Value: "true"}
		switch {
		case name == "" || name[0] == '-':
			return found, words, fmt.Errorf("bad flag syntax: %s", w.Value)
		case !ok:
			return found, words, fmt.Errorf("%w %s", errUnknownFlag, w.Value)
		case inline:
			f.Prefix, f.Value = strings.TrimSuffix(w.Value, value), value
		case !takes:
		case len(words) == 0:
			return found, words, fmt.Errorf("flag needs a value: %s", w.Value)
		default:
			f, words = words[0], words[1:]
		}
		found = append(found, foundFlag{name, f})
		if !takes {
			if _, err := strconv.ParseBool(f.Value); err != nil {
				return found, words, fmt.Errorf("flag is on or off: %s", w.Value)
			}
		}
	}
	return found, words, nil
}

// reorder moves flags before the other words, as urfave/cli does for create and run. Like
// runc it also moves the word after a flag, even if the flag takes no value. runc then
// refuses such a call.
func reorder(known flagSet, words []Word) []Word {
	var flags, others []Word
	mayBeValue := false
	for i, w := range words {
		switch {
		case mayBeValue && !isFlag(known, w.Value):
			mayBeValue = false
			flags = append(flags, w)
		case w.Value == "--":
			flags = append(flags, w)
			return append(append(flags, others...), words[i+1:]...)
		case isFlag(known, w.Value):
			flags = append(flags, w)
			mayBeValue = !strings.Contains(w.Value, "=")
		default:
			others = append(others, w)
		}
	}
	return append(flags, others...)
}

func isFlag(known flagSet, s string) bool {
	if len(s) < 2 || s[0] != '-' || s == "--" {
		return false
	}
	name, _, _ := strings.Cut(strings.TrimPrefix(s[1:], "-"), "=")
	_, ok := known(name)
	return ok
}
