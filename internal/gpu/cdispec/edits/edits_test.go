package edits

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/rawjson"
)

func change(t testing.TB, e *Edits, text string) string {
	t.Helper()
	doc, err := rawjson.Parse([]byte(text))
	require.NoError(t, err)
	changed, err := e.Apply(doc)
	require.NoError(t, err)
	if changed == nil {
		return text
	}
	return string(bytes.Join(changed, nil))
}

func everyEdit() *Edits {
	return &Edits{
		Mounts:  []Mount{{"/dev/a", "bind", "/x", []string{"bind", "rw", "nosuid", "noexec"}}},
		Devices: []Device{{Path: "/dev/b", Type: "c"}},
		Rules:   []Rule{{true, "c", 1, 2, "rw"}},
		Process: Process{Groups: []uint32{7}, Env: Environment{Set: []string{"A=1"}, Defaults: []string{"B=2", "C=3"}}},
		Hooks:   []Hook{{"prestart", []byte(`{"path":"/h"}`)}},
	}
}

func TestEditAddsMissingParts(t *testing.T) {
	const want = `{"mounts":[{"destination":"/dev/a","type":"bind","source":"/x","options":["bind","rw","nosuid","noexec"]}],
		"linux":{"devices":[{"path":"/dev/b","type":"c","major":0,"minor":0,"fileMode":0,"uid":0,"gid":0}],
			"resources":{"devices":[{"allow":true,"type":"c","major":1,"minor":2,"access":"rw"}]}},
		"process":{"user":{"additionalGids":[7]},"env":["A=1","B=2","C=3"]},"hooks":{"prestart":[{"path":"/h"}]}}`
	for _, in := range []string{
		`{}`, ` { } `, `{"linux":{"resources":null},"process":null}`, `{"linux":{"resources":{}},"process":{"user":{ }},"hooks":null}`,
		`{"mounts":[],"linux":{"devices":null,"resources":{"devices":[ ]}},"process":{"env":[],"user":{"additionalGids":null}},"hooks":{}}`,
	} {
		once := change(t, everyEdit(), in)
		require.JSONEq(t, want, once, in)
		require.JSONEq(t, want, change(t, everyEdit(), once), in)
	}
}

func TestSecondEditChangesNothing(t *testing.T) {
	require.Equal(t, ` {"a": 1}`, change(t, &Edits{}, ` {"a": 1}`))
}

func FuzzEdit(f *testing.F) {
	for _, n := range []string{"task", "get", "check"} {
		data, err := os.ReadFile("../../../oci/testdata/" + n + ".json")
		require.NoError(f, err)
		f.Add(data)
	}
	f.Add([]byte(`{"mounts":[null,1,{}],"linux":{"devices":[[]],"resources":{"devices":[{"allow":1}]}},"process":{"user":{"additionalGids":["x",7]}}}`))
	f.Add([]byte(`{"process":{"env":["A=0","B=","\u0042=3","C"]},"hooks":{"prestart":[{"path":"/h"}]},"mounts":[{"destination":"/dev//a"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		doc, err := rawjson.Parse(data)
		if err != nil {
			return
		}
		parts, err := everyEdit().Apply(doc)
		if err != nil {
			return
		}
		once := bytes.Join(parts, nil)
		if !json.Valid(once) {
			t.Fatalf("%s", once)
		}
		if twice := change(t, everyEdit(), string(once)); compact(t, twice) != compact(t, string(once)) {
			t.Fatalf("once  %s\ntwice %s", once, twice)
		}
	})
}

func compact(t testing.TB, text string) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, json.Compact(&b, []byte(text)))
	return b.String()
}

func TestLastSetValueAndFirstDefaultWin(t *testing.T) {
	e := &Edits{Process: Process{Env: Environment{Set: []string{"A=1", "B=2", "A=3"}, Defaults: []string{"B=unit", "C=unit", "C=image"}}}}
	const want = `{"process":{"env":["X=y","B=2","A=3","C=unit"]}}`
	once := change(t, e, `{"process":{"env":["A=task","X=y","B=task"]}}`)
	require.JSONEq(t, want, once)
	require.JSONEq(t, want, change(t, e, once))
}
