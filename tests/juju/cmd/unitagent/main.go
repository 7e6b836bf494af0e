// Command unitagent runs the hooks and actions of one unit on the machine that
// it is started on, as Juju's own agent does: with Juju's hook context, runner
// and hook tools of package concourseagent. It unpacks the charm with Juju's own
// library. The controller is that package's model; what it knows comes from the
// file that the flag -model names.
//
// Requests are JSON objects on standard input, one a line, and each is answered
// by one line. It ends with its standard input.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/juju/charm/v12"

	agent "github.com/juju/juju/concourseagent"
)

// model is what the controller knows, and what is kept of an agent that ran
// before.
type model struct {
	Unit      string            `json:"unit"` // "gpu/0", which leads
	Address   string            `json:"address"`
	Options   map[string]any    `json:"options"`
	Resources map[string]string `json:"resources"` // name to path
	Peers     agent.End         `json:"peers"`     // without application
	Remote    remote            `json:"remote"`
	Kept      *kept             `json:"kept"` // null for a unit that is new
}

// remote is another application's unit and its relation to this one.
type remote struct {
	Ours    agent.End         `json:"ours"`   // without application
	Theirs  agent.End         `json:"theirs"` // Remote's App is the application
	Unit    string            `json:"unit"`
	Address string            `json:"address"`
	Bag     map[string]string `json:"bag"`
}

// kept is what a controller keeps while a machine reboots.
type kept struct {
	State   map[string]string `json:"state"`
	Bag     map[string]string `json:"bag"` // the unit's, of the relation to Remote
	Version string            `json:"version"`
}

// request is one of: the name of a hook that runs whether it is due or not, an
// action, options to set before all hooks that are due run.
type request struct {
	Hook   string         `json:"hook"`
	Action string         `json:"action"`
	Params map[string]any `json:"params"`
	Set    map[string]any `json:"set"`
}

type answer struct {
	Ran     []ran            `json:"ran"`
	Status  agent.StatusLine `json:"status"`
	Action  *agent.Action    `json:"action,omitempty"`
	Kept    kept             `json:"kept"`
	Problem string           `json:"problem,omitempty"` // of the request itself
}

// ran is agent.Ran with its error as text.
type ran struct {
	Hook, Err string
	Logs      []agent.LogLine
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "unitagent:", err)
		os.Exit(1)
	}
}

func run() error {
	packed := flag.String("charm", "", "the packed charm")
	data := flag.String("data", "/var/lib/juju", "the agent's data directory")
	jujuc := flag.String("jujuc", "", "Juju's program behind the hook tools")
	modelFile := flag.String("model", "", "what the controller knows, JSON")
	flag.Parse()
	text, err := os.ReadFile(*modelFile)
	if err != nil {
		return err
	}
	var m model
	if err := json.Unmarshal(text, &m); err != nil {
		return err
	}
	if m.Kept == nil {
		if err := unpack(*packed, agent.CharmDir(*data, m.Unit)); err != nil {
			return fmt.Errorf("cannot unpack %s: %w", *packed, err)
		}
	}
	u, err := m.start(*data, *jujuc)
	if err != nil {
		return err
	}
	out := json.NewEncoder(os.Stdout)
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var r request
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return err
		}
		if err := out.Encode(u.serve(r)); err != nil {
			return err
		}
	}
	return lines.Err()
}

// unpack is what the agent's deployer does.
func unpack(packed, dir string) error {
	archive, err := charm.ReadCharmArchive(packed)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	return archive.ExpandTo(dir)
}
