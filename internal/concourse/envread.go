package concourse

import "strings"

// EnvValues are the variables of an environment file with their values, as systemd
// reads them.
func EnvValues(data []byte) map[string]string {
	env := map[string]string{}
	for _, a := range parseEnv(data) {
		_, raw, _ := strings.Cut(a.raw, "=")
		env[a.key] = envValue(raw)
	}
	return env
}

// envValue is what systemd makes of a value (src/basic/env-file.c): blanks around
// it go; quotes may begin where a part of the value does; a backslash makes the
// next character literal, in double quotes before one of "\`$ only; before a line
// end both go.
func envValue(raw string) string {
	var out strings.Builder
	kept := 0 // what is certainly not a blank at the end
	text := strings.TrimLeft(raw, " \t")
	begin := true
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '\\':
			if i++; i < len(text) && !lineEnd(text[i]) {
				out.WriteByte(text[i])
			}
			begin, kept = false, out.Len()
		case begin && (c == '"' || c == '\''):
			i = quoted(&out, text, i)
			kept = out.Len()
			for i+1 < len(text) && (text[i+1] == ' ' || text[i+1] == '\t') {
				i++ // between two parts
			}
		default:
			out.WriteByte(c)
			if c != ' ' && c != '\t' {
				kept = out.Len()
			}
			begin = false
		}
	}
	return out.String()[:kept]
}

// quoted writes the part that starts with the quote at i, and returns where its
// other quote is.
func quoted(out *strings.Builder, text string, i int) int {
	quote := text[i]
	for i++; i < len(text) && text[i] != quote; i++ {
		if text[i] != '\\' || quote == '\'' || i+1 == len(text) {
			out.WriteByte(text[i])
			continue
		}
		i++
		switch {
		case text[i] == '\n':
		case strings.IndexByte("\"\\`$", text[i]) >= 0:
			out.WriteByte(text[i])
		default:
			out.WriteString(text[i-1 : i+1])
		}
	}
	return i
}

func lineEnd(c byte) bool { return c == '\n' || c == '\r' }
