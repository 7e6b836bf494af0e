package engines

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
)

// Keys of daemon.json (dockerd, "Daemon configuration file").
const (
	dockerRuntime = "runtimes." + Name
	dockerCDI     = "features.cdi"
	dockerDefault = "default-runtime"
)

// daemonJSON edits daemon.json. A part is named by its keys.
type daemonJSON struct{}

func wantDocker(ctx context.Context, h host.Host, r Request) (plan.Resource, error) {
	major, minor := version(ctx, h, "dockerd")
	const snap = "/var/snap/docker"
	if strings.HasPrefix(r.File, snap+"/") || major == 0 && h.Exists(snap) {
		return nil, errors.New("Docker of the snap starts no program of the machine, and reads " + snap +
			"/current/config/daemon.json; install docker.io or Docker's own package instead")
	}
	cdi := dockerNeedsCDI(major, minor)
	runtime, err := json.Marshal(map[string]string{"path": r.Wrapper})
	if err != nil {
		return nil, err
	}
	return edited{"docker", r.File, daemonJSON{}, func(before []byte, had []part) ([]part, error) {
		parts := []part{{Name: dockerRuntime, Text: string(runtime)}}
		if cdi {
			parts = append(parts, part{Name: dockerCDI, Text: "true"})
		}
		if wantsDefault(r.Default, had, dockerDefault) {
			parts = append(parts, part{Name: dockerDefault, Text: quote(Name)})
		}
		return parts, nil
	}}, nil
}

func removeDocker(r Request) plan.Resource {
	return asBefore{engine: "docker", file: r.File, editor: daemonJSON{}}
}

// wantsDefault reports whether the runtime becomes or stays the default.
func wantsDefault(d Default, had []part, name string) bool {
	return d == Set || d == AsIs && slices.ContainsFunc(had, func(p part) bool { return p.Name == name })
}

// dockerNeedsCDI reports whether CDI must be switched on. Docker has CDI from 25 on, and
// has it on since 28.2 (moby 49963).
func dockerNeedsCDI(major, minor int) bool {
	return major >= 25 && (major < 28 || major == 28 && minor < 2)
}

// version returns the version of a program, and 0 if the program is missing or prints none.
func version(ctx context.Context, h host.Host, program string) (major, minor int) {
	out, err := h.Run(ctx, host.Command{Argv: []string{program, "--version"}, ReadOnly: true})
	if err != nil {
		return 0, 0
	}
	for word := range strings.FieldsSeq(string(out)) {
		if n, err := fmt.Sscanf(strings.TrimPrefix(word, "v"), "%d.%d", &major, &minor); err == nil && n == 2 {
			return major, minor
		}
	}
	return 0, 0
}

func (daemonJSON) add(before []byte, parts []part) (after []byte, put []part, err error) {
	after = before
	if len(bytes.TrimSpace(after)) == 0 {
		after = []byte("{}\n")
	}
	if !json.Valid(after) {
		return nil, nil, errors.New("it is not JSON; mend it first, as dockerd does not start with it either")
	}
	for _, p := range parts {
		keys := strings.Split(p.Name, ".")
		if p.Before, err = valueAt(after, keys); err != nil {
			return nil, nil, err
		}
		if sameJSON(p.Before, p.Text) {
			continue // it was there before, and stays when ours is removed
		}
		if after, err = setValue(after, keys, p.Text); err != nil {
			return nil, nil, err
		}
		put = append(put, p)
	}
	if !json.Valid(after) {
		return nil, nil, errors.New("the edited file is not valid JSON")
	}
	return after, put, nil
}

func (daemonJSON) remove(now []byte, parts []part) (left []byte, kept []string, err error) {
	left = now
	for _, p := range parts {
		keys := strings.Split(p.Name, ".")
		value, err := valueAt(left, keys)
		switch {
		case err != nil:
			return nil, nil, err
		case value == "":
		case !sameJSON(value, p.Text):
			kept = append(kept, p.Name)
		case p.Before != "":
			left, err = setValue(left, keys, p.Before)
		default:
			left, err = dropValue(left, keys)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	return left, kept, nil
}
