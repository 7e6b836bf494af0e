package jujutest

import (
	"slices"
	"strings"
)

// Case is one hook tool call and what Juju 3.6.11 answers to it, on the unit of
// CaseModel. It is data, so that the same table can be run against Juju's own
// tools.
type Case struct {
	Name     string
	In       string     // the hook: "" config-changed; created, joined, broken: of relation db:7; action: diagnose
	Follower bool       // the unit does not lead
	Keeps    bool       // the application has a secret already, OwnSecret
	Before   [][]string // calls made before in the same hook; they succeed
	Args     []string   // argv; $OUT in it is what the last call of Before printed
	Stdin    string

	Stdout, Stderr string
	Code           int
	Pattern        bool // Stdout and Stderr are regular expressions
	// Refused is in what the controller says at the end of the hook, where it
	// keeps nothing of it.
	Refused string
}

// OwnSecret is the secret of the application in cases that have one: label keys,
// content token=one.
const OwnSecret = "secret:d2keep00000000000000"

// CaseModel is the unit that the cases are about: gpu/0 with options of each
// type, a relation with one remote unit, a peer relation without any.
func CaseModel(follower bool) *Model {
	m := New("gpu/0")
	m.Leader = !follower
	m.Zone = "az1"
	for name, o := range map[string]Option{
		"port":  {Type: "int", Default: 8080},
		"name":  {Type: "string", Default: "x"},
		"flag":  {Type: "boolean", Default: true},
		"unset": {Type: "string"},
	} {
		if err := m.Declare(name, o); err != nil {
			panic(err) // the table above is wrong
		}
	}
	db := m.Relate(7, "db", "db")
	db.Local = map[string]string{"ingress-address": "10.0.0.5"}
	db.Units["db/0"] = map[string]string{"host": "10.0.0.9", "ingress-address": "10.0.0.9"}
	db.AppData = map[string]string{"version": "14"}
	peer := m.Relate(1, "cluster", "gpu")
	peer.Local = map[string]string{"ingress-address": "10.0.0.5"}
	return m
}

// CaseParams are the parameters of the action of the cases.
func CaseParams() map[string]any {
	return map[string]any{"level": 2, "deep": map[string]any{"key": "v"}}
}

// Begin starts the case's hook in a model.
func (c Case) Begin(m *Model) *Context {
	if c.Keeps {
		m.Secrets = append(m.Secrets, &Secret{ID: strings.TrimPrefix(OwnSecret, "secret:"), Label: "keys", Owner: m.App(), Revisions: []map[string]string{{"token": "one"}}})
	}
	switch c.In {
	case "":
		return m.Begin(Hook("config-changed"))
	case "action":
		return m.BeginAction("diagnose", CaseParams())
	case "joined":
		return m.Begin(RelationHook(m.relation(7), c.In, "db/0"))
	case "broken": // by then the relation is dying and its units have left
		m.relation(7).Units = map[string]map[string]string{}
	}
	return m.Begin(RelationHook(m.relation(7), c.In, ""))
}

// Argv is Args after the last call of Before printed out.
func (c Case) Argv(out string) []string {
	argv := slices.Clone(c.Args)
	for k := range argv {
		argv[k] = strings.ReplaceAll(argv[k], "$OUT", strings.TrimSpace(out))
	}
	return argv
}

// Cases is the table.
func Cases() []Case {
	return slices.Concat(configCases(), relationCases(), secretCases(), actionCases(), otherCases())
}

func words(line string) []string { return strings.Fields(line) }

func before(lines ...string) (out [][]string) {
	for _, l := range lines {
		out = append(out, words(l))
	}
	return out
}
