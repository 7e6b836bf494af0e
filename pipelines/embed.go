// Package pipelines embeds the pipelines and tasks for users in the charm, so that a unit
// can print the matching ones. It reads and changes none of them.
package pipelines

import (
	"embed"
	"fmt"
	"io"
	"io/fs"
	"strings"
)

//go:embed *.yml tasks vars
var files embed.FS

// Write writes the file with that name unchanged, or without a name the list of all names.
func Write(w io.Writer, name string) error {
	if name != "" {
		data, err := files.ReadFile(name)
		if err != nil {
			return fmt.Errorf("cannot print %q: no such pipeline or task; without a name all are listed", name)
		}
		_, err = w.Write(data)
		return err
	}
	_, err := fmt.Fprintln(w, strings.Join(Names(), "\n"))
	return err
}

// Names returns the names of all files, such as "tasks/verify-gpu-amd.yml".
func Names() (all []string) {
	// Reading what is compiled in does not fail.
	fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			all = append(all, path)
		}
		return err
	})
	return all
}
