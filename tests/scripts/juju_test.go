package scripts

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// flagless removes the flags for place and manner.
func flagless(argv []string) (words []string) {
	for i := 0; i < len(argv); i++ {
		switch argv[i] {
		case "--model", "--unit", "--channel", "--timeout", "--num-units":
			i++
		case "--format=json", "--no-prompt", "--no-switch", "--destroy-storage", "--force", "--":
		default:
			words = append(words, argv[i])
		}
	}
	return words
}

func standInJuju(w *world, argv []string) int {
	a := flagless(argv)
	if slices.Contains(argv, "--model") && !slices.Contains(argv, w.Model) {
		return refuse("model not found")
	}
	switch a[0] {
	case "models":
		list := []any{}
		if w.Model != "" {
			list = append(list, map[string]any{"name": "admin/" + w.Model, "short-name": w.Model})
		}
		return reply(map[string]any{"models": list})
	case "add-model":
		w.Model = a[1]
		if !slices.Contains(argv, "--no-switch") {
			w.Current = w.Model
		}
	case "destroy-model":
		if w.Model != a[1] {
			return refuse("model %s not found", a[1])
		}
		if w.Current == w.Model {
			w.Current = ""
		}
		w.Model, w.Apps = "", map[string]*application{}
	case "deploy":
		w.deploy(a[1:], slices.Contains(argv, "--num-units"))
	case "config":
		return w.configure(a[1], a[2:])
	case "integrate":
		w.Related[a[1]+" "+a[2]] = true
	case "remove-relation":
		delete(w.Related, a[1]+" "+a[2])
	case "add-unit":
		w.Apps[a[1]].Units++
	case "remove-application":
		delete(w.Apps, a[1])
	case "add-secret":
		_, file, _ := strings.Cut(a[2], "#file=")
		info, err := os.Stat(file)
		if err != nil || info.Mode().Perm() != 0o600 || info.Size() == 0 {
			return refuse("%v: %v", err, info)
		}
		fmt.Println("secret:d2abc")
	case "grant-secret", "remove-secret", "model-config":
	case "status":
		return reply(w.status())
	case "run":
		return w.action(a[1], a[2])
	case "exec":
		return w.exec(argv[slices.Index(argv, "--unit")+1], a[1])
	default:
		return refuse("the stand-in has no %s", a[0])
	}
	return 0
}

func (w *world) deploy(a []string, two bool) {
	app := &application{Units: 1, Config: map[string]string{}}
	name := a[0]
	if len(a) > 1 && !strings.HasPrefix(a[1], "--") {
		name = a[1]
	}
	if two {
		app.Units = 2
	}
	for i, word := range a {
		if word == "--config" {
			key, value, _ := strings.Cut(a[i+1], "=")
			app.Config[key] = value
		}
	}
	w.Apps[name] = app
}

func (w *world) configure(app string, a []string) int {
	config := w.Apps[app].Config
	if a[0] == "--reset" {
		for _, key := range strings.Split(a[1], ",") {
			delete(config, key)
		}
		return 0
	}
	for _, pair := range a {
		key, value, ok := strings.Cut(pair, "=")
		if !ok {
			return refuse("bad option %q", pair)
		}
		config[key] = value
	}
	return 0
}

// web reports whether the unit is one: with mode=auto the leader.
func (w *world) web(app string, n int) bool {
	mode := w.Apps[app].Config["mode"]
	return mode == "web" || mode == "auto" && n == 0
}

// status gives each unit its own machine, in the applications' order.
func (w *world) status() any {
	apps, machines := map[string]any{}, map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(w.Apps)) {
		app, units := w.Apps[name], map[string]any{}
		for n := range app.Units {
			machine := fmt.Sprint(len(machines))
			container := "juju-4f2a10-" + machine
			if w.Instance != "" {
				container = w.Instance
			}
			machines[machine] = map[string]any{"instance-id": container, "juju-status": map[string]any{"current": "started"}}
			state, text := w.workload(name, n, container)
			units[fmt.Sprintf("%s/%d", name, n)] = map[string]any{"leader": n == 0, "machine": machine, "public-address": "10.0.0." + machine,
				"workload-status": map[string]any{"current": state, "message": text}}
		}
		apps[name] = map[string]any{"units": units}
	}
	return map[string]any{"applications": apps, "machines": machines}
}

// workload returns the status of a unit.
func (w *world) workload(app string, n int, container string) (state, text string) {
	c := w.Apps[app].Config
	switch {
	case c["mode"] == "":
		return "active", ""
	case c["shared-storage"] == "lxc" && w.Devices[container]["shared-storage"] == nil:
		return "waiting", "Waiting for shared storage mount"
	case w.web(app, n):
		return "active", "Web server ready (v" + c["version"] + ") http://10.0.0.1:8080"
	}
	text = "Worker ready (v" + c["version"] + ")"
	gpu, folders := false, 0
	for _, d := range w.Devices[container] {
		gpu = gpu || d["type"] == "gpu"
		if strings.HasPrefix(d["path"], "/srv/") {
			folders++
		}
	}
	if vendor := map[string]string{"rocm": "AMD", "cuda": "NVIDIA"}[c["compute-runtime"]]; vendor != "" {
		if !gpu {
			return "blocked", "no " + vendor + " GPU passed through"
		}
		text += " (GPU: 1x " + vendor + ")"
	}
	if folders == 2 {
		text += " (2 folders: 1 read-only, 1 writable)"
	}
	return "active", text
}

func (w *world) action(unit, name string) int {
	results := map[string]any{"return-code": 0}
	switch name {
	case "get-admin-password":
		results["username"], results["password"] = "admin", password
	case "check-status":
		results["status"] = "ok"
	case "verify-gpu":
		results["verified"] = "GPU 0 works"
	case "authorize-charm", "secret-id=d2abc":
	default:
		return refuse("no action %s", name)
	}
	return reply(map[string]any{unit: map[string]any{"status": "completed", "results": results}})
}

// exec runs the line for real, in a shell, on a config.env of this world's.
func (w *world) exec(unit, line string) int {
	file := w.dir + "/config.env"
	old, _ := os.ReadFile(file)
	lines := []string{}
	for l := range strings.Lines(string(old)) {
		if l = strings.TrimSpace(l); !strings.HasPrefix(l, "CONCOURSE_") {
			lines = append(lines, l)
		}
	}
	app, _, _ := strings.Cut(unit, "/")
	for key, env := range map[string]string{"encryption-key": "ENCRYPTION_KEY", "container-placement-strategy": "CONTAINER_PLACEMENT_STRATEGY",
		"default-build-logs-to-retain": "DEFAULT_BUILD_LOGS_TO_RETAIN", "max-build-logs-to-retain": "MAX_BUILD_LOGS_TO_RETAIN", "gc-failed-grace-period": "GC_FAILED_GRACE_PERIOD"} {
		if v := w.Apps[app].Config[key]; v != "" {
			lines = append(lines, "CONCOURSE_"+env+"="+v)
		}
	}
	if w.Related[app+":vault-kv vault:vault-kv"] {
		prefix := "/charm-concourse"
		if p := w.Apps[app].Config["vault-path-prefix"]; p != "" {
			prefix = p
		}
		lines = append(lines, "CONCOURSE_VAULT_URL=https://10.0.0.9:8200", "CONCOURSE_VAULT_AUTH_BACKEND=approle",
			"CONCOURSE_VAULT_AUTH_PARAM=\"role_id:"+roleID+",secret_id:"+roleKey+"\"", "CONCOURSE_VAULT_PATH_PREFIX="+prefix)
	}
	slices.Sort(lines)
	must(os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600))
	flags := w.Apps[app].Config["extra-web-flags"]
	w.save()
	// The volume's files are one folder here, and what runs is in it.
	line = strings.NewReplacer("/var/lib/concourse-web/config.env", file, "/var/lib/concourse/config.env", file,
		"/var/lib/concourse/.", w.dir+"/storage/.", "/opt/concourse-ci-machine/release/bin/concourse", w.dir+"/storage/.lxc_shared_storage").Replace(line)
	c := exec.Command("sh", "-c", line)
	c.Env = append(os.Environ(), "STANDIN_FLAGS="+flags)
	out, _ := c.CombinedOutput()
	code := c.ProcessState.ExitCode()
	reply(map[string]any{unit: map[string]any{"results": map[string]any{"return-code": code, "stdout": string(out)}}})
	if code != 0 {
		return refuse("the following task failed")
	}
	return 0
}

func standInSystemctl(_ *world, argv []string) int {
	fmt.Println(map[string]string{"is-active": "active", "show": "ExecStart=concourse web " + os.Getenv("STANDIN_FLAGS")}[argv[0]])
	return 0
}
