package jobexporter

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

// Reference names a pipeline as fly does: "deploy", and
// "deploy/branch:main,go.version:\"1.26\"" for an instanced one. Variables are sorted, and
// variables of nested maps have dots in their names. Values that YAML would not read as the
// same text are quoted, so that two different instances never have equal names. It returns
// "" if the variables have more than maxName bytes.
func Reference(name string, vars map[string]any) string {
	if vars == nil {
		return name
	}
	var f flattened
	for key, value := range vars {
		f.add(segment(key), value)
	}
	if f.size > maxName {
		return ""
	}
	slices.SortFunc(f.pairs, func(a, b [2]string) int { return strings.Compare(a[0], b[0]) })
	var b strings.Builder
	b.WriteString(name)
	for i, pair := range f.pairs {
		b.WriteByte("/,"[min(i, 1)])
		b.WriteString(pair[0] + ":" + pair[1])
	}
	if len(f.pairs) == 0 {
		b.WriteByte('/')
	}
	return b.String()
}

// flattened collects variables as pairs of a dotted name and a value. It stops when they
// are too long: nested variables can expand to names many times the size of the request.
type flattened struct {
	pairs [][2]string
	size  int
}

func (f *flattened) add(path string, value any) {
	if f.size = max(f.size, len(path)); f.size > maxName {
		return
	}
	// An empty map would be invisible, and two instances would look equal.
	if inner, ok := value.(map[string]any); ok && len(inner) > 0 {
		for key, v := range inner {
			f.add(path+"."+segment(key), v)
		}
		return
	}
	shown := ""
	if text, ok := value.(string); ok && !strings.ContainsAny(text, ",: /") && plain(text) {
		shown = unescaped(text)
	} else {
		quoted, _ := json.Marshal(value) // it came from JSON
		shown = string(quoted)
	}
	f.pairs = append(f.pairs, [2]string{path, shown})
	f.size += len(path) + len(shown)
}

// segment quotes a name that would otherwise be read as several names.
func segment(s string) string {
	if strings.ContainsAny(s, ",.:/ ") {
		return strconv.Quote(s)
	}
	return s
}

// unescaped returns a text as in JSON, without the quotes around it.
func unescaped(s string) string {
	quoted, _ := json.Marshal(s) // no error for a string
	return string(quoted[1 : len(quoted)-1])
}

// words11 are texts that YAML 1.1, which fly reads, treats as booleans and YAML 1.2 as
// texts.
var words11 = []string{"y", "Y", "n", "N", "yes", "Yes", "YES", "no", "No", "NO", "on", "On", "ON", "off", "Off", "OFF"}

// plain reports whether YAML reads a text as that text.
func plain(s string) bool {
	if len(s) > maxName || slices.Contains(words11, s) {
		return false
	}
	var v any
	if err := yaml.Unmarshal([]byte(s), &v); err != nil {
		return false
	}
	switch v.(type) {
	case string, time.Time: // fly's reader keeps a date as text
		return true
	}
	return false
}
