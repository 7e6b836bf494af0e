// Package pipelines holds the pipelines and tasks for users, compiled into the charm, so
// that a unit can hand out those that go with it. It reads and changes none of them.
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

// Write writes the file of that name, and without a name the names of all files.
func Write(w io.Writer, name string) error {
	if name != "" {
		data, err := files.ReadFile(name)
		if err != nil {
			return fmt.Errorf("cannot print %q: there is no such pipeline or task; without a name all are listed", name)
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
