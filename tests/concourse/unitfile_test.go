//go:build e2e

package concourse

import (
	"errors"
	"os"
	"strings"
)

// unitFile is the [Service] of a unit: its settings by name, in order.
type unitFile map[string][]string

func readUnit(path string) (unitFile, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	u, section := unitFile{}, ""
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			section = line
		}
		if key, value, ok := strings.Cut(line, "="); ok && section == "[Service]" && !strings.HasPrefix(line, "#") {
			u[key] = append(u[key], value)
		}
	}
	return u, nil
}

// get is a setting that counts once.
func (u unitFile) get(key string) string {
	if all := u[key]; len(all) > 0 {
		return all[len(all)-1]
	}
	return ""
}

// environment is Environment and then the files, as systemd.exec(5) says.
func (u unitFile) environment() ([]string, error) {
	env := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"}
	for _, words := range u["Environment"] {
		env = append(env, splitWords(words)...)
	}
	for _, path := range u["EnvironmentFile"] {
		path, optional := strings.CutPrefix(path, "-")
		data, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) && optional {
			continue
		}
		if err != nil {
			return nil, err
		}
		for key, value := range parseEnvFile(string(data)) {
			env = append(env, key+"="+value)
		}
	}
	return env, nil
}

// parseEnvFile reads the lines of an EnvironmentFile that has no values over
// several lines, which the charm never writes.
func parseEnvFile(text string) map[string]string {
	env := map[string]string{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' || line[0] == ';' {
			continue
		}
		if key, value, ok := strings.Cut(line, "="); ok {
			env[key] = unquoteEnv(value)
		}
	}
	return env
}

// unquoteEnv takes quotes away; in double ones a backslash stands before what
// is meant as it is.
func unquoteEnv(s string) string {
	if len(s) > 1 && s[0] == '\'' && s[len(s)-1] == '\'' {
		return s[1 : len(s)-1]
	}
	if len(s) > 1 && s[0] == '"' && s[len(s)-1] == '"' {
		return strings.NewReplacer(`\\`, `\`, `\"`, `"`, "\\`", "`", `\$`, `$`).Replace(s[1 : len(s)-1])
	}
	return s
}

// splitWords splits a command line of a unit: quoted words, %% and $$.
func splitWords(s string) (words []string) {
	var word strings.Builder
	in, quoted := false, false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\' && i+1 < len(s):
			i++
			word.WriteByte(s[i])
			in = true
		case c == '"':
			quoted, in = !quoted, true
		case (c == ' ' || c == '\t') && !quoted:
			if in {
				words = append(words, word.String())
			}
			word.Reset()
			in = false
		case (c == '%' || c == '$') && i+1 < len(s) && s[i+1] == c:
			i++
			fallthrough
		default:
			word.WriteByte(c)
			in = true
		}
	}
	if in {
		words = append(words, word.String())
	}
	return words
}
