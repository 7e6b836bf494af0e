package juju

import (
	"context"
	"sort"
	"strings"
)

// RelationIDs lists the relations of an endpoint ("flight:7"), sorted, without
// the one that is being broken.
func (t *Tools) RelationIDs(ctx context.Context, endpoint string) ([]string, error) {
	var out []string
	err := t.read(ctx, &out, "relation-ids", "--format=json", endpoint)
	sort.Strings(out)
	return out, err
}

// RelationUnits lists the remote units of a relation, sorted.
func (t *Tools) RelationUnits(ctx context.Context, id string) ([]string, error) {
	var out []string
	err := t.read(ctx, &out, "relation-list", "--format=json", "-r", id)
	sort.Strings(out)
	return out, err
}

// RelationRemoteApp is the application at the other end; this unit's own one in a
// peer relation.
func (t *Tools) RelationRemoteApp(ctx context.Context, id string) (string, error) {
	var out string
	err := t.read(ctx, &out, "relation-list", "--format=json", "-r", id, "--app")
	return out, err
}

// RelationGet reads the bag of a unit; its own name gives the unit's own bag,
// with what this hook has set so far.
func (t *Tools) RelationGet(ctx context.Context, id, unit string) (map[string]string, error) {
	var out map[string]string
	err := t.read(ctx, &out, "relation-get", "--format=json", "-r", id, "-", unit)
	return out, err
}

// RelationGetApp reads the bag of an application. Its own application's bag is
// refused by Juju to a unit that is not the leader, except in peer relations.
func (t *Tools) RelationGetApp(ctx context.Context, id, app string) (map[string]string, error) {
	var out map[string]string
	err := t.read(ctx, &out, "relation-get", "--format=json", "-r", id, "--app", "-", app)
	return out, err
}

// RelationSet writes keys of this unit's own bag or, as the leader, of the
// application's. An empty value removes the key. The content goes over stdin.
// It reaches the other side when the hook ends well.
func (t *Tools) RelationSet(ctx context.Context, id string, app bool, kv map[string]string) error {
	if len(kv) == 0 {
		return nil
	}
	argv := []string{"relation-set", "-r", id}
	if app {
		argv = append(argv, "--app")
	}
	_, err := t.exec(ctx, call{changes: true, stdin: yamlMap(kv)}, append(argv, "--file", "-")...)
	return err
}

// yamlMap writes a YAML mapping of strings that every YAML parser reads back
// as the same strings: all quoted, in ASCII, and no scalar to guess a type of.
func yamlMap(kv map[string]string) []byte {
	keys := make([]string, 0, len(kv))
	for k := range kv {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	var b strings.Builder
	for _, k := range keys {
		if len(k) > 100 { // a key in the short form ends after 1024 characters
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
