package amdgpu

import (
	"errors"
	"path"

	gm "concourse-ci-machine/internal/gpu/amd/gpumetrics"
	"concourse-ci-machine/internal/gpu/sysfile"
)

// maxNodeWatts is wide of what a node of eight GPUs can draw.
const maxNodeWatts = 100_000

// readBoard reads board/ (MI350) or board/npm/ (later): the driver asks the firmware for
// each of these files, so this is done on the timer.
func (r *Reader) readBoard(s *slowState) {
	dir := path.Join(r.device.Dir, "board")
	if !r.root.Exists(dir) {
		return
	}
	power := path.Join(dir, "npm")
	if !r.root.Exists(power) {
		power = dir
	}
	b := &s.board
	for _, file := range []struct {
		dir, name string
		to        *Number
	}{
		{power, "node_power", &b.Node}, {power, "cur_node_power_limit", &b.NodeLimit},
		{power, "max_node_power_limit", &b.NodeLimitMax},
		{dir, "baseboard_power", &b.Power}, {dir, "baseboard_power_limit", &b.PowerLimit},
	} {
		*file.to = r.slowNumber(path.Join(file.dir, file.name), maxNodeWatts, 1, 1)
	}
	b.Temperatures = append(r.boardTable(dir, "baseboard_temp", gm.DecodeBaseboard),
		r.boardTable(dir, "gpuboard_temp", gm.DecodeGPUBoard)...)
}

func (r *Reader) boardTable(dir, name string,
	decode func([]byte) ([]gm.BoardTemperature, error)) []gm.BoardTemperature {
	r.at.Store(&name)
	b, err := sysfile.ReadOnce(r.root.Path(path.Join(dir, name)))
	if err != nil {
		if !sysfile.Absent(err) {
			r.fail(name, sysfile.ErrnoName(err))
		}
		return nil
	}
	all, err := decode(b)
	switch {
	case errors.Is(err, gm.ErrUnknown):
		r.countUnknown(name, gm.Revision{Format: b[2], Content: b[3]}.String())
	case err != nil:
		r.fail(name, "damaged")
	}
	return all
}
