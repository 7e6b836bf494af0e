package oci

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"concourse-ci-machine/internal/lease"
)

// announce says on stderr, once, for what a create waits.
func (w wrapper) announce(l lease.Leases, id string, ask lease.Want, specs []cdiSpec, devices []chosen) {
	text := fmt.Sprintf("container %s waits up to %s for %d of the unit's %d GPUs", id, ask.Wait, ask.Count, len(devices))
	states, _, _, err := l.Read()
	if err != nil {
		text += ": " + err.Error() // Take will say so as well, if it lasts
	}
	for i, s := range states {
		if s.Held && (ask.Of == nil || slices.Contains(ask.Of, i)) {
			text += fmt.Sprintf("; %s is held by container %s since %s", labelOf(specs, devices, i), s.Container, s.Since.UTC().Format("15:04:05 UTC"))
		}
	}
	fmt.Fprintln(w.stderr, "runc-amd-wrapper: "+oneLine(text))
}

// labelOf is the GPU with all its names.
func labelOf(specs []cdiSpec, devices []chosen, i int) string {
	if gpus, err := unitGPUs(specs, devices[i:i+1]); err == nil && len(gpus) == 1 {
		return gpus[0].String()
	}
	return devices[i].device.name
}

// named puts a GPU's usual names where a refusal has its place in the list that
// was leased from: tasks know GPUs by their index on the unit, which is another
// where the unit does not give them all.
func named(err error, gpus []string, label func(int) string) error {
	var refusal *lease.Refusal
	if !errors.As(err, &refusal) {
		return err
	}
	text := refusal.Error()
	for i, gpu := range gpus {
		text = strings.ReplaceAll(text, strconv.Itoa(i)+" ("+gpu+")", label(i))
	}
	return errors.New(text)
}
