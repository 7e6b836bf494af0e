package juju

import (
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	agent "github.com/juju/juju/concourseagent"
	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/jujutest"
)

// caseCharm is the charm of the unit that the cases are about, jujutest.CaseModel:
// its action prints what the hook tool that is asked about answers.
var caseCharm = map[string]string{
	"metadata.yaml": `name: gpu
summary: the unit of the cases
description: the unit of the cases
requires: {db: {interface: pg}}
peers: {cluster: {interface: gpu-peer}}
resources: {concourse-release: {type: file, filename: concourse.tgz}}
`,
	"config.yaml": `options:
  port: {type: int, default: 8080}
  name: {type: string, default: x}
  flag: {type: boolean, default: true}
  unset: {type: string}
`,
	"actions.yaml": `diagnose:
  params: {level: {type: integer}, deep: {type: object, properties: {key: {type: string}}}}
`,
	"dispatch": script,
}

// script runs the calls of a case one after the other, each a file of arguments,
// and keeps what they print.
const script = `#!/bin/bash
[ -d "$0.calls" ] || exit 0
out=
for call in "$0".calls/*.call; do
	mapfile -d '' argv <"$call"
	for k in "${!argv[@]}"; do argv[k]=${argv[k]//\$OUT/$out}; done
	base=${call%.call}
	"${argv[@]}" <"$base.stdin" >"$base.stdout" 2>"$base.stderr"
	echo $? >"$base.code"
	out=$(cat "$base.stdout")
done
`

// caseUnit is gpu/0 in jujutest.CaseModel's situation.
func caseUnit(t *testing.T, follower bool) (*agent.Model, *agent.Unit, *agent.Relation) {
	t.Helper()
	dir := shortDir(t)
	charm := agent.CharmDir(dir, "gpu/0")
	require.NoError(t, os.MkdirAll(charm, 0o755))
	for name, text := range caseCharm {
		require.NoError(t, os.WriteFile(filepath.Join(charm, name), []byte(text), 0o755))
	}
	m := agent.NewModel()
	_, err := m.Deploy("gpu", charm)
	require.NoError(t, err)
	_, err = m.Deploy("db", "")
	require.NoError(t, err)
	u, err := m.AddUnit("gpu/0", "10.0.0.5", dir, jujuc())
	require.NoError(t, err)
	if !follower {
		m.Lead("gpu/0")
	}
	db := m.Relate(7, agent.End{App: "db", Endpoint: "db", Role: "provider", Interface: "pg"}, agent.End{App: "gpu", Endpoint: "db", Role: "requirer", Interface: "pg"})
	peer := m.Relate(1, agent.End{App: "gpu", Endpoint: "cluster", Role: "peer", Interface: "gpu-peer"})
	m.Join(db, "db/0", "")
	m.Tell(db, "db/0", map[string]string{"host": "10.0.0.9", "ingress-address": "10.0.0.9"})
	m.Tell(db, "db", map[string]string{"version": "14"})
	u.Installed()
	for _, r := range []*agent.Relation{db, peer} {
		m.Tell(r, "gpu/0", map[string]string{"private-address": "", "egress-subnets": ""})
	}
	return m, u, db
}

// answered is what the tools left of one call.
type answered struct{ stdout, stderr, code string }

// runCase runs a case's calls in the hook that it is about.
func runCase(t *testing.T, c jujutest.Case, m *agent.Model, u *agent.Unit, db *agent.Relation, dir string) []answered {
	t.Helper()
	calls := dir + ".calls"
	require.NoError(t, os.RemoveAll(calls))
	require.NoError(t, os.MkdirAll(calls, 0o755))
	all := append(append([][]string{}, c.Before...), c.Args)
	name := func(k int, what string) string { return filepath.Join(calls, string(rune('a'+k))+"."+what) }
	for k, argv := range all {
		stdin := ""
		if k == len(all)-1 {
			stdin = c.Stdin
		}
		require.NoError(t, os.WriteFile(name(k, "call"), []byte(strings.Join(argv, "\x00")), 0o644))
		require.NoError(t, os.WriteFile(name(k, "stdin"), []byte(stdin), 0o644))
	}
	var ran agent.Ran
	switch c.In {
	case "", "forced":
		ran = u.Hook("config-changed")
	case "action":
		_, ran = u.Act("diagnose", maps.Clone(jujutest.CaseParams()))
	default:
		ran = u.RelationHook(db, "relation-"+c.In, map[string]string{"joined": "db/0"}[c.In])
	}
	if c.Refused == "" {
		require.NoError(t, ran.Err)
	} else {
		require.ErrorContains(t, ran.Err, c.Refused)
	}
	var out []answered
	for k := range all {
		var a answered
		for file, to := range map[string]*string{"stdout": &a.stdout, "stderr": &a.stderr, "code": &a.code} {
			data, err := os.ReadFile(name(k, file))
			require.NoError(t, err)
			*to = string(data)
		}
		out = append(out, a)
	}
	return out
}

// The in-memory tools are held to the same table by their own tests.
func TestJujusOwnToolsAnswerAsTheTableShows(t *testing.T) {
	for _, c := range jujutest.Cases() {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			m, u, db := caseUnit(t, c.Follower)
			if c.HasSecret {
				s := m.AddSecret("gpu", map[string]string{"token": "one"})
				s.ID, s.Label = strings.TrimPrefix(jujutest.OwnSecret, "secret:"), "keys"
			}
			if c.In == "forced" {
				require.NoError(t, u.Hook("update-status").Err) // the agent joins the relation
				m.RemoveByForce(db)
			}
			if c.In == "broken" {
				m.Remove(db)
				u.Forget(db)
			}
			got := runCase(t, c, m, u, db, filepath.Join(u.CharmDir(), "dispatch"))
			for k, a := range got[:len(got)-1] {
				require.Equal(t, "0\n", a.code, "%v: %s", c.Before[k], a.stderr)
			}
			last := got[len(got)-1]
			check(t, c.Pattern, c.Stdout, last.stdout)
			check(t, c.Pattern, c.Stderr, last.stderr)
			require.Equal(t, c.Code, number(t, last.code))
		})
	}
}

func check(t *testing.T, pattern bool, want, got string) {
	t.Helper()
	if pattern && want != "" {
		require.Regexp(t, want, got)
		return
	}
	require.Equal(t, want, got)
}

func number(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(strings.TrimSpace(s))
	require.NoError(t, err)
	return n
}
