package engines

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// configTOML edits a TOML file by lines, so that all others stay as they are, comments
// too. A part is either a block of tables, which goes to the end, or a line of one table,
// whose name has the table before a colon. Each result is read again: it has to be the
// old configuration with the parts, and nothing else.
type configTOML struct{}

const (
	ours  = " # dispatch runtime configure"
	begin = "# Begin of what dispatch runtime configure put here\n"
	end   = "# End of what dispatch runtime configure put here\n"
)

func block(tables string) string { return begin + tables + end }

func (configTOML) add(before []byte, parts []part) (after []byte, put []part, err error) {
	text := string(before)
	for _, p := range parts {
		var next string
		if name, key, line := strings.Cut(p.Name, ": "); line {
			next, p.Before, err = setLine(text, name, key, p.Text)
		} else {
			next = atEnd(text, p.Text)
		}
		if err != nil {
			return nil, nil, err
		}
		if p.Before != "" && sameLine(p.Before, p.Text) {
			continue // it was there before, and stays when ours goes
		}
		if err := onlyAdded(text, next); err != nil {
			return nil, nil, fmt.Errorf("%w; put this in by hand:\n%s", err, p.Text)
		}
		text, put = next, append(put, p)
	}
	return []byte(text), put, nil
}

func atEnd(text, add string) string {
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return text + add
}

// setLine puts a line into a table, in the place of one with the same key.
func setLine(text, name, key, line string) (next, before string, err error) {
	lines := strings.SplitAfter(text, "\n")
	want, err := headerOf("[" + name + "]")
	if err != nil {
		return "", "", err
	}
	header := slices.IndexFunc(lines, func(l string) bool {
		keys, err := headerOf(l)
		return err == nil && slices.Equal(keys, want)
	})
	if header < 0 {
		return atEnd(text, "["+name+"]"+ours+"\n"+line+"\n"), "", nil
	}
	for i := header + 1; i < len(lines) && !strings.HasPrefix(strings.TrimSpace(lines[i]), "["); i++ {
		if k, _, is := strings.Cut(lines[i], "="); is && strings.Trim(strings.TrimSpace(k), `"'`) == key {
			before = strings.TrimRight(lines[i], "\r\n")
			lines[i] = line + "\n"
			return strings.Join(lines, ""), before, nil
		}
	}
	if !strings.HasSuffix(lines[header], "\n") {
		lines[header] += "\n"
	}
	return strings.Join(slices.Insert(lines, header+1, line+"\n"), ""), "", nil
}

func sameLine(a, b string) bool {
	var left, right map[string]any
	return toml.Unmarshal([]byte(a), &left) == nil && toml.Unmarshal([]byte(b), &right) == nil && reflect.DeepEqual(left, right)
}

// headerOf are the keys of a line that begins a table.
func headerOf(line string) (keys []string, err error) {
	if trimmed := strings.TrimSpace(line); !strings.HasPrefix(trimmed, "[") || strings.HasPrefix(trimmed, "[[") {
		return nil, fmt.Errorf("%q begins no table", line)
	}
	var tree map[string]any
	if err := toml.Unmarshal([]byte(line), &tree); err != nil {
		return nil, err
	}
	for len(tree) == 1 {
		for key, v := range tree {
			keys = append(keys, key)
			tree, _ = v.(map[string]any)
		}
	}
	return keys, nil
}

// onlyAdded holds what came of an edit against what was there: nothing is lost, and no
// value but a scalar that was set is another.
func onlyAdded(before, after string) error {
	var old, now map[string]any
	if err := toml.Unmarshal([]byte(before), &old); err != nil {
		return err
	}
	if err := toml.Unmarshal([]byte(after), &now); err != nil {
		return fmt.Errorf("what came of it is not TOML: %w", err)
	}
	changed := 0
	if lost(old, now, &changed) || changed > 1 {
		return errors.New("its form is not known here")
	}
	return nil
}

func lost(old, now map[string]any, changed *int) bool {
	for key, was := range old {
		is, there := now[key]
		left, isTable := was.(map[string]any)
		right, stillTable := is.(map[string]any)
		switch {
		case !there || isTable != stillTable:
			return true
		case isTable:
			if lost(left, right, changed) {
				return true
			}
		case !reflect.DeepEqual(was, is):
			*changed++
		}
	}
	return false
}

func (configTOML) take(now []byte, parts []part) (left []byte, kept []string, err error) {
	text := string(now)
	for _, p := range slices.Backward(parts) {
		at := strings.Index(text, p.Text)
		if at < 0 || strings.Count(text, p.Text) > 1 {
			kept = append(kept, p.Name)
			continue
		}
		from, to := at, at+len(p.Text)
		name, _, line := strings.Cut(p.Name, ": ")
		if made := "[" + name + "]" + ours + "\n"; line && p.Before == "" && strings.HasSuffix(text[:from], made) {
			from -= len(made)
		}
		if line && p.Before == "" && strings.HasPrefix(text[to:], "\n") {
			to++
		}
		text = text[:from] + p.Before + text[to:]
	}
	if err := toml.Unmarshal([]byte(text), &map[string]any{}); err != nil {
		return nil, nil, fmt.Errorf("what is left of it is not TOML: %w", err)
	}
	return []byte(text), kept, nil
}
