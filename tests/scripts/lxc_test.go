package scripts

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// standInLxc answers as LXD 5.0 does, which the tests with the tag e2e use in
// its place.
func standInLxc(w *world, a []string) int {
	switch strings.Join(a[:min(3, len(a))], " ") {
	case "query /1.0/resources":
		return reply(map[string]any{"gpu": map[string]any{"cards": w.Cards, "total": len(w.Cards)}})
	case "config device add", "config device set", "config device override":
		return w.device(a[2], a[3], a[4], a[5:])
	case "config device get":
		if w.Devices[a[3]][a[4]] == nil {
			return refuse("Device doesn't exist")
		}
		fmt.Println(w.Devices[a[3]][a[4]][a[5]])
		return 0
	case "config device remove":
		if w.Devices[a[3]][a[4]] == nil {
			return refuse("Device %s doesn't exist", a[4])
		}
		delete(w.Devices[a[3]], a[4])
		return 0
	}
	switch a[0] + " " + a[1] {
	case "config set":
		key, value, _ := strings.Cut(a[3], "=")
		if w.Config[a[2]] == nil {
			w.Config[a[2]] = map[string]string{}
		}
		w.Config[a[2]][key] = value
		return 0
	case "config unset":
		delete(w.Config[a[2]], a[3])
		return 0
	}
	switch a[0] {
	case "exec":
		return w.inContainer(strings.Join(a[3:], " "))
	case "list":
		name := strings.TrimSuffix(strings.TrimPrefix(a[1], "^"), "$")
		if !strings.HasPrefix(name, "juju-") {
			return reply([]any{})
		}
		all := maps.Clone(w.Profile)
		if all == nil {
			all = map[string]map[string]string{}
		}
		maps.Copy(all, w.Devices[name])
		return reply([]any{map[string]any{"name": name, "type": w.Type, "status": "Running",
			"config": w.Config[name], "devices": w.Devices[name], "expanded_devices": all}})
	}
	return refuse("the stand-in has no lxc %v", a)
}

// inContainer is what a container reports to lxc exec: all are reported of one storage.
func (w *world) inContainer(line string) int {
	const marker = "/var/lib/concourse/.lxc_shared_storage"
	switch line {
	case "touch " + marker:
		must(os.MkdirAll(w.dir+"/storage", 0o755))
		must(os.WriteFile(w.dir+"/storage/.lxc_shared_storage", nil, 0o644))
	case "test -e " + marker:
		if _, err := os.Stat(w.dir + "/storage/.lxc_shared_storage"); err != nil {
			return 1
		}
	}
	return 0
}

func (w *world) device(verb, container, name string, args []string) int {
	if w.Devices[container] == nil {
		w.Devices[container] = map[string]map[string]string{}
	}
	d := w.Devices[container][name]
	switch {
	case verb == "add" && d != nil:
		return refuse("The device already exists")
	case verb == "add":
		d = map[string]string{"type": args[0]}
		args = args[1:]
	case verb == "override" && (d != nil || w.Profile[name] == nil):
		return refuse("no profile device, or a local one")
	case verb == "override":
		d = maps.Clone(w.Profile[name])
	case d == nil:
		return refuse("Device doesn't exist")
	}
	if !slices.Contains([]string{"gpu", "unix-char", "disk"}, d["type"]) {
		return refuse("unknown type %s", d["type"])
	}
	for _, pair := range args {
		key, value, _ := strings.Cut(pair, "=")
		d[key] = value
	}
	w.Devices[container][name] = d
	return 0
}
