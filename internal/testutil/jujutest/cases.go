package jujutest

import (
	"slices"
	"strings"
)

// Case describes one hook tool call and the answer of Juju 3.6.11 on the unit of CaseModel.
// It is data, so that the same table can run against Juju's own tools.
type Case struct {
	Name string
	// In is the hook: "" config-changed; created, joined, broken: of relation db:7; forced:
	// config-changed after db:7 was removed with --force; action: diagnose.
	In        string
	Follower  bool       // the unit is not the leader
	HasSecret bool       // the application already has OwnSecret
	Before    [][]string // earlier calls in the same hook; they succeed
	Args      []string   // argv; $OUT in it is the output of the last call of Before
	Stdin     string

	Stdout, Stderr string
	Code           int
	Pattern        bool // Stdout and Stderr are regular expressions
	// Refused is part of the controller's error at the end of the hook, if it refuses the
	// changes.
	Refused string
}

// OwnSecret is the application's secret in cases that have one: label keys, content
// token=one.
const OwnSecret = "secret:d2keep00000000000000"

// CaseModel returns the unit of the cases: gpu/0 with options of each type, a relation with
// one remote unit, and a peer relation without any.
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

// CaseParams returns the parameters of the cases' action.
func CaseParams() map[string]any {
	return map[string]any{"level": 2, "deep": map[string]any{"key": "v"}}
}

// Begin starts the case's hook in a model.
func (c Case) Begin(m *Model) *Context {
	if c.HasSecret {
		m.Secrets = append(m.Secrets, &Secret{ID: strings.TrimPrefix(OwnSecret, "secret:"), Label: "keys",
			Owner: m.App(), Revisions: []map[string]string{{"token": "one"}}})
	}
	switch c.In {
	case "":
		return m.Begin(Hook("config-changed"))
	case "action":
		return m.BeginAction("diagnose", CaseParams())
	case "joined":
		return m.Begin(RelationHook(m.relation(7), c.In, "db/0"))
	case "forced":
		m.relation(7).Forced = true
		return m.Begin(Hook("config-changed"))
	case "broken": // by then the relation is dying and its units have left
		m.relation(7).Units = map[string]map[string]string{}
	}
	return m.Begin(RelationHook(m.relation(7), c.In, ""))
}

// Argv returns Args after the last call of Before printed out.
func (c Case) Argv(out string) []string {
	argv := slices.Clone(c.Args)
	for k := range argv {
		argv[k] = strings.ReplaceAll(argv[k], "$OUT", strings.TrimSpace(out))
	}
	return argv
}

// Cases returns the table.
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
