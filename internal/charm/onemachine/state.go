package onemachine

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/charm/juju"
	"concourse-ci-machine/internal/charm/model"
)

// StateFile has what Juju would keep: databags, secrets and the status. Only root can read
// it.
const StateFile = model.StateDir + "/machine.json"

// stateVersion is the version of the state file that this program writes.
const stateVersion = 1

// state holds the content of StateFile.
type state struct {
	Version int    `json:"version"`
	Unit    string `json:"unit"`

	Own     map[string]map[string]string `json:"own,omitempty"`     // own databag by relation
	App     map[string]map[string]string `json:"app,omitempty"`     // databag of the application by relation
	Secrets map[string]map[string]string `json:"secrets,omitempty"` // content by id

	Status  juju.Status `json:"status,omitempty"`
	Message string      `json:"message,omitempty"`
	Down    bool        `json:"down,omitempty"` // stopped by the command down

	Database *database `json:"database,omitempty"` // on this machine
	// Packages are those that were installed with PostgreSQL. Before has the packages of the
	// machine while PostgreSQL is being installed.
	Packages []string `json:"packages,omitempty"`
	Before   []string `json:"before,omitempty"`
	OwnUser  bool     `json:"own_user,omitempty"` // the user of the web did not exist before
	Folders  []string `json:"folders,omitempty"`  // of sharedFolders that did not exist before

	Workers map[string]map[string]string `json:"workers,omitempty"` // databags of joined machines
	Web     map[string]string            `json:"web,omitempty"`     // databag of the web that this machine joined
}

// Load reads the options and the state of the machine. A machine that was never set up has
// an empty state and no options.
func Load(h host.Host) (*Model, error) {
	m := &Model{Host: h, Progress: Progress{W: io.Discard}}
	data, err := h.ReadFile(StateFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		m.state = state{Version: stateVersion, Unit: unitName()}
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("cannot read %s: only root may; run the command with sudo", StateFile)
	case err != nil:
		return nil, fmt.Errorf("cannot read %s: %w", StateFile, err)
	default:
		d := json.NewDecoder(bytes.NewReader(data))
		if err := d.Decode(&m.state); err != nil || m.state.Unit == "" {
			return nil, fmt.Errorf("cannot read %s: it is damaged; restore it from a backup, or run: "+
				"concourse-ci-machine purge", StateFile)
		}
		if m.state.Version > stateVersion {
			return nil, fmt.Errorf("cannot read %s: a newer version of this program wrote it; install that version",
				StateFile)
		}
	}
	m.options, err = readOptions(h.Root)
	return m, err
}

// Installed reports whether the machine was set up and not purged.
func (m *Model) Installed() bool { return m.Host.Exists(StateFile) }

// Save writes the state.
func (m *Model) Save() error {
	data, err := json.MarshalIndent(m.state, "", "  ")
	if err != nil {
		return err
	}
	if err := model.MakeStateDir(m.Host.Root); err != nil {
		return fmt.Errorf("cannot write %s: %w", StateFile, err)
	}
	return m.Host.WriteFile(StateFile, append(data, '\n'), 0o600)
}

// saveIfInstalled writes the state unless the machine is being purged.
func (m *Model) saveIfInstalled() error {
	if !m.Installed() {
		return nil
	}
	return m.Save()
}
