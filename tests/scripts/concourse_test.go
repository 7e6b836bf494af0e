package scripts

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// workers are the workers of the world that run, each with its tags.
func (w *world) workers() (list []map[string]any) {
	for name, app := range w.Apps {
		for n := range app.Units {
			if app.Config["mode"] == "" || w.web(name, n) {
				continue
			}
			tags := []string{}
			if t := app.Config["tag"]; t != "" {
				tags = append(tags, t)
			}
			if r := app.Config["compute-runtime"]; r != "" {
				tags = append(tags, "gpu", "compute-runtime="+r, r, "gpu-count=1")
			}
			list = append(list, map[string]any{"name": fmt.Sprintf("%s-%d", name, n), "state": "running", "tags": tags})
		}
	}
	return list
}

func standInFly(w *world, argv []string) int {
	file := os.Getenv("HOME") + "/.flyrc"
	rc, err := os.ReadFile(file)
	must(err)
	info, err := os.Stat(file)
	must(err)
	if !strings.Contains(string(rc), token) || info.Mode().Perm() != 0o600 {
		return refuse("no login, or one that others can read")
	}
	a := argv[2:] // after --target NAME
	switch a[0] {
	case "workers":
		return reply(w.workers())
	case "execute":
		return w.execute(a[1:])
	case "trigger-job":
		if !w.VaultData || !slices.ContainsFunc(keys(w.Related), func(r string) bool { return strings.HasSuffix(r, "vault:vault-kv") }) {
			return 2 // errored: undefined vars
		}
	case "status", "set-pipeline", "unpause-pipeline", "destroy-pipeline":
	default:
		return refuse("the stand-in has no fly %s", a[0])
	}
	return 0
}

func keys(m map[string]bool) (all []string) {
	for k := range m {
		all = append(all, k)
	}
	return all
}

// execute finds the worker as Concourse does: with all tags, and without any for
// a task that has none.
func (w *world) execute(a []string) int {
	var config string
	var tags []string
	for i, word := range a {
		switch word {
		case "--config":
			config = a[i+1]
		case "--tag":
			tags = append(tags, a[i+1])
		}
	}
	if _, err := os.Stat(config); err != nil {
		return refuse("%v", err)
	}
	for _, worker := range w.workers() {
		has := worker["tags"].([]string)
		if len(tags) == 0 && len(has) > 0 || slices.ContainsFunc(tags, func(t string) bool { return !slices.Contains(has, t) }) {
			continue
		}
		if filepath.Base(config) == w.FailTask {
			return refuse("the build failed")
		}
		fmt.Println("succeeded")
		return 0
	}
	return refuse("no worker for the tags %v", tags)
}

func standInCurl(w *world, argv []string) int {
	u, err := url.Parse(argv[len(argv)-1])
	must(err)
	out, sent := os.Stdout, ""
	for i, word := range argv[:len(argv)-1] {
		next := argv[i+1]
		switch {
		case word == "--output":
			out, err = os.OpenFile(next, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o666)
			must(err)
		case word == "--data" && next[0] == '@', word == "--header" && next[0] == '@':
			sent += read(next[1:])
		case strings.HasPrefix(next, "password@"):
			sent += read(strings.TrimPrefix(next, "password@"))
		}
	}
	answer := func(v any) int { must(json.NewEncoder(out).Encode(v)); return 0 }
	version := ""
	for _, app := range w.Apps {
		version = max(version, app.Config["version"])
	}
	switch p := u.Path; {
	case p == "/api/v1/info":
		return answer(map[string]any{"version": version, "worker_version": "2.5"})
	case p == "/api/v1/cli":
		fmt.Fprintf(out, "#!/bin/sh\nexec %s/bin/fly \"$@\"\n", w.dir)
		return 0
	case p == "/sky/issuer/token":
		if sent != password {
			return refuse("401")
		}
		return answer(map[string]any{"access_token": token})
	case p == "/v1/sys/seal-status":
		return answer(map[string]any{"sealed": !w.Unsealed})
	case p == "/v1/sys/init":
		return answer(map[string]any{"keys_base64": []string{unsealKey}, "root_token": rootToken})
	case p == "/v1/sys/unseal":
		w.Unsealed = strings.Contains(sent, unsealKey)
		return answer(map[string]any{"sealed": !w.Unsealed})
	case p == "/v1/auth/approle/login":
		if !strings.Contains(sent, `"role_id": "`+roleID+`", "secret_id": "`+roleKey+`"`) {
			return refuse("400 %s", sent)
		}
		return answer(map[string]any{"auth": map[string]any{"client_token": token}})
	case !strings.Contains(sent, rootToken):
		return refuse("403")
	case p == "/v1/sys/mounts/charm-concourse":
		return answer(map[string]any{"options": map[string]any{"version": "2"}})
	case p == "/v1/charm-concourse/data/main/deploy-test":
		w.VaultData = strings.Contains(sent, `"value": "after"`)
		return answer(map[string]any{})
	}
	return refuse("404 %s", u)
}

func read(file string) string {
	data, err := os.ReadFile(file)
	must(err)
	return string(data)
}
