package concourse

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"concourse-ci-machine/internal/base/resource"
	"concourse-ci-machine/internal/concourse/release"
	"concourse-ci-machine/templates"
)

// WebUnitFileFor is the unit of the web; flags are further words of its
// command line, taken literally (D28).
func WebUnitFileFor(p WebPaths, flags []string) (resource.File, error) {
	var words strings.Builder
	for _, f := range flags {
		quoted, err := quoteUnitWord(f)
		if err != nil {
			return resource.File{}, fmt.Errorf("cannot pass a flag to the web: %w", err)
		}
		words.WriteString(" " + quoted)
	}
	data, err := templates.Render(WebUnit, map[string]string{
		"User":        WebUser,
		"Dir":         p.Dir,
		"Env":         p.Env(),
		"OperatorEnv": OperatorEnvFile,
		"Concourse":   release.BinDir + "/concourse",
		"Flags":       words.String(),
	})
	return resource.File{Path: WebUnitFile, Data: data, Mode: 0o644}, err
}

// quoteUnitWord writes one word of a unit's command line so that systemd
// passes it on as it is: quotes and backslashes (systemd.syntax(7)), % for
// specifiers and $ for variables (systemd.service(5)) stand for themselves.
func quoteUnitWord(s string) (string, error) {
	if !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl) {
		return "", errors.New("it holds a line end, another control character or bytes that are not UTF-8")
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, `%`, `%%`, `$`, `$$`).Replace(s) + `"`, nil
}
