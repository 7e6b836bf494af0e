package charm

import (
	"context"
	"fmt"
	"strings"
	"time"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/charm/worker"
)

// CheckKubernetes says why pods get no GPUs of this unit, "" where they do: the plugin
// tells systemd how it is with the kubelet.
func (c *Charm) CheckKubernetes(ctx context.Context) string {
	out, err := c.Host.Run(ctx, host.Command{ReadOnly: true, Deadline: 30 * time.Second,
		Argv: []string{"systemctl", "show", "--property=ActiveState,StatusText,StatusErrno", worker.PluginUnit}})
	if err != nil {
		return err.Error()
	}
	said := map[string]string{}
	for line := range strings.Lines(string(out)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		said[key] = value
	}
	switch {
	case said["ActiveState"] != "active":
		return fmt.Sprintf("%s is %s; see journalctl --unit concourse-gpu-device-plugin", worker.PluginUnit, said["ActiveState"])
	case said["StatusErrno"] != "0" && said["StatusErrno"] != "":
		return said["StatusText"] + "; without Kubernetes here set kubernetes=off"
	}
	return ""
}
