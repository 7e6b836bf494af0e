package jujutest

import (
	"encoding/json"
	"errors"
	"fmt"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// tool describes the call of one hook tool.
type tool struct {
	format string   // default of --format: smart or yaml; "" if it prints no value
	bools  []string // options without a value
	values []string // options with a value
	run    func(*invocation) error
}

// aliases are other names of options.
var aliases = map[string]string{"r": "relation", "l": "log-level", "a": "all"}

// invocation holds one run of a tool.
type invocation struct {
	*Context
	name           string
	flags          map[string]string // bools are "true" or "false"
	args           []string
	rel            int // -1 without a relation
	stdin          []byte
	stdout, stderr strings.Builder
}

// usageError reports a wrong call, with exit status 2 instead of 1.
type usageError struct{ error }

func usagef(format string, a ...any) error { return usageError{fmt.Errorf(format, a...)} }

var errHelp = errors.New("help")

func (i *invocation) main(t tool, argv []string) int {
	if r := i.Event.Relation; r != nil {
		if id, err := relationID(r.ID); err == nil {
			i.rel = id
		}
	}
	err := i.parse(t, argv)
	if err == nil {
		err = t.run(i)
	}
	var usage usageError
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errHelp):
		fmt.Fprintf(&i.stdout, "Usage: %s\n", i.name)
		return 0
	}
	fmt.Fprintf(&i.stderr, "ERROR %v\n", err)
	if errors.As(err, &usage) {
		return 2
	}
	return 1
}

// parse parses options as gnuflag does. They may be between arguments, up to "--".
func (i *invocation) parse(t tool, argv []string) error {
	kind := map[string]bool{}
	for _, n := range t.bools {
		kind[n] = true
	}
	for _, n := range t.values {
		kind[n] = false
	}
	if t.format != "" {
		kind["format"] = false
	}
	i.flags = map[string]string{"format": t.format}
	for len(argv) > 0 {
		a := argv[0]
		argv = argv[1:]
		switch {
		case a == "--":
			i.args = append(i.args, argv...)
			return nil
		case a == "-" || !strings.HasPrefix(a, "-"):
			i.args = append(i.args, a)
			continue
		}
		long := strings.HasPrefix(a, "--")
		name, value, has := strings.TrimPrefix(a[1:], "-"), "", false
		if long {
			name, value, has = strings.Cut(name, "=")
			if name == "" {
				return usagef("empty option in argument %q", a)
			}
		} else {
			_, n := utf8.DecodeRuneInString(name)
			name, value = name[:n], name[n:]
			has = value != ""
		}
		shown := "-" + name
		if utf8.RuneCountInString(name) > 1 {
			shown = "-" + shown
		}
		if name == "help" || name == "h" {
			return errHelp
		}
		canon := name
		if to, ok := aliases[name]; ok {
			canon = to
		}
		isBool, known := kind[canon]
		switch {
		case !known:
			return usagef("option provided but not defined: %s", shown)
		case isBool && !long && has && value[0] != '=': // -ab is -a -b
			argv = append([]string{"-" + value}, argv...)
			value = "true"
		case isBool && !has:
			value = "true"
		case !has && len(argv) == 0:
			return usagef("option needs an argument: %s", shown)
		case !has:
			value, argv = argv[0], argv[1:]
		}
		if isBool && !long {
			value = strings.TrimPrefix(value, "=")
		}
		if err := i.set(t, canon, value, isBool); err != nil {
			return usagef("invalid value %q for option %s: %v", value, shown, err)
		}
	}
	return nil
}

func (i *invocation) set(t tool, name, value string, isBool bool) error {
	switch {
	case isBool:
		b, err := strconv.ParseBool(value)
		if err != nil {
			return err
		}
		value = strconv.FormatBool(b)
	case name == "relation":
		id, err := relationID(value)
		if err != nil {
			return err
		}
		if i.book.relation(id) == nil {
			return errors.New("relation not found")
		}
		i.rel = id
	case name == "format" && t.format != "":
		if value != "json" && value != "yaml" && (value != "smart" || t.format != "smart") {
			return fmt.Errorf("unknown format %q", value)
		}
	}
	i.flags[name] = value
	return nil
}

// relationID accepts "7" and "anything:7", as Juju does.
func relationID(s string) (int, error) {
	id, err := strconv.Atoi(s[strings.LastIndexByte(s, ':')+1:])
	if err != nil {
		return 0, errors.New("invalid relation id")
	}
	return id, nil
}

func (i *invocation) isSet(flag string) bool { return i.flags[flag] == "true" }

// noMore refuses arguments after the first n.
func (i *invocation) noMore(n int) error {
	if len(i.args) > n {
		return usagef("unrecognized args: %q", i.args[n:])
	}
	return nil
}

func (i *invocation) arg(n int) string {
	if n < len(i.args) {
		return i.args[n]
	}
	return ""
}

// deprecatedFormat prints the warning of tools that once had --format, without a newline.
func (i *invocation) deprecatedFormat() {
	if i.flags["format"] != "" {
		fmt.Fprintf(&i.stderr, "--format flag deprecated for command %q", i.name)
	}
}

// print writes a result in the requested format.
func (i *invocation) print(v any) error {
	format := i.flags["format"]
	if format == "json" {
		out, err := json.Marshal(v)
		i.stdout.Write(append(out, '\n'))
		return err
	}
	if format == "smart" {
		text, plain := "", true
		switch v := v.(type) {
		case string:
			text = v
		case []string:
			text = strings.Join(v, "\n")
		case bool:
			text = map[bool]string{true: "True", false: "False"}[v]
		default:
			plain = false
		}
		if plain {
			if text != "" {
				i.stdout.WriteString(text + "\n")
			}
			return nil
		}
	}
	if v == nil {
		return nil
	}
	out, err := yaml.Marshal(v)
	i.stdout.WriteString(strings.TrimRight(string(out), "\n") + "\n")
	return err
}

// pairs parses key=value arguments.
func pairs(args []string) (map[string]string, error) {
	out := map[string]string{}
	for _, a := range args {
		if a == "" {
			continue
		}
		k, v, ok := strings.Cut(a, "=")
		if !ok {
			return nil, usagef("expected \"key=value\", got %q", a)
		}
		k, v = strings.TrimSpace(k), strings.TrimSpace(v)
		if k == "" {
			return nil, usagef("expected \"key=value\", got \"%s=%s\"", k, v)
		}
		if _, twice := out[k]; twice {
			return nil, usagef("key %q specified more than once", k)
		}
		out[k] = v
	}
	return out, nil
}

// ToolNames lists the supported hook tools, sorted.
func ToolNames() []string {
	names := make([]string, 0, len(tools))
	for n := range tools {
		names = append(names, n)
	}
	sort.Strings(names)
	return names
}
