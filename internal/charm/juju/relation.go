package juju

import (
	"context"
	"maps"
	"slices"
	"strings"
)

// RelationIDs lists the relations of an endpoint ("flight:7"), sorted, without one that is
// being broken.
func (t *Tools) RelationIDs(ctx context.Context, endpoint string) ([]string, error) {
	var out []string
	err := t.read(ctx, &out, "relation-ids", "--format=json", endpoint)
	slices.Sort(out)
	return out, err
}

// RelationUnits lists the remote units of a relation, sorted.
func (t *Tools) RelationUnits(ctx context.Context, id string) ([]string, error) {
	var out []string
	err := t.read(ctx, &out, "relation-list", "--format=json", "-r", id)
	slices.Sort(out)
	return out, err
}

// RelationRemoteApp returns the remote application. In a peer relation it is this
// application.
func (t *Tools) RelationRemoteApp(ctx context.Context, id string) (string, error) {
	var out string
	err := t.read(ctx, &out, "relation-list", "--format=json", "-r", id, "--app")
	return out, err
}

// RelationGet reads the databag of a unit. For the unit itself it has the changes of this
// hook.
func (t *Tools) RelationGet(ctx context.Context, id, unit string) (map[string]string, error) {
	var out map[string]string
	err := t.read(ctx, &out, "relation-get", "--format=json", "-r", id, "-", unit)
	return out, err
}

// RelationGetApp reads the databag of an application. Juju refuses the own application's
// databag to a unit that does not lead, except in peer relations.
func (t *Tools) RelationGetApp(ctx context.Context, id, app string) (map[string]string, error) {
	var out map[string]string
	err := t.read(ctx, &out, "relation-get", "--format=json", "-r", id, "--app", "-", app)
	return out, err
}

// RelationSet writes keys of this unit's databag. An empty value removes the key. The
// content is sent through stdin. The other side sees it after the hook has succeeded.
func (t *Tools) RelationSet(ctx context.Context, id string, kv map[string]string) error {
	return t.relationSet(ctx, kv, "-r", id)
}

// RelationSetApp writes keys of this application's databag. Only the leader can do that.
func (t *Tools) RelationSetApp(ctx context.Context, id string, kv map[string]string) error {
	return t.relationSet(ctx, kv, "-r", id, "--app")
}

func (t *Tools) relationSet(ctx context.Context, kv map[string]string, flags ...string) error {
	if len(kv) == 0 {
		return nil
	}
	argv := slices.Concat([]string{"relation-set"}, flags, []string{"--file", "-"})
	_, err := t.exec(ctx, call{changes: true, stdin: yamlMap(kv)}, argv...)
	return err
}

// yamlMap writes a YAML mapping of strings. All strings are quoted and ASCII, so that every
// YAML parser reads them back as the same strings.
func yamlMap(kv map[string]string) []byte {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(kv)) {
		if len(k) > 100 { // YAML limits a key in the short form to 1024 characters
			b.WriteString("? ")
			yamlQuote(&b, k)
			b.WriteString("\n: ")
		} else {
			yamlQuote(&b, k)
			b.WriteString(": ")
		}
		yamlQuote(&b, kv[k])
		b.WriteByte('\n')
	}
	if b.Len() == 0 {
		return []byte("{}\n")
	}
	return []byte(b.String())
}

func yamlQuote(b *strings.Builder, s string) {
	const hex = "0123456789abcdef"
	escape := func(letter byte, digits int, r rune) {
		b.WriteByte('\\')
		b.WriteByte(letter)
		for i := digits - 1; i >= 0; i-- {
			b.WriteByte(hex[r>>(4*i)&0xf])
		}
	}
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r >= 0x20 && r < 0x7f:
			b.WriteRune(r)
		case r <= 0xff:
			escape('x', 2, r)
		case r <= 0xffff:
			escape('u', 4, r)
		default:
			escape('U', 8, r)
		}
	}
	b.WriteByte('"')
}
