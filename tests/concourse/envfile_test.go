//go:build e2e

package concourse

import "strings"

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

// unquoteEnv takes quotes away; in double ones a backslash is before what is meant as it
// is.
func unquoteEnv(s string) string {
	if len(s) > 1 && s[0] == '\'' && s[len(s)-1] == '\'' {
		return s[1 : len(s)-1]
	}
	if len(s) > 1 && s[0] == '"' && s[len(s)-1] == '"' {
		return strings.NewReplacer(`\\`, `\`, `\"`, `"`, "\\`", "`", `\$`, `$`).Replace(s[1 : len(s)-1])
	}
	return s
}
