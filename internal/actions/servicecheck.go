package actions

import (
	"fmt"

	"concourse-ci-machine/internal/gpuservice"
)

// checkInService is for check-status: GPUs that no new task gets, each with the command
// that helps. That some are withheld is the charm at work; with none left, or one that
// waits for a person, the unit does not do what it is there for. A unit whose AMD GPUs
// nobody watches has nothing to check.
func (c *Actions) checkInService(unit string, r *report) {
	all, err := c.servedNow()
	if err == nil && len(all) == 0 {
		return
	}
	out := 0
	for _, s := range all {
		if s.State == gpuservice.InService {
			continue
		}
		out++
		name, text := "service of "+s.String(), s.Text()+"; "+s.remedy(unit)
		if s.Person {
			r.add(name, fmt.Errorf("%s", text), "")
			continue
		}
		r.warn(name, text)
	}
	if err == nil && out == len(all) {
		err = fmt.Errorf("0 of %d; tasks that ask for a GPU are refused", out)
	}
	r.add("gpus in service", err, fmt.Sprintf("%d of %d", len(all)-out, len(all)))
}

// remedy is the command that helps with a GPU that is not in service.
func (s servedGPU) remedy(unit string) string {
	which := fmt.Sprint(s.index)
	if s.index < 0 {
		which = s.name
	}
	back := fmt.Sprintf("juju run %s gpu-return gpu=%s", unit, which)
	switch code := s.Code(); {
	case s.Person:
		return "once it is mended: " + back
	case s.By == gpuservice.ByHand:
		return "give it back: " + back
	case s.index < 0:
		return "give it back to the unit, or go on without it: " + back
	case s.State == gpuservice.Proving:
		return "it comes back by itself; at once: " + back
	case code > 0:
		return fmt.Sprintf("what to do: juju run %s explain-error code=%d", unit, code)
	}
	return fmt.Sprintf("more: juju run %s gpu-status", unit)
}
