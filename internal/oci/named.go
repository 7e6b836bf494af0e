package oci

import (
	"errors"
	"strconv"
	"strings"

	"concourse-ci-machine/internal/lease"
)

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
