package baseline

import (
	"fmt"
	"path/filepath"
	"time"

	"concourse-ci-machine/internal/base/host"
)

// folder is where profiles are kept, as profile-<time>-<commit>.json, and
// skip-<commit>.txt of commits whose command asked to leave them out.
type folder struct {
	host.Host
	dir string
}

// load gives the bisection what is there. Files of other names are left out, and those
// that are no profiles, with a note.
func (f folder) load(b *bisection) (profiles int, notes []string, err error) {
	entries, err := f.ReadDir(f.dir)
	if err != nil {
		return 0, nil, fmt.Errorf("cannot read the profiles in %s: %w", visible(f.dir), cause(err))
	}
	for _, e := range entries {
		_, id, ok := profileName(e.Name())
		for i, c := range b.commits {
			file := filepath.Join(f.dir, e.Name())
			switch {
			case e.Name() == skipName(c):
				b.broken[i] = "its command asked to skip it, and " + e.Name() + " says so"
			case ok && sameCommit(id, c.ID):
				p, err := readProfile(f.Path(file), nil)
				if err != nil {
					notes = append(notes, "left out: "+err.Error())
					continue
				}
				b.runs[i] = append(b.runs[i], p)
				profiles++
			}
		}
	}
	return profiles, notes, nil
}

// keep writes what was measured.
func (f folder) keep(c Commit, data []byte) error {
	at := f.Now().UTC()
	file := ""
	for file == "" || f.Exists(file) { // two runs may end in the same second
		file = filepath.Join(f.dir, fmt.Sprintf("profile-%s-%s.json", at.Format("20060102150405"), c.short()))
		at = at.Add(time.Second)
	}
	return f.WriteFile(file, data, 0o644)
}

func skipName(c Commit) string { return "skip-" + c.short() + ".txt" }

// skip remembers that a commit's command asked to leave it out.
func (f folder) skip(c Commit, why string) error {
	return f.WriteFile(filepath.Join(f.dir, skipName(c)), []byte(why+"\n"), 0o644)
}
