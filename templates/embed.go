// Package templates embeds the files that the charm installs, as text/template. It only
// renders them. Its callers decide the data and the destination.
package templates

import (
	"bytes"
	"embed"
	"fmt"
	"text/template"
)

//go:embed *.service *.path *.timer *.tmpl *.rules
var files embed.FS

// Render renders the template with that file name. A value that data lacks is an error,
// never an empty text.
func Render(name string, data any) ([]byte, error) {
	t, err := template.New(name).Option("missingkey=error").ParseFS(files, name)
	if err != nil {
		return nil, fmt.Errorf("cannot read template %s: %w", name, err)
	}
	var b bytes.Buffer
	if err := t.Execute(&b, data); err != nil {
		return nil, fmt.Errorf("cannot fill in template %s: %w", name, err)
	}
	return b.Bytes(), nil
}
