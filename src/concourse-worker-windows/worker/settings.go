package worker

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/concourse/beacon"
)

// Settings describe an installed worker. They are in a file that only administrators write.
type Settings struct {
	Name         string   `json:"name"`
	TSAHost      string   `json:"tsa-host"`
	TSAPublicKey string   `json:"tsa-public-key"`
	WorkDir      string   `json:"work-dir"`
	LimitGB      int      `json:"work-limit-gb"`
	Tags         []string `json:"tags"` // in addition to those of the machine
	Team         string   `json:"team,omitempty"`
	Account      string   `json:"account"`
}

var (
	workerName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)
	tagName    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._=:/-]{0,99}$`)
	teamName   = regexp.MustCompile(`^[^\s",]{1,100}$`)
	accountSID = regexp.MustCompile(`^[^\\/\[\]:;|=,+*?<>"]+\\[^\\/\[\]:;|=,+*?<>"]+\$$`)
	driveRoot  = regexp.MustCompile(`^[A-Za-z]:\\`)
)

const maxTags = 50

// check returns the first setting that is invalid. It also gives the address and the key
// the form that Concourse reads.
func (s *Settings) check() (err error) {
	switch {
	case !workerName.MatchString(s.Name):
		return fmt.Errorf("--name %.100q: use letters, digits and ._-", s.Name)
	case s.TSAHost == "":
		return errors.New("--tsa-host is missing, such as 10.0.0.10:2222")
	case s.TSAPublicKey == "":
		return errors.New("--tsa-public-key is missing: the file tsa_host_key.pub of the web")
	case s.Team != "" && !teamName.MatchString(s.Team):
		return fmt.Errorf("--team %.100q is not the name of a team", s.Team)
	case !driveRoot.MatchString(s.WorkDir) || len(s.WorkDir) < 4 || strings.Contains(s.WorkDir, ".."):
		return fmt.Errorf(`--work-dir %.100q: use a folder of its disk, such as C:\concourse`, s.WorkDir)
	case s.LimitGB < 10:
		return fmt.Errorf("--work-limit-gb %d: use at least 10", s.LimitGB)
	case len(s.Tags) > maxTags:
		return fmt.Errorf("--tag: more than %d tags", maxTags)
	case s.Account != DefaultAccount && s.Account != LocalSystem && !accountSID.MatchString(s.Account):
		return fmt.Errorf("--account %.100q: use a managed account (DOMAIN\\name$) or %s; the default needs no "+
			"password", s.Account, LocalSystem)
	}
	for _, t := range s.Tags {
		if !tagName.MatchString(t) {
			return fmt.Errorf("--tag %.100q: use letters, digits and ._=:/-", t)
		}
	}
	if s.TSAHost, err = beacon.HostPort(s.TSAHost); err != nil {
		return fmt.Errorf("--tsa-host: %w", err)
	}
	if s.TSAPublicKey, err = beacon.KeyLine(s.TSAPublicKey); err != nil {
		return fmt.Errorf("--tsa-public-key: %w", err)
	}
	return nil
}

// maxSettings bounds the file.
const maxSettings = 64 << 10

// parseSettings parses the content of the file.
func parseSettings(data []byte) (s Settings, err error) {
	if len(data) > maxSettings {
		return s, fmt.Errorf("it has more than %d bytes", maxSettings)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		return Settings{}, fmt.Errorf("it is not the JSON of the settings: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Settings{}, errors.New("data follows the first JSON value")
	}
	return s, s.check()
}

// readSettings reads the settings of an installation.
func readSettings(m Machine, p paths) (Settings, error) {
	data, err := readOwn(m, p.settings())
	if err != nil {
		return Settings{}, err
	}
	s, err := parseSettings(data)
	if err != nil {
		return Settings{}, err // an invalid work folder must not be used
	}
	return s, nil
}

// checkWorkDir refuses a folder with other files than a worker's, because uninstall removes
// them. A folder that uninstall --keep-work kept has volumes.
func checkWorkDir(dir string) error {
	found, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot use --work-dir %s: %w", dir, explain(err))
	}
	own := []string{"containers", "volumes", filepath.Base(temp(dir)), filepath.Base(cache(dir))}
	kept := slices.ContainsFunc(found, func(f fs.DirEntry) bool { return f.Name() == "volumes" })
	for _, f := range found {
		if !kept || !f.IsDir() || !slices.Contains(own, f.Name()) {
			return fmt.Errorf("--work-dir %s has other files, such as %s; name a new or empty folder, because "+
				"uninstall removes it", dir, f.Name())
		}
	}
	return nil
}

// paths has the files of an installed worker.
type paths struct {
	programs, data string // folders
}

func pathsOf(m Machine) (p paths, err error) {
	p.programs, p.data, err = m.Folders()
	p.programs, p.data = filepath.Join(p.programs, ServiceName), filepath.Join(p.data, ServiceName)
	return p, err
}

func (p paths) program() string   { return filepath.Join(p.programs, Program+".exe") }
func (p paths) concourse() string { return filepath.Join(p.programs, "concourse.exe") }
func (p paths) settings() string  { return filepath.Join(p.data, "settings.json") }
func (p paths) keys() string      { return filepath.Join(p.data, "keys") }
func (p paths) key() string       { return filepath.Join(p.keys(), "worker_key") }
func (p paths) hostKey() string   { return filepath.Join(p.keys(), "tsa_host_key.pub") }
func (p paths) logs() string      { return filepath.Join(p.data, "log") }
func (p paths) log() string       { return filepath.Join(p.logs(), "worker.log") }
func (p paths) state() string     { return filepath.Join(p.logs(), "state.json") }
func (p paths) known() string     { return filepath.Join(p.logs(), "gpus.json") }
