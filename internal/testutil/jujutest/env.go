package jujutest

import (
	"strconv"
	"strings"
)

// HookEnv is the whole environment of the hook's or action's process, as Juju
// 3.6 sets it on Ubuntu: nothing of the agent's own comes along, so there is
// no HOME, USER, LOGNAME or SHELL. toolsDir stands first on PATH.
func (c *Context) HookEnv(socket, toolsDir string) []string {
	m, e := c.model, c.Event
	hook, dispatch := e.Name, "hooks/"+e.Name
	if e.Action != nil {
		hook, dispatch = "", "actions/"+e.Action.Name
	}
	env := []string{
		"CHARM_DIR=" + m.CharmDir,
		"JUJU_CHARM_DIR=" + m.CharmDir,
		"JUJU_CONTEXT_ID=" + c.ID,
		"JUJU_HOOK_NAME=" + hook,
		"JUJU_AGENT_SOCKET_ADDRESS=" + socket,
		"JUJU_AGENT_SOCKET_NETWORK=unix",
		"JUJU_UNIT_NAME=" + m.Unit,
		"JUJU_MODEL_UUID=" + m.ModelUUID,
		"JUJU_MODEL_NAME=" + m.ModelName,
		"JUJU_API_ADDRESSES=10.0.0.1:17070",
		"JUJU_SLA=",
		"JUJU_MACHINE_ID=" + m.MachineID,
		"JUJU_PRINCIPAL_UNIT=",
		"JUJU_AVAILABILITY_ZONE=" + m.Zone,
		"JUJU_VERSION=" + m.JujuVersion,
		"CLOUD_API_VERSION=",
		"JUJU_CHARM_HTTP_PROXY=" + m.Proxy.HTTP,
		"JUJU_CHARM_HTTPS_PROXY=" + m.Proxy.HTTPS,
		"JUJU_CHARM_FTP_PROXY=",
		"JUJU_CHARM_NO_PROXY=" + m.Proxy.NoProxy,
	}
	if r := e.Relation; r != nil {
		env = append(env, "JUJU_RELATION="+r.Endpoint, "JUJU_RELATION_ID="+r.ID,
			"JUJU_REMOTE_UNIT="+e.RemoteUnit, "JUJU_REMOTE_APP="+e.RemoteApp)
		if e.DepartingUnit != "" {
			env = append(env, "JUJU_DEPARTING_UNIT="+e.DepartingUnit)
		}
	}
	if a := e.Action; a != nil {
		env = append(env, "JUJU_ACTION_NAME="+a.Name, "JUJU_ACTION_UUID="+a.UUID, "JUJU_ACTION_TAG=action-"+a.UUID)
	}
	if e.SecretID != "" {
		env = append(env, "JUJU_SECRET_ID="+e.SecretID, "JUJU_SECRET_LABEL="+e.SecretLabel)
		if s := m.secret(strings.TrimPrefix(e.SecretID, "secret:")); s != nil && (e.Name == "secret-remove" || e.Name == "secret-expired") {
			env = append(env, "JUJU_SECRET_REVISION="+strconv.Itoa(len(s.Revisions)))
		}
	}
	return append(env,
		"APT_LISTCHANGES_FRONTEND=none",
		"DEBIAN_FRONTEND=noninteractive",
		"LANG=C.UTF-8",
		"TERM=tmux-256color",
		"PATH="+toolsDir+":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"JUJU_DISPATCH_PATH="+dispatch,
	)
}
