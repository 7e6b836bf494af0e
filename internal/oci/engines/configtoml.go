package engines

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// configTOML edits a TOML file by lines, so that all other lines stay as they are,
// including comments. A part is either a block of tables, which is appended to the file, or
// a line of one table. The name of such a part begins with the table and a colon.
//
// A line can look like a key or a table and be inside a string. So each result is parsed
// again: its values must be the previous ones with the part, and nothing more.
type configTOML struct{}

const (
	ours  = " # runtime configure of concourse-ci-machine"
	begin = "# Begin of what runtime configure of concourse-ci-machine put here\n"
	end   = "# End of what runtime configure of concourse-ci-machine put here\n"
)

func block(tables string) string { return begin + tables + end }

func (configTOML) add(before []byte, parts []part) (after []byte, put []part, err error) {
	text := string(before)
	for _, p := range parts {
		was, err := valuesOf(text)
		if err != nil {
			return nil, nil, err
		}
		of, err := p.values()
		if err != nil {
			return nil, nil, err
		}
		want := maps.Clone(was)
		maps.Copy(want, of)
		name, key, line := strings.Cut(p.Name, ": ")
		if line && reflect.DeepEqual(was, want) {
			continue // it was there before, and stays when ours is removed
		}
		edits := []edit{{text: atEnd(text, p.Text)}}
		if line {
			edits = lineEdits(text, name, key, p.Text)
		}
		i := slices.IndexFunc(edits, func(w edit) bool { return w.hasValues(want) })
		if i < 0 {
			return nil, nil, fmt.Errorf("its format is unknown; add this by hand:\n%s", p.Text)
		}
		p.Before = edits[i].before
		text, put = edits[i].text, append(put, p)
	}
	return []byte(text), put, nil
}

// edit holds one possible edit of a file: the new text, and the line that it replaced.
type edit struct{ text, before string }

func (w edit) hasValues(want map[string]any) bool {
	is, err := valuesOf(w.text)
	return err == nil && reflect.DeepEqual(is, want)
}

// valuesOf returns the values of a TOML file by their keys. Empty tables have none.
func valuesOf(text string) (map[string]any, error) {
	var tree map[string]any
	if err := toml.Unmarshal([]byte(text), &tree); err != nil {
		return nil, err
	}
	values := map[string]any{}
	var walk func(path string, tree map[string]any)
	walk = func(path string, tree map[string]any) {
		for key, v := range tree {
			if t, is := v.(map[string]any); is {
				walk(path+quote(key)+".", t)
				continue
			}
			values[path+quote(key)] = v
		}
	}
	walk("", tree)
	return values, nil
}

// values returns the values that a part sets.
func (p part) values() (map[string]any, error) { return valuesOf(p.inTable(p.Text)) }

func (p part) inTable(text string) string {
	if name, _, line := strings.Cut(p.Name, ": "); line {
		return "[" + name + "]\n" + text + "\n"
	}
	return text
}

func atEnd(text, add string) string {
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return text + add
}

// lineEdits returns the possible edits that put a line into a table: in place of a line
// that looks like the same key, below a line that looks like the table's first, or with a
// new table.
func lineEdits(text, name, key, line string) (edits []edit) {
	lines := strings.SplitAfter(text, "\n")
	want, err := headerOf("[" + name + "]")
	if err != nil {
		return nil
	}
	for h, l := range lines {
		keys, err := headerOf(l)
		if err != nil || !slices.Equal(keys, want) {
			continue
		}
		for i := h + 1; i < len(lines); i++ {
			if k, _, is := strings.Cut(lines[i], "="); is && strings.Trim(strings.TrimSpace(k), `"'`) == key {
				before := strings.TrimRight(lines[i], "\r\n")
				next := slices.Clone(lines)
				next[i] = line + lines[i][len(before):]
				edits = append(edits, edit{strings.Join(next, ""), before})
			}
		}
		next := slices.Clone(lines)
		if !strings.HasSuffix(l, "\n") {
			next[h] += "\n"
		}
		edits = append(edits, edit{text: strings.Join(slices.Insert(next, h+1, line+"\n"), "")})
	}
	return append(edits, edit{text: atEnd(text, "["+name+"]"+ours+"\n"+line+"\n")})
}

// headerOf returns the keys of a line that begins a table.
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

func (configTOML) remove(now []byte, parts []part) (left []byte, kept []string, err error) {
	text := string(now)
	for _, p := range slices.Backward(parts) {
		is, err := valuesOf(text)
		if err != nil {
			return nil, nil, fmt.Errorf("it is not TOML: %w", err)
		}
		of, err := p.values()
		if err != nil {
			return nil, nil, err
		}
		back, err := valuesOf(p.inTable(p.Before))
		if err != nil {
			return nil, nil, err
		}
		want, there := maps.Clone(is), false
		for key := range of {
			value, set := is[key]
			there = there || set && !reflect.DeepEqual(value, back[key])
			delete(want, key)
		}
		maps.Copy(want, back)
		edits := removals(text, p)
		switch i := slices.IndexFunc(edits, func(w edit) bool { return w.hasValues(want) }); {
		case i >= 0:
			text = edits[i].text
		case there:
			kept = append(kept, p.Name)
		}
	}
	return []byte(text), kept, nil
}

// removals returns the possible edits that remove a part, one for each place that looks
// like it.
func removals(text string, p part) (edits []edit) {
	name, _, line := strings.Cut(p.Name, ": ")
	for at := 0; ; at++ {
		next := strings.Index(text[at:], p.Text)
		if next < 0 {
			return edits
		}
		at += next
		from, to := at, at+len(p.Text)
		if made := "[" + name + "]" + ours + "\n"; line && p.Before == "" && strings.HasSuffix(text[:from], made) {
			from -= len(made)
		}
		if line && p.Before == "" && strings.HasPrefix(text[to:], "\n") {
			to++
		}
		edits = append(edits, edit{text: text[:from] + p.Before + text[to:]})
	}
}
