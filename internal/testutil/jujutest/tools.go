package jujutest

import (
	"errors"
	"fmt"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/juju"
)

// tools has all supported hook tools. It never changes.
var tools = map[string]tool{
	"action-fail":             {run: actionFail},
	"action-get":              {format: "smart", run: actionGet},
	"action-log":              {run: actionLog},
	"action-set":              {run: actionSet},
	"application-version-set": {run: versionSet},
	"close-port": {values: []string{"endpoints", "format"},
		run: func(i *invocation) error { return port(i, (*Context).closePort) }},
	"config-get":  {format: "smart", bools: []string{"all"}, run: configGet},
	"goal-state":  {format: "yaml", run: goalState},
	"is-leader":   {format: "smart", run: isLeader},
	"juju-log":    {bools: []string{"debug"}, values: []string{"log-level", "format"}, run: jujuLog},
	"juju-reboot": {bools: []string{"now"}, run: jujuReboot},
	"network-get": {format: "smart",
		bools: []string{"bind-address", "egress-subnets", "ingress-address",
			"primary-address"}, values: []string{"relation"}, run: networkGet},
	"open-port": {values: []string{"endpoints", "format"},
		run: func(i *invocation) error { return port(i, (*Context).openPort) }},
	"opened-ports": {format: "smart", bools: []string{"endpoints"}, run: openedPorts},
	"relation-get": {format: "smart", bools: []string{"app"}, values: []string{"relation"},
		run: relationGet},
	"relation-ids": {format: "smart", run: relationIDs},
	"relation-list": {format: "smart", bools: []string{"app"}, values: []string{"relation"},
		run: relationList},
	"relation-set": {bools: []string{"app"}, values: []string{"file", "relation", "format"},
		run: relationSet},
	"resource-get": {run: resourceGet},
	"secret-add":   {values: secretFlags, run: secretAdd},
	"secret-get": {format: "yaml", bools: []string{"peek", "refresh"}, values: []string{"label"},
		run: secretGet},
	"secret-grant":    {values: []string{"relation", "unit"}, run: secretGrant},
	"secret-ids":      {format: "smart", run: secretIDs},
	"secret-info-get": {format: "yaml", values: []string{"label"}, run: secretInfoGet},
	"secret-remove":   {values: []string{"revision"}, run: secretRemove},
	"secret-set":      {values: secretFlags, run: secretSet},
	"state-delete":    {run: stateDelete},
	"state-get":       {format: "smart", bools: []string{"strict"}, run: stateGet},
	"state-set":       {values: []string{"file"}, run: stateSet},
	"status-set":      {bools: []string{"application"}, run: statusSet},
}

var errNotLeader = errors.New("this unit is not the leader")

func configGet(i *invocation) error {
	key := i.arg(0)
	if key != "" && i.isSet("all") {
		return usagef("cannot use argument --all together with key %q", key)
	}
	if err := i.noMore(1); err != nil {
		return err
	}
	if key != "" {
		return i.print(i.model.Config[key])
	}
	out := map[string]any{}
	for k, v := range i.model.Config {
		if v != nil || i.isSet("all") {
			out[k] = v
		}
	}
	return i.print(out)
}

func isLeader(i *invocation) error {
	if err := i.noMore(0); err != nil {
		return err
	}
	return i.print(i.model.Leader)
}

func goalState(i *invocation) error {
	if err := i.noMore(0); err != nil {
		return err
	}
	type entry = map[string]string
	out := map[string]any{"units": map[string]entry{i.model.Unit: {"status": i.model.status().Status}}}
	relations := map[string]map[string]entry{}
	for _, r := range i.book.Relations {
		if r.RemoteApp == i.model.App() {
			continue // Juju leaves peers out (UniterAPI.goalStateRelations)
		}
		at := relations[r.Endpoint]
		if at == nil {
			at = map[string]entry{}
			relations[r.Endpoint] = at
		}
		at[r.RemoteApp] = entry{"status": "joined"}
		for u := range r.Units {
			at[u] = entry{"status": "active"}
		}
	}
	out["relations"] = relations
	return i.print(out)
}

func statusSet(i *invocation) error {
	if len(i.args) == 0 {
		return usagef("invalid args, require <status> [message]")
	}
	switch juju.Status(i.args[0]) {
	case juju.Maintenance, juju.Blocked, juju.Waiting, juju.Active:
	default:
		return usagef("invalid status %q, expected one of [maintenance blocked waiting active]", i.args[0])
	}
	if err := i.noMore(2); err != nil {
		return err
	}
	line := StatusLine{i.args[0], i.arg(1)}
	if !i.isSet("application") {
		i.model.Statuses = append(i.model.Statuses, line)
		return nil
	}
	if !i.model.Leader {
		return errNotLeader
	}
	i.model.AppStatuses = append(i.model.AppStatuses, line)
	return nil
}

func versionSet(i *invocation) error {
	if len(i.args) == 0 {
		return usagef("no version specified")
	}
	if err := i.noMore(1); err != nil {
		return err
	}
	i.model.Version = i.args[0]
	return nil
}

func jujuLog(i *invocation) error {
	if len(i.args) == 0 {
		return usagef("no message specified")
	}
	i.deprecatedFormat()
	level, asked := "INFO", strings.ToUpper(i.flags["log-level"])
	switch asked {
	case "":
	case "TRACE", "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL":
		level = asked
	case "WARN":
		level = "WARNING"
	default:
		if !i.isSet("debug") {
			i.model.Logs = append(i.model.Logs,
				LogLine{"WARNING", fmt.Sprintf("Specified log level of %q is not valid", i.flags["log-level"])})
		}
	}
	if i.isSet("debug") {
		level = "DEBUG"
	}
	message := strings.Join(i.args, " ")
	if r := i.Event.Relation; r != nil {
		message = r.ID + ": " + message
	}
	i.model.Logs = append(i.model.Logs, LogLine{level, message})
	return nil
}

func jujuReboot(i *invocation) error {
	if err := i.noMore(0); err != nil {
		return err
	}
	if i.action != nil {
		return errors.New("juju-reboot is not supported when running an action.")
	}
	i.book.Reboot = "after"
	if i.isSet("now") { // Juju kills the hook here; the caller of Run must do so
		i.book.Reboot = "now"
	}
	return nil
}

func resourceGet(i *invocation) error {
	if len(i.args) == 0 {
		return usagef("missing required resource name")
	}
	if err := i.noMore(1); err != nil {
		return err
	}
	path, ok := i.model.Resources[i.args[0]]
	if !ok {
		return fmt.Errorf("could not download resource: resource %q not found", i.args[0])
	}
	i.stdout.WriteString(path)
	return nil
}
