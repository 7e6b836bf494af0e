package juju

import (
	"context"
	"encoding/json"
)

// Config returns the options with a value, set or by default. Values are string, int64,
// float64 or bool.
func (t *Tools) Config(ctx context.Context) (map[string]any, error) {
	var out map[string]any
	if err := t.read(ctx, &out, "config-get", "--format=json"); err != nil {
		return nil, err
	}
	for k, v := range out {
		if n, ok := v.(json.Number); ok {
			out[k] = number(n)
		}
	}
	return out, nil
}

func number(n json.Number) any {
	if i, err := n.Int64(); err == nil {
		return i
	}
	f, err := n.Float64()
	if err != nil {
		return n.String()
	}
	return f
}

// IsLeader reports whether this unit leads its application for the next 30 s.
func (t *Tools) IsLeader(ctx context.Context) (bool, error) {
	var out bool
	err := t.read(ctx, &out, "is-leader", "--format=json")
	return out, err
}

// Reboot requests a reboot of the machine after this hook.
func (t *Tools) Reboot(ctx context.Context) error { return t.change(ctx, "juju-reboot") }
