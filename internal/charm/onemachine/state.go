package onemachine

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/statefile"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/juju"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
)

// stateFile has what Juju would keep: databags, secrets and the status.
var stateFile = statefile.File[state]{Path: model.MachineFile, Mode: 0o600,
	Valid: func(s state) error {
		if s.Unit == "" {
			return errors.New("it has no name of the machine")
		}
		return nil
	}}

// state holds the content of stateFile.
type state struct {
	Unit string `json:"unit"`

	Own     map[string]map[string]string `json:"own,omitempty"`     // own databag by relation
	App     map[string]map[string]string `json:"app,omitempty"`     // databag of the application by relation
	Secrets map[string]map[string]string `json:"secrets,omitempty"` // content by id

	Status  juju.Status `json:"status,omitempty"`
	Message string      `json:"message,omitempty"`
	Down    bool        `json:"down,omitempty"` // stopped by the command down

	// What this machine made is recorded before it is made, because Purge removes nothing else.
	Database *database `json:"database,omitempty"` // on this machine
	Packages []string  `json:"packages,omitempty"` // that apt added for PostgreSQL
	OwnUser  bool      `json:"own_user,omitempty"` // the user of the web
	Folders  []string  `json:"folders,omitempty"`  // of sharedFolders

	Workers map[string]map[string]string `json:"workers,omitempty"` // databags of joined machines
	Web     map[string]string            `json:"web,omitempty"`     // databag of the web that this machine joined
}

// Load reads the options and the state of the machine. A machine that was never set up has
// an empty state and no options.
func Load(h host.Host) (*Model, error) {
	m := &Model{Host: h, Progress: Progress{W: io.Discard}}
	return m, m.reload()
}

// reload reads the files again.
func (m *Model) reload() (err error) {
	name, _ := os.Hostname() // without one it is any machine
	m.state = state{Unit: unitName(name)}
	if m.Installed() {
		m.state, err = stateFile.Read(m.Host.Root)
	}
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("cannot read %s: only root may; run the command with sudo", stateFile.Path)
	case errors.Is(err, statefile.ErrDamaged):
		return fmt.Errorf("%w; restore it from a backup: it has the CI's secrets, and what purge may remove", err)
	case err != nil:
		return err
	}
	m.options, err = readOptions(m.Host.Root)
	return err
}

// Installed reports whether the machine was set up and not purged.
func (m *Model) Installed() bool { return Installed(m.Host.Root) }

// Installed reports whether the machine runs a CI without Juju.
func Installed(r host.Root) bool {
	_, err := r.Lstat(stateFile.Path)
	return !errors.Is(err, fs.ErrNotExist)
}

// Save writes the state.
func (m *Model) Save() error { return stateFile.Write(m.Host.Root, m.state) }
